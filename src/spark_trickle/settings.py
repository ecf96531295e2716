"""Every setting once: name, default, bounds and meaning."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from spark_trickle.errors import SettingError, shorten_text

# Ten years: also where it is stretched many times over, the next moment has a date.
LONGEST_SCHEDULE_SECONDS = 10 * 365 * 86_400
# Multiplied many times over, as megabytes or columns are, it is still a number of eight bytes.
LARGEST_NUMBER = 10**12
_MOST_BITS = 256  # of a number that a message shows


def _setting(
    default: Any, meaning: str, low: float = 0, high: float = LARGEST_NUMBER, words: tuple[str, ...] = ()
) -> Any:
    """`words` are the only values of a text."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high, "words": words})


@dataclass(frozen=True)
class Settings:
    """The settings of one connection; immutable, so a statement sees one set of them."""

    max_driver_rows: int = _setting(
        100_000,
        "The most rows that a statement brings to the driver. A refresh may bring five times as many, "
        "and up to twenty times as many if they have few columns.",
        low=1,
    )
    driver_megabytes: float = _setting(
        128.0,
        "The most memory for the rows that a statement or a refresh brings to the driver. "
        "Larger results stay on the executors.",
        low=1,
    )
    target_file_rows: int = _setting(
        2_000_000, "Target number of rows in a data file after compaction.", low=1_000
    )
    auto_compact: bool = _setting(
        True, "Compact a table automatically when a commit crosses one of the thresholds below."
    )
    compact_change_ratio: float = _setting(
        0.3,
        "Rewrite the base files of a table when its change rows exceed this share of the base rows.",
        high=1_000,
    )
    compact_change_files: int = _setting(
        24, "Merge the change files of a table into one when there are more than this many.", low=2
    )
    broadcast_rows: int = _setting(
        4_000_000,
        "The most changed rows that a read broadcasts to the executors to combine them with the base files.",
        low=0,
    )
    broadcast_megabytes: float = _setting(
        64.0, "The most memory for that broadcast. Larger changes are sorted and merged instead.", low=0
    )
    publish_merge_megabytes: float = _setting(
        1024.0,
        "The driver rewrites at most this much of the files of a published Delta table at once. "
        "The executors rewrite more.",
        low=0,
    )
    local_tail_rows: int = _setting(
        50_000,
        "The driver adds up the changes since the last compaction if they have at most this many rows.",
        low=0,
    )
    differential_max_change_ratio: float = _setting(
        0.15, "AUTO computes everything when more than this share of the source rows changed.", high=1_000
    )
    differential_free_rows: int = _setting(
        10_000,
        "AUTO ignores that share when at most this many rows changed, and computes the difference.",
        low=0,
    )
    deep_join_scan_threshold: int = _setting(
        8,
        "CREATE and EXPLAIN warn when a join has more tables than this: each changed table adds a term.",
        low=1,
    )
    cache_entries: int = _setting(
        128,
        "The most views of unchanged inputs that a connection caches. It evicts the least recently used one.",
        low=32,
    )
    cache_megabytes: float = _setting(
        64.0, "Memory for the cache of small files that were written or read recently.", low=0
    )
    index_megabytes: float = _setting(
        1_024.0,
        "Memory for the column index, in which refreshes look up rows of large tables. With 0 there is no "
        "index, and Spark jobs look them up.",
        low=0,
    )
    max_recursion_depth: int = _setting(
        100, "Steps after which WITH RECURSIVE counts as endless and fails.", low=1, high=100_000
    )
    allow_circular: bool = _setting(
        False, "Allow stream tables to read each other in a circle if they can only add rows to each other."
    )
    max_fixpoint_iterations: int = _setting(
        100,
        "Rounds after which a circle of stream tables counts as endless and fails.",
        low=1,
        high=100_000,
    )
    block_source_ddl: bool = _setting(
        True,
        "Refuse to drop or alter tables and columns that stream tables read. If this is off, these stream "
        "tables are rebuilt at their next refresh, or fail if they lost what they read.",
    )
    scheduler_interval_ms: float = _setting(
        1_000.0, "How often the scheduler checks for commits of other processes.", low=10, high=3_600_000
    )
    scheduler_lease_seconds: float = _setting(
        15.0,
        "How long the lease of a scheduler lasts. When a scheduler has not renewed its lease for this long, "
        "another one takes over.",
        low=0.5,
        high=3_600,
    )
    min_schedule_seconds: float = _setting(
        0.1, "The shortest time between two refreshes of a stream table.", low=0.01, high=86_400
    )
    default_schedule_seconds: float = _setting(
        1.0,
        "Time between refreshes of a stream table with the schedule 'calculated' that no other stream "
        "table reads.",
        low=0.01,
        high=LONGEST_SCHEDULE_SECONDS,
    )
    max_concurrent_refreshes: int = _setting(
        2, "The most refreshes that run at the same time.", low=1, high=256
    )
    max_consecutive_errors: int = _setting(
        3, "Consecutive failures after which the scheduler suspends a stream table.", low=1, high=1_000
    )
    auto_backoff: bool = _setting(
        True, "Refresh a stream table less often when its refreshes take longer than its schedule allows."
    )
    stale_alert_seconds: float = _setting(
        300.0, "Raise the alert stale_data when a stream table lags for longer than this.", low=1
    )
    fuse_default_ceiling: int = _setting(
        0,
        "A stream table stops until reset_fuse() when more source rows than this changed; 0 means no fuse.",
        low=0,
    )
    buffer_alert_rows: int = _setting(
        1_000_000,
        "Raise an alert when more changed rows than this wait in the warehouse or in a source.",
        low=1,
    )
    buffer_alert_cycles: int = _setting(
        3, "Consecutive checks that must exceed that limit before the alert is raised.", low=1, high=10_000
    )
    vacuum_interval_hours: float = _setting(
        24.0, "How often a running scheduler vacuums the warehouse; 0 means never.", low=0
    )
    history_days: float = _setting(30.0, "How long the history of refreshes is kept.", low=0.01, high=36_500)
    copy_piece_rows: int = _setting(
        1_000_000,
        "Rows per commit of a first copy; a crash loses at most this many.",
        low=1,
    )
    compact_buffer_rows: int = _setting(
        500_000,
        "When more changes than this wait in a source, changes that cancel each other out are deleted there.",
        low=1,
    )
    wal_max_changes_per_poll: int = _setting(
        10_000, "Changes from the write-ahead log per commit.", low=1, high=10_000_000
    )
    wal_max_lag_bytes: int = _setting(
        65_536,
        "When the write-ahead log grows by more than this without changes of mirrored tables, write a "
        "heartbeat to it and advance the slot.",
        low=1_024,
        high=2**40,
    )
    wal_alert_lag_bytes: int = _setting(
        1_000_000_000,
        "Let trickle.check_cdc_health() warn when a server keeps more log for a source than this.",
        low=1_024,
        high=2**60,
    )
    source_sync_interval_ms: float = _setting(
        500.0, "How often a running scheduler polls attached sources for changes.", low=10, high=3_600_000
    )
    commit_retries: int = _setting(
        20, "How often a single statement is retried after a conflict.", high=1_000
    )
    retain_hours: float = _setting(168.0, "How long VACUUM keeps old snapshots by default.", high=8_760_000)
    orphan_hours: float = _setting(
        24.0,
        "How long VACUUM keeps files that were written but never committed.",
        high=8_760_000,
    )
    reader_lease_minutes: float = _setting(
        30.0,
        "How long VACUUM of another session keeps the files that a DataFrame of this session reads.",
        low=0.01,
        high=525_600,
    )
    catalog_timeout: float = _setting(
        60.0, "How many seconds to wait for a locked catalog.", low=0.01, high=86_400
    )
    compression: str = _setting(
        "zstd",
        "Parquet compression: zstd, snappy, gzip, lz4 or none.",
        words=("zstd", "snappy", "gzip", "lz4", "none"),
    )
    small_changes: str = _setting(
        "driver",
        "Where a refresh computes small changes: driver (without a Spark job) or spark.",
        words=("driver", "spark"),
    )

    def __post_init__(self) -> None:
        for f in fields(self):
            _check_value(f.name, getattr(self, f.name), f.default, f.metadata)

    @property
    def keeps_small_changes(self) -> bool:
        """Whether the driver computes itself what follows from few rows."""
        return self.small_changes == "driver"

    @property
    def driver_bytes(self) -> int:
        return int(self.driver_megabytes * 2**20)

    @property
    def broadcast_bytes(self) -> int:
        return int(self.broadcast_megabytes * 2**20)

    @property
    def merge_bytes(self) -> int:
        return int(self.publish_merge_megabytes * 2**20)

    @property
    def max_refresh_rows(self) -> int:
        """A refresh knows beforehand how many rows changed, so it may bring more of them to the driver."""
        return 5 * self.max_driver_rows

    def max_change_rows(self, columns: int) -> int:
        """Rows of a change with so many columns: narrow ones take less memory."""
        most = min(20 * self.max_driver_rows, 100 * self.max_driver_rows // max(columns, 1))
        return max(self.max_refresh_rows, most)

    def with_values(self, values: Mapping[str, Any]) -> Settings:
        known = list_setting_names()
        for name in values:
            if name not in known:
                raise SettingError(name, "there is no such setting", known)
        return Settings(**{**self.as_dict(), **{k: _convert_value(k, v) for k, v in values.items()}})

    def as_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


# Groups of settings that go together; single settings win over them.
PROFILES: dict[str, dict[str, Any]] = {
    "low_latency": {
        "scheduler_interval_ms": 100.0,
        "min_schedule_seconds": 0.05,
        "default_schedule_seconds": 0.1,
        "max_concurrent_refreshes": 4,
    },
    "high_throughput": {
        "default_schedule_seconds": 10.0,
        "max_concurrent_refreshes": 4,
        "local_tail_rows": 100_000,
        "compact_change_files": 64,
    },
    "resource_constrained": {
        "max_concurrent_refreshes": 1,
        "max_driver_rows": 20_000,
        "index_megabytes": 128.0,
        "default_schedule_seconds": 30.0,
        "scheduler_interval_ms": 5_000.0,
    },
}


def gather_settings(file: Path | None, environment: Mapping[str, str], given: Mapping[str, Any]) -> Settings:
    """The defaults, then trickle.toml, then TRICKLE_* of the environment, then what the call says."""
    from_file = _from_file(file)
    from_environment = {
        name: environment[f"TRICKLE_{name.upper()}"]
        for name in (*list_setting_names(), "profile")
        if f"TRICKLE_{name.upper()}" in environment
    }
    merged = {**from_file, **from_environment, **given}
    profile = merged.pop("profile", None)
    if profile is not None and profile not in PROFILES:
        raise SettingError(
            "profile", f'there is no profile "{profile}"', advice=f"The profiles are {', '.join(PROFILES)}."
        )
    return Settings().with_values({**PROFILES.get(profile or "", {}), **merged})


def _from_file(file: Path | None) -> dict[str, Any]:
    if file is None or not file.is_file():
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingError(str(file), f"it cannot be read: {error}", advice="Correct or remove it.") from None


def list_setting_names() -> tuple[str, ...]:
    return tuple(f.name for f in fields(Settings))


def list_setting_rows() -> list[tuple[str, str, str]]:
    """Name, default and meaning of each setting, for SHOW and the reference page."""
    return [(f.name, str(f.default), f.metadata["meaning"]) for f in fields(Settings)]


def _convert_value(name: str, value: Any) -> Any:
    """Text from SET or the environment becomes the type of the default."""
    default = next(f.default for f in fields(Settings) if f.name == name)
    if isinstance(value, str) and isinstance(default, str):
        return value.lower()
    if not isinstance(value, str) or isinstance(default, str):
        return _widen_integer(value) if isinstance(default, float) and type(value) is int else value
    text = value.strip().lower()
    if isinstance(default, bool):
        if text in ("true", "false"):
            return text == "true"
        raise SettingError(name, f'"{value}" is neither true nor false', advice="Write true or false.")
    number = _parse_number(text, isinstance(default, int))
    if number is None:
        raise SettingError(name, f'"{shorten_text(value)}" is not a number', advice="Write a number.")
    return number


def _parse_number(text: str, is_whole: bool) -> float | None:
    """Python also reads digits of other scripts; nobody would know them again in a message."""
    if not text.isascii():
        return None
    try:
        return int(text) if is_whole else float(text)
    except ValueError:  # also if it has more digits than Python reads
        return None


def _widen_integer(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _check_value(name: str, value: Any, default: Any, bounds: Mapping[str, Any]) -> None:
    if type(value) is not type(default):
        kind = type(default).__name__
        raise SettingError(
            name, f"expected {kind}, got {shorten_text(repr(value))}", advice=f"Give a value of type {kind}."
        )
    if (words := bounds["words"]) and value not in words:
        raise SettingError(name, f'"{value}" is not one of {", ".join(words)}', advice="Choose one of these.")
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and not bounds["low"] <= value <= bounds["high"]
    ):
        low, high = bounds["low"], bounds["high"]
        problem = f"{_show_number(value)} is outside {low} to {high}"
        raise SettingError(name, problem, advice=f"Choose a value between {low} and {high}.")


def _show_number(value: float) -> str:
    """Python does not write out a number of thousands of digits."""
    is_huge = isinstance(value, int) and value.bit_length() > _MOST_BITS
    return "the number" if is_huge else str(value)

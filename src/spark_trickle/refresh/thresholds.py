"""What is known of a stream table -> the thresholds of its refreshes: value, limit, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.model.files import DataFile, split_log
from spark_trickle.model.stream import Stream
from spark_trickle.plan.split import Node
from spark_trickle.refresh.concerns import count_joined_tables
from spark_trickle.refresh.decide import Facts
from spark_trickle.settings import Settings


@dataclass(frozen=True)
class Threshold:
    """A value beside the setting that limits it; `advice` is for whoever gets beyond it."""

    setting: str
    value: float | None  # None: it is known only while a refresh runs
    limit: float
    of: str  # what is counted
    advice: str

    @property
    def is_exceeded(self) -> bool:
        return self.value is not None and self.value > self.limit

    @property
    def text(self) -> str:
        value = (
            "" if self.value is None else f"{self.value:,.4g} " if self.limit < 1 else f"{self.value:,.0f} "
        )
        limit = f"{self.limit:,.4g}" if self.limit < 1 else f"{self.limit:,.0f}"
        said = ", exceeded" if self.is_exceeded else ""
        return f"{value}{self.of}; limit {limit}{said}. {self.advice}"


@dataclass(frozen=True)
class Known:
    """What thresholds are compared with."""

    stream: Stream
    nodes: Sequence[Node]
    facts: Facts
    files: tuple[DataFile, ...]  # of its result
    errors_in_a_row: int
    in_circle: bool


def list_thresholds(known: Known, settings: Settings) -> list[Threshold]:
    return [
        *_list_query_thresholds(known, settings),
        *_list_change_thresholds(known, settings),
        *_list_file_thresholds(known.files, settings),
        Threshold(
            "max_consecutive_errors",
            known.errors_in_a_row,
            settings.max_consecutive_errors - 1,
            "consecutive failures",
            "Above the limit, the scheduler suspends the stream table; see diagnose_errors().",
        ),
    ]


def _list_query_thresholds(known: Known, settings: Settings) -> list[Threshold]:
    found = [
        Threshold(
            "deep_join_scan_threshold",
            max(count_joined_tables(n.plan) for n in known.nodes),
            settings.deep_join_scan_threshold,
            "tables in one join",
            "Above the limit, put a part of the join into a stream table of its own.",
        )
    ]
    if any(op.takes_rounds for n in known.nodes for op in n.plan.walk()):
        found.append(
            Threshold(
                "max_recursion_depth",
                None,
                settings.max_recursion_depth,
                "steps of the recursion, counted at each refresh",
                "Above the limit, check whether the recursion ends, then raise the setting.",
            )
        )
    if known.in_circle:
        found.append(
            Threshold(
                "max_fixpoint_iterations",
                None,
                settings.max_fixpoint_iterations,
                "rounds of the circle, counted at each refresh",
                "Above the limit, check whether the circle ends, then raise the setting.",
            )
        )
    return found


def _list_change_thresholds(known: Known, settings: Settings) -> list[Threshold]:
    changed, rows = known.facts.changed_rows, known.facts.source_rows
    own = known.stream.options.fuse_ceiling
    fuse = settings.fuse_default_ceiling if own is None else own
    found = [
        Threshold(
            "differential_free_rows",
            changed,
            settings.differential_free_rows,
            "changed rows",
            "Up to the limit, AUTO computes the difference unless that was clearly slower.",
        ),
        Threshold(
            "differential_max_change_ratio",
            changed / max(rows, 1),
            settings.differential_max_change_ratio,
            "of the source rows changed",
            "Above the limit, AUTO computes everything unless earlier refreshes say otherwise.",
        ),
        Threshold(
            "max_driver_rows",
            changed,
            settings.max_refresh_rows,
            "changed rows; a refresh may bring five times the setting to the driver",
            "Above the limit, the executors do the work; raise the setting if the driver has enough memory.",
        ),
        Threshold(
            "driver_megabytes",
            known.facts.changed_memory / 2**20,
            settings.driver_megabytes,
            "megabytes of changed rows",
            "Above the limit, the executors do the work; raise the setting if the driver has enough memory.",
        ),
        Threshold(
            "buffer_alert_rows",
            changed,
            settings.buffer_alert_rows,
            "changed rows waiting",
            "Above the limit, an alert is raised; refresh more often.",
        ),
    ]
    if fuse:
        advice = "Above the limit, the refresh stops; check what changed, then call reset_fuse()."
        found.append(Threshold("fuse_ceiling", changed, fuse, "changed rows", advice))
    return found


def _list_file_thresholds(files: tuple[DataFile, ...], settings: Settings) -> list[Threshold]:
    log = split_log(files)
    settled = sum(f.rows for f in log.settled)
    advice = "Above the limit, files are merged automatically; OPTIMIZE merges them now."
    return [
        Threshold(
            "compact_change_files", len(log.tail), settings.compact_change_files, "change files", advice
        ),
        Threshold(
            "compact_change_ratio",
            sum(f.rows for f in log.tail) / max(settled, 1),
            settings.compact_change_ratio,
            "changed rows per base row",
            advice,
        ),
    ]

"""Files of a Delta version -> files that Spark can read, with their rows, masks and bounds."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.storage.addresses import open_file
from spark_trickle.lake.storage.masks import DELTA_FILE, DELTA_INLINE, decode_z85
from spark_trickle.lake.storage.outside import CAME, read_change_types
from spark_trickle.model.files import Mask, Outside
from spark_trickle.sources.delta.actions import AddedFile, ChangeFile, TableMetadata, Vector
from spark_trickle.sources.delta.columns import find_physical_name
from spark_trickle.sources.interface import ColumnBounds, RemoteFile

_THREADS = 16  # that read footers, where the log does not count rows
_UUID_TEXT = 20  # letters of Base85 that make a UUID
_ROUNDED = timedelta(milliseconds=1)  # bounds of times are written down to the millisecond


def make_files(address: str, metadata: TableMetadata, added: Iterable[AddedFile]) -> tuple[RemoteFile, ...]:
    kinds = {find_physical_name(f): (f["name"], f["type"]) for f in metadata.schema["fields"]}
    listed = list(added)
    if all(_find_stats(f).get("numRecords") is not None for f in listed):
        return tuple(_make_file(address, kinds, f) for f in listed)
    with ThreadPoolExecutor(_THREADS) as pool:
        return tuple(pool.map(lambda f: _make_file(address, kinds, f), listed))


def make_change_files(address: str, recorded: Iterable[ChangeFile]) -> tuple[RemoteFile, ...]:
    """Files of the change data feed; how many rows went, only they tell."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return tuple(pool.map(lambda f: _make_change_file(address, f), recorded))


def _make_change_file(address: str, recorded: ChangeFile) -> RemoteFile:
    at = join_address(address, recorded.path)
    kinds = read_change_types(at)
    return RemoteFile(
        address=at,
        bytes=recorded.bytes,
        rows=len(kinds),
        values=tuple((name, value if value != "" else None) for name, value in recorded.values),
        deletes=len(kinds) - (pc.sum(pc.is_in(kinds, value_set=CAME)).as_py() or 0),
        tells_changes=True,
    )


def find_path(address: str, path: str, vector: Vector | None) -> str:
    """What a file is called in our catalog."""
    mask = None if vector is None else _make_mask(address, vector)
    return Outside(join_address(address, path), mask=mask).path


def join_address(address: str, path: str) -> str:
    """Where a file is: paths are relative to the table, or addresses of their own in a shallow clone."""
    if path.startswith("file:"):
        return unquote(urlparse(path).path)
    if "://" in path or path.startswith("/"):
        return path
    return f"{address.rstrip('/')}/{path}"


def _make_file(address: str, kinds: Mapping[str, tuple[str, Any]], added: AddedFile) -> RemoteFile:
    at, stats = join_address(address, added.path), _find_stats(added)
    mask = None if added.vector is None else _make_mask(address, added.vector)
    count = stats.get("numRecords")
    rows = _count_rows(at) if count is None else int(count)
    return RemoteFile(
        address=at,
        bytes=added.bytes,
        rows=rows - (mask.rows if mask is not None else 0),
        # An empty text is how the log writes a null.
        values=tuple((name, value if value != "" else None) for name, value in added.values),
        mask=mask,
        bounds=_read_bounds(kinds, stats, masked=mask is not None),
    )


def _find_stats(added: AddedFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(added.stats) if added.stats else {}
    return found


def _count_rows(address: str) -> int:
    with open_file(address) as source:
        return int(pq.read_metadata(source).num_rows)


def _make_mask(address: str, vector: Vector) -> Mask:
    match vector.storage:
        case "i":
            return Mask(DELTA_INLINE, vector.where, 0, vector.bytes, vector.rows)
        case "u":
            prefix, text = vector.where[:-_UUID_TEXT], vector.where[-_UUID_TEXT:]
            folder = f"{prefix}/" if prefix else ""
            name = f"{folder}deletion_vector_{uuid.UUID(bytes=decode_z85(text))}.bin"
            where = join_address(address, name)
        case "p":
            where = join_address(address, unquote(vector.where))
        case other:
            raise UnsupportedError(f'a deletion vector of type "{other}"', "Purge it with REORG TABLE.")
    return Mask(DELTA_FILE, where, vector.offset, vector.bytes, vector.rows)


def _read_bounds(
    kinds: Mapping[str, tuple[str, Any]], stats: Mapping[str, Any], masked: bool
) -> dict[str, ColumnBounds]:
    lows, highs = stats.get("minValues") or {}, stats.get("maxValues") or {}
    nulls = stats.get("nullCount") or {}
    found = {}
    for physical, (name, kind) in kinds.items():
        if isinstance(kind, str) and (parse := _find_parser(kind)) is not None:
            low, high = _parse_pair(parse, lows.get(physical), highs.get(physical))
            if high is not None and kind.startswith("timestamp"):
                high += _ROUNDED
            # Rows that are masked were counted too.
            count = nulls.get(physical) if not masked else None
            found[name] = ColumnBounds(count, low, high)
    return found


def _parse_pair(parse: Callable[[Any], Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Both bounds, or none: one alone says too little."""
    if low is None or high is None:
        return None, None
    try:
        return parse(low), parse(high)
    except (TypeError, ValueError, ArithmeticError):
        return None, None


def _find_parser(kind: str) -> Callable[[Any], Any] | None:
    """Floats have none: NaN, which is above all of them, is left out of their bounds."""
    if kind in ("byte", "short", "integer", "long"):
        return int
    if kind.startswith("decimal"):
        return lambda value: Decimal(str(value))
    return _PARSERS.get(kind)


def _parse_instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError("without a time zone it is no instant")
    return found.astimezone(UTC)


def _parse_local(text: str) -> datetime:
    return datetime.fromisoformat(text.removesuffix("Z"))


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "string": str,
    "date": date.fromisoformat,
    "timestamp": _parse_instant,
    "timestamp_ntz": _parse_local,
}

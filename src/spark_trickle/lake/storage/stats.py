"""A Parquet footer -> row counts and column bounds in DuckLake's text form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_trickle.model.files import ColumnStats
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct

_LONGEST_BOUND = 256  # longer text bounds would bloat the catalog and prune little


def column_stats(footer: pq.FileMetaData, table: Table) -> tuple[ColumnStats, ...]:
    """Bounds of every column without repetition; lists have none."""
    top = {name: n for n, name in enumerate(footer.schema.to_arrow_schema().names)}
    starts = _first_leaves(footer)
    found = []
    for column in (TableColumn(WEIGHT_ID, WEIGHT, Scalar("integer")), *table.columns):
        if column.name in top:
            for position, id, kind in _walk_leaves(column.id, column.type, starts[top[column.name]]):
                found.append(
                    _merge_chunks(id, kind, [_read_chunk(footer, g, position) for g in _list_groups(footer)])
                )
    return tuple(found)


def _first_leaves(footer: pq.FileMetaData) -> list[int]:
    """The number of the first leaf of each column; paths would be ambiguous, as names may hold dots."""
    starts, leaf = [], 0
    for field in footer.schema.to_arrow_schema():
        starts.append(leaf)
        leaf += _leaf_count(field.type)
    return starts


def _leaf_count(kind: pa.DataType) -> int:
    if pa.types.is_list(kind):
        return _leaf_count(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_leaf_count(kind.field(n).type) for n in range(kind.num_fields))
    return 1


def _list_groups(footer: pq.FileMetaData) -> range:
    return range(footer.num_row_groups)


def _read_chunk(footer: pq.FileMetaData, group: int, position: int) -> Any:
    return footer.row_group(group).column(position)


def _walk_leaves(id: int, kind: ColumnType, position: int) -> Iterator[tuple[int, int, Scalar]]:
    """Position, id and type of each leaf that is not inside a list."""
    match kind:
        case Scalar():
            yield position, id, kind
        case Struct(fields):
            for f in fields:
                yield from _walk_leaves(f.id, f.type, position)
                position += _count_leaves(f.type)


def _count_leaves(kind: ColumnType) -> int:
    match kind:
        case Scalar():
            return 1
        case Array(element):
            return _count_leaves(element)
        case Struct(fields):
            return sum(_count_leaves(f.type) for f in fields)


def _merge_chunks(column_id: int, kind: Scalar, chunks: list[Any]) -> ColumnStats:
    values = sum(c.num_values for c in chunks)
    size = sum(c.total_compressed_size for c in chunks)
    stats = [c.statistics for c in chunks if c.statistics is not None]
    complete = len(stats) == len(chunks) and all(s.has_null_count for s in stats)
    nulls = sum(s.null_count for s in stats) if complete else (None if values else 0)
    filled = [s for s in stats if not s.has_null_count or s.null_count < s.num_values + s.null_count]
    bounded = complete and all(s.has_min_max for s in stats if s.num_values)
    low = high = None
    if bounded and (ranged := [s for s in filled if s.has_min_max]):
        low, high = _merge_bounds(ranged, kind)
    nan = None
    if kind.name in ("float", "double"):
        # A footer does not tell whether a NaN is there, and NaN sorts above every bound: say that it may be.
        nan = True
    return ColumnStats(column_id, values, nulls, low, high, nan, size)


def _merge_bounds(ranged: list[Any], kind: Scalar) -> tuple[str | None, str | None]:
    try:
        low, high = (
            format_bound(min(s.min for s in ranged), kind),
            format_bound(max(s.max for s in ranged), kind),
        )
    except (OverflowError, ValueError):  # Spark knows years that Python does not
        return None, None
    return (None, None) if low is None or high is None else (low, high)


def format_bound(value: Any, kind: Scalar) -> str | None:
    """A minimum or maximum as text, or None where the text could not be compared safely."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, bytes):
        return value.hex().upper() if kind.name == "binary" and len(value) <= _LONGEST_BOUND else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_BOUND and "\x00" not in value else None
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return _format_instant(value, kind)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, int):
        return str(value) if not kind.name.startswith("time(") else None
    if isinstance(value, date):
        return value.isoformat()
    return None


def _format_instant(value: datetime, kind: Scalar) -> str:
    if kind.name == "timestamp":
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}+00"
    return value.isoformat(sep=" ", timespec="microseconds")

"""A Parquet footer -> row counts and column bounds in DuckLake's text form."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from spark_trickle.model.files import ColumnStats
from spark_trickle.model.table import WEIGHT_ID, Table
from spark_trickle.model.types import ColumnType, Scalar, Struct

_LONGEST_BOUND = 256  # longer text bounds would bloat the catalog and prune little


def column_stats(footer: pq.FileMetaData, table: Table) -> tuple[ColumnStats, ...]:
    """Bounds of every column without repetition; lists have none."""
    positions = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    found = []
    for path, column_id, kind in _leaves(table):
        if (position := positions.get(path)) is not None:
            found.append(_merge(column_id, kind, [_chunk(footer, g, position) for g in _groups(footer)]))
    return tuple(found)


def _groups(footer: pq.FileMetaData) -> range:
    return range(footer.num_row_groups)


def _chunk(footer: pq.FileMetaData, group: int, position: int) -> Any:
    return footer.row_group(group).column(position)


def _leaves(table: Table) -> Iterator[tuple[str, int, Scalar]]:
    yield "_w", WEIGHT_ID, Scalar("integer")
    for c in table.columns:
        yield from _leaves_of(c.name, c.id, c.type)


def _leaves_of(path: str, id: int, kind: ColumnType) -> Iterator[tuple[str, int, Scalar]]:
    match kind:
        case Scalar():
            yield path, id, kind
        case Struct(fields):
            for f in fields:
                yield from _leaves_of(f"{path}.{f.name}", f.id, f.type)


def _merge(column_id: int, kind: Scalar, chunks: list[Any]) -> ColumnStats:
    values = sum(c.num_values for c in chunks)
    size = sum(c.total_compressed_size for c in chunks)
    stats = [c.statistics for c in chunks if c.statistics is not None]
    complete = len(stats) == len(chunks) and all(s.has_null_count for s in stats)
    nulls = sum(s.null_count for s in stats) if complete else 0
    filled = [s for s in stats if not s.has_null_count or s.null_count < s.num_values + s.null_count]
    bounded = complete and all(s.has_min_max for s in stats if s.num_values)
    low = high = None
    if bounded and (ranged := [s for s in filled if s.has_min_max]):
        low = bound(min(s.min for s in ranged), kind)
        high = bound(max(s.max for s in ranged), kind)
    if low is None or high is None:
        low = high = None
    nan = None
    if kind.name in ("float", "double"):
        # A footer does not tell whether a NaN is there, and NaN sorts above every bound: say that it may be.
        nan = True
    return ColumnStats(column_id, values, nulls, low, high, nan, size)


def bound(value: Any, kind: Scalar) -> str | None:
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
        return _instant(value, kind)
    if isinstance(value, int | Decimal):
        return str(value) if kind.name != "time(6)" else None
    if isinstance(value, date):
        return value.isoformat()
    return None


def _instant(value: datetime, kind: Scalar) -> str:
    if kind.name == "timestamp":
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f+00")
    return value.strftime("%Y-%m-%d %H:%M:%S.%f")

"""Keys of rows at the driver -> values to compare them by, and the files that may hold them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.lake.storage.stats import format_bound
from spark_trickle.model.arrow import python_values
from spark_trickle.model.files import DataFile
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar


def row_tuples(rows: pa.Table, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return list(zip(*(python_values(rows.column(n)) for n in names), strict=True))


def comparable_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """Equal where SQL says equal: NaN is itself, and 0.0 is −0.0."""
    return tuple(("NaN" if v != v else v + 0.0) if isinstance(v, float) else v for v in key)


def list_bounded_columns(table: Table) -> list[TableColumn]:
    """The columns of the key whose bounds in a file can be compared."""
    return [c for c in table.key_columns if _is_comparable(c)]


def find_files_meeting(
    files: Sequence[DataFile], columns: Sequence[TableColumn], rows: pa.Table
) -> tuple[DataFile, ...]:
    """The files, given with their bounds, that may hold a key of some rows."""
    ranges = {}
    for column in columns:
        low, high = pc.min_max(rows.column(column.name)).values()
        ranges[column.id] = (_find_bound(low, column), _find_bound(high, column), column)
    return tuple(f for f in files if all(_may_hold(f, *r) for r in ranges.values()))


def _find_bound(end: pa.Scalar, column: TableColumn) -> str | None:
    assert isinstance(column.type, Scalar)
    try:
        return format_bound(end.as_py(), column.type)
    except OverflowError:  # beyond the years that Python knows
        return None


def _is_comparable(column: TableColumn) -> bool:
    name = column.type.name if isinstance(column.type, Scalar) else ""
    return name in ("byte", "short", "integer", "long", "string", "date", "timestamp") or name.startswith(
        "decimal"
    )


def _may_hold(file: DataFile, low: str | None, high: str | None, column: TableColumn) -> bool:
    stats = next((s for s in file.stats if s.column_id == column.id), None)
    if stats is None or stats.low is None or stats.high is None or low is None or high is None:
        return True
    return not (
        _parse_bound(high, column) < _parse_bound(stats.low, column)
        or _parse_bound(stats.high, column) < _parse_bound(low, column)
    )


def _parse_bound(text: str, column: TableColumn) -> Any:
    assert isinstance(column.type, Scalar)
    return text if column.type.name in ("string", "date", "timestamp") else Decimal(text)

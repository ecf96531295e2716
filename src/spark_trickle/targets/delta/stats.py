"""What a new file holds -> the statistics of it in the log of a Delta table."""

from __future__ import annotations

import json
from typing import Any

from spark_trickle.model.files import ColumnStats
from spark_trickle.model.table import Table
from spark_trickle.model.types import Scalar
from spark_trickle.targets.files import NewFile

_LONGEST = 32  # letters of a text that is told as a bound


def render_stats(file: NewFile, table: Table) -> str:
    stats: dict[str, Any] = {"numRecords": file.rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    found = {s.column_id: s for s in file.stats}
    for column in table.columns:
        known = found.get(column.id)
        if known is None or not isinstance(column.type, Scalar):
            continue
        if known.nulls is not None:
            stats["nullCount"][column.name] = known.nulls
        if (pair := _read_bounds(known, column.type)) is not None:
            stats["minValues"][column.name], stats["maxValues"][column.name] = pair
    return json.dumps(stats)


def _read_bounds(stats: ColumnStats, kind: Scalar) -> tuple[Any, Any] | None:
    """Bounds that JSON holds exactly and that need no rounding."""
    if stats.low is None or stats.high is None:
        return None
    if kind.name in ("byte", "short", "integer", "long"):
        return int(stats.low), int(stats.high)
    if kind.name == "date" or (kind.name == "string" and max(len(stats.low), len(stats.high)) <= _LONGEST):
        return stats.low, stats.high
    return None

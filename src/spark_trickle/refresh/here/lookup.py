"""Rows at the driver and a large table -> the rows of it that they need, fetched by one small job.

A change that is joined with a large table needs few rows of it: those with the keys of the change. They are
fetched with their weights and summed here, which is cheaper than to settle the whole table first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operator import At, Expr, Filter, Operator, Project, Scan
from spark_trickle.sql.here_values import ForSpark

MOST_VALUES = 20_000

Fetch = Callable[[Scan, str, pa.Array], pa.Table]  # of a scan, where a column has one of some values


@dataclass(frozen=True)
class Wanted:
    """One key of a join: an expression of the large side, and the values that it may have."""

    expr: Expr
    values: pa.ChunkedArray | pa.Array
    null_safe: bool = False


def looked_up(side: Operator, keys: Sequence[Wanted], fetch: Fetch) -> tuple[Scan, pa.Table]:
    """The scan under a side of a join, and the rows of it that can have a partner."""
    for key in keys:
        found = _scanned(side, key.expr)
        if found is None:
            continue
        scan, name = found
        values = key.values.combine_chunks() if isinstance(key.values, pa.ChunkedArray) else key.values
        if key.null_safe and values.null_count:
            continue
        wanted = pc.unique(values.drop_null())
        if len(wanted) > MOST_VALUES:
            raise ForSpark
        return scan, fetch(scan, name, wanted)
    raise ForSpark


def _scanned(side: Operator, expr: Expr) -> tuple[Scan, str] | None:
    """The table and the column that an expression is, if a side only filters and names its rows."""
    match side:
        case Filter():
            return _scanned(side.input, expr)
        case Project():
            inner = next((o.expr for o in side.outputs if expr.sql == f"`{o.name}`"), None)
            return None if inner is None else _scanned(side.input, inner)
        case Scan(moment=At.OLD | At.NEW):
            name = next((c for n, c in side.names if expr.sql == f"`{n}`"), None)
            return None if name is None else (side, name)
    return None

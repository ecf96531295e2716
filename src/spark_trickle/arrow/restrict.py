"""What is known of the rows that matter -> the same, said of the inputs of an operator.

A change that is joined with a large table needs few rows of it: those with the keys of the change. They are
handed down through joins, projections and groups until they reach the table, where rows are found by them.
Whoever reads below may find more rows than are wanted, but never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Output, Scan, column
from spark_trickle.model.arrow import combine_chunks


@dataclass(frozen=True)
class Wanted:
    """An expression, and the different values of it that matter; null is none of them."""

    expr: Expr
    values: pa.Array


def want_values(keys: Iterable[tuple[Expr, pa.ChunkedArray | pa.Array, bool]]) -> list[Wanted]:
    """Expressions, the values they must have, and whether null may be one: then it says nothing."""
    found = []
    for expr, values, null_safe in keys:
        known = combine_chunks(values)
        if not (null_safe and known.null_count):
            found.append(Wanted(expr, pc.unique(known.drop_null())))
    return found


def select_wanted(columns: Sequence[str], wanted: Iterable[Wanted]) -> list[Wanted]:
    """What is said of these columns alone."""
    return [w for w in wanted if w.expr.columns and w.expr.columns <= set(columns)]


def trace_wanted(outputs: Iterable[Output], wanted: Iterable[Wanted]) -> list[Wanted]:
    """The same of what columns are computed from."""
    made = {column(o.name).sql: o.expr for o in outputs}
    return [replace(w, expr=made[w.expr.sql]) for w in wanted if w.expr.sql in made]


def rename_wanted(names: Sequence[str], others: Sequence[str], wanted: Iterable[Wanted]) -> list[Wanted]:
    """The same under other names of the columns."""
    return trace_wanted((Output(n, column(o)) for n, o in zip(names, others, strict=True)), wanted)


def choose_column(scan: Scan, wanted: Iterable[Wanted]) -> tuple[str, pa.Array] | None:
    """The column of a table that tells most, and its values."""
    names = {column(n).sql: c for n, c in scan.names}
    told = [(names[w.expr.sql], w.values) for w in wanted if w.expr.sql in names]
    return max(told, key=lambda t: len(t[1]), default=None)

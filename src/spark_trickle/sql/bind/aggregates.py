"""Expressions -> whether and where they call aggregate functions."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.sql.bind.expressions import SUBQUERIES
from spark_trickle.sql.dialect.spark import name_of
from spark_trickle.sql.dialect.spark_functions import AGGREGATES

WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def call_name(node: exp.Expr) -> str:
    """The aggregate function that an expression calls, through FILTER, IGNORE NULLS and WITHIN GROUP."""
    while isinstance(node, WRAPPERS):
        node = node.this
    if isinstance(node, exp.Any) and not isinstance(node.this, exp.Query | exp.Subquery | exp.Tuple):
        return "any"
    name = name_of(node)
    return name if name in AGGREGATES else ""


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate function is called that is not itself a window function."""
    if isinstance(node, SUBQUERIES):
        return False
    if isinstance(node, exp.Window):
        function = node.this
        while isinstance(function, WRAPPERS):
            function = function.this
        beside = [c for c in node.iter_expressions() if c is not node.this]
        return any(has_aggregate(c) for c in (*function.iter_expressions(), *beside))
    return bool(call_name(node)) or any(has_aggregate(c) for c in node.iter_expressions())


def is_aggregated(select: exp.Select, items: list[exp.Expr], having: exp.Expr | None) -> bool:
    return bool(select.args.get("group")) or having is not None or any(has_aggregate(i) for i in items)

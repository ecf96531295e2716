"""A tree -> the same tree whose scans read only the columns that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from spark_trickle.algebra.operator import Expr, Operator, Scan


def prune(plan: Operator) -> Operator:
    used = used_columns(plan)

    def visit(op: Operator) -> Operator:
        if isinstance(op, Scan):
            kept = tuple(pair for pair in op.names if pair[0] in used)
            return replace(op, names=kept or op.names[:1])
        return op.with_inputs(tuple(visit(child) for child in op.inputs))

    return visit(plan)


def used_columns(plan: Operator) -> frozenset[str]:
    """Every column that some expression of the tree names."""
    return frozenset(c for op in plan.walk() for e in expressions(op) for c in e.columns)


def expressions(op: Operator) -> Iterator[Expr]:
    for f in fields(op):
        yield from _inside(getattr(op, f.name))


def _inside(value: Any) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _inside(v)
    elif not isinstance(value, Operator) and hasattr(value, "__dataclass_fields__"):
        for f in fields(value):
            yield from _inside(getattr(value, f.name))

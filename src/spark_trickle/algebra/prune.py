"""A tree -> the same tree whose scans and projections have only the columns that it uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Join, JoinKind, Operator, Project, Scan
from spark_trickle.algebra.stateful_operators import Aggregate


def prune(plan: Operator) -> Operator:
    """Whoever reads the result finds all its columns where they were."""
    return _pruned(plan, frozenset(plan.columns))


def _pruned(op: Operator, needed: frozenset[str]) -> Operator:
    """A tree that still has the columns that are needed of it, and perhaps others."""
    match op:
        case Scan():
            return replace(op, names=tuple(p for p in op.names if p[0] in needed) or op.names[:1])
        case Project():
            op = replace(op, outputs=tuple(o for o in op.outputs if o.name in needed) or op.outputs[:1])
            below = _named(op)
        case Join():
            below = _named(op) | needed
            if op.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK):
                left, right = _pruned(op.left, below), _pruned(op.right, _named(op))
                return replace(op, left=left, right=right)
        case Aggregate():
            below = _named(op)
        case _ if op.passes_columns:
            below = _named(op) | needed
        case _:  # read by position, or as whole rows
            return op.with_inputs(tuple(_pruned(child, frozenset(child.columns)) for child in op.inputs))
    return op.with_inputs(tuple(_pruned(child, below) for child in op.inputs))


def used_columns(plan: Operator) -> frozenset[str]:
    """Every column that some expression of the tree names."""
    return frozenset().union(*(_named(op) for op in plan.walk()))


def _named(op: Operator) -> frozenset[str]:
    """The columns that the expressions of an operator name."""
    return frozenset(c for e in expressions(op) for c in e.columns)


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

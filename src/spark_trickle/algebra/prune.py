"""A tree -> the same tree whose scans and projections have only the columns that it uses."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.algebra.contents import list_expressions
from spark_trickle.algebra.operators import Join, JoinKind, Operator, Project, Scan
from spark_trickle.algebra.stateful_operators import Aggregate


def prune(plan: Operator) -> Operator:
    """Whoever reads the result finds all its columns where they were."""
    return _prune_operator(plan, frozenset(plan.columns))


def _prune_operator(op: Operator, needed: frozenset[str]) -> Operator:
    """A tree that still has the columns that are needed of it, and perhaps others."""
    match op:
        case Scan():
            return replace(op, names=tuple(p for p in op.names if p[0] in needed) or op.names[:1])
        case Project():
            op = replace(op, outputs=tuple(o for o in op.outputs if o.name in needed) or op.outputs[:1])
            below = _list_named_columns(op)
        case Join():
            below = _list_named_columns(op) | needed
            if op.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK):
                left, right = (
                    _prune_operator(op.left, below),
                    _prune_operator(op.right, _list_named_columns(op)),
                )
                return replace(op, left=left, right=right)
        case Aggregate():
            below = _list_named_columns(op)
        case _ if op.passes_columns:
            below = _list_named_columns(op) | needed
        case _:  # read by position, or as whole rows
            return op.with_inputs(
                tuple(_prune_operator(child, frozenset(child.columns)) for child in op.inputs)
            )
    return op.with_inputs(tuple(_prune_operator(child, below) for child in op.inputs))


def used_columns(plan: Operator) -> frozenset[str]:
    """Every column that some expression of the tree names."""
    return frozenset().union(*(_list_named_columns(op) for op in plan.walk()))


def find_free_columns(plan: Operator) -> frozenset[str]:
    """The columns that a tree uses and that no part of it makes.

    Every column has a name of its own, so they belong to a query around that of the tree.
    """
    made = frozenset[str]().union(*(op.columns for op in plan.walk()))
    return used_columns(plan) - made


def _list_named_columns(op: Operator) -> frozenset[str]:
    """The columns that the expressions of an operator name."""
    return frozenset(c for e in list_expressions(op) for c in e.columns)

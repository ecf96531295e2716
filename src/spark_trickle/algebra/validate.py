"""A plan -> nothing, or an internal error: what must hold of a tree after every pass.

An operator cannot be built without what its own class asks for. Here is what holds only of a whole plan:
while a query is bound, a part of it may use columns of the query around.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch

from spark_trickle.algebra.change_operators import Added, Fixpoint, Fold, Shaken, Touched, Within
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Join, JoinKind, Operator, Rows, UnionAll
from spark_trickle.algebra.prune import list_expressions
from spark_trickle.algebra.require import require, require_known


def validate(plan: Operator) -> None:
    """Every expression finds its columns, and no change is read as content, nor content as a change."""
    for op in plan.walk():
        _require_columns(op)
        _require_rows(op)
        if isinstance(op, Fixpoint):
            for _, part in op.plans():
                validate(part)


def _require_columns(op: Operator) -> None:
    for used, columns in columns_used(op):
        require_known(op, used, columns)


Uses = Iterator[tuple[frozenset[str], tuple[str, ...]]]  # the columns of expressions, and where they are


@singledispatch
def columns_used(op: Operator) -> Uses:
    """Most operators compute their expressions for each row of their only input."""
    yield _columns_of(*list_expressions(op)), tuple(c for child in op.inputs for c in child.columns)


@columns_used.register
def _(op: Join) -> Uses:
    yield _columns_of(*(k.left for k in op.keys)), op.left.columns
    yield _columns_of(*(k.right for k in op.keys)), op.right.columns
    if op.residual is not None:
        yield op.residual.columns, op.left.columns + op.right.columns


@columns_used.register
def _(op: Touched) -> Uses:
    yield _columns_of(*op.exprs), op.input.columns


@columns_used.register(Added)
@columns_used.register(Fold)
@columns_used.register(Shaken)
def _(op: Added | Fold | Shaken) -> Uses:
    """Their calls are named only: the values are computed further down."""
    yield from ()


@columns_used.register
def _(op: Within) -> Uses:
    order = _columns_of(*(k.expr for k in op.order))
    yield order, op.delta.columns
    yield order, op.own.columns


def _columns_of(*exprs: Expr) -> frozenset[str]:
    return frozenset[str]().union(*(e.columns for e in exprs))


def _require_rows(op: Operator) -> None:
    """Weights come from one input at most, or from all."""
    weighted = [child.weighted for child in op.inputs]
    match op:
        case UnionAll():
            require(len(set(weighted)) == 1, op, "adds content to a change")
        case Join(kind=JoinKind.INNER):
            require(not all(weighted), op, "joins a change with a change")
        case Join(kind=JoinKind.FULL):
            require(not any(weighted), op, "keeps rows of both sides of a change")
        case Added():  # the rows it has stored may be a log, which has weights
            require(not weighted[0], op, "adds rows with weights, which are no sums")
        case Fixpoint():
            require(len(set(weighted)) == 1, op, "has content on one way and a change on another")
        case _ if weighted:
            require(not any(weighted[1:]), op, "reads a change beside its first input")
            require(op.reads is not Rows.CONTENT or not weighted[0], op, "reads a change as content")
            require(op.reads is not Rows.CHANGE or weighted[0], op, "reads content as a change")

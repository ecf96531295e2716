"""A plan -> nothing, or an internal error: what must hold of a tree after every pass.

An operator cannot be built without what its own class asks for. Only of a whole plan it is known that its
expressions find their columns: while a query is bound, a part of it may use columns of the query around.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_trickle.algebra.change_operators import ChangeOperator, Fixpoint
from spark_trickle.algebra.contents import list_expressions
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Join, Operator
from spark_trickle.algebra.require import require_columns


def validate(plan: Operator) -> None:
    """Every expression of a query finds its columns; those of a change did when it was built."""
    for op in plan.walk():
        match op:
            case Fixpoint():
                for _, part in op.plans():
                    validate(part)
            case ChangeOperator():
                continue
            case _:
                for exprs, columns in _list_uses(op):
                    require_columns(op, exprs, columns)


_Uses = list[tuple[Iterable[Expr], tuple[str, ...]]]  # expressions, and the columns where they are computed


def _list_uses(op: Operator) -> _Uses:
    """Most operators compute their expressions for each row of their only input."""
    if isinstance(op, Join):
        residual = () if op.residual is None else (op.residual,)
        return [
            ([k.left for k in op.keys], op.left.columns),
            ([k.right for k in op.keys], op.right.columns),
            (residual, op.left.columns + op.right.columns),
        ]
    return [(list_expressions(op), tuple(c for child in op.inputs for c in child.columns))]

"""What an operator must be when it is built; an operator that is not is our mistake, never that of a user."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

from spark_trickle.algebra.expressions import Expr
from spark_trickle.errors import InternalError


def require(holds: bool, op: object, otherwise: str) -> None:
    """`otherwise` says what is wrong, as a verb of which the operator is the subject."""
    if not holds:
        refuse(op, otherwise)


def refuse(op: object, why: str) -> NoReturn:
    """What asks an operator for something that it has not."""
    raise InternalError(f"an operator {type(op).__name__} {why}")


def require_different(op: object, columns: tuple[str, ...]) -> None:
    if len(set(columns)) < len(columns):
        twice = sorted({c for c in columns if columns.count(c) > 1})
        refuse(op, f"has columns of one name: {', '.join(twice)}")


def require_known(op: object, names: Collection[str], columns: Collection[str]) -> None:
    unknown = set(names).difference(columns)
    if unknown:
        missing, have = ", ".join(sorted(unknown)), ", ".join(sorted(columns))
        refuse(op, f"names {missing}, but its columns are {have}")


def require_columns(op: object, exprs: Iterable[Expr], columns: Collection[str]) -> None:
    """What expressions are computed of."""
    require_known(op, frozenset[str]().union(*(e.columns for e in exprs)), columns)


def require_unused(op: object, exprs: Iterable[Expr], columns: Collection[str]) -> None:
    """Expressions over the one side of a join say nothing of the other."""
    strange = frozenset[str]().union(*(e.columns for e in exprs)).intersection(columns)
    if strange:
        refuse(op, f"has a key over the other side: {', '.join(sorted(strange))}")

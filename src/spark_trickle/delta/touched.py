"""The generic rule: recompute what was touched, before and after, and subtract.

It is right for every operator whose result falls apart by some key. Faster rules are tested against it.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.algebra.change_operators import Keys, Signed, Touched
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import At, Operator, UnionAll


def collect_touched_keys(*changes: tuple[Operator | None, tuple[Expr, ...]]) -> Operator:
    """The keys that occur in any of some changes."""
    parts = tuple(Keys(change, exprs) for change, exprs in changes if change is not None)
    return parts[0] if len(parts) == 1 else UnionAll(parts)


def restrict_to_keys(op: Operator, exprs: tuple[Expr, ...], keys: Operator) -> Operator:
    """The rows with touched keys; without keys everything is touched."""
    return Touched(op, exprs, keys) if exprs else op


def subtract_before(build: Callable[[At], Operator]) -> Operator:
    """Δf = f(new) − f(old)."""
    return subtract(build(At.NEW), build(At.OLD))


def subtract(new: Operator, old: Operator) -> Operator:
    return UnionAll((Signed(new, 1), Signed(old, -1)))

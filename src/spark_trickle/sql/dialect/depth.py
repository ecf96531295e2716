"""Deep queries -> room to walk through them, or an error that says so; long ones -> flat ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from spark_trickle.errors import UnsupportedError

# A call in Python takes next to nothing of the stack that threads have; four times as many still fit into it.
_CALLS = 5_000
_LONG = 8


@contextmanager
def room_to_recurse() -> Iterator[None]:
    """Trees are walked by functions that call themselves; what is still too deep is refused.

    The room stays: another thread may be in the middle of a tree when this one is done.
    """
    make_room()
    try:
        yield
    except RecursionError:
        raise UnsupportedError(
            "a query that is nested so deeply", "Give inner parts names with WITH, or make them views."
        ) from None


def make_room() -> None:
    if sys.getrecursionlimit() < _CALLS:
        sys.setrecursionlimit(_CALLS)


def with_flat_chains(tree: exp.Expr) -> exp.Expr:
    """a OR b OR c OR … becomes as deep as its logarithm: to the left it would be as deep as it is long."""
    for kind in (exp.And, exp.Or):
        for top in [n for n in tree.find_all(kind) if not isinstance(n.parent, kind)]:
            parts = _list_parts(top, kind)
            if len(parts) > _LONG:
                flat = top.replace(_halve_chain(parts, kind))
                tree = flat if top is tree else tree
    return tree


def _list_parts(top: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            waiting += [node.right, node.left]
        else:
            found.append(node)
    return found


def _halve_chain(parts: list[exp.Expr], kind: type[exp.Connector]) -> exp.Expr:
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(this=_halve_chain(parts[:half], kind), expression=_halve_chain(parts[half:], kind))

"""A function of trees -> the same function, asked once for each part of a tree.

A change holds the keys that it touches several times over, and those of a chain of joins hold each other:
taken part by part it would be exponentially large, although there are few different parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from spark_trickle.algebra.operators import Operator

_Found = TypeVar("_Found")


def memoize(visit: Callable[[Operator], _Found]) -> Callable[[Operator], _Found]:
    known: dict[int, tuple[Operator, _Found]] = {}  # the part too: its number is its own while it lives

    def look_up(op: Operator) -> _Found:
        if id(op) not in known:
            known[id(op)] = op, visit(op)
        return known[id(op)][1]

    return look_up

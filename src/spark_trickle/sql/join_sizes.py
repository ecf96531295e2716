"""What is known of tables -> about how many rows a change becomes when it is joined with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_trickle.algebra.keys import Known, unique_key
from spark_trickle.algebra.operator import At, KeyPair, Operator, Scan


@dataclass(frozen=True)
class Sizes:
    """What is known of the tables and nodes that a plan reads, by the names of its scans."""

    rows: Callable[[str], int]
    changed: Callable[[str], int]
    key: Known
    few: int  # rows that may be sent to every task

    def of(self, relation: Operator) -> float:
        """Rows to be read, at most."""
        return max((self._scanned(s) for s in relation.walk() if isinstance(s, Scan)), default=1.0)

    def whole(self, relation: Operator) -> float:
        """The same for the whole of a table of which only a change is read."""
        return max((float(self.rows(s.source)) for s in relation.walk() if isinstance(s, Scan)), default=1.0)

    def _scanned(self, scan: Scan) -> float:
        return float(self.changed(scan.source) if scan.moment is At.DELTA else self.rows(scan.source))


class Guess:
    """About how many rows a change has become by the joins so far.

    A key that is unique on the other side finds at most one row; one that is unique on this side finds as
    many as there are rows for each of its own.
    """

    def __init__(self, start: Operator, sizes: Sizes) -> None:
        self._sizes = sizes
        self._relations = [start]
        self._rows = float(sizes.of(start))

    @property
    def is_few(self) -> bool:
        return self._rows <= self._sizes.few

    def join(self, other: Operator, keys: Sequence[KeyPair]) -> None:
        self._rows *= self._fan_out(other, keys)
        self._relations.append(other)

    def _fan_out(self, other: Operator, keys: Sequence[KeyPair]) -> float:
        total = self._sizes.whole(other)
        if not keys:
            return total
        there = frozenset[str]().union(*(k.right.columns for k in keys))
        if self._is_unique(other, there):
            return 1.0
        here = frozenset[str]().union(*(k.left.columns for k in keys))
        for relation in self._relations:
            if self._is_unique(relation, here & frozenset(relation.columns)):
                return max(1.0, total / max(1.0, self._sizes.whole(relation)))
        return max(1.0, float(total**0.5))

    def _is_unique(self, relation: Operator, columns: frozenset[str]) -> bool:
        key = unique_key(relation.at(At.NEW), self._sizes.key)
        return bool(key) and set(key) <= columns

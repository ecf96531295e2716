"""What is known of tables -> about how many rows a change becomes when it is joined with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spark_trickle.algebra.keys import Known, unique_key
from spark_trickle.algebra.operators import At, Filter, Join, KeyPair, Operator, Scan
from spark_trickle.algebra.references import Reference


@dataclass(frozen=True)
class Sizes:
    """What is known of what a plan reads."""

    rows: Callable[[Reference], int]
    changed: Callable[[Reference], int]
    key: Known
    few: int  # rows that may be sent to every task
    large: int = 0  # a table of more rows is too large for the driver

    def estimate_rows(self, relation: Operator) -> float:
        """Rows to be read, at most."""
        return max((self._count_scanned(s) for s in relation.walk() if isinstance(s, Scan)), default=1.0)

    def estimate_whole(self, relation: Operator) -> float:
        """The same for the whole of a table of which only a change is read."""
        return max((float(self.rows(s.source)) for s in relation.walk() if isinstance(s, Scan)), default=1.0)

    def _count_scanned(self, scan: Scan) -> float:
        return float(self.changed(scan.source) if scan.moment is At.DELTA else self.rows(scan.source))


NO_SIZES = Sizes(rows=lambda _: 0, changed=lambda _: 0, key=lambda _: (), few=0)


class DistinctCounts:
    """How many values the keys of a plan have, where one of their equals is the unique key of a table."""

    def __init__(self, plan: Operator, sizes: Sizes) -> None:
        self.sizes = sizes
        self._class: dict[str, set[str]] = {}
        for pair in {k for op in plan.walk() if isinstance(op, Join) for k in op.keys}:
            equal = set(pair.left.columns | pair.right.columns)
            for c in tuple(equal):
                equal |= self._class.get(c, set())
            self._class.update(dict.fromkeys(equal, equal))
        self._unique: dict[str, float] = {}
        for scan in {replace(op, moment=At.NEW) for op in plan.walk() if isinstance(op, Scan)}:
            key = unique_key(scan, sizes.key)
            if len(key) == 1:
                self._unique[key[0]] = float(sizes.rows(scan.source))

    def __call__(self, pair: KeyPair) -> float:
        """0 if that is not known."""
        equal = {e for c in (*pair.left.columns, *pair.right.columns) for e in self._class.get(c, {c})}
        return min((self._unique[c] for c in equal if c in self._unique), default=0.0)


class RowEstimate:
    """About how many rows a change has become by the joins so far.

    A value of a key finds as many rows as there are for each different one.
    """

    def __init__(self, start: Operator, different: DistinctCounts) -> None:
        self._sizes = different.sizes
        self._different = different
        self._rows = float(self._sizes.estimate_rows(start))

    @property
    def is_few(self) -> bool:
        return self._rows <= self._sizes.few

    def add_join(self, other: Operator, keys: Sequence[KeyPair]) -> None:
        self._rows *= max(1.0, self._fan_out(other, keys))

    def estimate_cost(self, other: Operator, keys: Sequence[KeyPair]) -> tuple[float, float]:
        """The rows that come of a join, then those that are read for it."""
        return self._fan_out(other, keys), self._sizes.estimate_rows(other)

    def _fan_out(self, other: Operator, keys: Sequence[KeyPair]) -> float:
        """The rows of another table that one row finds; fewer of them pass where it is filtered."""
        passing = _PASSING if any(isinstance(op, Filter) for op in other.walk()) else 1.0
        total = self._sizes.estimate_whole(other)
        if not keys:
            return passing * total
        there = frozenset[str]().union(*(k.right.columns for k in keys))
        unique = unique_key(other.at(At.NEW), self._sizes.key)
        if unique and set(unique) <= there:
            return passing
        known = max(map(self._different, keys))
        return passing * max(1.0, total / known if known else float(total**0.5))


_PASSING = 0.3  # of the rows of a table that is filtered

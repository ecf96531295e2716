"""What consecutive checks found -> what enough of them found in a row, reported once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class Streaks(Generic[K]):
    """A peak that is over at the next look is none of the user's business."""

    needed: int
    _lengths: dict[K, int] = field(default_factory=dict)

    def note_found(self, found: Iterable[K]) -> frozenset[K]:
        """Those that were found for the so-manieth time in a row now."""
        self._lengths = {k: self._lengths.get(k, 0) + 1 for k in found}
        return frozenset(k for k, n in self._lengths.items() if n == self.needed)

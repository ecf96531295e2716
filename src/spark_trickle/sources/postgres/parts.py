"""What a table may get more of without harm, but not lose: the values of its enum types, its partitions.

A value that is renamed changes every row that holds it, a partition that goes takes its rows along, and no
trigger and no log says so. New ones come with their rows, so what there is is noted again at each reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parts:
    """Each with what tells it from another that has taken its place."""

    labels: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def find_loss(self, now: Parts) -> str | None:
        """Why rows may have changed, or gone, unnoticed."""
        if not set(self.labels) <= set(now.labels):
            return "a value of one of its enum types was renamed"
        if not set(self.partitions) <= set(now.partitions):
            return "one of its partitions was detached or dropped"
        return None

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Parts:
        return cls(**{name: tuple(values) for name, values in kept.items()})

"""Failures in a row -> how long to pause before the next attempt."""

from __future__ import annotations

from dataclasses import dataclass

_MOST_DOUBLINGS = 60  # without end they were numbers that no float holds


@dataclass(frozen=True)
class Backoff:
    """Pauses that double with every failure, up to the longest one."""

    first: float  # seconds
    longest: float

    def compute_pause(self, failures: int) -> float:
        return min(self.first * 2.0 ** min(failures, _MOST_DOUBLINGS), self.longest)

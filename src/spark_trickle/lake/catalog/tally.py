"""Counters of what the connections of a process have done since it began."""

from __future__ import annotations

from threading import Lock

COUNTERS = {
    "commit_retries": "Retries of statements, refreshes and syncs after a conflict with another commit.",
    "immediate_waits": "Statements that waited their turn to change a source of an IMMEDIATE stream table.",
    "immediate_wait_ms": (
        "Milliseconds that statements waited their turn to change a source of an IMMEDIATE stream table."
    ),
    "immediate_retries": (
        "Retries of statements that change a source of an IMMEDIATE stream table, after another process "
        "committed."
    ),
    "worker_busy_ms": "Milliseconds that workers of the scheduler were busy.",
    "worker_idle_ms": "Milliseconds that workers of the scheduler were idle.",
}


class Tally:
    """Totals by name; all of them are there from the beginning."""

    def __init__(self) -> None:
        self._totals = dict.fromkeys(COUNTERS, 0.0)
        self._lock = Lock()

    def add(self, name: str, amount: float = 1.0) -> None:
        with self._lock:
            self._totals[name] += amount

    def totals(self) -> dict[str, float]:
        with self._lock:
            return dict(self._totals)

"""What the connections of a process did since it began, as totals that only grow."""

from __future__ import annotations

from threading import Lock

COUNTERS = {
    "commit_retries": "Statements, refreshes and syncs that were run again because others had committed.",
    "immediate_waits": "Statements that change sources of an IMMEDIATE stream table, which go one at a time.",
    "immediate_wait_ms": "Milliseconds that these waited for their turn.",
    "immediate_retries": "How often these were run again because another process had committed.",
    "worker_busy_ms": "Milliseconds that workers of the scheduler worked.",
    "worker_idle_ms": "Milliseconds that workers of the scheduler had nothing to do.",
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

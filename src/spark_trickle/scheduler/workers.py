"""How long the workers of a scheduler are busy, and how long they are idle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter

from spark_trickle.lake.catalog.tally import Tally


class Workers:
    """Idle is what is left of the time of all workers; what spans several rounds counts when it ends."""

    def __init__(self, count: int, tally: Tally) -> None:
        self.count, self._tally = count, tally
        self._available = self._busy = self._idle = 0.0  # milliseconds
        self._lock = Lock()

    @contextmanager
    def measure_work(self) -> Iterator[None]:
        """One of them works for as long as the block takes."""
        start = perf_counter()
        try:
            yield
        finally:
            self.work_for((perf_counter() - start) * 1000)

    def work_for(self, ms: float) -> None:
        with self._lock:
            self._busy += ms
        self._tally.add("worker_busy_ms", ms)

    def pass_time(self, ms: float) -> None:
        """So long a round took, for all of them."""
        with self._lock:
            self._available += self.count * ms
            new = max(0.0, self._available - self._busy - self._idle)
            self._idle += new
        self._tally.add("worker_idle_ms", new)

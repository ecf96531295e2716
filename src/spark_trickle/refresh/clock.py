"""How long each phase of a refresh takes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from spark_trickle.model.stream import GIVEN_UP
from spark_trickle.txn.work import now


@dataclass
class Clock:
    """Milliseconds by phase."""

    phases: dict[str, float] = field(default_factory=dict)
    started: datetime = field(default_factory=now)  # the moment that functions of the clock answer

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + (time.perf_counter() - start) * 1000

    @property
    def total_ms(self) -> float:
        return sum(self.phases.values())

    def give_up(self) -> None:
        """All that was done since the decision was for nothing."""
        decide = self.phases.pop("decide", 0.0)
        self.phases = {"decide": decide, GIVEN_UP: self.total_ms}

"""Outages of the catalog -> how long to wait before the next try, and one alert for each outage."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.model.backoff import Backoff

_LONGEST_PAUSE = 60.0  # seconds between attempts


def compute_pause(seconds: float, failures: int) -> float:
    """Twice as long after each failure in a row; what is slow by itself does not become faster."""
    return Backoff(seconds, max(seconds, _LONGEST_PAUSE)).compute_pause(failures)


@dataclass
class Outage:
    """Alerts live in the catalog, so this one is told directly and noted when the catalog is back."""

    failures: int = 0
    unnoted: Alert | None = None
    told: Alert | None = None  # is not told again once it is noted

    def note_failure(self, alert: Alert) -> bool:
        """True for the first failure in a row."""
        self.failures += 1
        if self.unnoted is None:
            self.unnoted = self.told = alert
            return True
        return False

    def note_recovery(self) -> None:
        self.failures, self.unnoted = 0, None

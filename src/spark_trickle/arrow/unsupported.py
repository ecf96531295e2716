"""What the driver leaves to Spark, and why."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """Why something is not computed, or not read, at the driver."""

    reason: str


class ForSpark(Exception):
    """Ends an evaluation within this package; whoever asked for it gets a `Refusal`."""

    def __init__(self, reason: str = "Arrow might compute an expression differently from Spark") -> None:
        super().__init__(reason)
        self.reason = reason

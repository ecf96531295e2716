"""A work that ended in a conflict -> a new one on the newest snapshot, at its turn if there were many."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from spark_trickle.lake.catalog.turns import hold_turn
from spark_trickle.txn.work import Place, Work, begin

_QUEUE_AFTER = 2  # conflicts: by then others are quicker every time


class Turns:
    """The turn that a statement holds once it conflicted too often, given back when the statement ends."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def begin_again(self, conflicted: Work, attempt: int, retries: int) -> Work:
        """After a pause; the last attempts, and the very last in any case, while nobody else may commit."""
        tables = conflicted.moved_tables
        if not tables or attempt + 1 < min(_QUEUE_AFTER, retries):
            time.sleep(pause_after(attempt))
            return begin(self._place)
        self._held.close()
        ticket = self._held.enter_context(hold_turn(self._place.warehouse, tables))
        return begin(self._place, ticket)


def pause_after(attempt: int) -> float:
    """Seconds, longer from attempt to attempt, and different for everyone."""
    return random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 10)))

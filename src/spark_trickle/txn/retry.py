"""What ended in a conflict -> the same again on the newest snapshot, at its turn if others always win."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from spark_trickle.errors import ConflictError
from spark_trickle.lake.catalog.turns import hold_turn
from spark_trickle.model.backoff import Backoff
from spark_trickle.txn.work import Place, Work, begin_work

T = TypeVar("T")

_BACKOFF = Backoff(0.01, 0.5)
_QUEUE_AFTER = 2  # conflicts: by then others are quicker every time


@dataclass(frozen=True)
class RetryPolicy:
    """How often a conflict is followed by another attempt, and which metrics count it."""

    retries: int
    queues: bool = False  # the last attempts are made while nobody else may change the same tables
    counters: tuple[str, ...] = ("commit_retries",)


def pause_after(attempt: int, backoff: Backoff = _BACKOFF) -> None:
    """Sleep, longer from attempt to attempt, and for another time than everyone else."""
    time.sleep(random.uniform(0, backoff.compute_pause(attempt)))


def retry_on_conflict(
    place: Place,
    attempt: Callable[[], T],
    policy: RetryPolicy | None = None,
    prepare_next: Callable[[int], None] = pause_after,
) -> T:
    """Make attempts until one ends without a conflict; the last conflict is raised."""
    policy = policy or RetryPolicy(place.settings.commit_retries)
    number = 0
    while True:
        try:
            return attempt()
        except ConflictError:
            if number >= policy.retries:
                raise
            for counter in policy.counters:
                place.warehouse.tally.add(counter)
            prepare_next(number)
            number += 1


def retry_work(
    place: Place, attempt: Callable[[Work], T], policy: RetryPolicy | None = None, first: Work | None = None
) -> T:
    """The same with a new work for every attempt; `first` is the one of the first attempt."""
    policy = policy or RetryPolicy(place.settings.commit_retries)
    with _Works(place, policy, first or begin_work(place)) as works:
        return retry_on_conflict(place, lambda: attempt(works.current), policy, works.begin_next)


class _Works:
    """The work of the attempt that runs, and the turn that it holds if there were too many conflicts."""

    def __init__(self, place: Place, policy: RetryPolicy, first: Work) -> None:
        self.current = first
        self._place = place
        self._policy = policy
        self._turn = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turn.close()

    def begin_next(self, attempt: int) -> None:
        """After a pause; the last attempts, and the very last in any case, while nobody else may commit."""
        tables = self.current.moved_tables if self._policy.queues else frozenset()
        if not tables or attempt + 1 < min(_QUEUE_AFTER, self._policy.retries):
            pause_after(attempt)
            self.current = begin_work(self._place)
            return
        self._turn.close()
        ticket = self._turn.enter_context(hold_turn(self._place.warehouse, tables))
        self.current = begin_work(self._place, ticket)

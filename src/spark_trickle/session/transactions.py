"""Statements -> commits: one for each, or one for all from BEGIN to COMMIT; run again after a conflict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from spark_trickle.errors import (
    TransactionStateError,
)
from spark_trickle.lake.catalog.engine import require_writable
from spark_trickle.model.report import Result
from spark_trickle.refresh.immediate import OwnEffects, has_immediate, keep_immediate
from spark_trickle.scheduler.control import Control
from spark_trickle.sources.link import Links
from spark_trickle.txn import compact
from spark_trickle.txn.net import merge_changes
from spark_trickle.txn.retry import RetryPolicy, retry_work
from spark_trickle.txn.work import Place, Work, begin


class Transactions(Control):
    """The part of a connection that begins and ends units of work."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: Work | None = None
        self._links = Links()
        self._untidy: set[int] = set()
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Several statements as one commit; an exception undoes them all."""
        self._begin()
        try:
            yield self
        except BaseException:
            if self._open is not None:
                self._rollback()
            raise
        if self._open is not None:
            self._commit()

    def _reading(self) -> Work:
        self._require_open_connection()
        return self._open or begin(self._place)

    def _work(self) -> Work:
        self._require_open_connection()
        return begin(self._place)

    def _require_open_connection(self) -> None:
        if self._closed:
            raise TransactionStateError(
                "the connection is closed", "Open a new one with spark_trickle.connect()."
            )

    def _begin(self) -> None:
        self._require_open_connection()
        if self._open is not None:
            raise TransactionStateError("a transaction is open already", "COMMIT or ROLLBACK it first.")
        self._open = replace(begin(self._place), effects=OwnEffects())

    def _finish(self) -> Work:
        self._require_open_connection()
        if self._open is None:
            raise TransactionStateError("no transaction is open", "Start one with BEGIN.")
        work, self._open = self._open, None
        return work

    def _commit(self) -> Result:
        work = self._finish()
        try:
            merge_changes(work)
            keep_immediate(work)
        except BaseException:
            work.discard()
            raise
        snapshot = work.commit("transaction")
        self._tidy(work)
        return Result(snapshot=snapshot.id)

    def _rollback(self) -> Result:
        work = self._finish()
        work.discard()
        return Result(snapshot=work.base.id)

    def _change(self, action: Callable[[Work], Result], message: str) -> Result:
        """Run a statement in the open transaction, or as a commit of its own that is retried on conflict."""
        self._require_open_connection()
        require_writable(self._place.warehouse.engine)
        if self._open is not None:
            return replace(self._in_transaction(self._open, action), snapshot=self._open.base.id)
        retries, first = self._place.settings.commit_retries, begin(self._place)
        if not has_immediate(first.catalog):
            return self._committed_change(first, action, message, RetryPolicy(retries, queues=True))
        # Whoever changes sources of an IMMEDIATE stream table waits for its turn, or others would always win.
        tally, waiting = self._place.warehouse.tally, time.perf_counter()
        with self._place.warehouse.turn:
            tally.add("immediate_waits")
            tally.add("immediate_wait_ms", (time.perf_counter() - waiting) * 1000)
            counters = ("commit_retries", "immediate_retries")
            policy = RetryPolicy(10 * retries, queues=True, counters=counters)
            return self._committed_change(begin(self._place), action, message, policy)

    def _committed_change(
        self, first: Work, action: Callable[[Work], Result], message: str, policy: RetryPolicy
    ) -> Result:
        def attempt(work: Work) -> tuple[Work, Result]:
            result = self._in_transaction(work, lambda w: _with_immediate(w, action))
            return work, replace(result, snapshot=work.commit(message).id)

        done, result = retry_work(self._place, attempt, policy, first)
        self._tidy(done)
        return result

    def _in_transaction(self, work: Work, action: Callable[[Work], Result]) -> Result:
        """A statement that fails leaves nothing: neither definitions nor changes nor files."""
        kept = (work.catalog, list(work.definitions), dict(work.changes), len(work.written))
        try:
            return action(work)
        except BaseException:
            fresh = work.written[kept[3] :]
            work.catalog, work.definitions, work.changes = kept[0], kept[1], kept[2]
            work.written = work.written[: kept[3]]
            work.reads.note_all_tables()  # that it failed may hang on any row
            replace(work, written=fresh).discard()
            raise

    def _tidy(self, done: Work) -> None:
        """Compact the tables of a commit where they crossed a threshold."""
        compact.tidy(self._place, [c.table.id for c in done.changes.values() if c.changes_content])


def _with_immediate(work: Work, action: Callable[[Work], Result]) -> Result:
    result = action(work)
    keep_immediate(work)
    return result

"""Statements -> commits: one for each, or one for all from BEGIN to COMMIT; run again after a conflict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from spark_trickle.errors import TransactionStateError
from spark_trickle.lake.catalog.engine import require_writable
from spark_trickle.model.report import Result
from spark_trickle.refresh.immediate import OwnEffects, has_immediate, keep_immediate
from spark_trickle.txn import compact
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.net import merge_changes
from spark_trickle.txn.retry import RetryPolicy, retry_work
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Work, begin_work


class Transactions:
    """Begins and ends transactions, and changes rows and definitions within them."""

    def __init__(self, connection: WarehouseConnection) -> None:
        self._connection = connection

    @contextmanager
    def run_block(self) -> Iterator[None]:
        """All statements of a block as one commit; an exception undoes them all."""
        self.begin_transaction()
        try:
            yield
        except BaseException:
            if self._connection.transaction is not None:
                self.roll_back()
            raise
        if self._connection.transaction is not None:
            self.commit_transaction()

    def begin_transaction(self) -> Result:
        self._connection.require_open()
        if self._connection.transaction is not None:
            raise TransactionStateError("a transaction is already open", "COMMIT or ROLLBACK it first.")
        work = replace(self._connection.begin_work(), effects=OwnEffects())
        self._connection.transaction = work
        return Result(snapshot=work.base.id)

    def commit_transaction(self) -> Result:
        work = self._take_transaction()
        try:
            merge_changes(work)
            keep_immediate(work)
        except BaseException:
            work.discard()
            raise
        snapshot = work.commit("transaction")
        self._compact_changed(work)
        return Result(snapshot=snapshot.id)

    def roll_back(self) -> Result:
        work = self._take_transaction()
        work.discard()
        return Result(snapshot=work.base.id)

    def _take_transaction(self) -> Work:
        self._connection.require_open()
        if self._connection.transaction is None:
            raise TransactionStateError("no transaction is open", "Start one with BEGIN.")
        work, self._connection.transaction = self._connection.transaction, None
        return work

    def run_change(self, action: Callable[[Work], Result | None], message: str) -> Result:
        """Run a statement in the open transaction, or as a commit of its own that is retried on conflict."""
        self._connection.require_open()
        place, transaction = self._connection.place, self._connection.transaction
        require_writable(place.warehouse.engine)
        if transaction is not None:
            return replace(_run_statement(transaction, action), snapshot=transaction.base.id)
        retries, first = place.settings.commit_retries, begin_work(place)
        if not has_immediate(first.catalog):
            return self._commit_change(first, action, message, RetryPolicy(retries, queues=True))
        # Whoever changes sources of an IMMEDIATE stream table waits for its turn, or others would always win.
        tally, waiting = place.warehouse.tally, time.perf_counter()
        counters = ("commit_retries", "immediate_retries")
        with place.warehouse.turn:
            tally.add("immediate_waits")
            tally.add("immediate_wait_ms", (time.perf_counter() - waiting) * 1000)
            policy = RetryPolicy(10 * retries, queues=True, counters=counters)
            return self._commit_change(begin_work(place), action, message, policy)

    def _commit_change(
        self, first: Work, action: Callable[[Work], Result | None], message: str, policy: RetryPolicy
    ) -> Result:
        def attempt_commit(work: Work) -> tuple[Work, Result]:
            result = _run_statement(work, lambda w: _keep_immediate_after(w, action))
            return work, replace(result, snapshot=work.commit(message).id)

        done, result = retry_work(first.place, attempt_commit, policy, first)
        self._compact_changed(done)
        return result

    def _compact_changed(self, done: Work) -> None:
        """Compact the tables of a commit where they crossed a threshold."""
        changed = [c.table.id for c in done.changes.values() if c.changes_content]
        compact.tidy_tables(self._connection.place, changed)


def _run_statement(work: Work, action: Callable[[Work], Result | None]) -> Result:
    """A statement that fails leaves nothing: neither definitions nor changes nor files."""
    savepoint = take_savepoint(work)
    try:
        return action(work) or Result()
    except BaseException:
        work.reads.note_all_tables()  # that it failed may hang on any row
        roll_back(work, savepoint)
        raise


def _keep_immediate_after(work: Work, action: Callable[[Work], Result | None]) -> Result | None:
    result = action(work)
    keep_immediate(work)
    return result

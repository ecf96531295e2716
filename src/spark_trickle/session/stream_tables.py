"""CREATE and ALTER STREAM TABLE -> a commit, and what comes before it in sources or after it in its rows."""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.errors import ColumnNotFoundError, QueryError
from spark_trickle.model.report import Result
from spark_trickle.model.stream import Mode
from spark_trickle.refresh.alter import alter_stream
from spark_trickle.refresh.define import create_stream
from spark_trickle.refresh.refresher import Refresher
from spark_trickle.session.transactions import Transactions
from spark_trickle.sources.calls import Sources
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.work import Work


class StreamTables:
    """Defines stream tables and changes their definitions."""

    def __init__(
        self,
        connection: WarehouseConnection,
        transactions: Transactions,
        refresher: Refresher,
        sources: Sources,
    ) -> None:
        self._connection = connection
        self._transactions = transactions
        self._refresher = refresher
        self._sources = sources

    def create_stream(self, statement: s.CreateStream, message: str) -> Result:
        return self._define_stream(statement, lambda work: create_stream(work, statement), message)

    def alter_stream(self, statement: s.AlterStream, message: str) -> Result:
        return self._define_stream(statement, lambda work: alter_stream(work, statement), message)

    def _define_stream(
        self, statement: s.CreateStream | s.AlterStream, define: Callable[[Work], Result], message: str
    ) -> Result:
        # It must be exact as of a snapshot, and what a transaction changed is in none yet.
        self._connection.require_no_transaction("a stream table")
        if statement.mode is Mode.IMMEDIATE:
            result = self._transactions.run_change(define, message)
            # What others changed while it was filled; from now on every commit keeps it.
            self._refresher.refresh_table(statement.name)
            return result
        try:
            return self._transactions.run_change(define, message)
        except (QueryError, ColumnNotFoundError):
            if statement.query is None or not self._sources.widen_mirrors_for(statement.query):
                raise
        return self._transactions.run_change(define, message)

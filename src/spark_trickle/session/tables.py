"""Names of tables -> their rows and changes as DataFrames, rows appended, and tables dropped."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_trickle.dml.definitions import drop_table
from spark_trickle.dml.insert import append_frame
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table
from spark_trickle.session.transactions import Transactions
from spark_trickle.sources.calls import Sources
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.functions import read_changes
from spark_trickle.txn.query import catalog_at, relation_frame, snapshot_by_id
from spark_trickle.txn.work import Work


class Tables:
    """Reads, appends to and drops single tables."""

    def __init__(self, connection: WarehouseConnection, transactions: Transactions, sources: Sources) -> None:
        self._connection = connection
        self._transactions = transactions
        self._sources = sources

    def read_rows(self, name: str, snapshot: int | None = None) -> DataFrame:
        work = self._connection.read()
        parts = Cursor(name).read_name()
        if snapshot is None:
            return relation_frame(work, work.catalog.relation(parts, work.place.schema))
        at = snapshot_by_id(work, snapshot)
        return work.rows_at(catalog_at(work, at).table(parts, work.place.schema), at.id)

    def read_changes(self, name: str, after: int, upto: int | None = None) -> DataFrame:
        work = self._connection.read()
        table = work.catalog.table(Cursor(name).read_name(), work.place.schema)
        return read_changes(work, table, after, work.base.id if upto is None else upto)

    def append_rows(self, name: str, rows: DataFrame) -> Result:
        parts = Cursor(name).read_name()

        def add_rows(work: Work) -> Result:
            return append_frame(work, work.find_target(parts), rows)

        return self._transactions.run_change(add_rows, f"append to {name}")

    def drop_table(self, statement: s.DropTable, message: str) -> Result:
        """If it was a mirror, what captured its changes in the source goes too."""
        table = self._connection.read().catalog.find(statement.name, self._connection.place.schema)
        result = self._transactions.run_change(lambda work: drop_table(work, statement), message)
        if self._connection.transaction is None and isinstance(table, Table) and table.mirror is not None:
            self._sources.remove_unused_captures(table.mirror.source)
        return result

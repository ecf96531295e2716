"""Maintenance of a warehouse: compaction, vacuum, backup, verification, and its identity."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.catalog.identity import renew_identity
from spark_trickle.lake.storage.backup import BackupReport, back_up
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.lake.storage.vacuum import Retention, plan_vacuum, vacuum
from spark_trickle.model.report import Result
from spark_trickle.refresh.resting import advance_resting_streams, find_resting_streams
from spark_trickle.session.transactions import Transactions
from spark_trickle.spark.frames import frame_of
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn import compact
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.work import Work, now


class Maintenance:
    """Looks after the whole warehouse."""

    def __init__(self, connection: WarehouseConnection, transactions: Transactions) -> None:
        self._connection = connection
        self._transactions = transactions

    def back_up_warehouse(self, folder: str, *, link: bool = False, keep: int | None = None) -> BackupReport:
        self._connection.require_no_transaction("BACKUP")
        place = self._connection.place
        return back_up(place.warehouse, place.lease, folder, now(), link, keep)

    def optimize_table(self, statement: s.Optimize) -> Result:
        self._connection.require_no_transaction("OPTIMIZE")

        def run_compaction(work: Work) -> Result:
            table = work.catalog.table(statement.table, work.place.schema)
            if table.mirror is not None and table.mirror.in_place:
                raise UnsupportedError(
                    f'OPTIMIZE of "{table.full_name}", whose files belong to a source',
                    "Optimize it there; the next sync follows without reading anything.",
                )
            if plan := compact.compact_everything(work.files(table)):
                compact.compact_table(work, table, plan)
            return Result()

        return self._transactions.run_change(run_compaction, "optimize")

    def run_vacuum(self, statement: s.Vacuum) -> Result:
        self._connection.require_no_transaction("VACUUM")
        work = self._connection.read()
        place, retention = self._connection.place, self._choose_retention(statement)
        advance_resting_streams(place)
        vacuum(place.warehouse, now(), retention, _find_folder(work, statement.table))
        return Result(snapshot=work.base.id)

    def plan_vacuum(self, statement: s.Vacuum) -> DataFrame:
        """The files that VACUUM would delete now."""
        work, place = self._connection.read(), self._connection.place
        retention = self._choose_retention(statement)
        resting = [table.id for unit in find_resting_streams(work) for table, _ in unit]
        plan = plan_vacuum(place.warehouse, now(), retention, _find_folder(work, statement.table), resting)
        top = f"{place.storage.root}/{TABLES_FOLDER}"
        rows = [(f"{top}{d.location}", d.bytes, d.reason) for d in plan.deletions]
        columns = {"path": "string", "bytes": "long", "reason": "string"}
        return frame_of(place.spark, columns, rows)

    def _choose_retention(self, statement: s.Vacuum) -> Retention:
        settings, hours = self._connection.place.settings, statement.retain_hours
        return Retention(settings.retain_hours if hours is None else hours, settings.orphan_hours)

    def renew_identity(self) -> Result:
        """Give this copy of a warehouse its own identity, so that it and the original can both be used."""
        self._connection.require_no_transaction("ALTER WAREHOUSE")
        warehouse = self._connection.place.warehouse
        with open_writer(warehouse.engine) as connection:
            newest = read.read_newest(connection)
            fresh = renew_identity(connection, warehouse.folder.marker)
        folder = replace(warehouse.folder, warehouse=fresh)
        self._connection.move_to(replace(self._connection.place, warehouse=replace(warehouse, folder=folder)))
        return Result(snapshot=newest.id)


def _find_folder(work: Work, name: s.Name | None) -> str | None:
    return None if name is None else work.catalog.table(name, work.place.schema).path

"""Maintenance of a warehouse: compaction, vacuum, backup, verification, and its identity."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from spark_trickle.errors import UnsupportedError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import writing
from spark_trickle.lake.catalog.identity import renew_identity
from spark_trickle.lake.storage.backup import BackupReport, back_up
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.lake.storage.vacuum import Retention, plan_vacuum, vacuum
from spark_trickle.model.report import Result
from spark_trickle.session.refreshing import Refreshing
from spark_trickle.spark.frames import frame_of
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn import compact
from spark_trickle.txn.work import Place, Work, now


class Maintenance(Refreshing):
    """The part of a connection that looks after the whole warehouse."""

    def backup(self, folder: str, *, link: bool = False, keep: int | None = None) -> BackupReport:
        """Copy the warehouse as it is now to a folder of backups; others may go on working.

        Only files that no earlier backup there has are copied, or shared with it by `link` where the disk is
        the same. With `keep` only so many of the newest backups stay.
        """
        self._require_no_transaction("BACKUP")
        return back_up(self._place.warehouse, self._place.lease, folder, now(), link, keep)

    def _optimize(self, name: s.Name) -> Result:
        self._require_no_transaction("OPTIMIZE")

        def run(work: Work) -> Result:
            table = work.catalog.table(name, work.place.schema)
            if plan := compact.compact_everything(work.files(table)):
                compact.compact(work, table, plan)
            return Result()

        return self._change(run, "optimize")

    def _vacuum(self, name: s.Name | None, hours: float | None) -> Result:
        self._require_no_transaction("VACUUM")
        work = self._reading()
        vacuum(self._place.warehouse, now(), self._retention(hours), _folder(work, name))
        return Result(snapshot=work.base.id)

    def _plan_vacuum(self, name: s.Name | None, hours: float | None) -> DataFrame:
        """The files that VACUUM would delete now."""
        work = self._reading()
        plan = plan_vacuum(self._place.warehouse, now(), self._retention(hours), _folder(work, name))
        top = f"{self._place.storage.root}/{TABLES_FOLDER}"
        rows = [(f"{top}{d.location}", d.bytes, d.reason) for d in plan.deletions]
        columns = {"path": "string", "bytes": "long", "reason": "string"}
        return frame_of(self._place.spark, columns, rows)

    def _retention(self, hours: float | None) -> Retention:
        settings = self._place.settings
        return Retention(settings.retain_hours if hours is None else hours, settings.orphan_hours)

    def _renew_identity(self) -> Result:
        """Give this copy of a warehouse its own identity, so that it and the original can both be used."""
        self._require_no_transaction("ALTER WAREHOUSE")
        warehouse = self._place.warehouse
        with writing(warehouse.engine) as connection:
            newest = read.newest(connection)
            fresh = renew_identity(connection, warehouse.folder.marker)
        folder = replace(warehouse.folder, warehouse=fresh)
        self._set_place(replace(self._place, warehouse=replace(warehouse, folder=folder)))
        return Result(snapshot=newest.id)

    def _set_place(self, place: Place) -> None:
        self._place = place
        if self._open is not None:
            self._open.place = place

    def _require_no_transaction(self, statement: str) -> None:
        if self._open is not None:
            raise UnsupportedError(f"{statement} in a transaction", "COMMIT or ROLLBACK first.")


def _folder(work: Work, name: s.Name | None) -> str | None:
    return None if name is None else work.catalog.table(name, work.place.schema).path

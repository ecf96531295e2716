"""Calls that control the scheduler: pause and resume, gates, watermarks, fuses."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from threading import Event

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.lake.catalog import scheduling
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.stream import Initiator, Occasion, RefreshReport, Status
from spark_trickle.model.table import Table
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.refresh.group import list_company, refill_stream, refresh_together, streams_by_id
from spark_trickle.refresh.refresher import Refresher
from spark_trickle.scheduler.loop import Listener, Scheduler
from spark_trickle.sources.calls import Sources
from spark_trickle.sources.report import SyncReport
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements import kinds as s
from spark_trickle.targets.calls import Publisher
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.work import now

_FUSE_ACTIONS = ("apply", "reinitialize")


class Control:
    """Controls scheduled refreshes."""

    def __init__(
        self, connection: WarehouseConnection, sources: Sources, refresher: Refresher, publisher: Publisher
    ) -> None:
        self._connection = connection
        self._sources = sources
        self._refresher = refresher
        self._publisher = publisher

    @property
    def _warehouse(self) -> Warehouse:
        return self._connection.place.warehouse

    def make_scheduler(self, on_alert: Listener | None = None) -> Scheduler:
        def refresh_units(ids: tuple[int, ...], waited_ms: float | None) -> list[RefreshReport]:
            return self._refresher.refresh_chosen(
                lambda work: streams_by_id(work, ids), Initiator.SCHEDULER, waited_ms
            )

        def sync_source(source: str) -> SyncReport:
            return self._sources.sync_mirrors(source)

        def await_source(source: str, seconds: float, stop: Event) -> None:
            self._sources.await_change(source, seconds, stop)

        listeners = [on_alert] if on_alert else []
        follow, compact = self._publisher.push_behind, self._refresher.compact_untidy
        parts = (refresh_units, sync_source, follow, compact, await_source)
        return Scheduler(self._connection.place, *parts, listeners=listeners)

    def _find_source(self, name: str) -> Table:
        work = self._connection.read()
        return work.catalog.table(Cursor(name).read_name(), work.place.schema)

    # --- pause and resume --------------------------------------------------------------------------

    def suspend_stream(self, name: str) -> None:
        self.steer_stream(s.SteerStream(Cursor(name).read_name(), suspended=True))

    def resume_stream(self, name: str) -> None:
        self.steer_stream(s.SteerStream(Cursor(name).read_name(), suspended=False))

    def steer_stream(self, statement: s.SteerStream) -> None:
        engine, table = self._warehouse.engine, find_stream_table(self._connection.read(), statement.name)
        if statement.suspended:
            scheduling.set_status(engine, table.id, Status.SUSPENDED, "suspended by hand")
            return
        scheduling.set_status(engine, table.id, Status.ACTIVE, None)
        scheduling.raise_alert(engine, Alert(now(), "resumed", table.full_name, "resumed by hand"))
        self._warehouse.changed.ring()

    def pause_all(self) -> None:
        scheduling.set_paused(self._warehouse.engine, True)

    def resume_all(self) -> None:
        scheduling.set_paused(self._warehouse.engine, False)
        self._warehouse.changed.ring()

    def drain_schedule(self, seconds: float = 60.0) -> bool:
        return self.make_scheduler().drain(seconds)

    # --- gates, watermarks, fuses ------------------------------------------------------------------

    def gate_source(self, name: str) -> None:
        scheduling.gate_table(self._warehouse.engine, self._find_source(name).id, now())

    def ungate_source(self, name: str) -> None:
        scheduling.ungate_table(self._warehouse.engine, self._find_source(name).id)
        self._warehouse.changed.ring()

    def advance_watermark(self, name: str, at: datetime) -> None:
        table, engine = self._find_source(name), self._warehouse.engine
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        with open_reader(engine) as connection:
            known = scheduling.read_watermarks(connection).get(table.id)
        if known is not None and moment < known[0]:
            raise InvalidDefinitionError(
                f'the watermark of "{table.full_name}" is already {known[0]:%Y-%m-%d %H:%M:%S} UTC',
                "Give a later time: a watermark only moves forward.",
            )
        scheduling.set_watermark(engine, table.id, moment, self._connection.read().base.id, now())
        self._warehouse.changed.ring()

    def create_watermark_group(
        self, name: str, sources: Iterable[str], tolerance_seconds: float = 0.0
    ) -> None:
        ids = [self._find_source(source).id for source in sources]
        if len(set(ids)) < 2 or tolerance_seconds < 0:
            raise InvalidDefinitionError(
                f'the watermark group "{name}" needs at least two tables and a tolerance of 0 or more',
                "Name at least two tables, and give the tolerance in seconds.",
            )
        scheduling.set_watermark_group(self._warehouse.engine, name, ids, tolerance_seconds)

    def drop_watermark_group(self, name: str) -> None:
        if not scheduling.drop_watermark_group(self._warehouse.engine, name):
            raise InvalidDefinitionError(
                f'there is no watermark group "{name}"', "See trickle.watermark_status()."
            )

    def reset_fuse(self, name: str, action: str = "apply") -> RefreshReport:
        if action not in _FUSE_ACTIONS:
            raise InvalidDefinitionError(
                f'there is no action "{action}" to reset a fuse',
                f"The actions are {', '.join(_FUSE_ACTIONS)}.",
            )
        work = self._connection.begin_work()
        table = find_stream_table(work, Cursor(name).read_name())
        if action == "apply":
            tables = list_company(work, table)
            reports = refresh_together(work, tables, Occasion(fused=False, together=len(tables) > 1))
        else:
            reports = [refill_stream(work, table, "the fuse was reset")]
        return self._refresher.commit(work, reports)[-1]

"""Calls that control the scheduler: pause and resume, gates, watermarks, fuses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from threading import Event

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.lake.catalog import scheduling
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.catalog.states import changed_tables
from spark_trickle.model.stream import RefreshReport, Status
from spark_trickle.model.table import Table
from spark_trickle.refresh.drop import stream_table
from spark_trickle.refresh.group import company, refill, refresh_together, streams_by_id
from spark_trickle.refresh.record import Occasion
from spark_trickle.scheduler.loop import Listener, Scheduler
from spark_trickle.sources.sync import SyncReport, sync
from spark_trickle.sources.wake import await_change
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.targets.calls import Publishing
from spark_trickle.txn.compact import tidy
from spark_trickle.txn.work import Work, now

_FUSE_ACTIONS = ("apply", "reinitialize")


class Control(Publishing):
    """The part of a connection that controls scheduled refreshes."""

    _untidy: set[int]

    def _reading(self) -> Work:
        raise NotImplementedError

    def refresh_chosen(
        self,
        choose: Callable[[Work], list[Table]],
        initiated_by: str = "manual",
        waited_ms: float | None = None,
    ) -> list[RefreshReport]:
        raise NotImplementedError

    def scheduler(self, on_alert: Listener | None = None) -> Scheduler:
        """A scheduler that keeps the stream tables fresh: start it, or use it in a `with` block."""

        def refresh(ids: tuple[int, ...], waited_ms: float | None) -> list[RefreshReport]:
            return self.refresh_chosen(lambda work: streams_by_id(work, ids), "scheduler", waited_ms)

        listeners = [on_alert] if on_alert else []
        parts = (refresh, self._bring, self._send, self._merge, self._await_change)
        return Scheduler(self._place, *parts, listeners=listeners)

    def _merge(self) -> None:
        """Compact what scheduled refreshes left to be compacted."""
        while self._untidy:
            tidy(self._place, [self._untidy.pop()])

    def _await_change(self, source: str, seconds: float, stop: Event) -> None:
        await_change(self._place, self._links, source, seconds, stop)

    def _bring(self, source: str) -> SyncReport:
        return sync(self._place, self._links, source)

    def _send(self) -> None:
        """Published tables whose stream table changed since they were last moved on."""
        newest, known = self._reading().base.id, self._published()
        with reading(self._place.warehouse.engine) as connection:
            behind = [
                p
                for p in known
                if p.reached is None or changed_tables(connection, [p.table_id], p.reached, newest)
            ]
        self._push_each(behind)

    def _stream(self, name: str) -> Table:
        return stream_table(self._reading(), Cursor(name).name())

    def _source(self, name: str) -> Table:
        work = self._reading()
        return work.catalog.table(Cursor(name).name(), work.place.schema)

    # --- pause and resume --------------------------------------------------------------------------

    def suspend(self, name: str) -> None:
        """Stop scheduled refreshes of a stream table until it is resumed."""
        scheduling.set_status(
            self._place.warehouse.engine, self._stream(name).id, Status.SUSPENDED, "suspended by hand"
        )

    def resume(self, name: str) -> None:
        """Let the scheduler refresh a stream table again."""
        table = self._stream(name)
        scheduling.set_status(self._place.warehouse.engine, table.id, Status.ACTIVE, None)
        scheduling.raise_alert(
            self._place.warehouse.engine, Alert(now(), "resumed", table.full_name, "resumed by hand")
        )
        self._place.warehouse.changed.ring()

    def pause_all(self) -> None:
        """Stop all scheduled refreshes until `resume_all`; IMMEDIATE stream tables go on."""
        scheduling.set_paused(self._place.warehouse.engine, True)

    def resume_all(self) -> None:
        scheduling.set_paused(self._place.warehouse.engine, False)
        self._place.warehouse.changed.ring()

    def drain(self, seconds: float = 60.0) -> bool:
        """Refresh until nothing is due; False if another scheduler is active, or time runs out."""
        return self.scheduler().drain(seconds)

    # --- gates, watermarks, fuses ------------------------------------------------------------------

    def gate_source(self, name: str) -> None:
        """Let stream tables that read a table wait until its gate is opened again."""
        scheduling.gate(self._place.warehouse.engine, self._source(name).id, now())

    def ungate_source(self, name: str) -> None:
        scheduling.ungate(self._place.warehouse.engine, self._source(name).id)
        self._place.warehouse.changed.ring()

    def advance_watermark(self, name: str, at: datetime) -> None:
        """Declare that a table is complete up to a moment; a watermark never moves back."""
        table, engine = self._source(name), self._place.warehouse.engine
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        with reading(engine) as connection:
            known = scheduling.watermarks(connection).get(table.id)
        if known is not None and moment < known[0]:
            raise InvalidDefinitionError(
                f'the watermark of "{table.full_name}" is already {known[0]:%Y-%m-%d %H:%M:%S} UTC',
                "Give a later time: a watermark only moves forward.",
            )
        scheduling.set_watermark(engine, table.id, moment, self._reading().base.id, now())
        self._place.warehouse.changed.ring()

    def create_watermark_group(
        self, name: str, sources: Iterable[str], tolerance_seconds: float = 0.0
    ) -> None:
        """Let stream tables that read one of these tables wait until all watermarks are close together."""
        ids = [self._source(s).id for s in sources]
        if len(set(ids)) < 2 or tolerance_seconds < 0:
            raise InvalidDefinitionError(
                f'the watermark group "{name}" needs two tables and no negative tolerance',
                "Name two tables or more, and a tolerance of 0 seconds or more.",
            )
        scheduling.set_watermark_group(self._place.warehouse.engine, name, ids, tolerance_seconds)

    def drop_watermark_group(self, name: str) -> None:
        if not scheduling.drop_watermark_group(self._place.warehouse.engine, name):
            raise InvalidDefinitionError(
                f'there is no watermark group "{name}"', "See trickle.watermark_status()."
            )

    def reset_fuse(self, name: str, action: str = "apply") -> RefreshReport:
        """After a fuse has blown: apply the large change, or compute the whole stream table again."""
        if action not in _FUSE_ACTIONS:
            raise InvalidDefinitionError(
                f'there is no action "{action}" to reset a fuse',
                f"The actions are {', '.join(_FUSE_ACTIONS)}.",
            )
        work = self._work()
        table = stream_table(work, Cursor(name).name())
        if action == "apply":
            tables = company(work, table)
            reports = refresh_together(work, tables, Occasion(fused=False, together=len(tables) > 1))
        else:
            reports = [refill(work, table, "the fuse was reset")]
        return self._finished(work, reports)[-1]

    def _work(self) -> Work:
        raise NotImplementedError

    def _finished(self, work: Work, reports: list[RefreshReport]) -> list[RefreshReport]:
        raise NotImplementedError

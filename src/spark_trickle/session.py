"""The front door: statements in, DataFrames out, one snapshot per statement or transaction."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, assert_never

from pyspark.sql import DataFrame, SparkSession

from spark_trickle.cdc.link import Links
from spark_trickle.dml import compact
from spark_trickle.dml.definitions import define
from spark_trickle.dml.delete import delete, truncate
from spark_trickle.dml.functions import changes
from spark_trickle.dml.insert import append, insert
from spark_trickle.dml.look import look
from spark_trickle.dml.merge import merge
from spark_trickle.dml.net import merge_changes
from spark_trickle.dml.query import catalog_at, relation_frame, run_query, snapshot_by_id
from spark_trickle.dml.tail import Tails
from spark_trickle.dml.update import update
from spark_trickle.dml.work import Place, Work, begin, now
from spark_trickle.errors import (
    ColumnNotFoundError,
    ConflictError,
    QueryError,
    TransactionStateError,
    UnsupportedError,
)
from spark_trickle.lake.lease import SessionLease
from spark_trickle.lake.stream import move_on
from spark_trickle.lake.vacuum import vacuum
from spark_trickle.lake.warehouse import open_warehouse
from spark_trickle.model.report import Result
from spark_trickle.model.stream import Action, Mode, RefreshReport
from spark_trickle.model.table import DEFAULT_SCHEMA, Table
from spark_trickle.observe import functions as observe
from spark_trickle.observe.answer import Answer
from spark_trickle.refresh.apply import applied
from spark_trickle.refresh.define import (
    alter_stream,
    create_stream,
    drop_stream,
    stream_table,
)
from spark_trickle.refresh.explain import explain_query, explain_stream
from spark_trickle.refresh.functions import FUNCTIONS
from spark_trickle.refresh.graph import graph_of
from spark_trickle.refresh.immediate import has_immediate, keep_immediate
from spark_trickle.refresh.run import Occasion
from spark_trickle.refresh.together import refresh_together, streams_by_id
from spark_trickle.scheduler.control import Control
from spark_trickle.settings import gathered
from spark_trickle.spark.frames import frame_of
from spark_trickle.spark.held import Held
from spark_trickle.spark.session import open_session
from spark_trickle.sql import statements as s
from spark_trickle.sql.cursor import Cursor
from spark_trickle.sql.parse import parse
from spark_trickle.sql.words import quote


def connect(
    path: str | os.PathLike[str],
    *,
    spark: SparkSession | None = None,
    settings: Mapping[str, Any] | None = None,
    data_path: str | None = None,
) -> Trickle:
    """Open a warehouse, or create it: a folder, or the SQLAlchemy address of a catalog with `data_path`."""
    place = os.fspath(path)
    file = None if "://" in place else Path(place) / "trickle.toml"
    chosen = gathered(file, os.environ, settings or {})
    warehouse = open_warehouse(path, data_path, chosen.catalog_timeout)
    session = open_session(spark)
    keep = timedelta(minutes=chosen.reader_lease_minutes)
    lease = SessionLease(warehouse.engine, warehouse.storage.session_id, keep)
    tails = Tails(warehouse.storage, session, min(chosen.local_tail_rows, chosen.max_driver_rows))
    held = Held(session, chosen.cache_entries)
    warehouse.storage.recent.most_bytes = int(chosen.cache_megabytes * 2**20)
    functions = {**FUNCTIONS, **observe.FUNCTIONS}
    return Trickle(Place(warehouse, session, chosen, DEFAULT_SCHEMA, lease, tails, held, functions))


class Trickle(Control):
    """A connection to a warehouse. Not to be shared between threads while a transaction is open."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._open: Work | None = None
        self._links = Links()
        self._untidy: set[int] = set()
        self._closed = False

    # --- the public API --------------------------------------------------------------------------

    @property
    def spark(self) -> SparkSession:
        return self._place.spark

    @property
    def catalog_url(self) -> str:
        """Where the catalog is, without a password."""
        return self._place.warehouse.catalog_url

    @property
    def snapshot(self) -> int:
        """The newest snapshot."""
        return self._reading().base.id

    def sql(self, statement: str) -> DataFrame:
        """Run any statement."""
        parsed = parse(statement)
        match parsed:
            case s.Query(text):
                return run_query(self._reading(), text)
            case s.CreateTempView():
                return self._temp_view(parsed)
            case s.ExplainStream(name):
                work = self._reading()
                return _as_text(work, explain_stream(work, stream_table(work, name)))
            case s.ExplainQuery(query):
                work = self._reading()
                return _as_text(work, explain_query(work, query))
            case (
                s.ShowTables()
                | s.ShowSchemas()
                | s.ShowColumns()
                | s.ShowCreateTable()
                | s.Describe()
                | s.ShowSettings()
            ):
                return look(self._reading(), parsed)
            case _:
                return self._result(self._act(parsed, statement))

    def table(self, name: str, snapshot: int | None = None) -> DataFrame:
        """The rows of a table, now or at a snapshot."""
        work = self._reading()
        parts = Cursor(name).name()
        if snapshot is None:
            return relation_frame(work, work.catalog.relation(parts, work.place.schema))
        at = snapshot_by_id(work, snapshot)
        return work.rows_at(catalog_at(work, at).table(parts, work.place.schema), at.id)

    def changes(self, name: str, after: int, upto: int | None = None) -> DataFrame:
        """What changed in a table after one snapshot, up to and including another."""
        work = self._reading()
        table = work.catalog.table(Cursor(name).name(), work.place.schema)
        return changes(work, table, after, work.base.id if upto is None else upto)

    def answer(self, function: str, *arguments: str | int) -> Answer:
        """What a table function such as status() or health_check() tells, without Spark."""
        return observe.answer(self._reading(), function, *arguments)

    def append(self, name: str, rows: DataFrame) -> Result:
        """Add the rows of a DataFrame; its columns are matched by name."""
        parts = Cursor(name).name()

        def add(work: Work) -> Result:
            return append(work, work.target(parts), rows)

        return self._change(add, f"append to {name}")

    def create_stream_table(
        self,
        name: str,
        query: str,
        *,
        schedule: str | None = None,
        refresh_mode: str = "AUTO",
        append_only: bool = False,
        initialize: bool = True,
    ) -> Result:
        """A table that is kept equal to a query by computing only what changed."""
        options = (("append_only", str(append_only).lower()), ("initialize", str(initialize).lower()))
        statement = s.CreateStream(Cursor(name).name(), query, (), schedule, refresh_mode.upper(), options)
        return self._act(statement, "CREATE STREAM TABLE")

    def refresh(self, name: str, *, upstream: bool = False) -> RefreshReport:
        """Bring a stream table up to date; the report tells what was done and why.

        With `upstream` everything it depends on is refreshed first, in the same commit.
        """
        parts = Cursor(name).name()

        def chosen(work: Work) -> list[Table]:
            table = stream_table(work, parts)
            graph = graph_of(work.catalog.tables())
            # A diamond must never show two states of one table, so its arms move on with it.
            first = graph.ancestors(table.id) if upstream or graph.is_diamond(table.id) else ()
            return [*(graph.tables[i] for i in first), table]

        return self.refresh_chosen(chosen)[-1]

    def refresh_all(self, *, atomic: bool = True) -> list[RefreshReport]:
        """Bring all stream tables up to date: at one snapshot and in one commit, or each by itself."""
        graph = graph_of(self._reading().catalog.tables())
        groups = [graph.order] if atomic else graph.groups
        reports = []
        for group in groups:
            reports += self.refresh_chosen(lambda work, ids=group: streams_by_id(work, ids))  # type: ignore[misc]
        return reports

    def refresh_chosen(
        self,
        choose: Callable[[Work], list[Table]],
        initiated_by: str = "manual",
        waited_ms: float | None = None,
    ) -> list[RefreshReport]:
        """Refresh some stream tables in one commit; run again after a conflict."""
        self._require_open_connection()
        if self._open is not None:
            raise UnsupportedError("REFRESH in a transaction", "COMMIT first; it is a snapshot of its own.")
        for attempt in range(self._place.settings.commit_retries + 1):
            work = begin(self._place)
            tables = choose(work)
            occasion = Occasion(initiated_by, together=len(tables) > 1, waited_ms=waited_ms)
            try:
                return self._finished(work, refresh_together(work, tables, occasion))
            except ConflictError:
                if attempt == self._place.settings.commit_retries:
                    raise
        raise AssertionError

    def _work(self) -> Work:
        self._require_open_connection()
        return begin(self._place)

    def _finished(self, work: Work, reports: list[RefreshReport]) -> list[RefreshReport]:
        """Commit refreshes, if they changed anything."""
        start = time.perf_counter()
        if all(r.action is Action.NO_DATA for r in reports):
            work.discard()
            return reports
        if work.empty:
            move_on(self._place.warehouse.engine, work.refreshed, work.base.id)
            work.discard()
            snapshot = work.base.id
        else:
            reports = applied(work, reports)
            snapshot = work.commit(f"refresh {', '.join(sorted({r.action for r in reports}))}").id
        commit_ms = (time.perf_counter() - start) * 1000
        changed = [c.table.id for c in work.changes.values() if c.changes_content]
        if any(r.initiated_by == "scheduler" for r in work.refreshed):
            self._untidy.update(changed)
        else:
            compact.tidy(self._place, changed)
        self._push_refreshed(r.table_id for r in work.refreshed if r.initiated_by == "manual")
        return [_committed(r, snapshot, commit_ms) for r in reports]

    @contextmanager
    def transaction(self) -> Iterator[Trickle]:
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

    def close(self) -> None:
        """Give back what this connection holds; the Spark session stays."""
        if self._closed:
            return
        if self._open is not None:
            self._rollback()
        self._links.close()
        self._place.held.clear()
        self._place.lease.end()
        self._place.warehouse.engine.dispose()
        self._closed = True

    def __enter__(self) -> Trickle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- statements ------------------------------------------------------------------------------

    def _act(self, statement: s.Statement, text: str) -> Result:
        match statement:
            case s.Begin():
                self._begin()
                return Result(snapshot=self._reading().base.id)
            case s.CommitWork():
                return self._commit()
            case s.Rollback():
                return self._rollback()
            case s.Use(schema):
                found = self._reading().catalog.schema(schema)
                self._set_place(replace(self._place, schema=found.name))
                return Result(snapshot=self._reading().base.id)
            case s.SetSetting(name, value):
                settings = self._place.settings.with_values({name.lower(): value})
                self._set_place(replace(self._place, settings=settings))
                self._place.held.most = settings.cache_entries
                self._place.storage.recent.most_bytes = int(settings.cache_megabytes * 2**20)
                return Result(snapshot=self._reading().base.id)
            case s.RefreshStream(name):
                return self._refreshed(name)
            case s.SteerStream(name, suspended):
                steer = self.suspend if suspended else self.resume
                steer(".".join(quote(part) for part in name))
                return Result(snapshot=self._reading().base.id)
            case s.CreateStream() | s.AlterStream() if self._open is not None:
                # It must be exact as of a snapshot, and what this transaction changed is in none yet.
                raise UnsupportedError("a stream table in a transaction", "COMMIT or ROLLBACK first.")
            case s.Optimize(name):
                return self._optimize(name)
            case s.Vacuum(name, hours):
                return self._vacuum(name, hours)
            case s.Query() | s.CreateTempView() | s.ExplainStream() | s.ExplainQuery():
                raise AssertionError
            case (
                s.ShowTables()
                | s.ShowSchemas()
                | s.ShowColumns()
                | s.ShowCreateTable()
                | s.Describe()
                | s.ShowSettings()
            ):
                raise AssertionError
            case (
                s.AttachSource()
                | s.DetachSource()
                | s.SyncSource()
                | s.MirrorTable()
                | s.MirrorTables()
                | s.WidenMirror()
                | s.ResyncTable()
            ):
                return self._source_statement(statement)
            case s.PublishStream() | s.RepairPublished() | s.UnpublishStream():
                return self._publish_statement(statement)
            case s.DropTable(name):
                gone = self._reading().catalog.find(name, self._place.schema)
                result = self._change(lambda work: _run(work, statement), _first_words(text))
                if self._open is None and isinstance(gone, Table) and gone.mirror is not None:
                    self._mirror_dropped(gone.mirror.source)
                return result
            case s.CreateStream(mode=Mode.IMMEDIATE) | s.AlterStream(mode=Mode.IMMEDIATE):
                result = self._change(lambda work: _run(work, statement), _first_words(text))
                # What others changed while it was filled; from now on every commit keeps it.
                self.refresh(".".join(quote(part) for part in statement.name))
                return result
            case s.CreateStream(query=query) | s.AlterStream(query=str(query)):
                try:
                    return self._change(lambda work: _run(work, statement), _first_words(text))
                except (QueryError, ColumnNotFoundError):
                    if not self._widened_for(query):
                        raise
                return self._change(lambda work: _run(work, statement), _first_words(text))
            case _:
                return self._change(lambda work: _run(work, statement), _first_words(text))

    def _temp_view(self, statement: s.CreateTempView) -> DataFrame:
        frame = run_query(self._reading(), statement.query)
        if statement.replace:
            frame.createOrReplaceTempView(statement.name)
        else:
            frame.createTempView(statement.name)
        return self._result(Result(snapshot=self._reading().base.id))

    def _result(self, result: Result) -> DataFrame:
        columns = ", ".join(f"{value}L AS {name}" for name, value in vars(result).items())
        return self.spark.sql(f"SELECT {columns}")

    def _set_place(self, place: Place) -> None:
        self._place = place
        if self._open is not None:
            self._open.place = place

    # --- transactions ----------------------------------------------------------------------------

    def _reading(self) -> Work:
        self._require_open_connection()
        return self._open or begin(self._place)

    def _require_open_connection(self) -> None:
        if self._closed:
            raise TransactionStateError(
                "the connection is closed", "Open a new one with spark_trickle.connect()."
            )

    def _begin(self) -> None:
        self._require_open_connection()
        if self._open is not None:
            raise TransactionStateError("a transaction is open already", "COMMIT or ROLLBACK it first.")
        self._open = begin(self._place)

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
        if self._open is not None:
            return replace(self._in_transaction(self._open, action), snapshot=self._open.base.id)
        retries, work = self._place.settings.commit_retries, begin(self._place)
        if not has_immediate(work.catalog):
            return self._committed_change(work, action, message, retries)
        # Whoever changes sources of an IMMEDIATE stream table waits for its turn, or others would always win.
        with self._place.warehouse.turn:
            return self._committed_change(begin(self._place), action, message, 10 * retries)

    def _committed_change(
        self, work: Work, action: Callable[[Work], Result], message: str, retries: int
    ) -> Result:
        for attempt in count():
            try:
                result = self._in_transaction(work, lambda w: _with_immediate(w, action))
                snapshot = work.commit(message)
            except ConflictError:
                if attempt >= retries:
                    raise
                time.sleep(random.uniform(0, min(0.5, 0.01 * 2 ** min(attempt, 10))))
                work = begin(self._place)
                continue
            self._tidy(work)
            return replace(result, snapshot=snapshot.id)
        raise AssertionError

    def _in_transaction(self, work: Work, action: Callable[[Work], Result]) -> Result:
        """A statement that fails leaves nothing: neither definitions nor changes nor files."""
        kept = (work.catalog, list(work.definitions), dict(work.changes), len(work.written))
        try:
            return action(work)
        except BaseException:
            fresh = work.written[kept[3] :]
            work.catalog, work.definitions, work.changes = kept[0], kept[1], kept[2]
            work.written = work.written[: kept[3]]
            replace(work, written=fresh).discard()
            raise

    def _refreshed(self, name: s.Name) -> Result:
        report = self.refresh(".".join(quote(part) for part in name))
        return Result(report.rows_inserted, 0, report.rows_deleted, report.snapshot)

    # --- maintenance -----------------------------------------------------------------------------

    def _optimize(self, name: s.Name) -> Result:
        if self._open is not None:
            raise UnsupportedError("OPTIMIZE in a transaction", "COMMIT first; it is a snapshot of its own.")

        def run(work: Work) -> Result:
            table = work.catalog.table(name, work.place.schema)
            if plan := compact.everything(work.files(table)):
                compact.compact(work, table, plan)
            return Result()

        return self._change(run, "optimize")

    def _tidy(self, done: Work) -> None:
        """Compact the tables of a commit where they crossed a threshold."""
        compact.tidy(self._place, [c.table.id for c in done.changes.values() if c.changes_content])

    def _vacuum(self, name: s.Name | None, hours: float | None) -> Result:
        if self._open is not None:
            raise UnsupportedError("VACUUM in a transaction", "COMMIT or ROLLBACK first.")
        work = self._reading()
        folder = work.catalog.table(name, work.place.schema).path if name else None
        retain = self._place.settings.retain_hours if hours is None else hours
        vacuum(self._place.warehouse.engine, self._place.storage, now(), retain, folder)
        return Result(snapshot=work.base.id)


def _run(work: Work, statement: s.Definition | s.RowChange | s.StreamChange) -> Result:
    match statement:
        case s.Insert():
            return insert(work, statement)
        case s.Update():
            return update(work, statement)
        case s.Delete():
            return delete(work, statement)
        case s.Merge():
            return merge(work, statement)
        case s.Truncate(table):
            return truncate(work, work.target(table))
        case (
            s.CreateTable()
            | s.DropTable()
            | s.CreateSchema()
            | s.DropSchema()
            | s.CreateView()
            | s.DropView()
            | s.AddColumns()
            | s.DropColumns()
            | s.RenameColumn()
            | s.AlterColumn()
            | s.RenameTable()
        ):
            return define(work, statement)
        case s.CreateStream():
            return create_stream(work, statement)
        case s.DropStream():
            return drop_stream(work, statement)
        case s.AlterStream():
            return alter_stream(work, statement)
        case _:
            assert_never(statement)


def _with_immediate(work: Work, action: Callable[[Work], Result]) -> Result:
    result = action(work)
    keep_immediate(work)
    return result


def _committed(report: RefreshReport, snapshot: int, commit_ms: float) -> RefreshReport:
    if report.action is Action.NO_DATA:
        return report
    phases = {**report.phases, "commit": commit_ms}
    return replace(report, snapshot=snapshot, phases=phases, duration_ms=sum(phases.values()))


def _as_text(work: Work, lines: list[tuple[str, str]]) -> DataFrame:
    text = "\n".join(f"{name}: {value}" for name, value in lines)
    return frame_of(work.place.spark, {"plan": "string"}, [(text,)])


def _first_words(text: str) -> str:
    """What a commit says of itself; values stay out of it."""
    return " ".join(text.split()[:3])[:60]

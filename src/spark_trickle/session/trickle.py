"""The front door: statements in, DataFrames out, one snapshot per statement or transaction."""

from __future__ import annotations

from dataclasses import replace
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.dml.choices import answer_query
from spark_trickle.dml.insert import append
from spark_trickle.dml.show import look
from spark_trickle.errors import (
    ColumnNotFoundError,
    QueryError,
    UnsupportedError,
)
from spark_trickle.model.report import Result
from spark_trickle.model.stream import Mode
from spark_trickle.model.table import Table
from spark_trickle.observe import functions as observe
from spark_trickle.observe.answer import Answer
from spark_trickle.refresh.drop import stream_table
from spark_trickle.refresh.explain import explain_query, explain_stream
from spark_trickle.session.maintenance import Maintenance
from spark_trickle.session.statements import as_text, first_words, run_statement
from spark_trickle.spark.errors import noticing_loss
from spark_trickle.spark.frames import frame_of
from spark_trickle.spark.run import collect
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements import kinds as s
from spark_trickle.sql.statements.parse import parse
from spark_trickle.txn.functions import changes
from spark_trickle.txn.query import catalog_at, relation_frame, run_query, snapshot_by_id
from spark_trickle.txn.work import Work, now


class Trickle(Maintenance):
    """A connection to a warehouse. Not to be shared between threads while a transaction is open."""

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
        with noticing_loss():
            return self._run(statement)

    def _run(self, statement: str) -> DataFrame:
        parsed = parse(statement)
        match parsed:
            case s.Query(text):
                work = self._reading()
                return answer_query(work, text) if work is self._open else run_query(work, text)
            case s.CreateTempView():
                return self._temp_view(parsed)
            case s.Vacuum(name, hours, True):
                return self._plan_vacuum(name, hours)
            case s.ExplainStream(name):
                work = self._reading()
                return as_text(work, explain_stream(work, stream_table(work, name)))
            case s.ExplainQuery(query):
                work = self._reading()
                return as_text(work, explain_query(work, query))
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

    def arrow(self, statement: str) -> pa.Table:
        """The rows of a query as an Arrow table; what Spark finds wrong as it reads is one of our errors."""
        return collect(self.sql(statement))

    def pandas(self, statement: str) -> Any:
        """The same as a DataFrame of pandas."""
        return self.arrow(statement).to_pandas()

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

    def close(self) -> None:
        """Give back what this connection holds; the Spark session stays."""
        if self._closed:
            return
        if self._open is not None:
            self._rollback()
        self._links.close()
        self._place.warehouse.read_counter.write(self._place.warehouse.engine, now())
        self._place.views.clear()
        while self._place.kept:
            self._place.storage.discard(*self._place.kept.pop())
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
                self._place.views.resize(settings.cache_entries)
                self._place.storage.recent.resize(int(settings.cache_megabytes * 2**20))
                self._place.index.resize(int(settings.index_megabytes * 2**20))
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
            case s.RenewIdentity():
                return self._renew_identity()
            case s.BackUp(folder, link):
                self.backup(folder, link=link)
                return Result(snapshot=self._reading().base.id)
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
                result = self._change(lambda work: run_statement(work, statement), first_words(text))
                if self._open is None and isinstance(gone, Table) and gone.mirror is not None:
                    self._mirror_dropped(gone.mirror.source)
                return result
            case s.CreateStream(mode=Mode.IMMEDIATE) | s.AlterStream(mode=Mode.IMMEDIATE):
                result = self._change(lambda work: run_statement(work, statement), first_words(text))
                # What others changed while it was filled; from now on every commit keeps it.
                self.refresh(".".join(quote(part) for part in statement.name))
                return result
            case s.CreateStream(query=query) | s.AlterStream(query=str(query)):
                try:
                    return self._change(lambda work: run_statement(work, statement), first_words(text))
                except (QueryError, ColumnNotFoundError):
                    if not self._widened_for(query):
                        raise
                return self._change(lambda work: run_statement(work, statement), first_words(text))
            case _:
                return self._change(lambda work: run_statement(work, statement), first_words(text))

    def _temp_view(self, statement: s.CreateTempView) -> DataFrame:
        frame = run_query(self._reading(), statement.query)
        if statement.replace:
            frame.createOrReplaceTempView(statement.name)
        else:
            frame.createTempView(statement.name)
        return self._result(Result(snapshot=self._reading().base.id))

    def _result(self, result: Result) -> DataFrame:
        counts = result.counts
        if result.warnings is not None:  # a stream table was defined
            types = {**dict.fromkeys(counts, "long"), "warnings": "string"}
            return frame_of(self.spark, types, [(*counts.values(), "\n".join(result.warnings))])
        columns = ", ".join(f"{value}L AS {name}" for name, value in counts.items())
        return self.spark.sql(f"SELECT {columns}")

    def _refreshed(self, name: s.Name) -> Result:
        report = self.refresh(".".join(quote(part) for part in name))
        return Result(report.rows_inserted, 0, report.rows_deleted, report.snapshot)

"""The front door: every call of the API, and the component that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.lake.storage.backup import BackupReport
from spark_trickle.model.report import Result
from spark_trickle.model.stream import RefreshReport, read_mode
from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.observe import functions as observe
from spark_trickle.observe.answer import Answer
from spark_trickle.scheduler.loop import Listener, Scheduler
from spark_trickle.session.components import build_components
from spark_trickle.session.statements import run_statement
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.sources.report import SyncReport
from spark_trickle.spark.errors import notice_loss
from spark_trickle.spark.run import collect
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements import kinds as s
from spark_trickle.sql.statements.parse import parse_statement
from spark_trickle.targets.push import Pushed
from spark_trickle.txn.work import Place


class Trickle:
    """A connection to a warehouse. Do not share it between threads while a transaction is open."""

    def __init__(self, place: Place) -> None:
        self._parts = build_components(place)
        self._connection = self._parts.connection

    @property
    def spark(self) -> SparkSession:
        """The Spark session in which statements run, and to which DataFrames belong."""
        return self._connection.place.spark

    @property
    def catalog_url(self) -> str:
        """Where the catalog is, without a password."""
        return self._connection.place.warehouse.catalog_url

    @property
    def snapshot(self) -> int:
        """The newest snapshot."""
        return self._connection.read().base.id

    # --- statements and transactions -------------------------------------------------------------

    def sql(self, statement: str) -> DataFrame:
        """Run one statement. A query returns its rows, a change one row that says what it did."""
        with notice_loss():
            return run_statement(self._parts, parse_statement(statement), statement)

    def arrow(self, statement: str) -> pa.Table:
        """The rows of a query as an Arrow table; errors of Spark become errors of this package."""
        return collect(self.sql(statement))

    def pandas(self, statement: str) -> Any:
        """The rows of a query as a pandas DataFrame."""
        return self.arrow(statement).to_pandas()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Several statements as one commit; an exception undoes them all."""
        with self._parts.transactions.run_block():
            yield self

    # --- tables ----------------------------------------------------------------------------------

    def table(self, name: str, snapshot: int | None = None) -> DataFrame:
        """The rows of a table, now or at an earlier snapshot, as a DataFrame."""
        return self._parts.tables.read_rows(name, snapshot)

    def changes(self, name: str, after: int, upto: int | None = None) -> DataFrame:
        """The changes of a table after one snapshot, up to and including another."""
        return self._parts.tables.read_changes(name, after, upto)

    def append(self, name: str, rows: DataFrame) -> Result:
        """Add the rows of a DataFrame; its columns are matched by name."""
        return self._parts.tables.append_rows(name, rows)

    def answer(self, function: str, *arguments: str | int) -> Answer:
        """The answer of a table function such as status() or health_check(), without Spark."""
        return observe.answer_function(self._connection.read(), function, *arguments)

    # --- stream tables ---------------------------------------------------------------------------

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
        """Create a stream table: it stays equal to the result of a query by computing only what changed."""
        options = StreamOptions(append_only=append_only, initialize=initialize)
        statement = s.CreateStream(
            Cursor(name).read_name(), query, (), schedule, read_mode(refresh_mode), options
        )
        return self._parts.stream_tables.create_stream(statement, "CREATE STREAM TABLE")

    def refresh(self, name: str, *, upstream: bool = False) -> RefreshReport:
        """Bring a stream table up to date; the report says what was done and why.

        With `upstream`, all stream tables that it depends on are refreshed first, in the same commit.
        """
        return self._parts.refresher.refresh(name, upstream=upstream)

    def refresh_all(self, *, atomic: bool = True) -> list[RefreshReport]:
        """Bring all stream tables up to date: to one snapshot and in one commit, or each by itself.

        One that fails stays as it was, and so do those that read it; all others are refreshed, in one commit
        if `atomic`, before the error is raised.
        """
        return self._parts.refresher.refresh_all(atomic=atomic)

    # --- the scheduler ---------------------------------------------------------------------------

    def scheduler(self, on_alert: Listener | None = None) -> Scheduler:
        """A scheduler that keeps the stream tables fresh: start it, or use it in a `with` block."""
        return self._parts.control.make_scheduler(on_alert)

    def suspend(self, name: str) -> None:
        """Stop scheduled refreshes of a stream table until it is resumed."""
        self._parts.control.suspend_stream(name)

    def resume(self, name: str) -> None:
        """Let the scheduler refresh a stream table again."""
        self._parts.control.resume_stream(name)

    def pause_all(self) -> None:
        """Stop all scheduled refreshes until `resume_all`; IMMEDIATE stream tables are still refreshed."""
        self._parts.control.pause_all()

    def resume_all(self) -> None:
        """End `pause_all`."""
        self._parts.control.resume_all()

    def drain(self, seconds: float = 60.0) -> bool:
        """Refresh until nothing is due; False if another scheduler is active, or time runs out."""
        return self._parts.control.drain_schedule(seconds)

    def gate_source(self, name: str) -> None:
        """Let stream tables that read a table wait until its gate is open again."""
        self._parts.control.gate_source(name)

    def ungate_source(self, name: str) -> None:
        """Open the gate of a table again."""
        self._parts.control.ungate_source(name)

    def advance_watermark(self, name: str, at: datetime) -> None:
        """Declare that a table is complete up to a point in time; a watermark never moves back."""
        self._parts.control.advance_watermark(name, at)

    def create_watermark_group(
        self, name: str, sources: Iterable[str], tolerance_seconds: float = 0.0
    ) -> None:
        """Let stream tables that read one of these tables wait until all watermarks are close together."""
        self._parts.control.create_watermark_group(name, sources, tolerance_seconds)

    def drop_watermark_group(self, name: str) -> None:
        """Let the readers of its tables stop waiting for each other's watermarks."""
        self._parts.control.drop_watermark_group(name)

    def reset_fuse(self, name: str, action: str = "apply") -> RefreshReport:
        """After a fuse has blown: apply the large change, or compute the whole stream table again."""
        return self._parts.control.reset_fuse(name, action)

    # --- sources ---------------------------------------------------------------------------------

    def attach_source(self, name: str, kind: str = "postgres", **options: str) -> None:
        """Attach a database; with `dsn="env:NAME"` the catalog stores only the name of that variable."""
        self._parts.sources.attach_source(s.AttachSource(name, kind, tuple(options.items())))

    def create_mirror(
        self,
        name: str,
        source: str,
        columns: Iterable[str] = (),
        *,
        skip: Iterable[str] = (),
        as_text: Iterable[str] = (),
        progress: Listen = ignore_progress,
    ) -> Result:
        """Create a mirror: a read-only table that follows one of a source, such as "shop.public.orders"."""
        return self._parts.sources.create_mirror(
            name, source, columns, skip=skip, as_text=as_text, progress=progress
        )

    def add_tables(
        self, source: str, patterns: str, schema: str | None = None, progress: Listen = ignore_progress
    ) -> Result:
        """Create a mirror for every table of a source that matches patterns such as "public.*"."""
        return self._parts.sources.mirror_tables(s.MirrorTables(source, patterns, schema), progress)

    def sync(self, source: str, progress: Listen = ignore_progress, *, take_over: bool = False) -> SyncReport:
        """Bring the mirrors of a source up to date, and the tables published to it.

        A source serves one copy of a warehouse. With `take_over` it serves this one from now on.
        """
        return self._parts.publisher.sync(source, progress, take_over=take_over)

    def resync(self, table: str, progress: Listen = ignore_progress) -> Result:
        """Copy the source table of a mirror again; only rows that differ are changed."""
        return self._parts.sources.resync_table(s.ResyncTable(Cursor(table).read_name()), progress)

    def detach_source(self, name: str, *, cascade: bool = False, force: bool = False) -> None:
        """Remove spark-trickle from a source; its mirrors become ordinary tables, or are dropped."""
        self._parts.sources.detach_source(s.DetachSource(name, cascade=cascade, force=force))

    # --- published stream tables -----------------------------------------------------------------

    def publish(self, name: str, source: str, target: str | None = None, **options: str) -> Pushed:
        """Keep a stream table in a source too, as a table such as "public.revenue_live"."""
        return self._parts.publisher.publish_table(name, source, target, options)

    def unpublish(self, name: str, *, keep: bool = True) -> None:
        """Stop publishing a stream table; the published table stays for its readers unless it is dropped."""
        self._parts.publisher.unpublish_stream(s.UnpublishStream(Cursor(name).read_name(), keep))

    def repair_published(self, name: str) -> Pushed:
        """Compare the published table with the stream table, and change the rows that differ."""
        return self._parts.publisher.repair_table(Cursor(name).read_name())

    def push(self, source: str | None = None, *, take_over: bool = False) -> list[Pushed]:
        """Bring published tables, of one source or of all, to the newest snapshot."""
        return self._parts.publisher.push_source(source, take_over=take_over)

    # --- the warehouse and the connection --------------------------------------------------------

    def backup(self, folder: str, *, link: bool = False, keep: int | None = None) -> BackupReport:
        """Copy the warehouse as it is now to a folder of backups, while others keep working.

        Only files that no earlier backup in the folder has are copied; `link` links them instead, if both
        folders are on one disk. `keep` deletes all but this many of the newest backups.
        """
        return self._parts.maintenance.back_up_warehouse(folder, link=link, keep=keep)

    def close(self) -> None:
        """Release everything that this connection holds; the Spark session stays open."""
        self._parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

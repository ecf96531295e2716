"""What a user does with sources: attach, mirror, sync, detach, as calls and as statements."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace

from spark_trickle.errors import InvalidDefinitionError, TrickleError, UnsupportedError
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table
from spark_trickle.sources.attach import attach, detach, mirror_table, mirror_tables
from spark_trickle.sources.captures import tidy
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirrored import mirror_of
from spark_trickle.sources.postgres.copy import Progress
from spark_trickle.sources.resync import resync
from spark_trickle.sources.sync import SyncReport, sync, use_source
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.retry import retry_on_conflict
from spark_trickle.txn.work import Place, Work, begin

Listen = Callable[[Progress], None]


def silent(_: Progress) -> None: ...


class Sources:
    """The part of a connection that speaks with other databases."""

    _place: Place
    _open: Work | None
    _links: Links

    def _require_open_connection(self) -> None:
        raise NotImplementedError

    def attach_source(self, name: str, kind: str = "postgres", **options: str) -> None:
        """Attach a database; `dsn="env:NAME"` says where its address is, and the catalog keeps only that."""
        self._source_statement(s.AttachSource(name, kind, tuple(options.items())))

    def create_mirror(
        self,
        name: str,
        source: str,
        columns: Iterable[str] = (),
        *,
        skip: Iterable[str] = (),
        as_text: Iterable[str] = (),
        progress: Listen = silent,
    ) -> Result:
        """A read-only table that follows one of a source, such as "shop.public.orders"."""
        lists = (("skip", ", ".join(skip)), ("as_text", ", ".join(as_text)))
        options = tuple((key, value) for key, value in lists if value)
        parts = Cursor(name).name(), Cursor(source).name()
        return self._source_statement(s.MirrorTable(*parts, tuple(columns), options), progress)

    def add_tables(
        self, source: str, patterns: str, schema: str | None = None, progress: Listen = silent
    ) -> Result:
        """A mirror for every table of a source that patterns such as "public.*" mean."""
        return self._source_statement(s.MirrorTables(source, patterns, schema), progress)

    def sync(self, source: str, progress: Listen = silent, *, take_over: bool = False) -> SyncReport:
        """Bring the mirrors of a source to what it holds now; the report tells what came and went.

        A source serves one copy of a warehouse. With `take_over` it serves this one from now on.
        """
        self._no_transaction("SYNC SOURCE")
        return sync(self._place, self._links, source, progress, take_over)

    def resync(self, table: str, progress: Listen = silent) -> Result:
        """Copy the table behind a mirror again; only rows that differ are changed."""
        return self._source_statement(s.ResyncTable(Cursor(table).name()), progress)

    def detach_source(self, name: str, *, cascade: bool = False, force: bool = False) -> None:
        """Leave nothing of ours in a source; its mirrors become ordinary tables, or are dropped."""
        self._source_statement(s.DetachSource(name, cascade=cascade, force=force))

    # --- statements ------------------------------------------------------------------------------

    def _source_statement(self, statement: s.CaptureStatement, progress: Listen = silent) -> Result:
        self._no_transaction("a statement about a source")
        place, links = self._place, self._links
        match statement:
            case s.AttachSource():
                done = attach(place, links, statement)
            case s.DetachSource():
                done = detach(place, links, statement)
            case s.SyncSource(name, take_over):
                report = self.sync(name, progress, take_over=take_over)
                done = Result(report.rows_inserted, 0, report.rows_deleted)
            case s.MirrorTable():
                done = mirror_table(place, links, statement, progress)
            case s.MirrorTables():
                done = mirror_tables(place, links, statement, progress)
            case s.ResyncTable(name):
                done = self._resync(name, (), progress)
            case s.WidenMirror(name, columns):
                done = self._resync(name, columns, progress)
        return replace(done, snapshot=begin(place).base.id)

    def _resync(self, name: s.Name, more: tuple[str, ...], progress: Listen) -> Result:
        def attempt() -> Result:
            table = self._mirror(name)
            with use_source(self._place, self._links, mirror_of(table).source, progress) as job:
                landing, _ = resync(job, table, more)
                return Result(landing.come, 0, landing.gone)

        return retry_on_conflict(self._place, attempt)

    def _mirror(self, name: s.Name) -> Table:
        work = begin(self._place)
        table = work.catalog.table(name, work.place.schema)
        if table.mirror is None:
            raise InvalidDefinitionError(
                f'"{table.full_name}" is not a mirror of a source', "See trickle.source_status()."
            )
        return table

    def _mirror_dropped(self, source: str) -> None:
        """Take its triggers away at once; if that fails, the next sync does it."""
        try:
            with use_source(self._place, self._links, source) as job:
                tidy(job)
        except TrickleError as error:
            text = f'what was captured for a dropped mirror stays in source "{source}": {error.message}'
            warnings.warn(f"{text}; the next SYNC SOURCE takes it away", stacklevel=4)

    def _widened_for(self, query: str) -> bool:
        """Whether mirrors were given columns that a query needs and that were not captured so far."""
        work, words = begin(self._place), {w.text.lower() for w in Cursor(query).words}
        widened = False
        for reference in find_references(query):
            table = None if reference.is_function else work.catalog.find(reference.parts, work.place.schema)
            if not isinstance(table, Table) or table.mirror is None or not table.mirror.chosen:
                continue
            with use_source(self._place, self._links, table.mirror.source) as job:
                there = job.require_remote(table).column_names
                if more := [c for c in there if c.lower() in words and not table.has_column(c)]:
                    resync(job, table, more)
                    widened = True
        return widened

    def _no_transaction(self, what: str) -> None:
        self._require_open_connection()
        if self._open is not None:
            raise UnsupportedError(f"{what} in a transaction", "COMMIT or ROLLBACK first.")

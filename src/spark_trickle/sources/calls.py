"""Calls and statements on sources: attach, mirror, sync, detach."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace

from spark_trickle.errors import InvalidDefinitionError, TrickleError
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table
from spark_trickle.sources.attach import attach_source, detach_source, mirror_table, mirror_tables
from spark_trickle.sources.captures import remove_unused_captures
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.postgres.copy import Progress
from spark_trickle.sources.resync import resync_mirror
from spark_trickle.sources.sync import SyncReport, sync_mirrors, use_source
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.retry import retry_on_conflict
from spark_trickle.txn.work import Place, begin_work

Listen = Callable[[Progress], None]


def ignore_progress(_: Progress) -> None: ...


class Sources:
    """Speaks with other databases whose tables are mirrored."""

    def __init__(self, connection: WarehouseConnection, links: Links) -> None:
        self._connection = connection
        self._links = links

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
        lists = (("skip", ", ".join(skip)), ("as_text", ", ".join(as_text)))
        options = tuple((key, value) for key, value in lists if value)
        parts = Cursor(name).read_name(), Cursor(source).read_name()
        return self.mirror_table(s.MirrorTable(*parts, tuple(columns), options), progress)

    def sync_mirrors(
        self, source: str, progress: Listen = ignore_progress, *, take_over: bool = False
    ) -> SyncReport:
        self._connection.require_no_transaction("SYNC SOURCE")
        return sync_mirrors(self._connection.place, self._links, source, progress, take_over)

    # --- statements ------------------------------------------------------------------------------

    def attach_source(self, statement: s.AttachSource) -> Result:
        return self._run_statement(lambda place: attach_source(place, self._links, statement))

    def detach_source(self, statement: s.DetachSource) -> Result:
        return self._run_statement(lambda place: detach_source(place, self._links, statement))

    def mirror_table(self, statement: s.MirrorTable, progress: Listen = ignore_progress) -> Result:
        return self._run_statement(lambda place: mirror_table(place, self._links, statement, progress))

    def mirror_tables(self, statement: s.MirrorTables, progress: Listen = ignore_progress) -> Result:
        return self._run_statement(lambda place: mirror_tables(place, self._links, statement, progress))

    def resync_table(self, statement: s.ResyncTable, progress: Listen = ignore_progress) -> Result:
        return self._run_statement(lambda place: self._recopy_mirror(place, statement.table, (), progress))

    def widen_mirror(self, statement: s.WidenMirror) -> Result:
        return self._run_statement(
            lambda place: self._recopy_mirror(place, statement.table, statement.columns, ignore_progress)
        )

    def _run_statement(self, action: Callable[[Place], Result]) -> Result:
        self._connection.require_no_transaction("a statement about a source")
        done = action(self._connection.place)
        return replace(done, snapshot=begin_work(self._connection.place).base.id)

    def _recopy_mirror(self, place: Place, name: s.Name, more: tuple[str, ...], progress: Listen) -> Result:
        def attempt() -> Result:
            table = _find_mirror(place, name)
            with use_source(place, self._links, require_mirror(table).source, progress) as job:
                landing, _ = resync_mirror(job, table, more)
                return Result(landing.come, 0, landing.gone)

        return retry_on_conflict(place, attempt)

    # --- mirrors and the statements of others ----------------------------------------------------

    def remove_unused_captures(self, source: str) -> None:
        """After a mirror was dropped: take its triggers away; if that fails, the next sync does it."""
        try:
            with use_source(self._connection.place, self._links, source) as job:
                remove_unused_captures(job)
        except TrickleError as error:
            text = f'what was captured for a dropped mirror stays in source "{source}": {error.message}'
            warnings.warn(f"{text}; the next SYNC SOURCE removes it", stacklevel=6)

    def widen_mirrors_for(self, query: str) -> bool:
        """Whether mirrors were given columns that a query needs and that were not captured so far."""
        place, words = self._connection.place, {w.text.lower() for w in Cursor(query).words}
        work, widened = begin_work(place), False
        for reference in find_references(query):
            table = None if reference.is_function else work.catalog.find(reference.parts, place.schema)
            if not isinstance(table, Table) or table.mirror is None or not table.mirror.chosen:
                continue
            with use_source(place, self._links, table.mirror.source) as job:
                there = job.require_remote(table).column_names
                if more := [c for c in there if c.lower() in words and not table.has_column(c)]:
                    resync_mirror(job, table, more)
                    widened = True
        return widened


def _find_mirror(place: Place, name: s.Name) -> Table:
    table = begin_work(place).catalog.table(name, place.schema)
    if table.mirror is None:
        raise InvalidDefinitionError(
            f'"{table.full_name}" is not a mirror of a source', "See trickle.source_status()."
        )
    return table

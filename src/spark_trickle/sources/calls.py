"""Calls and statements on sources: attach, mirror, sync, detach."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from threading import Event

from spark_trickle.errors import (
    AlreadyExistsError,
    InvalidDefinitionError,
    SourceNotFoundError,
    TrickleError,
)
from spark_trickle.lake.catalog import sources
from spark_trickle.model.report import Result
from spark_trickle.model.source import Mirror
from spark_trickle.model.table import Table
from spark_trickle.sources.kinds import find_front, front_of_source
from spark_trickle.sources.link import Links
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.sources.report import SyncReport
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.names.references import find_references
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.retry import retry_on_conflict
from spark_trickle.txn.work import Place, begin_work


class Sources:
    """Speaks with other systems whose tables are read here."""

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
        place = self._connection.place
        return front_of_source(place, source).sync(place, self._links, source, progress, take_over)

    def await_change(self, source: str, seconds: float, stop: Event) -> None:
        """Wait for some seconds, or until the source says that it has something new."""
        place = self._connection.place
        front_of_source(place, source).await_change(place, self._links, source, seconds, stop)

    # --- statements ------------------------------------------------------------------------------

    def attach_source(self, statement: s.AttachSource) -> Result:
        front = find_front(statement.kind)

        def attach(place: Place) -> Result:
            if not self._exists(statement.name):
                return front.attach(place, self._links, statement)
            if statement.if_not_exists:
                return Result()
            raise AlreadyExistsError("source", statement.name.lower())

        return self._run_statement(attach)

    def detach_source(self, statement: s.DetachSource) -> Result:
        def detach(place: Place) -> Result:
            if statement.if_exists and not self._exists(statement.name):
                return Result()
            return front_of_source(place, statement.name).detach(place, self._links, statement)

        return self._run_statement(detach)

    def mirror_table(self, statement: s.MirrorTable, progress: Listen = ignore_progress) -> Result:
        def mirror(place: Place) -> Result:
            front = front_of_source(place, statement.source[0])
            return front.mirror_table(place, self._links, statement, progress)

        return self._run_statement(mirror)

    def mirror_tables(self, statement: s.MirrorTables, progress: Listen = ignore_progress) -> Result:
        def mirror(place: Place) -> Result:
            front = front_of_source(place, statement.source)
            return front.mirror_tables(place, self._links, statement, progress)

        return self._run_statement(mirror)

    def resync_table(self, statement: s.ResyncTable, progress: Listen = ignore_progress) -> Result:
        def compare(place: Place) -> Result:
            table, mirror = _find_mirror(place, statement.table)
            return front_of_source(place, mirror.source).compare(place, self._links, table, progress)

        return self._run_statement(lambda place: retry_on_conflict(place, lambda: compare(place)))

    def widen_mirror(self, statement: s.WidenMirror) -> Result:
        def widen(place: Place) -> Result:
            table, mirror = _find_mirror(place, statement.table)
            front = front_of_source(place, mirror.source)
            return front.widen(place, self._links, table, statement.columns)

        return self._run_statement(lambda place: retry_on_conflict(place, lambda: widen(place)))

    def _exists(self, name: str) -> bool:
        try:
            sources.find_source(self._connection.place.warehouse.engine, name)
        except SourceNotFoundError:
            return False
        return True

    def _run_statement(self, action: Callable[[Place], Result]) -> Result:
        self._connection.require_no_transaction("a statement about a source")
        done = action(self._connection.place)
        return replace(done, snapshot=begin_work(self._connection.place).base.id)

    # --- mirrors and the statements of others ----------------------------------------------------

    def remove_unused_captures(self, source: str) -> None:
        """After a mirror was dropped: take its triggers away; if that fails, the next sync does it."""
        place = self._connection.place
        try:
            front_of_source(place, source).clean_up(place, self._links, source)
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
            front = front_of_source(place, table.mirror.source)
            there = front.find_more_columns(place, self._links, table)
            if more := tuple(c for c in there if c.lower() in words):
                front.widen(place, self._links, table, more)
                widened = True
        return widened


def _find_mirror(place: Place, name: s.Name) -> tuple[Table, Mirror]:
    table = begin_work(place).catalog.table(name, place.schema)
    if table.mirror is None:
        raise InvalidDefinitionError(
            f'"{table.full_name}" is not a mirror of a source', "See trickle.source_status()."
        )
    return table, table.mirror

"""Calls and statements on published stream tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_trickle.errors import InvalidDefinitionError, TrickleError, raise_failures
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.states import find_changed_tables
from spark_trickle.model.report import Result
from spark_trickle.model.source import Published
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.sources.calls import Sources
from spark_trickle.sources.link import Links
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.sources.report import SyncReport
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.statements import kinds as s
from spark_trickle.targets.kinds import check_options, choose_place
from spark_trickle.targets.push import Pushed, publish_table, push_table, repair_table, unpublish_table
from spark_trickle.txn.connection import WarehouseConnection
from spark_trickle.txn.work import begin_work


class Publisher:
    """Keeps stream tables in other databases too."""

    def __init__(self, connection: WarehouseConnection, links: Links, sources: Sources) -> None:
        self._connection = connection
        self._links = links
        self._sources = sources

    def publish_table(
        self, name: str, source: str, target: str | None = None, options: Mapping[str, str] | None = None
    ) -> Pushed:
        parts = Cursor(name).read_name()
        place = Cursor(target).read_name() if target else parts[-1:]
        return self._publish_target(s.PublishStream(parts, source, place, tuple((options or {}).items())))

    def repair_table(self, name: s.Name) -> Pushed:
        self._require_no_transaction()
        place = self._connection.place
        return repair_table(place, self._links, find_stream_table(begin_work(place), name))

    def push_source(self, source: str | None = None, *, take_over: bool = False) -> list[Pushed]:
        return self._push_each([p for p in self._read_published() if source in (None, p.source)], take_over)

    def sync(self, source: str, progress: Listen = ignore_progress, *, take_over: bool = False) -> SyncReport:
        """Sync the mirrors of a source, then push what is published there."""
        report = self._sources.sync_mirrors(source, progress, take_over=take_over)
        self.push_source(report.source, take_over=take_over)
        return report

    # --- statements ------------------------------------------------------------------------------

    def sync_source(self, statement: s.SyncSource) -> Result:
        self._require_no_transaction()
        report = self.sync(statement.name, take_over=statement.take_over)
        snapshot = begin_work(self._connection.place).base.id
        return Result(report.rows_inserted, 0, report.rows_deleted, snapshot)

    def publish_stream(self, statement: s.PublishStream) -> Result:
        return _make_result(self._publish_target(statement))

    def repair_published(self, statement: s.RepairPublished) -> Result:
        return _make_result(self.repair_table(statement.name))

    def unpublish_stream(self, statement: s.UnpublishStream) -> Result:
        self._require_no_transaction()
        place = self._connection.place
        unpublish_table(
            place, self._links, find_stream_table(begin_work(place), statement.name), statement.keep
        )
        return Result(snapshot=begin_work(place).base.id)

    def _publish_target(self, statement: s.PublishStream) -> Pushed:
        self._require_no_transaction()
        place = self._connection.place
        table = find_stream_table(begin_work(place), statement.name)
        if any(p.table_id == table.id for p in self._read_published()):
            raise InvalidDefinitionError(
                f'"{table.full_name}" is already published', "UNPUBLISH STREAM TABLE it first."
            )
        attached = sources.find_source(place.warehouse.engine, statement.source)
        schema, name = choose_place(attached, statement.target)
        check_options(attached, dict(statement.options))
        found = Published(table.id, attached.name, schema, name, options=statement.options)
        return publish_table(place, self._links, table, found)

    def _require_no_transaction(self) -> None:
        self._connection.require_no_transaction("a statement about a source")

    # --- following -------------------------------------------------------------------------------

    def push_refreshed(self, table_ids: Iterable[int]) -> None:
        """After a refresh was committed: it stays, whatever happens to the published table."""
        wanted = set(table_ids)
        try:
            self._push_each([p for p in self._read_published() if p.table_id in wanted] if wanted else [])
        except TrickleError as error:
            error.add_note("the refresh itself is committed; only the published table is behind")
            raise

    def push_behind(self) -> None:
        """Published tables whose stream table changed since they were last moved on."""
        newest, known = self._connection.read().base.id, self._read_published()
        with open_reader(self._connection.place.warehouse.engine) as connection:
            behind = [
                p
                for p in known
                if p.reached is None or find_changed_tables(connection, [p.table_id], p.reached, newest)
            ]
        self._push_each(behind)

    def _read_published(self) -> list[Published]:
        with open_reader(self._connection.place.warehouse.engine) as connection:
            return sorted(sources.read_published(connection).values(), key=lambda p: p.table_id)

    def _push_each(self, wanted: Iterable[Published], take_over: bool = False) -> list[Pushed]:
        """Each by itself: what keeps one of them behind does not keep the others."""
        done: list[Pushed] = []
        failures: list[TrickleError] = []
        for published in wanted:
            try:
                done.append(push_table(self._connection.place, self._links, published, take_over))
            except TrickleError as error:
                failures.append(error)
        raise_failures("published tables", failures)
        return done


def _make_result(done: Pushed) -> Result:
    return Result(done.rows_inserted, 0, done.rows_deleted, done.snapshot)

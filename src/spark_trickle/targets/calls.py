"""Calls and statements on published stream tables."""

from __future__ import annotations

from collections.abc import Iterable

from spark_trickle.errors import InvalidDefinitionError, TrickleError, raise_failures
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.model.report import Result
from spark_trickle.model.source import Published
from spark_trickle.refresh.drop import stream_table
from spark_trickle.sources.calls import Listen, Sources, silent
from spark_trickle.sources.sync import SyncReport
from spark_trickle.sql.lexer.cursor import Cursor
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements import kinds as s
from spark_trickle.targets.push import Pushed, publish, push, repair, unpublish
from spark_trickle.txn.work import begin


class Publishing(Sources):
    """The part of a connection that keeps stream tables in other databases too."""

    def publish(self, name: str, source: str, target: str | None = None) -> Pushed:
        """Publish a stream table to a database, as a table such as "public.revenue_live"."""
        parts = Cursor(name).name()
        return self._publish(s.PublishStream(parts, source, Cursor(target).name() if target else parts[-1:]))

    def unpublish(self, name: str, *, keep: bool = True) -> None:
        """Stop publishing a stream table; the published table stays for its readers unless it is dropped."""
        self._publish_statement(s.UnpublishStream(Cursor(name).name(), keep))

    def repair_published(self, name: str) -> Pushed:
        """Compare the published table with the stream table, and change the rows that differ."""
        self._no_transaction("a statement about a source")
        return repair(self._place, self._links, stream_table(begin(self._place), Cursor(name).name()))

    def push(self, source: str | None = None, *, take_over: bool = False) -> list[Pushed]:
        """Bring published tables, of one source or of all, to the newest snapshot."""
        return self._push_each([p for p in self._published() if source in (None, p.source)], take_over)

    def sync(self, source: str, progress: Listen = silent, *, take_over: bool = False) -> SyncReport:
        """Bring the mirrors of a source up to date, and the tables published to it.

        A source serves one copy of a warehouse. With `take_over` it serves this one from now on.
        """
        report = super().sync(source, progress, take_over=take_over)
        self.push(report.source, take_over=take_over)
        return report

    def _publish(self, statement: s.PublishStream) -> Pushed:
        self._no_transaction("a statement about a source")
        if len(statement.target) > 2:
            raise InvalidDefinitionError(
                f'"{".".join(statement.target)}" has too many parts', "Write AS schema.table."
            )
        table = stream_table(begin(self._place), statement.name)
        if any(p.table_id == table.id for p in self._published()):
            raise InvalidDefinitionError(
                f'"{table.full_name}" is already published', "UNPUBLISH STREAM TABLE it first."
            )
        schema = statement.target[0] if len(statement.target) == 2 else "public"
        return publish(self._place, self._links, table, statement.source, schema, statement.target[-1])

    def _publish_statement(self, statement: s.PublishStatement) -> Result:
        self._no_transaction("a statement about a source")
        match statement:
            case s.PublishStream():
                done = self._publish(statement)
                return Result(done.rows_inserted, 0, done.rows_deleted, done.snapshot)
            case s.RepairPublished(name):
                done = self.repair_published(".".join(quote(part) for part in name))
                return Result(done.rows_inserted, 0, done.rows_deleted, done.snapshot)
            case s.UnpublishStream(name, keep):
                unpublish(self._place, self._links, stream_table(begin(self._place), name), keep)
                return Result(snapshot=begin(self._place).base.id)

    def _published(self) -> list[Published]:
        with reading(self._place.warehouse.engine) as connection:
            return sorted(sources.published(connection).values(), key=lambda p: p.table_id)

    def _push_refreshed(self, table_ids: Iterable[int]) -> None:
        """After a refresh was committed: it stays, whatever happens to the published table."""
        wanted = set(table_ids)
        try:
            self._push_each([p for p in self._published() if p.table_id in wanted] if wanted else [])
        except TrickleError as error:
            error.add_note("the refresh itself is committed; only the published table is behind")
            raise

    def _push_each(self, wanted: Iterable[Published], take_over: bool = False) -> list[Pushed]:
        """Each by itself: what keeps one of them behind does not keep the others."""
        done: list[Pushed] = []
        failures: list[TrickleError] = []
        for found in wanted:
            try:
                done.append(push(self._place, self._links, found, take_over))
            except TrickleError as error:
                failures.append(error)
        raise_failures("published tables", failures)
        return done

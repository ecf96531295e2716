"""One transaction: a catalog at one snapshot, what was changed so far, and DataFrames that see both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from typing import TYPE_CHECKING

from spark_trickle.errors import CatalogBusyError, ConflictError, ReadOnlyTableError
from spark_trickle.lake.cache.column_index import ColumnIndex
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.commit import publish_commit
from spark_trickle.lake.catalog.conflicts import Overlap
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.lease import SessionLease
from spark_trickle.lake.catalog.turns import Blocked, hold_turn
from spark_trickle.lake.storage.files import Storage
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.cache import Cache
from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.commit import (
    Commit,
    Definition,
    TableChange,
)
from spark_trickle.model.files import DataFile, Log, split_log
from spark_trickle.model.stream import Refreshed
from spark_trickle.model.table import Table
from spark_trickle.model.types import find_fixed_width
from spark_trickle.settings import Settings
from spark_trickle.spark.child_session import LazyChild
from spark_trickle.spark.frames import Frame, Session
from spark_trickle.spark.read import identity_columns, read_content, rows_with_weights
from spark_trickle.spark.view_cache import Key, ViewCache
from spark_trickle.txn.overlap import find_conflict
from spark_trickle.txn.reads import ReadSet
from spark_trickle.txn.tail import Tails
from spark_trickle.txn.work_state import WorkState

if TYPE_CHECKING:
    from spark_trickle.lake.catalog.read import TableSize


_OVERTAKEN = 3  # times that others may commit while rows are compared
_PLANS = 16 * 2**20  # characters of plans that are remembered


def _remember_plans() -> Cache[str, str]:
    return Cache(_PLANS, weigh=len)


def _remember_catalog() -> Cache[int, Catalog]:
    """Only the newest is worth keeping; the schema version tells all names."""
    return Cache(1)


@dataclass(frozen=True)
class Place:
    """Where statements run: the warehouse, Spark, the settings, and the schema of unqualified names."""

    warehouse: Warehouse
    session: Session  # the user's: what users get is a DataFrame of this one
    settings: Settings
    schema: str
    lease: SessionLease
    tails: Tails
    views: ViewCache
    index: ColumnIndex
    functions: Mapping[str, Callable[..., Frame]] = field(default_factory=dict)  # table functions of ours
    kept: list[tuple[Table, str]] = field(default_factory=list)  # folders of results that somebody may read
    catalogs: Cache[int, Catalog] = field(default_factory=_remember_catalog)  # by schema version
    unlanded: dict[str, int] = field(default_factory=dict)  # records of logs on their way, by source
    only_for_user: Cache[str, str] = field(default_factory=_remember_plans)  # with functions of the user's
    child: LazyChild | None = None  # a session of ours, where what runs is no affair of the user's

    @property
    def spark(self) -> Session:
        """The session in which DataFrames are made and run."""
        return self.session if self.child is None else self.child.spark

    def in_child(self, zone: str = "") -> Place:
        return replace(self, child=LazyChild(self.session, zone))

    def view(self, key: Key, make: Callable[[], Frame]) -> Frame | str:
        """Rows that will be read again, for the session that is at work."""
        return self.views.view(self.spark, key, make)

    def run_small_jobs(self) -> AbstractContextManager[None]:
        """Plan for few rows while the block runs; only in a session of ours."""
        return nullcontext() if self.child is None else self.child.run_small_jobs()

    def follow_all_settings(self) -> None:
        """Before the executors do much work: their number of partitions is what the user says by now."""
        if self.child is not None:
            self.child.follow_all()

    @property
    def storage(self) -> Storage:
        return self.warehouse.storage


@dataclass
class Work:
    """Reads one snapshot plus its own changes; `commit` publishes them all at once or not at all."""

    place: Place
    state: WorkState
    base: Snapshot
    written: list[tuple[Table, str]] = field(default_factory=list)
    reads: ReadSet = field(default_factory=ReadSet)
    ticket: int | None = None  # its turn, if it conflicted before and holds one
    effects: Callable[[Work, Table], Work] | None = None  # what a stream table would be after this commit
    _steps: Iterator[int] = field(default_factory=lambda: count(1))  # a scratch goes on with the same
    _files: dict[tuple[int, int], tuple[DataFile, ...]] = field(default_factory=dict)
    _row_counts: dict[tuple[int, int], int] = field(default_factory=dict)
    _change_files: dict[tuple[int, int, int], tuple[DataFile, ...]] = field(default_factory=dict)

    @property
    def catalog(self) -> Catalog:
        """With the definitions of this transaction."""
        return self.state.catalog

    @property
    def changes(self) -> Mapping[int, TableChange]:
        return self.state.changes

    @property
    def refreshed(self) -> tuple[Refreshed, ...]:
        return self.state.refreshed

    # --- reading ---------------------------------------------------------------------------------

    def find_target(self, parts: tuple[str, ...]) -> Table:
        """A table that a statement may change."""
        table = self.catalog.table(parts, self.place.schema)
        if table.derived:
            raise ReadOnlyTableError(table.full_name, table.mirror.full_name if table.mirror else None)
        return table

    def files(self, table: Table) -> tuple[DataFile, ...]:
        """The files whose sum is the table, as this transaction sees it."""
        change = self.changes.get(table.id)
        committed = self.files_at(table, self.base.id)
        if change is None:
            return committed
        gone = {f.path for f in change.ended}
        return tuple(f for f in committed if f.path not in gone) + change.added

    def files_at(self, table: Table, snapshot_id: int) -> tuple[DataFile, ...]:
        if snapshot_id == self.base.id and (pinned := self.state.pinned.get(table.id)) is not None:
            return pinned
        key = (table.id, snapshot_id)
        if key not in self._files:
            with open_reader(self.place.warehouse.engine) as connection:
                self._files[key] = read.read_files(connection, table.id, snapshot_id)
        return self._files[key]

    def change_files(self, table: Table, since: int) -> tuple[DataFile, ...]:
        """What was committed to a table after a snapshot, up to the one that is read."""
        key = (table.id, since, self.base.id)
        if key not in self._change_files:
            with open_reader(self.place.warehouse.engine) as connection:
                self._change_files[key] = read.read_change_files(connection, table.id, since, self.base.id)
        return self._change_files[key]

    def pin_table(self, table: Table, snapshot_id: int) -> None:
        """Read a table as of another snapshot than the rest."""
        self.state = self.state.with_pinned({table.id: self.files_at(table, snapshot_id)})

    def begin_scratch(self, empty: Iterable[Table] = ()) -> Work:
        """A work that begins where this one is, to try changes in; it sees some tables as empty.

        It is never committed. The files that it writes are discarded with those of this one.
        """
        state = self.state.with_pinned({t.id: () for t in empty})
        return replace(self, state=replace(state, refreshed=()))

    def with_catalog(self, catalog: Catalog) -> Work:
        """The same rows under other names."""
        return replace(self, state=replace(self.state, catalog=catalog))

    def sizes(self) -> dict[int, TableSize]:
        with open_reader(self.place.warehouse.engine) as connection:
            return read.read_sizes(connection, self.base.id)

    def row_count(self, table: Table) -> int:
        change = self.changes.get(table.id)
        if change is None:
            return self._count_committed(table)
        ended = sum(f.weight for f in change.ended)
        return self._count_committed(table) + sum(f.weight for f in change.added) - ended

    def _count_committed(self, table: Table) -> int:
        """The catalog adds up the files of a table in place: a refresh may need no list of them."""
        key = (table.id, self.base.id)
        listed = table.id in self.state.pinned or key in self._files
        if listed or table.mirror is None or not table.mirror.in_place:
            return sum(f.weight for f in self.files_at(table, self.base.id))
        if key not in self._row_counts:
            with open_reader(self.place.warehouse.engine) as connection:
                self._row_counts[key] = read.count_rows(connection, *key)
        return self._row_counts[key]

    def rows(self, table: Table) -> Frame:
        """All rows of a table; that the transaction looked at them is noted."""
        self.reads.note_table(table.id)
        return self.target_rows(table)

    def target_rows(self, table: Table) -> Frame:
        """The same for a statement that notes itself which of them it looks at."""
        return self.rows_of(table, self.files(table))

    def rows_for_query(self, table: Table) -> Frame:
        """The rows with all that follows from this transaction, if somebody has to compute it."""
        if self.effects is None or table.stream is None:
            return self.rows(table)
        after = self.effects(self, table)
        return after.rows(after.catalog.table_by_id(table.id) or table)

    def rows_at(self, table: Table, snapshot_id: int) -> Frame:
        self.place.lease.cover(snapshot_id, now())
        return self.rows_of(table, self.files_at(table, snapshot_id))

    def rows_of(self, table: Table, files: Sequence[DataFile]) -> Frame:
        place, log = self.place, split_log(files)
        settled = rows_with_weights(place.spark, place.storage, table, log.settled)
        tail = place.tails.read(place.spark, table, log)
        return read_content(settled, table, tail, _can_broadcast(table, log, place.settings))

    # --- changing --------------------------------------------------------------------------------

    def next_as_of(self) -> int:
        """The place of the next change in the log of a table: after everything this transaction sees."""
        return self.base.id + next(self._steps)

    def note_written(self, table: Table, name: str) -> None:
        self.written.append((table, name))

    def change(self, change: TableChange) -> None:
        self.state = self.state.with_change(change)

    def define(self, definition: Definition) -> None:
        """Add a definition and see it at once."""
        self.state = self.state.with_definition(definition)

    def note_refreshed(self, refreshed: Refreshed) -> None:
        self.state = replace(self.state, refreshed=(*self.state.refreshed, refreshed))

    def tell_once_committed(self, tell: Callable[[], None]) -> None:
        self.state = replace(self.state, once_committed=(*self.state.once_committed, tell))

    def new_id(self) -> int:
        return self.catalog.snapshot.next_catalog_id

    # --- ending ----------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        return self._commit_value().empty

    @property
    def moved_tables(self) -> frozenset[int]:
        """The tables whose rows it changes, and the stream tables that it moves on."""
        return self._commit_value().moved_tables

    def commit(self, message: str | None = None) -> Snapshot:
        """Publish; after a conflict nothing is left behind. Nothing changed: the snapshot that was read."""
        commit = replace(self._commit_value(), message=message)
        if commit.empty:
            self.discard()
            return self.base
        try:
            snapshot = self._publish_commit(commit)
        except (ConflictError, CatalogBusyError):  # certain that nothing was committed
            self.discard()
            raise
        self.place.warehouse.changed.ring()
        # Any other error may come after the catalog committed: the files stay, and VACUUM decides.
        used = {f.path.split("/")[0] for c in commit.changes for f in c.added + c.feed_only}
        self.written = [(table, name) for table, name in self.written if name not in used]
        self.discard()
        for tell in self.state.once_committed:
            tell()
        return snapshot

    def _publish_commit(self, commit: Commit) -> Snapshot:
        """What others committed since is no obstacle as long as this transaction would do the same after it.

        It is compared while others go on committing; who is overtaken again and again queues up.
        """
        warehouse = self.place.warehouse
        with ExitStack() as turn:
            for attempt in count():
                found = publish_commit(warehouse.engine, warehouse.folder, commit, now())
                if isinstance(found, Snapshot):
                    return found
                if isinstance(found, Overlap):
                    if conflict := find_conflict(self.place, commit, self.reads, found.upto):
                        raise conflict
                    commit = replace(commit, compared=found.upto)
                if commit.ticket is None and (isinstance(found, Blocked) or attempt >= _OVERTAKEN):
                    ticket = turn.enter_context(hold_turn(warehouse, commit.moved_tables))
                    commit = replace(commit, ticket=ticket)
                elif isinstance(found, Blocked):
                    # It changes a table for which its ticket is not good: whoever retries gets another one.
                    name = commit.changes[0].table.full_name
                    raise ConflictError(name, self.base.id, self.base.id, "claimed")
        raise AssertionError

    def discard(self) -> None:
        """Delete files of this transaction that no commit needs."""
        while self.written:
            self.place.storage.discard(*self.written.pop())

    def _commit_value(self) -> Commit:
        return Commit(
            read_snapshot=self.base.id,
            read_next_id=self.base.next_catalog_id,
            definitions=self.state.definitions,
            changes=tuple(self._note_reads(c) for c in self.changes.values() if not c.empty),
            refreshed=self.state.refreshed,
            landed=self.state.landed,
            ticket=self.ticket,
        )

    def _note_reads(self, change: TableChange) -> TableChange:
        reads = self.reads.list_reads(change.table.id)
        depends = change.depends or any(r.by_statement for r in reads)
        return replace(change, depends=depends, reads=bool(reads))


def _can_broadcast(table: Table, log: Log, settings: Settings) -> bool:
    """Whether what a tail takes away can be sent to all executors: every one holds it in memory."""
    width = find_fixed_width(c.type for c in identity_columns(table))
    memory = log.tail_deletes_memory if width is None else width * log.tail_deletes
    return log.tail_deletes <= settings.broadcast_rows and memory <= settings.broadcast_bytes


def begin_work(place: Place, ticket: int | None = None) -> Work:
    with open_reader(place.warehouse.engine) as connection:
        base = read.read_newest(connection)
        known = place.catalogs.get(base.schema_version, lambda: read.read_catalog(connection, base))
    place.lease.cover(base.id, now())
    return Work(place, WorkState(replace(known, snapshot=base)), base, ticket=ticket)


def now() -> datetime:
    return datetime.now(UTC)

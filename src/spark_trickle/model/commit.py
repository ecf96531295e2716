"""A commit as a value: what one transaction wants to change, decided before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.model.files import FEED, DataFile, Role
from spark_trickle.model.source import Landed
from spark_trickle.model.stream import Refreshed
from spark_trickle.model.table import Schema, Table, View


@dataclass(frozen=True)
class CreatedSchema:
    schema: Schema


@dataclass(frozen=True)
class DroppedSchema:
    schema: Schema


@dataclass(frozen=True)
class CreatedTable:
    table: Table


@dataclass(frozen=True)
class AlteredTable:
    old: Table
    new: Table


@dataclass(frozen=True)
class DroppedTable:
    table: Table


@dataclass(frozen=True)
class CreatedView:
    view: View


@dataclass(frozen=True)
class DroppedView:
    view: View


Definition = (
    CreatedSchema | DroppedSchema | CreatedTable | AlteredTable | DroppedTable | CreatedView | DroppedView
)


@dataclass(frozen=True)
class TableChange:
    """What happens to the files of one table.

    `added` files become visible; `feed_only` files are the change that `ended` files embody
    (a TRUNCATE ends everything and records what it removed for the change feed).
    """

    table: Table
    added: tuple[DataFile, ...] = ()
    feed_only: tuple[DataFile, ...] = ()
    ended: tuple[DataFile, ...] = ()
    depends: bool = False  # a statement chose by the rows that were there what to do
    reads: bool = False  # the transaction looked at the table, by a statement or by a query

    @property
    def compaction(self) -> bool:
        """Same content, other files."""
        return bool(self.added or self.ended) and not self.changes_content

    @property
    def changes_content(self) -> bool:
        return bool(self.feed)

    @property
    def feed(self) -> tuple[DataFile, ...]:
        """The files that tell others what changed."""
        return self.feed_only + tuple(f for f in self.added if f.role in FEED)

    @property
    def inserts(self) -> bool:
        return any(f.rows > f.deletes or f.role is Role.UNKNOWN for f in self.feed)

    @property
    def deletes(self) -> bool:
        return any(f.deletes or f.role is Role.UNKNOWN for f in self.feed)

    @property
    def empty(self) -> bool:
        return not (self.added or self.feed_only or self.ended)

    def then(self, later: TableChange) -> TableChange:
        """Both in order; a file that the first adds and the second ends was never there."""
        gone = {f.path for f in later.ended}
        added = tuple(f for f in self.added if f.path not in gone)
        mine = {f.path for f in self.added}
        ended = self.ended + tuple(f for f in later.ended if f.path not in mine)
        replaced = tuple(f for f in self.added if f.path in gone and f.role in FEED)
        return replace(
            later,
            added=added + later.added,
            feed_only=self.feed_only + replaced + later.feed_only,
            ended=ended,
            depends=self.depends or later.depends,
            reads=self.reads or later.reads,
        )


@dataclass(frozen=True)
class Commit:
    """Everything one transaction changes, read at one snapshot."""

    read_snapshot: int
    read_next_id: int
    definitions: tuple[Definition, ...] = ()
    changes: tuple[TableChange, ...] = ()
    message: str | None = None
    refreshed: tuple[Refreshed, ...] = ()
    landed: Landed | None = None
    compared: int | None = None  # the snapshot up to which its rows were compared with those of others
    ticket: int | None = None  # its place in the queue for a turn

    @property
    def compared_upto(self) -> int:
        return self.read_snapshot if self.compared is None else self.compared

    @property
    def moved_tables(self) -> frozenset[int]:
        """The tables whose rows it changes, and the stream tables that it moves on."""
        changed = {c.table.id for c in self.changes if c.changes_content}
        return frozenset(changed | {r.table_id for r in self.refreshed})

    @property
    def empty(self) -> bool:
        return not self.definitions and all(c.empty for c in self.changes)

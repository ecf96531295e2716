"""Messages of whole transactions -> for each table what comes, what goes, and what the mirror has to add.

Where the log holds only the key of an old row (REPLICA IDENTITY DEFAULT or an index), the changes are netted
by key: of a row that goes from the mirror only the key comes out, at most once, so that its old image is
looked up once. Where the log holds whole old rows (FULL), these come out as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_trickle.cdc.postgres.discover import SourceTable
from spark_trickle.cdc.postgres.messages import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    RelationMessage,
    Truncate,
    Tuple,
    Update,
)
from spark_trickle.cdc.postgres.moment import Moment
from spark_trickle.cdc.postgres.types import MappedColumn
from spark_trickle.errors import InternalError, InvalidDefinitionError, SourceSchemaChangedError

Key = Tuple


@dataclass(frozen=True)
class Followed:
    """A table that is taken from the log; `published` is the mark that it has in the publication.

    `since` is the moment of its copy, or of its last reading from a buffer; what it has seen is passed over.
    With `until`, only what that moment has seen is taken: the rest will be found in a buffer.
    """

    source: SourceTable
    columns: tuple[MappedColumn, ...]
    published: str
    since: Moment | None = None
    until: Moment | None = None

    def __post_init__(self) -> None:
        missing = [n for n in self.source.identity if n not in self.names]
        if missing and not self.full:
            raise InvalidDefinitionError(
                f'column "{missing[0]}" of "{self.source.full_name}" identifies its rows in the log',
                "Capture this column too.",
            )

    @property
    def full(self) -> bool:
        return self.source.replica_identity == "f"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    def takes(self, begin: Begin) -> bool:
        seen = self.since is not None and self.since.has_seen(begin.xid, begin.final_lsn)
        return not seen and (self.until is None or self.until.has_seen(begin.xid, begin.final_lsn))


@dataclass(frozen=True)
class NewRow:
    """A row that comes; its UNCHANGED values are in the mirror, under `old_key`."""

    values: Tuple
    old_key: Key | None = None


@dataclass
class TableNet:
    """What the transactions so far did to a table."""

    followed: Followed
    truncated: bool = False  # all that the mirror held goes
    added: list[Tuple] = field(default_factory=list)  # whole rows, weight 1
    dropped: list[Tuple] = field(default_factory=list)  # whole rows, weight -1
    removed: dict[Key, None] = field(default_factory=dict)  # keys whose row in the mirror goes
    current: dict[Key, NewRow] = field(default_factory=dict)  # rows that came since, by key
    changes: int = 0

    def truncate(self) -> None:
        self.truncated = True
        for collected in (self.added, self.dropped, self.removed, self.current):
            collected.clear()

    def insert(self, new: Tuple, key: Key) -> None:
        if self.followed.full:
            self.added.append(new)
        else:
            self.current[key] = NewRow(new)

    def delete(self, old: Tuple, key: Key) -> None:
        if self.followed.full:
            self.dropped.append(old)
        elif self.current.pop(key, None) is None:
            self.removed[key] = None

    def update(self, old: Tuple, new: Tuple, old_key: Key, new_key: Key) -> None:
        if self.followed.full:
            self.dropped.append(old)
            self.added.append(_filled(new, old))
            return
        before = self.current.pop(old_key, None)
        if before is None:
            self.removed[old_key] = None
            before = NewRow((UNCHANGED,) * len(new), old_key)
        values = _filled(new, before.values)
        self.current[new_key] = NewRow(values, before.old_key if UNCHANGED in values else None)


@dataclass(frozen=True)
class Net:
    """Whole transactions, summed.

    `end_lsn` is where the last one ended; `transactions` counts those that changed one of the tables.
    """

    tables: tuple[TableNet, ...]
    end_lsn: int
    transactions: int
    commit_time: int | None  # of the last one, in microseconds since 2000-01-01


def assemble(messages: Iterable[Message], followed: Sequence[Followed], after: int) -> Net:
    """Sum up the transactions that committed after a position."""
    work = _Work({f.source.oid: TableNet(f) for f in followed}, after)
    for message in messages:
        work.take(message)
    if work.begin is not None:
        raise InternalError("the log ended inside of a transaction")
    changed = tuple(t for t in work.tables.values() if t.changes)
    return Net(changed, work.end_lsn, work.transactions, work.commit_time)


class _Work:
    """The transaction that is being read, and how the tuples of each table are laid out in it."""

    def __init__(self, tables: Mapping[int, TableNet], after: int) -> None:
        self.tables = tables
        self.after = self.end_lsn = after
        self.transactions = 0
        self.commit_time: int | None = None
        self.begin: Begin | None = None
        self.changed = False
        self.takes: dict[int, bool] = {}
        self.layouts: dict[int, _Layout] = {}
        self.relations: dict[int, RelationMessage] = {}

    def take(self, message: Message) -> None:
        match message:
            case Begin():
                self.begin, self.changed = message, False
                new = message.final_lsn >= self.after
                self.takes = {oid: new and t.followed.takes(message) for oid, t in self.tables.items()}
            case Commit():
                self.begin = None
                if message.end_lsn > self.after:
                    self.end_lsn = message.end_lsn
                    self.transactions += self.changed
                    self.commit_time = message.commit_time
            case RelationMessage():
                self.relations[message.oid] = message
                self.layouts.pop(message.oid, None)
            case Insert() | Update() | Delete():
                if self.takes.get(message.relation):
                    self._change(message)
            case Truncate():
                for oid in filter(self.takes.get, message.relations):
                    self.tables[oid].truncate()
                    self._count(oid)

    def _change(self, message: Insert | Update | Delete) -> None:
        table, layout = self.tables[message.relation], self._layout(message.relation)
        self._count(message.relation)
        match message:
            case Insert(new=new):
                table.insert(layout.row(new), layout.key(new))
            case Delete(key=key, old=old):
                before = old if old is not None else key
                table.delete(layout.whole(old), layout.key(before if before is not None else ()))
            case Update(new=new, key=key, old=old):
                before = old if old is not None else key if key is not None else new
                table.update(layout.whole(old), layout.row(new), layout.key(before), layout.key(new))

    def _count(self, oid: int) -> None:
        self.tables[oid].changes += 1
        self.changed = True

    def _layout(self, oid: int) -> _Layout:
        if oid not in self.layouts:
            self.layouts[oid] = _layout(self.tables[oid].followed, self.relations[oid])
        return self.layouts[oid]


@dataclass(frozen=True)
class _Layout:
    """Where our columns and those of the key stand in the tuples of the log."""

    full: bool
    columns: tuple[int, ...]
    identity: tuple[int, ...]

    def row(self, values: Tuple) -> Tuple:
        return tuple([values[n] for n in self.columns])

    def whole(self, old: Tuple | None) -> Tuple:
        """The old row of a table that logs whole rows; of others only the key counts."""
        if not self.full:
            return ()
        if old is None:
            raise InternalError("a table with REPLICA IDENTITY FULL logged only a key")
        return self.row(old)

    def key(self, values: Tuple) -> Key:
        return () if self.full else tuple([values[n] for n in self.identity])


def _layout(followed: Followed, relation: RelationMessage) -> _Layout:
    places = {c.name: n for n, c in enumerate(relation.columns)}
    if wrong := _differences(followed, relation, places):
        raise SourceSchemaChangedError(followed.source.full_name, tuple(wrong))
    identity = tuple(places[n] for n in followed.source.identity) if not followed.full else ()
    return _Layout(followed.full, tuple(places[n] for n in followed.names), identity)


def _differences(followed: Followed, relation: RelationMessage, places: Mapping[str, int]) -> list[str]:
    wrong = []
    for column in followed.columns:
        place = places.get(column.name)
        if place is None:
            wrong.append(f'column "{column.name}" is not in the log any more')
            continue
        found, kind = relation.columns[place], column.source.type
        if (found.type, found.modifier) != (kind.oid, kind.modifier):
            wrong.append(f'column "{column.name}" has another type now')
    keys = {c.name for c in relation.columns if c.key}
    if (relation.replica_identity == "f") != followed.full or (
        not followed.full and keys != set(followed.source.identity)
    ):
        wrong.append("its replica identity is another one now")
    return wrong


def _filled(values: Tuple, before: Tuple) -> Tuple:
    """Values that the log did not repeat, taken from the row before."""
    if UNCHANGED not in values:
        return values
    return tuple([b if v is UNCHANGED else v for v, b in zip(values, before, strict=True)])

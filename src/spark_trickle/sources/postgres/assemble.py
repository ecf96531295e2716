"""Messages of whole transactions -> for each table those about its rows, in order, still as bytes.

Only what stands between rows is decoded here: where transactions begin and end, how the rows of a table are
laid out from there on, and that a table was emptied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from spark_trickle.errors import (
    InternalError,
    InvalidDefinitionError,
    ResyncNeededError,
    SourceSchemaChangedError,
)
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.messages import (
    BeginMessage,
    CommitMessage,
    Message,
    RelationMessage,
    TruncateMessage,
)
from spark_trickle.sources.postgres.moment import Moment
from spark_trickle.sources.postgres.pgoutput import decode_message
from spark_trickle.sources.postgres.tuples import Layout
from spark_trickle.sources.postgres.types import MappedColumn

_ABOUT_ROWS = frozenset(b"IUD")
_ID = slice(1, 5)  # of the table, in a message about a row


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

    @property
    def identity(self) -> tuple[int, ...]:
        """The columns by which a row of the mirror is found, as numbers of our columns."""
        return tuple(self.names.index(n) for n in self.source.identity)

    @property
    def before(self) -> tuple[int, ...]:
        """The columns that are of use in old rows."""
        return tuple(range(len(self.columns))) if self.full else self.identity

    def takes(self, begin: BeginMessage) -> bool:
        seen = self.since is not None and self.since.has_seen(begin.xid, begin.final_lsn)
        return not seen and (self.until is None or self.until.has_seen(begin.xid, begin.final_lsn))


@dataclass
class TableLog:
    """What the transactions so far did to a table; a new part begins where its layout may have changed."""

    followed: Followed
    truncated: bool = False  # all that the mirror held goes, before the parts
    parts: list[tuple[Layout, list[bytes]]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return self.truncated or bool(self.parts)


@dataclass(frozen=True)
class NetTransactions:
    """Whole transactions.

    `end_lsn` is where the last one ended; `transactions` counts those that changed one of the tables, the
    first of which committed at `first_commit_time`.
    """

    tables: tuple[TableLog, ...]
    end_lsn: int
    transactions: int
    commit_time: int | None  # of the last one, in microseconds since 2000-01-01
    first_commit_time: int | None = None


def assemble_messages(messages: Iterable[bytes], followed: Sequence[Followed], after: int) -> NetTransactions:
    """Sort the transactions that committed after a position by tables."""
    work = _Work({f.source.oid: TableLog(f) for f in followed}, after)
    rows = work.rows
    for data in messages:
        if data[0] not in _ABOUT_ROWS:
            work.take_message(decode_message(data))
        elif (taken := rows.get(data[_ID])) is not None:
            taken.append(data)
        else:
            work.begin_part(data)
    if work.begin is not None:
        raise InternalError("the write-ahead log ended inside a transaction")
    changed = tuple(t for t in work.tables.values() if t.changed)
    return NetTransactions(changed, work.end_lsn, work.transactions, work.commit_time, work.first_commit_time)


class _Work:
    """The transaction that is being read; `rows` is where its messages about rows go, by the table's id."""

    def __init__(self, tables: Mapping[int, TableLog], after: int) -> None:
        self.tables = tables
        self.after = self.end_lsn = after
        self.transactions = 0
        self.commit_time: int | None = None
        self.first_commit_time: int | None = None
        self.begin: BeginMessage | None = None
        self.changed = False
        self.takes: dict[int, bool] = {}
        self.rows: dict[bytes, list[bytes]] = {}
        self.relations: dict[int, RelationMessage] = {}

    def take_message(self, message: Message) -> None:
        match message:
            case BeginMessage():
                self.begin, self.changed = message, False
                self.rows.clear()
                new = message.final_lsn >= self.after
                self.takes = {oid: new and t.followed.takes(message) for oid, t in self.tables.items()}
            case CommitMessage():
                self.begin = None
                if message.end_lsn > self.after:
                    self.end_lsn = message.end_lsn
                    self.transactions += self.changed
                    self.commit_time = message.commit_time
                    if self.changed and self.first_commit_time is None:
                        self.first_commit_time = message.commit_time
            case RelationMessage():
                self.relations[message.oid] = message
                self.rows.pop(_encode_id(message.oid), None)
            case TruncateMessage():
                for oid in filter(self.takes.get, message.relations):
                    table = self.tables[oid]
                    table.truncated = self.changed = True
                    table.parts.clear()
                    self.rows.pop(_encode_id(oid), None)

    def begin_part(self, data: bytes) -> None:
        """The first row of a table in a transaction or since its layout was told, or one of another table."""
        if len(data) < _ID.stop:
            decode_message(data)  # which says what is wrong
        oid = int.from_bytes(data[_ID])
        if not self.takes.get(oid):
            return
        table, self.changed = self.tables[oid], True
        layout = _make_layout(table.followed, self.relations[oid])
        if not table.parts or table.parts[-1][0] != layout:
            table.parts.append((layout, []))
        self.rows[data[_ID]] = table.parts[-1][1]
        self.rows[data[_ID]].append(data)


def _encode_id(oid: int) -> bytes:
    return oid.to_bytes(4)


def _make_layout(followed: Followed, relation: RelationMessage) -> Layout:
    places = {c.name: n for n, c in enumerate(relation.columns)}
    if wrong := _find_differences(followed, relation, places):
        raise SourceSchemaChangedError(followed.source.full_name, tuple(wrong))
    if _has_new_identity(followed, relation):  # the columns are the same, so a new copy is all it takes
        raise ResyncNeededError(followed.source.full_name, "its replica identity was changed")
    return Layout(len(relation.columns), tuple(places[n] for n in followed.names))


def _find_differences(followed: Followed, relation: RelationMessage, places: Mapping[str, int]) -> list[str]:
    wrong = []
    for column in followed.columns:
        place = places.get(column.name)
        if place is None:
            wrong.append(f'column "{column.name}" is no longer in the write-ahead log')
            continue
        found, kind = relation.columns[place], column.source.type
        if (found.type, found.modifier) != (kind.oid, kind.modifier):
            wrong.append(f'column "{column.name}" has changed its type')
    return wrong


def _has_new_identity(followed: Followed, relation: RelationMessage) -> bool:
    keys = {c.name for c in relation.columns if c.key}
    full = relation.replica_identity == "f"
    return full != followed.full or (not full and keys != set(followed.source.identity))

"""What PostgreSQL's pgoutput plugin says about a transaction, message by message."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unchanged(Enum):
    """The value of a large column that an UPDATE left as it was; the log does not repeat it."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED


@dataclass(frozen=True)
class BinaryValue:
    """A value in the type's own binary form."""

    data: bytes


Value = bytes | BinaryValue | Unchanged | None  # bytes: the text of the value; None: NULL
Tuple = tuple[Value, ...]


@dataclass(frozen=True)
class BeginMessage:
    final_lsn: int  # where the commit is
    commit_time: int  # microseconds since 2000-01-01
    xid: int


@dataclass(frozen=True)
class CommitMessage:
    flags: int
    lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True)
class Origin:
    lsn: int
    name: str


@dataclass(frozen=True)
class RelationColumn:
    key: bool  # part of what identifies an old row
    name: str
    type: int
    modifier: int


@dataclass(frozen=True)
class RelationMessage:
    """How the tuples of a table are to be read from here on; `xid` only inside of a stream, as below."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]
    xid: int | None = None


@dataclass(frozen=True)
class TypeMessage:
    oid: int
    schema: str
    name: str
    xid: int | None = None


@dataclass(frozen=True)
class InsertMessage:
    relation: int
    new: Tuple
    xid: int | None = None


@dataclass(frozen=True)
class UpdateMessage:
    """`key` is the old key, only if it changed; `old` is the whole old row, if the table logs it."""

    relation: int
    new: Tuple
    key: Tuple | None = None
    old: Tuple | None = None
    xid: int | None = None


@dataclass(frozen=True)
class DeleteMessage:
    relation: int
    key: Tuple | None = None
    old: Tuple | None = None
    xid: int | None = None


@dataclass(frozen=True)
class TruncateMessage:
    relations: tuple[int, ...]
    cascade: bool
    restart_identity: bool
    xid: int | None = None


@dataclass(frozen=True)
class LogicalMessage:
    """What an application wrote into the log with pg_logical_emit_message."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes
    xid: int | None = None


@dataclass(frozen=True)
class StreamStart:
    xid: int
    first: bool


@dataclass(frozen=True)
class StreamStop:
    pass


@dataclass(frozen=True)
class StreamCommit:
    xid: int
    flags: int
    lsn: int
    end_lsn: int
    commit_time: int


@dataclass(frozen=True)
class StreamAbort:
    """The position and time come only with protocol 4 and parallel streaming."""

    xid: int
    subxid: int
    abort_lsn: int | None = None
    abort_time: int | None = None


Message = (
    BeginMessage
    | CommitMessage
    | Origin
    | RelationMessage
    | TypeMessage
    | InsertMessage
    | UpdateMessage
    | DeleteMessage
    | TruncateMessage
    | LogicalMessage
    | StreamStart
    | StreamStop
    | StreamCommit
    | StreamAbort
)

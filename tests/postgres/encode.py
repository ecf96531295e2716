"""Messages -> the bytes that pgoutput would write for them; the decoder's other half, for the tests."""

from __future__ import annotations

import struct
from functools import singledispatch

from spark_trickle.sources.postgres.messages import (
    UNCHANGED,
    BeginMessage,
    BinaryValue,
    CommitMessage,
    DeleteMessage,
    InsertMessage,
    LogicalMessage,
    Message,
    Origin,
    RelationMessage,
    StreamAbort,
    StreamCommit,
    StreamStart,
    StreamStop,
    TruncateMessage,
    Tuple,
    TypeMessage,
    UpdateMessage,
    Value,
)


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def xid(value: int | None) -> bytes:
    return b"" if value is None else struct.pack(">I", value)


def row(values: Tuple) -> bytes:
    return struct.pack(">H", len(values)) + b"".join(map(field, values))


def field(value: Value) -> bytes:
    match value:
        case None:
            return b"n"
        case BinaryValue(data):
            return b"b" + struct.pack(">i", len(data)) + data
        case bytes():
            return b"t" + struct.pack(">i", len(value)) + value
    assert value is UNCHANGED
    return b"u"


@singledispatch
def encode(message: Message) -> bytes:
    raise NotImplementedError(message)


@encode.register
def _begin(m: BeginMessage) -> bytes:
    return b"B" + struct.pack(">QqI", m.final_lsn, m.commit_time, m.xid)


@encode.register
def _commit(m: CommitMessage) -> bytes:
    return b"C" + struct.pack(">BQQq", m.flags, m.lsn, m.end_lsn, m.commit_time)


@encode.register
def _origin(m: Origin) -> bytes:
    return b"O" + struct.pack(">Q", m.lsn) + text(m.name)


@encode.register
def _relation(m: RelationMessage) -> bytes:
    schema = "" if m.schema == "pg_catalog" else m.schema
    head = (
        b"R"
        + xid(m.xid)
        + struct.pack(">I", m.oid)
        + text(schema)
        + text(m.name)
        + m.replica_identity.encode()
    )
    columns = (
        struct.pack(">B", c.key) + text(c.name) + struct.pack(">Ii", c.type, c.modifier) for c in m.columns
    )
    return head + struct.pack(">H", len(m.columns)) + b"".join(columns)


@encode.register
def _type(m: TypeMessage) -> bytes:
    schema = "" if m.schema == "pg_catalog" else m.schema
    return b"Y" + xid(m.xid) + struct.pack(">I", m.oid) + text(schema) + text(m.name)


@encode.register
def _insert(m: InsertMessage) -> bytes:
    return b"I" + xid(m.xid) + struct.pack(">I", m.relation) + b"N" + row(m.new)


def _before(key: Tuple | None, old: Tuple | None) -> bytes:
    return (b"" if key is None else b"K" + row(key)) + (b"" if old is None else b"O" + row(old))


@encode.register
def _update(m: UpdateMessage) -> bytes:
    return b"U" + xid(m.xid) + struct.pack(">I", m.relation) + _before(m.key, m.old) + b"N" + row(m.new)


@encode.register
def _delete(m: DeleteMessage) -> bytes:
    return b"D" + xid(m.xid) + struct.pack(">I", m.relation) + _before(m.key, m.old)


@encode.register
def _truncate(m: TruncateMessage) -> bytes:
    options = m.cascade + 2 * m.restart_identity
    oids = struct.pack(f">{len(m.relations)}I", *m.relations)
    return b"T" + xid(m.xid) + struct.pack(">IB", len(m.relations), options) + oids


@encode.register
def _message(m: LogicalMessage) -> bytes:
    head = b"M" + xid(m.xid) + struct.pack(">BQ", m.transactional, m.lsn) + text(m.prefix)
    return head + struct.pack(">i", len(m.content)) + m.content


@encode.register
def _stream_start(m: StreamStart) -> bytes:
    return b"S" + struct.pack(">IB", m.xid, m.first)


@encode.register
def _stream_stop(_: StreamStop) -> bytes:
    return b"E"


@encode.register
def _stream_commit(m: StreamCommit) -> bytes:
    return b"c" + struct.pack(">IBQQq", m.xid, m.flags, m.lsn, m.end_lsn, m.commit_time)


@encode.register
def _stream_abort(m: StreamAbort) -> bytes:
    where = b"" if m.abort_lsn is None else struct.pack(">Qq", m.abort_lsn, m.abort_time)
    return b"A" + struct.pack(">II", m.xid, m.subxid) + where

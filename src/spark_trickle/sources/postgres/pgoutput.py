"""Bytes of the pgoutput plugin, protocol 1 to 4, text or binary -> messages.

Prepared transactions are not among them: they come only from slots made for two-phase commit, which ours are
not, so a prepared transaction arrives when it is committed, like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from spark_trickle.errors import WalDecodeError
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
    RelationColumn,
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

_INT16, _INT32, _INT64 = Struct(">H"), Struct(">I"), Struct(">q")
_SIGNED32, _UNSIGNED64 = Struct(">i"), Struct(">Q")
_CASCADE, _RESTART_IDENTITY = 1, 2
_TEXT = ord("t")


def decode_message(data: bytes, in_stream: bool = False, parallel: bool = False) -> Message:
    """One message; between StreamStart and StreamStop most of them begin with a transaction id.

    With `parallel` streaming, of protocol 4, an aborted stream says where and when it was aborted.
    """
    reader = _Reader(data, parallel)
    kind = reader.read_character("the kind of the message")
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise WalDecodeError(f'"{kind}" is not a kind of message', 0)
    xid = reader.read_uint32() if in_stream and kind in _IN_STREAM else None
    message = decoder(reader, xid)
    if reader.at != len(data):
        raise WalDecodeError(f"{len(data) - reader.at} bytes follow the end of the message", reader.at)
    return message


class _Reader:
    """A place in the bytes of a message; whatever is missing is an error that says where."""

    def __init__(self, data: bytes, parallel: bool) -> None:
        self.data = data
        self.parallel = parallel
        self.at = 0

    def take_bytes(self, length: int) -> bytes:
        start, end = self.at, self.at + length
        if length < 0 or end > len(self.data):
            raise WalDecodeError(f"{length} bytes are expected, {len(self.data) - start} are left", start)
        self.at = end
        return self.data[start:end]

    def _read_number(self, form: Struct) -> int:
        found: int = form.unpack(self.take_bytes(form.size))[0]
        return found

    def read_uint8(self) -> int:
        return self.take_bytes(1)[0]

    def read_uint16(self) -> int:
        return self._read_number(_INT16)

    def read_uint32(self) -> int:
        return self._read_number(_INT32)

    def read_int32(self) -> int:
        return self._read_number(_SIGNED32)

    def read_int64(self) -> int:
        return self._read_number(_INT64)

    def read_lsn(self) -> int:
        return self._read_number(_UNSIGNED64)

    def read_character(self, what: str) -> str:
        start, code = self.at, self.read_uint8()
        if code > 127:
            raise WalDecodeError(f"{what} is the byte {code}", start)
        return chr(code)

    def read_text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise WalDecodeError("a string does not end", self.at)
        start, found = self.at, self.take_bytes(end - self.at)
        self.at += 1
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise WalDecodeError("a string is not UTF-8", start) from None

    def expect(self, *allowed: str) -> str:
        start, found = self.at, self.read_character("the kind of a part")
        if found not in allowed:
            raise WalDecodeError(f'"{found}" stands where one of {", ".join(allowed)} is expected', start)
        return found

    def read_row(self) -> Tuple:
        """Most bytes of a message are texts of a row, so these are read without detours."""
        data, size = self.data, len(self.data)
        values: list[Value] = []
        for _ in range(self.read_uint16()):
            start = self.at + 5
            if start <= size and data[self.at] == _TEXT:
                end = start + _SIGNED32.unpack_from(data, self.at + 1)[0]
                if start <= end <= size:
                    values.append(data[start:end])
                    self.at = end
                    continue
            values.append(self._read_value())  # everything else, also what is wrong
        return tuple(values)

    def _read_value(self) -> Value:
        kind = self.expect("t", "n", "u", "b")
        if kind == "t":
            return self.take_bytes(self.read_int32())
        if kind == "n":
            return None
        return UNCHANGED if kind == "u" else BinaryValue(self.take_bytes(self.read_int32()))


# --- one function for each kind ------------------------------------------------------------------


def _decode_begin(r: _Reader, _: int | None) -> BeginMessage:
    return BeginMessage(final_lsn=r.read_lsn(), commit_time=r.read_int64(), xid=r.read_uint32())


def _decode_commit(r: _Reader, _: int | None) -> CommitMessage:
    return CommitMessage(
        flags=r.read_uint8(), lsn=r.read_lsn(), end_lsn=r.read_lsn(), commit_time=r.read_int64()
    )


def _decode_origin(r: _Reader, _: int | None) -> Origin:
    return Origin(lsn=r.read_lsn(), name=r.read_text())


def _decode_relation(r: _Reader, xid: int | None) -> RelationMessage:
    oid, schema, name = r.read_uint32(), r.read_text(), r.read_text()
    identity = r.expect("d", "n", "f", "i")
    columns = tuple([_relation_column(r) for _ in range(r.read_uint16())])
    # Nothing stands for the schema of the server's own tables.
    return RelationMessage(oid, schema or "pg_catalog", name, identity, columns, xid)


def _relation_column(r: _Reader) -> RelationColumn:
    return RelationColumn(
        key=bool(r.read_uint8() & 1), name=r.read_text(), type=r.read_uint32(), modifier=r.read_int32()
    )


def _decode_type(r: _Reader, xid: int | None) -> TypeMessage:
    return TypeMessage(r.read_uint32(), r.read_text() or "pg_catalog", r.read_text(), xid)


def _decode_insert(r: _Reader, xid: int | None) -> InsertMessage:
    relation = r.read_uint32()
    r.expect("N")
    return InsertMessage(relation, r.read_row(), xid)


def _decode_update(r: _Reader, xid: int | None) -> UpdateMessage:
    relation, part = r.read_uint32(), r.expect("K", "O", "N")
    before = None if part == "N" else r.read_row()
    if part != "N":
        r.expect("N")
    key, old = (before, None) if part == "K" else (None, before)
    return UpdateMessage(relation, r.read_row(), key, old, xid)


def _decode_delete(r: _Reader, xid: int | None) -> DeleteMessage:
    relation, part = r.read_uint32(), r.expect("K", "O")
    before = r.read_row()
    return DeleteMessage(relation, before if part == "K" else None, before if part == "O" else None, xid)


def _decode_truncate(r: _Reader, xid: int | None) -> TruncateMessage:
    count, options = r.read_uint32(), r.read_uint8()
    relations = tuple(r.read_uint32() for _ in range(count))
    return TruncateMessage(relations, bool(options & _CASCADE), bool(options & _RESTART_IDENTITY), xid)


def _decode_logical_message(r: _Reader, xid: int | None) -> LogicalMessage:
    transactional, lsn, prefix = bool(r.read_uint8() & 1), r.read_lsn(), r.read_text()
    return LogicalMessage(transactional, lsn, prefix, r.take_bytes(r.read_int32()), xid)


def _stream_start(r: _Reader, _: int | None) -> StreamStart:
    return StreamStart(r.read_uint32(), bool(r.read_uint8()))


def _stream_stop(_: _Reader, __: int | None) -> StreamStop:
    return StreamStop()


def _stream_commit(r: _Reader, _: int | None) -> StreamCommit:
    return StreamCommit(
        r.read_uint32(),
        flags=r.read_uint8(),
        lsn=r.read_lsn(),
        end_lsn=r.read_lsn(),
        commit_time=r.read_int64(),
    )


def _stream_abort(r: _Reader, _: int | None) -> StreamAbort:
    xid, subxid = r.read_uint32(), r.read_uint32()
    return StreamAbort(xid, subxid, r.read_lsn(), r.read_int64()) if r.parallel else StreamAbort(xid, subxid)


_DECODERS: dict[str, Callable[[_Reader, int | None], Message]] = {
    "B": _decode_begin,
    "C": _decode_commit,
    "O": _decode_origin,
    "R": _decode_relation,
    "Y": _decode_type,
    "I": _decode_insert,
    "U": _decode_update,
    "D": _decode_delete,
    "T": _decode_truncate,
    "M": _decode_logical_message,
    "S": _stream_start,
    "E": _stream_stop,
    "c": _stream_commit,
    "A": _stream_abort,
}
_IN_STREAM = frozenset("RYIUDTM")

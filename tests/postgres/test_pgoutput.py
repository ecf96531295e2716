"""The decoder on bytes written by hand, by the real server, and at random."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    TypeMessage,
    UpdateMessage,
)
from spark_trickle.sources.postgres.pgoutput import decode_message
from tests.postgres.encode import encode
from tests.postgres.world import World

# --- by hand -------------------------------------------------------------------------------------

U32, U64 = "00000007", "0000000100000002"
LSN = 0x1_00000002

BY_HAND: list[tuple[str, Message]] = [
    (f"42 {U64} 0000000000000005 {U32}", BeginMessage(LSN, 5, 7)),
    (f"42 {U64} ffffffffffffffff ffffffff", BeginMessage(LSN, -1, 0xFFFFFFFF)),
    (f"43 00 {U64} 0000000100000003 0000000000000005", CommitMessage(0, LSN, LSN + 1, 5)),
    (f"4f {U64} 6f7267 00", Origin(LSN, "org")),
    (f"52 {U32} 70 00 74 00 64 0002 01 6964 00 00000017 ffffffff 00 c3a9 00 000006a4 00060006", RelationMessage(7, "p", "t", "d", (RelationColumn(True, "id", 23, -1), RelationColumn(False, "é", 1700, 393222)))),
    (f"52 {U32} 00 74 00 66 0000", RelationMessage(7, "pg_catalog", "t", "f", ())),
    (f"59 {U32} 70 00 6d6f6f64 00", TypeMessage(7, "p", "mood")),
    (f"49 {U32} 4e 0004 74 00000002 6869 6e 75 62 00000001 ff", InsertMessage(7, (b"hi", None, UNCHANGED, BinaryValue(b"\xff")))),
    (f"49 {U32} 4e 0001 74 00000000", InsertMessage(7, (b"",))),
    (f"55 {U32} 4e 0001 6e", UpdateMessage(7, (None,))),
    (f"55 {U32} 4b 0001 74 00000001 31 4e 0001 74 00000001 32", UpdateMessage(7, (b"2",), key=(b"1",))),
    (f"55 {U32} 4f 0001 74 00000001 31 4e 0001 75", UpdateMessage(7, (UNCHANGED,), old=(b"1",))),
    (f"44 {U32} 4b 0001 74 00000001 31", DeleteMessage(7, key=(b"1",))),
    (f"44 {U32} 4f 0001 6e", DeleteMessage(7, old=(None,))),
    (f"54 00000002 03 {U32} 00000008", TruncateMessage((7, 8), True, True)),
    (f"54 00000001 00 {U32}", TruncateMessage((7,), False, False)),
    (f"4d 01 {U64} 7000 00000002 0001", LogicalMessage(True, LSN, "p", b"\0\1")),
    (f"53 {U32} 01", StreamStart(7, True)),
    ("45", StreamStop()),
    (f"63 {U32} 00 {U64} 0000000100000003 0000000000000005", StreamCommit(7, 0, LSN, LSN + 1, 5)),
    (f"41 {U32} 00000008", StreamAbort(7, 8)),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BY_HAND)
def test_by_hand(data: str, message: Message) -> None:
    assert decode_message(bytes.fromhex(data)) == message
    assert encode(message) == bytes.fromhex(data)


IN_STREAM: list[tuple[str, Message]] = [
    (f"49 00000009 {U32} 4e 0000", InsertMessage(7, (), xid=9)),
    (f"52 00000009 {U32} 70 00 74 00 69 0000", RelationMessage(7, "p", "t", "i", (), xid=9)),
    (f"54 00000009 00000001 00 {U32}", TruncateMessage((7,), False, False, xid=9)),
    ("45", StreamStop()),
]


@pytest.mark.parametrize(("data", "message"), IN_STREAM)
def test_in_a_stream_most_messages_name_their_transaction(data: str, message: Message) -> None:
    assert decode_message(bytes.fromhex(data), in_stream=True) == message


def test_a_parallel_stream_says_where_it_was_aborted() -> None:
    message = StreamAbort(7, 8, LSN, 5)
    assert decode_message(encode(message), parallel=True) == message


WRONG = [
    ("", 0, "1 bytes are expected, 0 are left"),
    ("7a", 0, '"z" is not a kind of message'),
    ("ff", 0, "the kind of the message is the byte 255"),
    ("45 00", 1, "1 bytes follow the end"),
    ("42 00", 1, "8 bytes are expected, 1 are left"),
    (f"4f {U64} 6f7267", 9, "a string does not end"),
    (f"4f {U64} ff00", 9, "a string is not UTF-8"),
    (f"49 {U32} 58 0000", 5, '"X" stands where one of N is expected'),
    (f"49 {U32} 4e 0001 78", 8, '"x" stands where one of t, n, u, b is expected'),
    (f"49 {U32} 4e 0001 74 7fffffff 61", 13, "2147483647 bytes are expected, 1 are left"),
    (f"49 {U32} 4e 0001 74 ffffffff 61", 13, "-1 bytes are expected, 1 are left"),
    (f"54 ffffffff 00 {U32}", 10, "4 bytes are expected, 0 are left"),
    (f"52 {U32} 70 00 74 00 78 0000", 9, '"x" stands where one of d, n, f, i is expected'),
]


@pytest.mark.parametrize(("data", "offset", "detail"), WRONG)
def test_wrong_bytes_are_named_with_their_place(data: str, offset: int, detail: str) -> None:
    with pytest.raises(WalDecodeError) as caught:
        decode_message(bytes.fromhex(data))
    assert (caught.value.offset, caught.value.detail[: len(detail)]) == (offset, detail)


# --- at random -----------------------------------------------------------------------------------

u8, u32, u64 = st.integers(0, 255), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
i32, i64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)
values = (
    st.none() | st.just(UNCHANGED) | st.binary(max_size=40) | st.builds(BinaryValue, st.binary(max_size=40))
)
rows = st.lists(values, max_size=6).map(tuple)
columns = st.lists(st.builds(RelationColumn, st.booleans(), names, u32, i32), max_size=5).map(tuple)


def messages(xid: st.SearchStrategy[int | None], parallel: bool = False) -> st.SearchStrategy[Any]:
    plain = [
        st.builds(RelationMessage, u32, names, names, st.sampled_from("dnfi"), columns, xid),
        st.builds(TypeMessage, u32, names, names, xid),
        st.builds(InsertMessage, u32, rows, xid),
        st.builds(UpdateMessage, u32, rows, rows, st.none(), xid),
        st.builds(UpdateMessage, u32, rows, st.none(), st.none() | rows, xid),
        st.builds(DeleteMessage, u32, rows, st.none(), xid),
        st.builds(DeleteMessage, u32, st.none(), rows, xid),
        st.builds(TruncateMessage, st.lists(u32, max_size=5).map(tuple), st.booleans(), st.booleans(), xid),
        st.builds(LogicalMessage, st.booleans(), u64, names, st.binary(max_size=40), xid),
    ]
    where = (u64, i64) if parallel else (st.none(), st.none())
    framing = [
        st.builds(BeginMessage, u64, i64, u32),
        st.builds(CommitMessage, u8, u64, u64, i64),
        st.builds(Origin, u64, names),
        st.builds(StreamStart, u32, st.booleans()),
        st.builds(StreamStop),
        st.builds(StreamCommit, u32, u8, u64, u64, i64),
        st.builds(StreamAbort, u32, u32, *where),
    ]
    return st.one_of(*plain, *framing)


@given(messages(st.none()))
def test_what_is_encoded_comes_back(message: Message) -> None:
    assert decode_message(encode(message)) == message


@given(messages(u32, parallel=True))
def test_in_streams_too(message: Message) -> None:
    assert decode_message(encode(message), in_stream=True, parallel=True) == message


@given(messages(st.none()), st.data())
def test_every_truncation_is_an_error(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    length = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(WalDecodeError) as caught:
        decode_message(whole[:length])
    assert 0 <= caught.value.offset <= length


@given(st.binary(max_size=200), st.booleans(), st.booleans())
def test_any_bytes_are_a_message_or_an_error(data: bytes, in_stream: bool, parallel: bool) -> None:
    try:
        decode_message(data, in_stream, parallel)
    except WalDecodeError as error:
        assert 0 <= error.offset <= len(data)  # noqa: PT017


@given(messages(st.none()), st.data())
def test_a_changed_byte_does_no_harm(message: Message, data: st.DataObject) -> None:
    whole = bytearray(encode(message))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(u8)
    with suppress(WalDecodeError):
        decode_message(bytes(whole))


# --- from the server -----------------------------------------------------------------------------

RECORD = "SELECT data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, 'proto_version', '{version}', 'publication_names', 'p', 'messages', 'true'{more})"


@pytest.fixture
def recorded(world: World) -> World:
    world.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE t (id int PRIMARY KEY, a text, m mood, n numeric(5, 2))",
        "ALTER TABLE t ALTER a SET STORAGE EXTERNAL",
        "CREATE TABLE f (a int, b text)",
        "ALTER TABLE f REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR ALL TABLES",
        "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
    )
    return world


def record(world: World, version: int, **options: str) -> list[bytes]:
    more = "".join(f", '{name}', '{value}'" for name, value in options.items())
    return [bytes(data) for (data,) in world.rows(RECORD.format(version=version, more=more))]


STATEMENTS = [
    "INSERT INTO t VALUES (1, repeat('x', 9000), 'ok', 1.5), (2, NULL, 'sad', NULL)",
    "UPDATE t SET m = 'sad' WHERE id = 1",
    "UPDATE t SET id = 3 WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
    "INSERT INTO f VALUES (1, 'x')",
    "UPDATE f SET b = 'y'",
    "DELETE FROM f",
    "TRUNCATE t, f RESTART IDENTITY CASCADE",
    "SELECT pg_logical_emit_message(false, 'prefix', '')",
    "SELECT pg_logical_emit_message(true, 'prefix', 'content')",
]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_messages_of_the_server(recorded: World, version: int) -> None:
    recorded.run(*STATEMENTS)
    data = record(recorded, version)
    found = list(_decode_all(data))
    assert [encode(m) for m in found] == data  # nothing is lost in reading
    changes = [
        m for m in found if not isinstance(m, BeginMessage | CommitMessage | RelationMessage | TypeMessage)
    ]
    t, f = dict.fromkeys(m.oid for m in found if isinstance(m, RelationMessage))
    assert changes[:7] == [
        InsertMessage(t, (b"1", b"x" * 9000, b"ok", b"1.50")),
        InsertMessage(t, (b"2", None, b"sad", None)),
        UpdateMessage(t, (b"1", UNCHANGED, b"sad", b"1.50")),
        UpdateMessage(t, (b"3", None, b"sad", None), key=(b"2", None, None, None)),
        DeleteMessage(t, key=(b"3", None, None, None)),
        InsertMessage(f, (b"1", b"x")),
        UpdateMessage(f, (b"1", b"y"), old=(b"1", b"x")),
    ]
    assert changes[7] == DeleteMessage(f, old=(b"1", b"y"))
    assert changes[8] == TruncateMessage((t, f), True, True)
    assert [(m.transactional, m.prefix, m.content) for m in changes[9:] if isinstance(m, LogicalMessage)] == [
        (False, "prefix", b""),
        (True, "prefix", b"content"),
    ]
    relation = next(m for m in found if isinstance(m, RelationMessage))
    assert (relation.schema, relation.name, relation.replica_identity) == ("public", "t", "d")
    assert [c.key for c in relation.columns] == [True, False, False, False]
    assert {m.name for m in found if isinstance(m, TypeMessage)} == {"mood"}


def test_binary_values_of_the_server(recorded: World) -> None:
    recorded.run("INSERT INTO t VALUES (1, 'x', 'ok', NULL)")
    data = record(recorded, 2, binary="true")
    (insert,) = (m for m in _decode_all(data) if isinstance(m, InsertMessage))
    assert insert.new == (BinaryValue(struct.pack(">i", 1)), BinaryValue(b"x"), BinaryValue(b"ok"), None)


@pytest.mark.parametrize(("version", "streaming"), [(2, "on"), (3, "on"), (4, "on"), (4, "parallel")])
def test_streams_of_the_server(recorded: World, version: int, streaming: str) -> None:
    """Transactions larger than logical_decoding_work_mem, two of them at a time, and one that is rolled back."""
    if streaming == "parallel" and recorded.connect().info.server_version < 160_000:
        pytest.skip("PostgreSQL 16 brought it")
    one, two = recorded.application(), recorded.application()
    fill = "INSERT INTO f SELECT g, repeat('x', 100) FROM generate_series(1, 2000) g"
    for application in (one, two):
        application.execute("BEGIN")
        application.execute(fill)
    one.execute("SAVEPOINT s")
    one.execute(fill)
    one.execute("ROLLBACK TO s")
    one.execute("COMMIT")
    two.execute("ROLLBACK")
    recorded.run("INSERT INTO t VALUES (1)")  # its commit brings the end of the others to disk
    data = record(recorded, version, streaming=streaming)
    parallel = streaming == "parallel"
    found = list(_decode_all(data, parallel))
    assert [encode(m) for m in found] == data
    (commit,) = (m for m in found if isinstance(m, StreamCommit))
    assert all(m.xid is not None for m in _inside(found))
    aborted = {m.subxid for m in found if isinstance(m, StreamAbort)}
    kept = [m for m in _inside(found) if isinstance(m, InsertMessage) and m.xid not in aborted]
    assert len(kept) == 2000
    assert commit.xid in {m.xid for m in kept}
    assert all((m.abort_lsn is not None) == parallel for m in found if isinstance(m, StreamAbort))


def _decode_all(messages: Iterable[bytes], parallel: bool = False) -> Iterator[Message]:
    """Messages in the order of the log, which says where a stream starts and stops."""
    in_stream = False
    for data in messages:
        message = decode_message(data, in_stream, parallel)
        if isinstance(message, StreamStart | StreamStop):
            in_stream = isinstance(message, StreamStart)
        yield message


def _inside(found: list[Message]) -> Iterator[Any]:
    inside = False
    for message in found:
        if isinstance(message, StreamStart | StreamStop):
            inside = isinstance(message, StreamStart)
        elif inside:
            yield message


def test_origins_of_the_server(recorded: World) -> None:
    application = recorded.application()
    recorded.run("SELECT pg_replication_origin_create('elsewhere')")
    application.execute("SELECT pg_replication_origin_session_setup('elsewhere')")
    with application.transaction():
        application.execute("INSERT INTO f VALUES (1, 'x')")
        application.execute("SELECT pg_replication_origin_xact_setup('0/1234', now())")
    application.execute("SELECT pg_replication_origin_session_reset()")  # else it is in use for a while
    application.close()
    try:
        assert Origin(0x1234, "elsewhere") in list(_decode_all(record(recorded, 1)))
    finally:
        recorded.run("SELECT pg_replication_origin_drop('elsewhere')")

"""Rows of the log, read column by column and netted, against message by message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.errors import InternalError, WalDecodeError
from spark_trickle.sources.postgres.messages import (
    UNCHANGED,
    BinaryValue,
    DeleteMessage,
    InsertMessage,
    Tuple,
    UpdateMessage,
    Value,
)
from spark_trickle.sources.postgres.netting import NetRows, net_by_key, net_of_whole_rows
from spark_trickle.sources.postgres.pgoutput import decode_message
from spark_trickle.sources.postgres.tuples import ABSENT, DELETE, TEXT, Layout, Texts, locate_values
from spark_trickle.sources.postgres.tuples import UNCHANGED as UNCHANGED_KIND
from tests.postgres.encode import encode

Row = InsertMessage | UpdateMessage | DeleteMessage
_OID = 7


def _values(texts: Texts) -> list[Value]:
    found = texts.take(np.arange(len(texts.kinds))).to_pylist()
    return [UNCHANGED if k == UNCHANGED_KIND else t for t, k in zip(found, texts.kinds.tolist(), strict=True)]


# --- the values of messages ----------------------------------------------------------------------

TEXTS = st.one_of(st.none(), st.binary(max_size=6), st.just(b"N\0\x05t\0\0\0\x01"))


@st.composite
def messages(draw: st.DrawFn) -> tuple[int, list[Row]]:
    width = draw(st.integers(1, 5))
    old = st.tuples(*[TEXTS] * width)
    new = st.tuples(*[st.one_of(TEXTS, st.just(UNCHANGED))] * width)
    row = st.one_of(
        st.builds(InsertMessage, st.just(_OID), old),
        st.builds(UpdateMessage, st.just(_OID), new),
        st.builds(UpdateMessage, st.just(_OID), new, key=old),
        st.builds(UpdateMessage, st.just(_OID), new, old=old),
        st.builds(DeleteMessage, st.just(_OID), key=old),
        st.builds(DeleteMessage, st.just(_OID), old=old),
    )
    return width, draw(st.lists(row, max_size=8))


@given(messages(), st.integers(0, 8))
def test_values_are_found(drawn: tuple[int, list[Row]], cut: int) -> None:
    """Also when the columns come in another order from some message on."""
    width, rows = drawn
    every = tuple(range(width))
    turned = every[::-1]
    parts = [(Layout(width, every), rows[:cut]), (Layout(width, turned), rows[cut:])]
    found = locate_values(
        width, every, [(layout, [encode(m) for m in part]) for layout, part in parts if part]
    )
    expected = [(m, layout.columns) for layout, part in parts for m in part]
    assert len(found) == len(expected)
    for column, after in enumerate(found.after):
        news = [None if isinstance(m, DeleteMessage) else m.new[places[column]] for m, places in expected]
        assert _values(after) == news
        olds = [None if (o := _old(m)) is None else o[places[column]] for m, places in expected]
        assert _values(found.before[column]) == olds
        assert (found.before[column].kinds != ABSENT).tolist() == found.has_before.tolist()
    assert found.whole_before.tolist() == [
        not isinstance(m, InsertMessage) and m.old is not None for m, _ in expected
    ]


def _old(message: Row) -> Tuple | None:
    if isinstance(message, InsertMessage):
        return None
    return message.old if message.old is not None else message.key


INSERTED = encode(InsertMessage(_OID, (b"one", None, b"three")))
DELETED = encode(DeleteMessage(_OID, key=(b"one", None, None)))
BROKEN = [
    INSERTED[:-1],
    INSERTED + b"!",
    INSERTED[:6],
    INSERTED.replace(b"ent", b"ext", 1),
    INSERTED.replace(b"\0\0\0\3", b"\x7f\0\0\3", 1),
    INSERTED.replace(b"\0\0\0\3", b"\xff\xff\xff\xff", 1),
    INSERTED.replace(b"N", b"K", 1),
    DELETED.replace(b"K", b"N", 1),
    encode(InsertMessage(_OID, (b"only", b"two"))),
    encode(InsertMessage(_OID, (BinaryValue(b"1"), None, None))),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.hex())
@pytest.mark.parametrize("place", [0, 1, 2])
def test_broken_messages_are_refused(broken: bytes, place: int) -> None:
    whole = [INSERTED, INSERTED]
    whole.insert(place, broken)
    with pytest.raises(WalDecodeError):
        locate_values(3, (0,), [(Layout(3, (0, 1, 2)), whole)])


@given(st.binary(max_size=30), st.integers(0, 2))
def test_random_bytes_are_refused_or_read_as_one_by_one(tail: bytes, place: int) -> None:
    whole = [INSERTED, INSERTED]
    whole.insert(place, INSERTED[:9] + tail)
    try:
        found = locate_values(3, (0,), [(Layout(3, (0, 1, 2)), whole)])
    except WalDecodeError:
        return
    message = decode_message(whole[place])
    assert isinstance(message, InsertMessage)
    assert tuple(_values(texts)[place] for texts in found.after) == message.new


# --- what is left of them ------------------------------------------------------------------------


@dataclass
class Model:
    """A table with a key and two values, kept row by row, and what a mirror of it would have to do."""

    removed: list[bytes] = field(default_factory=list)
    current: dict[bytes, tuple[Value, Value, bytes | None]] = field(default_factory=dict)

    def apply(self, message: Row) -> None:
        if not isinstance(message, InsertMessage):
            key = self.key_before(message)
            old = self.current.pop(key, None)
            if old is None:
                self.removed.append(key)
                old = (UNCHANGED, UNCHANGED, key)
        if isinstance(message, InsertMessage):
            self.current[_bytes(message.new[0])] = (message.new[1], message.new[2], None)
        elif isinstance(message, UpdateMessage):
            filled = [b if v is UNCHANGED else v for v, b in zip(message.new[1:], old[:2], strict=True)]
            root = old[2] if UNCHANGED in filled else None
            self.current[_bytes(message.new[0])] = (filled[0], filled[1], root)

    def key_before(self, message: UpdateMessage | DeleteMessage) -> bytes:
        if message.key is not None:
            return _bytes(message.key[0])
        assert isinstance(message, UpdateMessage)
        return _bytes(message.new[0])


def _bytes(value: Value) -> bytes:
    assert isinstance(value, bytes)
    return value


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    """What a server could log of a table with the keys 0 to 2 at the start."""
    keys = {b"0", b"1", b"2"}
    rows: list[Row] = []
    value = st.one_of(st.none(), st.sampled_from([b"x", b"y"]), st.just(UNCHANGED))
    for n in range(draw(st.integers(0, 12))):
        free = sorted({b"%d" % k for k in range(5)} - keys)
        action = draw(st.sampled_from(["insert"] * bool(free) + ["update", "move", "delete"] * bool(keys)))
        key = draw(st.sampled_from(free if action == "insert" else sorted(keys)))
        if action == "insert":
            rows.append(InsertMessage(_OID, (key, b"new %d" % n, None)))
            keys.add(key)
        elif action == "delete":
            rows.append(DeleteMessage(_OID, key=(key, None, None)))
            keys.remove(key)
        else:
            to = draw(st.sampled_from([key, *free])) if action == "move" else key
            old = (key, None, None) if action == "move" else None
            rows.append(UpdateMessage(_OID, (to, draw(value), draw(value)), key=old))
            keys = keys - {key} | {to}
    return rows


def _tuples(net: NetRows) -> Iterator[tuple[Value, ...]]:
    yield from zip(*(c.to_pylist() for c in net.columns), strict=True)
    places = zip(*(c.to_pylist() for c in net.partial.columns), strict=True)
    for values, gaps in zip(places, net.partial.unchanged, strict=True):
        yield tuple(UNCHANGED if n in gaps else v for n, v in enumerate(values))


@given(histories())
def test_what_is_left_of_a_key(rows: list[Row]) -> None:
    model = Model()
    for message in rows:
        model.apply(message)
    parts = [(Layout(3, (0, 1, 2)), [encode(m) for m in rows])] if rows else []
    net = net_by_key(locate_values(3, (0,), parts), (0,))
    assert sorted(k for (k,) in net.removed) == sorted(model.removed)
    assert {r[0]: r[1:] for r in _tuples(net)} == {k: v[:2] for k, v in model.current.items()}
    roots = dict(zip(net.partial.columns[0].to_pylist(), net.partial.old_keys, strict=True))
    assert roots == {k: (v[2],) for k, v in model.current.items() if v[2] is not None}


def test_whole_old_rows() -> None:
    rows = [
        InsertMessage(_OID, (b"a", None)),
        UpdateMessage(_OID, (b"b", UNCHANGED), old=(b"a", b"large")),
        DeleteMessage(_OID, old=(b"c", b"")),
    ]
    found = locate_values(2, (0, 1), [(Layout(2, (0, 1)), [encode(m) for m in rows])])
    assert [t.take(np.flatnonzero(found.actions != DELETE)).to_pylist() for t in found.after] == [
        [b"a", b"b"],
        [None, None],
    ]
    net = net_of_whole_rows(found)
    assert net.inserted == 2
    assert [c.to_pylist() for c in net.columns] == [[b"a", b"b", b"a", b"c"], [None, b"large", b"large", b""]]
    assert (found.after[1].kinds[1], len(net.removed)) == (TEXT, 0)


def test_a_key_where_whole_rows_are_expected() -> None:
    found = locate_values(1, (0,), [(Layout(1, (0,)), [encode(DeleteMessage(_OID, key=(b"1",)))])])
    with pytest.raises(InternalError):
        net_of_whole_rows(found)

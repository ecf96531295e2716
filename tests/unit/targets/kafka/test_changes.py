"""A net change becomes one change of each key, and the records of a topic become the rows that they tell."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.model.source import Site
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import Scalar
from spark_trickle.sources.kafka.offsets import Offsets
from spark_trickle.sources.kafka.records import Record
from spark_trickle.targets.kafka.changes import KeyChange, pair_images, read_changes
from spark_trickle.targets.kafka.drift import note_ends
from spark_trickle.targets.kafka.envelope import Provenance, choose_hearer, choose_teller
from spark_trickle.targets.kafka.held import hold_rows
from spark_trickle.targets.kafka.images import ImageWriter, RowImage
from spark_trickle.targets.kafka.options import TopicFormat
from spark_trickle.targets.kafka.state import TopicState
from spark_trickle.targets.kafka.transaction import Delivered

COLUMNS = [TableColumn(2, "k", Scalar("integer")), TableColumn(3, "v", Scalar("string"))]
TABLE = Table(1, "main", "t", tuple(COLUMNS), (), False, "t/", 4, 1)
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
PROVENANCE = Provenance("w", TABLE, 7, AT.isoformat(), AT)


class Few:
    """A change at the driver."""

    def __init__(self, *rows: tuple[int | None, str | None, int]) -> None:
        k, v, w = zip(*rows, strict=True) if rows else ((), (), ())
        self.few = pa.table(
            {"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.string()), WEIGHT: pa.array(w, pa.int32())}
        )


def changes(key: tuple[str, ...], *rows: tuple[int | None, str | None, int]) -> list[KeyChange]:
    return list(read_changes(Few(*rows), ImageWriter(COLUMNS, key), key))  # type: ignore[arg-type]


def test_a_row_that_goes_and_one_that_comes_are_an_update() -> None:
    found = changes(("k",), (1, "new", 1), (3, "x", 1), (None, "n", -1), (1, "old", -1), (None, None, 1))
    assert found == [
        ('{"k":1}', '{"k":1,"v":"old"}', '{"k":1,"v":"new"}'),
        ('{"k":3}', None, '{"k":3,"v":"x"}'),
        ('{"k":null}', '{"k":null,"v":"n"}', '{"k":null,"v":null}'),
    ]


def test_without_a_key_rows_come_and_go() -> None:
    found = changes((), (1, "a", -1), (2, "b", 1), (2, "b", 1))
    image = '{"k":2,"v":"b"}'
    assert found == [('{"k":1,"v":"a"}', '{"k":1,"v":"a"}', None), (image, None, image), (image, None, image)]


@given(
    st.dictionaries(
        st.integers(0, 9), st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, "a", "c"]))
    )
)
def test_pairs_are_complete(wanted: dict[int, tuple[str | None, str | None]]) -> None:
    """However they were sorted into files: what goes and what comes is in the changes, once."""
    weighted = [
        (RowImage(str(k), row), weight)
        for k, pair in wanted.items()
        for row, weight in zip(pair, (-1, 1), strict=True)
        if row is not None
    ]
    found = list(pair_images(weighted))
    assert {c.key: (c.before, c.after) for c in found} == {
        str(k): pair for k, pair in wanted.items() if pair != (None, None)
    }


# --- records ----------------------------------------------------------------------------------------


def tell(format: TopicFormat, change: KeyChange, tombstones: bool = True) -> list[tuple[bytes, bytes | None]]:
    return list(choose_teller(format, PROVENANCE, "c", tombstones)(change))


def test_envelopes() -> None:
    key, old, new = '{"k":1}', '{"k":1,"v":"a"}', '{"k":1,"v":"b"}'
    ((_, value),) = tell(TopicFormat.DEBEZIUM, KeyChange(key, old, new))
    told = json.loads(value or b"")
    assert (told["op"], told["before"], told["after"]) == ("u", json.loads(old), json.loads(new))
    assert told["ts_ms"] == told["source"]["ts_ms"] == 1769860800000
    assert told["source"]["snapshot_id"] == 7
    deleted = tell(TopicFormat.DEBEZIUM, KeyChange(key, old, None))
    assert [v is None for _, v in deleted] == [False, True]
    assert json.loads(deleted[0][1] or b"")["op"] == "d"
    assert len(tell(TopicFormat.DEBEZIUM, KeyChange(key, old, None), tombstones=False)) == 1
    assert tell(TopicFormat.UPSERT, KeyChange(key, old, new)) == [(key.encode(), new.encode())]
    assert tell(TopicFormat.UPSERT, KeyChange(key, old, None)) == [(key.encode(), None)]


ROW = st.tuples(st.integers(0, 5), st.sampled_from(["a", "ü", '"', ""]))
BAGS = st.lists(ROW, max_size=12)


def write_rows(rows: list[tuple[int, str]], by_key: bool) -> list[RowImage]:
    chosen = list(dict(rows).items()) if by_key else rows
    table = pa.table(
        {
            "k": pa.array([k for k, _ in chosen], pa.int32()),
            "v": [v for _, v in chosen] or pa.array([], pa.string()),
        }
    )
    return list(ImageWriter(COLUMNS, ("k",) if by_key else ()).write_rows(table))


@pytest.mark.parametrize("format", TopicFormat)
@settings(deadline=None)  # SQLite opens a file
@given(BAGS, BAGS)
def test_a_topic_becomes_what_is_wanted(
    format: TopicFormat, there: list[tuple[int, str]], wanted: list[tuple[int, str]]
) -> None:
    """What was told, and then the difference, comes to what is wanted; told again, there is none."""
    for by_key in (True, False) if format is TopicFormat.DEBEZIUM else (True,):
        images = write_rows(wanted, by_key)
        told = [KeyChange(i.key, None, i.row) for i in write_rows(there, by_key)]
        more = find_difference(format, told, images, by_key)
        assert find_difference(format, told + more, images, by_key) == []


def find_difference(
    format: TopicFormat, told: list[KeyChange], wanted: list[RowImage], by_key: bool
) -> list[KeyChange]:
    messages = [m for change in told for m in tell(format, change)]
    with hold_rows(choose_hearer(format), by_key) as held:
        for offset, (key, value) in enumerate(messages):
            held.note(Record(0, offset, 0, key, value))
        return list(held.compare(wanted))


def test_records_of_others() -> None:
    key = b'{"k":1}'
    wanted = RowImage(key.decode(), '{"k":1,"v":"a"}')
    with hold_rows(choose_hearer(TopicFormat.DEBEZIUM), by_key=True) as held:
        for offset, (k, value) in enumerate([(key, b"broken"), (b"\xff", b"{}"), (None, b"x")]):
            held.note(Record(0, offset, 0, k, value))
        first, *rest = held.compare([wanted])
    assert first == (wanted.key, None, wanted.row)
    assert {m.key for c in rest for m in choose_teller(TopicFormat.UPSERT, PROVENANCE, "r", True)(c)} == {
        b"",
        b"\xff",
    }


def test_the_later_record_of_a_key_counts_whatever_its_partition() -> None:
    with hold_rows(choose_hearer(TopicFormat.UPSERT), by_key=True) as held:
        for partition, time, value in [(1, 20, b'{"v":2}'), (0, 10, b'{"v":1}'), (1, 15, b'{"v":3}')]:
            held.note(Record(partition, 0, time, b"k", value))
        assert list(held.list_all()) == [("k", '{"v":3}', None)]


# --- how far it is ----------------------------------------------------------------------------------


def test_a_state_reads_back() -> None:
    state = TopicState(
        "w", 3, "main.t", "host", "/x", TopicFormat.UPSERT, ("k",), (("k", "INT"),), "id", {0: 4, 11: 0}
    )
    moved = state.move(7, AT.isoformat(), 5, 2)
    assert TopicState.from_bytes(moved.to_bytes()) == moved
    assert (moved.rows, moved.inserted, moved.deleted, moved.site) == (3, 5, 2, Site("host", "/x"))


def test_offsets_that_are_not_ours_are_noticed() -> None:
    state = TopicState("w", 3, "main.t", "host", "/x", TopicFormat.UPSERT)
    before = Offsets("id", {0: 10, 1: 5})
    done = Delivered()
    for offset in (10, 11):
        done.note(0, offset)
    noted = note_ends(state, before, done)
    assert (noted.topic, noted.ends, noted.disturbed) == ("id", {0: 13, 1: 5}, False)
    done.note(0, 13)
    assert note_ends(state, before, done).disturbed

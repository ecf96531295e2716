"""Topics of a real broker: each record is read once, whatever happens; Python knows what it wrote."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.errors import SourceUnavailableError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.connectors.broker import PASSWORD, Broker
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of
from tests.e2e.pages import ROOT, find_need, reader_in

SCHEMA = "id BIGINT, name STRING"
TOTALS = "SELECT name, count(*) AS n, sum(id) AS total FROM clicks GROUP BY name"
Record = tuple[Any, ...]


def to_json(*records: Record) -> list[str]:
    return [json.dumps({"id": id, "name": name}) for id, name in records]


def attach(tr: Trickle, broker: Broker, **options: str) -> None:
    tr.attach_source("bus", "kafka", servers=broker.servers, **options)


def follow(tr: Trickle, topic: str, **options: str) -> None:
    given = ", ".join(f"{k} '{v}'" for k, v in {"schema": SCHEMA, **options}.items())
    tr.sql(f"CREATE TABLE clicks FROM SOURCE bus.{topic} OPTIONS ({given})")


def held(tr: Trickle, columns: str = "id, name") -> Counter[Record]:
    return Counter(tuple(r) for r in tr.sql(f"SELECT {columns} FROM clicks").collect())


def rejects(tr: Trickle, columns: str) -> list[Record]:
    return [
        tuple(r) for r in tr.sql(f"SELECT {columns} FROM clicks_rejects ORDER BY partition, offset").collect()
    ]


def status(tr: Trickle) -> dict[str, Any]:
    return next(r for r in tr.answer("source_status").dicts() if r["mirror"] == "main.clicks")


def pending(tr: Trickle) -> int | None:
    found: int | None = status(tr)["pending_rows"]
    return found


@pytest.mark.shows("kafka", "inserted rows")
def test_records_are_read_once(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    broker.write(topic, to_json((1, "x"), (2, None)))
    broker.write(topic, to_json((2, None)), partition=1, key="k")
    attach(tr, broker)
    follow(tr, topic)
    assert held(tr) == Counter([(1, "x"), (2, None), (2, None)])
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    broker.write(topic, to_json((3, "x")), partition=1)
    report = tr.sync("bus")
    assert (report.tables, report.problems, report.waiting) == ({"main.clicks": (1, 0)}, {}, {})
    places = held(tr, "_partition, _offset, _key, id")
    assert places == Counter([(0, 0, None, 1), (0, 1, None, 2), (1, 0, "k", 2), (1, 1, None, 3)])
    assert tr.refresh("totals").action.value == "DIFFERENTIAL"
    assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))
    before = tr.snapshot
    assert tr.sync("bus").tables == {}
    assert tr.snapshot == before


# --- what is exactly once ---------------------------------------------------------------------------


def test_aborted_records_are_not_read(tr: Trickle, broker: Broker, topic: str) -> None:
    """Also where a batch ends between records that were aborted."""
    broker.create(topic)
    broker.write(topic, to_json((1, "plain")))
    broker.write_transaction(topic, to_json((2, "kept"), (3, "kept")), commit=True)
    broker.write_transaction(topic, to_json(*((n, "gone") for n in range(9))), commit=False)
    broker.write_transaction(topic, to_json((4, "kept")), commit=True)
    broker.write_transaction(topic, to_json((5, "gone")), commit=False)
    attach(tr, broker, max_records="2")
    follow(tr, topic)
    while tr.sync("bus").waiting:
        pass
    assert held(tr) == Counter([(1, "plain"), (2, "kept"), (3, "kept"), (4, "kept")])
    assert pending(tr) == 0


def test_open_transactions_wait(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    attach(tr, broker)
    follow(tr, topic)
    with broker.open_transaction(topic, to_json((1, "later"))) as transaction:
        broker.write(topic, to_json((2, "behind")))
        assert tr.sync("bus").tables == {}
        assert pending(tr) == 0
        transaction.commit_transaction(60)
    assert tr.sync("bus").tables == {"main.clicks": (2, 0)}
    assert held(tr) == Counter([(1, "later"), (2, "behind")])


def test_a_batch_has_a_limit(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic, 3)
    for partition, number in enumerate((2, 10, 30)):
        broker.write(topic, to_json(*((n, "x") for n in range(number))), partition)
    attach(tr, broker, max_records="10")
    follow(tr, topic)
    assert (sum(held(tr).values()), pending(tr)) == (10, 32)
    seen = []
    while (report := tr.sync("bus")).tables:
        seen.append((report.rows_inserted, report.waiting.get("main.clicks", 0)))
    assert seen == [(10, 22), (10, 12), (10, 2), (2, 0)]
    assert len(held(tr, "_partition, _offset")) == 42
    assert pending(tr) == 0


KILLS = ["half_data", "after_data", "before_commit", "after_landing", "after_commit"]


@pytest.mark.parametrize("point", KILLS)
@pytest.mark.parametrize("format", ["json", "debezium"])
@pytest.mark.shows("kafka", "a process killed at every step of a sync")
def test_a_process_killed_in_the_middle_of_a_sync(
    tr: Trickle, broker: Broker, topic: str, tmp_path: Path, point: str, format: str
) -> None:
    broker.create(topic, 2)
    attach(tr, broker, format=format)
    table = Rows(broker, topic) if format == "debezium" else None
    if table is not None:
        table.put(1, "x", 0)
    follow(tr, topic)
    for number in range(2):
        if table is not None:
            table.put(1, f"over {number}", 0)
            table.put(10 + number, "new", 1)
        else:
            broker.write(topic, [*to_json((number, "x"), (number, "x")), "broken"], number)
        environment = {**address_of(tr.spark), "SPARK_TRICKLE_CRASH_POINT": point}
        with start(environment) as child:
            output = finish(child, Job(str(tmp_path / "warehouse"), None, ("SYNC SOURCE bus",)))
        assert child.returncode == -signal.SIGKILL, output
        tr.sync("bus")
        if table is not None:
            assert held(tr) == table.rows
        else:
            assert held(tr) == Counter((n, "x") for n in range(number + 1) for _ in range(2))
            assert tr.table("clicks_rejects").count() == number + 1


@pytest.mark.shows("kafka", "two processes at once")
def test_two_that_sync_at_once_read_each_record_once(
    tr: Trickle, broker: Broker, topic: str, tmp_path: Path
) -> None:
    broker.create(topic)
    attach(tr, broker)
    follow(tr, topic)
    with spark_trickle.connect(tmp_path / "warehouse") as other, ThreadPoolExecutor(2) as pool:
        for number in range(3):
            broker.write(topic, to_json(*((n, "x") for n in range(20))))
            for done in [pool.submit(c.sync, "bus") for c in (tr, other)]:
                done.result()
            assert len(held(tr, "_offset")) == sum(held(tr).values()) == 20 * (number + 1)


# --- what cannot be read ----------------------------------------------------------------------------


@pytest.mark.shows(
    "kafka", "what cannot be read is set aside with the reason", "written by the official writers"
)
def test_bad_records_do_not_stop_the_rest(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    bad = [b'{"id": "four"}', b"{", b"\xff", b"17"]
    broker.write(topic, [*to_json((1, "x")), *bad, *to_json((2, "y"))], key=b"k")
    broker.write(topic, to_json((3, "z")), key=b"\xff")
    attach(tr, broker)
    follow(tr, topic)
    assert held(tr) == Counter([(1, "x"), (2, "y")])
    broker.write(topic, ["later"])
    assert tr.sync("bus").rejected == {"main.clicks": 1}
    found = rejects(tr, "offset, key, value, reason")[:-1]
    assert [(r[0], bytes(r[1]), bytes(r[2])) for r in found] == [
        *((n + 1, b"k", value) for n, value in enumerate(bad)),
        (6, b"\xff", to_json((3, "z"))[0].encode()),
    ]
    assert [r[3] for r in found] == [
        '"id" is "four", which is no BIGINT',
        "it is not JSON: Expecting property name enclosed in double quotes at character 2",
        "it is not text in UTF-8",
        "the value is not an object with fields",
        "the key is not text in UTF-8",
    ]
    health = {r["check"]: r for r in tr.answer("check_cdc_health").dicts()}
    assert (health["rejects"]["value"], health["rejects"]["ok"]) == ("6 rejects", False)


@pytest.mark.shows("kafka", "nested types, decimals, timestamps with and without time zone")
def test_columns_of_every_type(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    record = {
        "a": [{"x": 1, "y": ["p", None]}, None],
        "d": "12345678901234567890.5",
        "t": "2026-01-31T12:00:00.5Z",
        "day": "2026-01-31",
        "b": "aGk=",
        "ok": True,
        "f": 0.1,
    }
    schema = (
        "a ARRAY<STRUCT<x: BIGINT, y: ARRAY<STRING>>>, d DECIMAL(38, 10), t TIMESTAMP, day DATE, b BINARY,"
        " ok BOOLEAN, f DOUBLE"
    )
    broker.write(topic, [json.dumps(record)])
    attach(tr, broker)
    follow(tr, topic, schema=schema)
    broker.write(topic, [json.dumps(record), "{}"])
    tr.sync("bus")
    shown = "a[0].x, a[0].y, size(a), CAST(d AS STRING), unix_micros(t), CAST(day AS STRING), CAST(b AS STRING), ok, f"
    found = sorted((tuple(r) for r in tr.sql(f"SELECT {shown} FROM clicks").collect()), key=repr)
    full = (
        1,
        ["p", None],
        2,
        "12345678901234567890.5000000000",
        1769860800500000,
        "2026-01-31",
        "hi",
        True,
        0.1,
    )
    assert found == [full, full, (None,) * 9]


def test_text_and_binary_keys(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, [(b"\xff", "a"), (None, "ü"), (b"k", None)])
    attach(tr, broker)
    tr.sql(f"CREATE TABLE clicks FROM SOURCE bus.{topic} OPTIONS (format 'text', key 'binary')")
    assert held(tr, "value, hex(_key)") == Counter([("a", "FF"), ("ü", None), (None, "6B")])


def test_what_is_refused(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    attach(tr, broker)
    start = f"CREATE TABLE clicks FROM SOURCE bus.{topic}"
    refused = {
        f"{start}": "nothing tells which columns",
        f"{start} OPTIONS (schema 'id BIGINT', colour 'x')": 'no option "colour"',
        f"{start} OPTIONS (schema 'id BIGINT', epoch 'days')": '"days" is not a value for the option "epoch"',
        f"{start} OPTIONS (schema 'id BIGINT', skip 'id')": "a choice of columns",
        f"{start} OPTIONS (schema 'id BIGINT', as_text 'id')": '"as_text"',
        f"{start} OPTIONS (schema 'id BIGINT', format 'avro')": "no schema registry",
        f"{start} OPTIONS (schema 'id INTERVAL DAY TO SECOND')": "INTERVAL",
        f"{start} OPTIONS (schema 'id BIGINT, _offset BIGINT')": "_offset",
        f"{start}x OPTIONS (schema 'id BIGINT')": f"{topic}x",
    }
    for statement, words in refused.items():
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in caught.value.message, statement
        assert caught.value.hint, statement
    follow(tr, topic)
    with pytest.raises(TrickleError, match="mirror"):
        tr.sql(f"CREATE TABLE again FROM SOURCE bus.{topic} OPTIONS (schema '{SCHEMA}')")


# --- what is lost -----------------------------------------------------------------------------------


@pytest.mark.shows("kafka", "history that is gone is noticed, never guessed")
def test_records_that_retention_deleted(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic, 2)
    broker.write(topic, to_json((0, "x"), (1, "x")))
    attach(tr, broker)
    follow(tr, topic)
    broker.write(topic, to_json((2, "gone"), (3, "gone"), (4, "there")))
    broker.write(topic, to_json((9, "other")), partition=1)
    broker.delete_records(topic, {0: 4})
    reason = "the offsets 2 to 3 of partition 0 were deleted before they were read"
    for _ in range(2):
        report = tr.sync("bus")
        assert (report.tables, report.problems) == ({}, {"main.clicks": reason})
        assert status(tr)["status"] == "RESYNC_NEEDED"
        assert (status(tr)["reason"], status(tr)["pending_rows"]) == (reason, None)
    assert held(tr) == Counter([(0, "x"), (1, "x")])
    tr.sql("RESYNC TABLE clicks")
    assert held(tr) == Counter([(0, "x"), (1, "x"), (4, "there"), (9, "other")])
    assert rejects(tr, "partition, offset, value, reason") == [(0, 2, None, reason)]
    assert (status(tr)["status"], pending(tr)) == ("ACTIVE", 0)
    broker.write(topic, to_json((5, "x")))
    assert tr.sync("bus").tables == {"main.clicks": (1, 0)}


def test_going_on_after_a_loss(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    attach(tr, broker, max_records="1")
    follow(tr, topic, on_loss="continue")
    broker.write(topic, to_json((1, "gone"), (2, "there"), (3, "there")))
    broker.delete_records(topic, {0: 1})
    assert tr.sync("bus").waiting == {"main.clicks": 1}
    tr.sync("bus")
    assert held(tr) == Counter([(2, "there"), (3, "there")])
    assert [r[0] for r in rejects(tr, "offset")] == [0]


def test_a_new_table_misses_nothing(tr: Trickle, broker: Broker, topic: str) -> None:
    """What retention deleted before anybody followed the topic is no loss."""
    broker.create(topic)
    broker.write(topic, to_json((1, "old"), (2, "x")))
    broker.delete_records(topic, {0: 1})
    attach(tr, broker)
    follow(tr, topic)
    assert held(tr) == Counter([(2, "x")])
    assert not tr.sync("bus").problems
    assert rejects(tr, "reason") == []


@pytest.mark.parametrize("later", [1, 5])
@pytest.mark.shows("kafka", "a table that was made again is noticed")
def test_a_topic_that_is_made_again(tr: Trickle, broker: Broker, topic: str, later: int) -> None:
    broker.create(topic)
    broker.write(topic, to_json((1, "old"), (2, "old")))
    attach(tr, broker)
    follow(tr, topic)
    broker.delete(topic)
    assert tr.sync("bus").problems == {"main.clicks": "it was dropped in the source"}
    broker.create(topic)
    broker.write(topic, to_json(*((n, "new") for n in range(later))))
    assert tr.sync("bus").problems == {"main.clicks": "the topic was deleted and created again"}
    tr.sql("RESYNC TABLE clicks")
    assert held(tr, "name") == Counter({("old",): 2, ("new",): later})
    assert rejects(tr, "reason") == [("the topic was deleted and created again",)]
    assert not tr.sync("bus").problems


def test_partitions_that_are_added(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    attach(tr, broker)
    follow(tr, topic)
    broker.write(topic, to_json((1, "x")))
    broker.add_partitions(topic, 3)
    broker.write(topic, to_json((2, "x")), partition=2)
    tr.sync("bus")
    assert held(tr, "id, _partition") == Counter([(1, 0), (2, 2)])


def test_a_compacted_topic(tr: Trickle, broker: Broker, topic: str) -> None:
    """Records that the cleaner took are gaps between offsets, not lost ones."""
    broker.create(
        topic,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.0",
        segment_bytes="200",
        segment_ms="100",
    )
    attach(tr, broker, max_records="7")
    follow(tr, topic)
    for n in range(60):
        broker.write(topic, [(f"k{n % 3}", to_json((n, "x"))[0])])
    broker.await_compaction(topic, fewer_than=30)
    there = broker.read_offsets(topic)
    while tr.sync("bus").waiting:
        pass
    found = {r[0] for r in held(tr, "_offset")}
    assert set(broker.read_offsets(topic)) <= found <= set(there)
    assert {57, 58, 59} <= found


# --- changes of Debezium ----------------------------------------------------------------------------


@dataclass
class Rows:
    """A table of another database, and what Debezium writes of it."""

    broker: Broker
    topic: str
    wrapped: bool = False
    content: dict[int, str | None] = field(default_factory=dict)

    def put(self, id: int, name: str | None, partition: int, op: str = "") -> None:
        before = {"id": id, "name": self.content[id]} if id in self.content else None
        op = op or ("u" if before else "c")
        self.content[id] = name
        self._send(id, {"before": before, "after": {"id": id, "name": name}, "op": op}, partition)

    def remove(self, id: int, partition: int) -> None:
        before = {"id": id, "name": self.content.pop(id)}
        self._send(id, {"before": before, "after": None, "op": "d"}, partition)
        self.broker.write(self.topic, [(self._key(id), None)], partition)

    def snapshot(self, partitions: int) -> None:
        """What a connector does that was started again without its offsets."""
        for id, name in self.content.items():
            self.put(id, name, id % partitions, "r")

    @property
    def rows(self) -> Counter[Record]:
        return Counter(self.content.items())

    def _key(self, id: int) -> str:
        return json.dumps(
            {"schema": {"type": "struct"}, "payload": {"id": id}} if self.wrapped else {"id": id}
        )

    def _send(self, id: int, payload: dict[str, Any], partition: int) -> None:
        given = {"schema": {"type": "struct"}, "payload": payload} if self.wrapped else payload
        self.broker.write(self.topic, [(self._key(id), json.dumps(given))], partition)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.shows("kafka", "updated and deleted rows")
def test_a_mirror_of_debezium(tr: Trickle, broker: Broker, topic: str, wrapped: bool) -> None:
    broker.create(topic, 2)
    table = Rows(broker, topic, wrapped)
    table.put(1, "a", 1)
    table.put(2, "b", 0)
    attach(tr, broker, format="debezium")
    follow(tr, topic)
    assert held(tr, "id, name, _key") == Counter([(1, "a", '{"id":1}'), (2, "b", '{"id":2}')])
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    table.put(1, "b", 1)
    table.put(1, "c", 1)
    table.put(3, None, 1)
    table.remove(2, 0)
    table.put(4, "short", 0)
    table.remove(4, 0)
    assert tr.sync("bus").tables == {"main.clicks": (2, 2)}
    assert held(tr) == table.rows
    assert tr.refresh("totals").action.value == "DIFFERENTIAL"
    assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))
    table.snapshot(2)
    tr.sync("bus")
    assert held(tr) == table.rows
    tr.sql("RESYNC TABLE clicks")
    assert held(tr) == table.rows


def test_what_a_mirror_of_debezium_cannot_follow(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    table = Rows(broker, topic)
    for id in range(5):
        table.put(id, "x", 0)
    attach(tr, broker, format="debezium")
    follow(tr, topic)
    for id in range(5):  # a compacted topic tells all of a table again
        table.put(id, "y", 0)
    broker.delete_records(topic, {0: 5})
    assert not tr.sync("bus").problems
    table.put(1, "lost", 0)
    table.put(1, "z", 0)
    broker.delete_records(topic, {0: 11})
    assert "were deleted before they were read" in tr.sync("bus").problems["main.clicks"]
    assert held(tr) == Counter((id, "y") for id in range(5))
    tr.sql("RESYNC TABLE clicks")
    assert held(tr) == Counter([(1, "z")])  # all that the topic tells now
    broker.add_partitions(topic, 2)
    assert "more partitions" in tr.sync("bus").problems["main.clicks"]
    table.put(1, "moved", 1)
    tr.sql("RESYNC TABLE clicks")
    assert held(tr) == Counter([(1, "moved")])
    broker.write(topic, [json.dumps({"op": "t", "before": None, "after": None})])
    assert "TRUNCATE" in tr.sync("bus").problems["main.clicks"]
    assert held(tr) == Counter([(1, "moved")])
    table.put(7, "later", 0)
    tr.sql("RESYNC TABLE clicks")
    assert held(tr) == Counter([(7, "later")])
    table.put(8, "more", 0)
    tr.sync("bus")
    assert held(tr) == Counter([(7, "later"), (8, "more")])


# --- brokers that go ---------------------------------------------------------------------------------


@pytest.mark.shows("kafka", "an outage in the middle")
def test_a_broker_that_cannot_be_reached(tr: Trickle, broker: Broker, topic: str) -> None:
    broker.create(topic)
    broker.write(topic, to_json((1, "x")))
    attach(tr, broker, timeout_seconds="2")
    follow(tr, topic)
    broker.write(topic, to_json((2, "x")))
    broker.stop(kill=True)
    with pytest.raises(SourceUnavailableError) as caught:
        tr.sync("bus")
    assert "cannot be reached" in caught.value.message
    assert "nothing was consumed" in caught.value.hint
    assert "cannot be reached" in status(tr)["last_error"]
    assert held(tr) == Counter([(1, "x")])
    broker.start()
    sync_patiently(tr)
    assert held(tr) == Counter([(1, "x"), (2, "x")])
    assert status(tr)["last_error"] == ""


def sync_patiently(tr: Trickle) -> Any:
    """A broker that was just started may not lead its partitions yet; the scheduler tries again too."""
    for _ in range(60):
        try:
            return tr.sync("bus")
        except SourceUnavailableError:
            continue
    raise AssertionError("the broker does not come back")


def test_a_server_that_is_none(tr: Trickle) -> None:
    with pytest.raises(SourceUnavailableError):
        tr.attach_source("bus", "kafka", servers="localhost:1", timeout_seconds="1")


def test_a_password(
    tr: Trickle, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broker.create(topic)
    broker.write(topic, to_json((1, "x")))
    given = {"security": "sasl_plaintext", "sasl_username": "trickle", "sasl_password": "env:BUS_PASSWORD"}
    servers = f"localhost:{broker.secured}"
    monkeypatch.setenv("BUS_PASSWORD", "wrong horse")
    with pytest.raises(SourceUnavailableError) as caught:
        tr.attach_source("bus", "kafka", servers=servers, timeout_seconds="3", **given)
    assert "wrong horse" not in str(caught.value)
    monkeypatch.setenv("BUS_PASSWORD", PASSWORD)
    tr.attach_source("bus", "kafka", servers=servers, **given)
    follow(tr, topic)
    assert held(tr) == Counter([(1, "x")])
    kept = [f.read_bytes() for f in (tmp_path / "warehouse").rglob("*") if f.is_file()]
    assert not any(PASSWORD.encode() in content for content in kept)
    assert any(b"BUS_PASSWORD" in content for content in kept)


# --- a random walk ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.shows("kafka", "a random walk over operations")
def test_a_random_walk(tr: Trickle, broker: Broker, topic: str, seed: int, tmp_path: Path) -> None:
    """Plain records and changes of one source, transactions, restarts, syncs and kills; exact at the end."""
    chance = random.Random(seed)
    changes = f"{topic}changes"
    broker.create(topic, 3)
    broker.create(changes, 2)
    table, plain, bad = Rows(broker, changes, wrapped=bool(seed % 2)), Counter[Record](), 0
    attach(tr, broker, max_records=str(chance.choice([3, 20, 100000])), timeout_seconds="5")
    follow(tr, topic)
    tr.sql(f"CREATE TABLE mirror FROM SOURCE bus.{changes} OPTIONS (schema '{SCHEMA}', format 'debezium')")
    tr.sql(
        "CREATE STREAM TABLE both AS SELECT c.name, count(*) AS n FROM clicks c JOIN mirror m"
        " ON c.id = m.id GROUP BY c.name"
    )
    for step in range(40):
        made = [(chance.randrange(9), chance.choice("abc")) for _ in range(chance.randrange(1, 9))]
        match chance.randrange(10):
            case 0 | 1:
                broker.write(topic, to_json(*made), chance.randrange(3))
                plain += Counter(made)
            case 2:
                commit = chance.random() < 0.5
                broker.write_transaction(topic, to_json(*made), commit, chance.randrange(3))
                plain += Counter(made) if commit else Counter()
            case 3:
                broker.write(topic, ["bad"], chance.randrange(3))
                bad += 1
            case 4 | 5 | 6:
                for id, name in made:
                    if id in table.content and chance.random() < 0.4:
                        table.remove(id, id % 2)
                    else:
                        table.put(id, name, id % 2)
            case 7:
                table.snapshot(2)
            case 8:
                sync_patiently(tr)
                tr.refresh("both")
            case 9 if step % 3 == 0:
                environment = {**address_of(tr.spark), "SPARK_TRICKLE_CRASH_POINT": chance.choice(KILLS)}
                with start(environment) as child:
                    finish(child, Job(str(tmp_path / "warehouse"), None, ("SYNC SOURCE bus",)))
    broker.stop(kill=chance.random() < 0.5)
    broker.start()
    while sync_patiently(tr).waiting:
        pass
    assert held(tr) == plain
    assert Counter(tuple(r) for r in tr.sql("SELECT id, name FROM mirror").collect()) == table.rows
    assert tr.table("clicks_rejects").count() == bad
    tr.refresh("both")
    expected = tr.sql(
        "SELECT c.name, count(*) AS n FROM clicks c JOIN mirror m ON c.id = m.id GROUP BY c.name"
    )
    assert rows(tr.table("both")) == rows(expected)


def test_the_page_of_the_guide(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = ROOT / "docs" / "guide" / "kafka.md"
    assert find_need(page)
    with reader_in(tmp_path, monkeypatch, {"broker.example.com:9092": broker.servers}) as someone:
        someone.read(page)

"""Stream tables told to topics: replayed by a plain consumer, the records are each published snapshot, exactly once."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import spark_trickle
from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    RepairNeededError,
    SeveralFailedError,
    SourceBusyError,
    TargetExistsError,
    TargetRefusedError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.session import Trickle
from spark_trickle.targets.kafka.table import TopicTarget
from tests.conftest import rows
from tests.connectors.broker import Broker
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of

QUERIES = {
    "totals": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region",
    "plain": "SELECT id, region, amount FROM orders",
    "bag": "SELECT region, amount FROM orders",
}
KEYS = {"totals": ("region",), "plain": ("id",), "bag": ()}


class Heard(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def listen(broker: Broker, topic: str, committed: bool = True) -> list[Heard]:
    """All records of a topic as any consumer gets them."""
    level = "read_committed" if committed else "read_uncommitted"
    config = {"bootstrap.servers": broker.servers, "group.id": "tests", "enable.partition.eof": True}
    consumer = Consumer({**config, "isolation.level": level, "fetch.wait.max.ms": 10, "log_level": 0})
    partitions = set(broker.admin.list_topics(timeout=10).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    found = []
    while partitions:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            partitions.discard(message.partition())
        else:
            found.append(Heard(message.partition(), message.offset(), message.key(), message.value()))
    consumer.close()
    return sorted(found)


def replay(records: list[Heard], key: tuple[str, ...]) -> Counter[str]:
    """The rows that the changes come to; each change must fit those before it."""
    content: Counter[str] = Counter()
    by_key: dict[bytes, str] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            assert record.key not in by_key
            continue
        told = json.loads(record.value)
        before, after = (told[n] and show(told[n]) for n in ("before", "after"))
        assert told["op"] in ("d" if after is None else "u" if before is not None else "cr"), told
        content[before] -= before is not None
        assert before is None or content[before] >= 0, f"{before} went before it came"
        content[after] += after is not None
        named = told["after"] or told["before"]
        assert json.loads(record.key) == {n: named[n] for n in key or named}
        if key:
            assert by_key.get(record.key) == before
            by_key.pop(record.key, None)
            if after is not None:
                by_key[record.key] = after
    del content[None]  # type: ignore[arg-type]
    if key:
        assert Counter(by_key.values()) == +content
    return +content


def show(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)


def held(tr: Trickle, name: str) -> Counter[str]:
    def plain(value: Any) -> Any:
        return f"{value:f}" if isinstance(value, Decimal) else value

    return Counter(show({n: plain(v) for n, v in row.asDict().items()}) for row in tr.table(name).collect())


class Bus:
    """A warehouse whose stream tables are told to topics of their names, with a suffix of the test."""

    def __init__(self, tr: Trickle, broker: Broker, suffix: str, **options: str) -> None:
        self.tr, self.broker, self.suffix = tr, broker, suffix
        tr.sql("CREATE TABLE orders (id INT PRIMARY KEY, region STRING, amount DECIMAL(12, 2))")
        tr.sql(
            "INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'b', 20), (4, NULL, NULL), (5, 'a', 1)"
        )
        for name, query in QUERIES.items():
            tr.sql(f"CREATE STREAM TABLE {name} AS {query}")
        tr.attach_source("bus", "kafka", servers=broker.servers, **options)

    def topic(self, name: str) -> str:
        return f"{self.suffix}.{name}"

    def publish(self, *names: str, options: str = "") -> None:
        for name in names or QUERIES:
            self.tr.sql(f"PUBLISH STREAM TABLE {name} TO SOURCE bus AS {self.topic(name)} {options}")

    def records(self, name: str) -> list[Heard]:
        return listen(self.broker, self.topic(name))

    def check(self, *names: str) -> None:
        for name in names or QUERIES:
            assert replay(self.records(name), KEYS[name]) == held(self.tr, name), name
            assert self.status(name)["problem"] == ""
            assert self.status(name)["rows"] == self.tr.table(name).count()

    def status(self, name: str) -> dict[str, Any]:
        found = self.tr.answer("published_status").dicts()
        return next(r for r in found if r["stream_table"] == f"main.{name}")


@pytest.fixture
def bus(tr: Trickle, broker: Broker, topic: str) -> Bus:
    return Bus(tr, broker, topic)


CHANGES = {
    "insert": "INSERT INTO orders VALUES (6, 'c', 1), (7, 'c', 1)",
    "update": "UPDATE orders SET amount = amount + 1 WHERE id = 1",
    "move to another key": "UPDATE orders SET region = 'ü\"\\n' WHERE id = 2",
    "delete one of two equal rows": "DELETE FROM orders WHERE id = 6",
    "delete a row of nulls": "DELETE FROM orders WHERE id = 4",
    "many": "MERGE INTO orders USING (SELECT id, concat('r', id % 7) AS region, id AS amount FROM range(10, 3000)) s"
    " ON orders.id = s.id WHEN MATCHED THEN UPDATE SET amount = orders.amount + 1 WHEN NOT MATCHED THEN INSERT *",
    "delete everything": "DELETE FROM orders",
}


@pytest.mark.shows("kafka", "each refresh once, in one commit")
def test_changes_follow(bus: Bus) -> None:
    bus.publish()
    bus.check()
    for statement in [*CHANGES.values(), CHANGES["insert"]]:
        bus.tr.sql(statement)
        bus.tr.refresh_all()
        bus.check()


@pytest.mark.shows("kafka", "old and new image of each row")
def test_what_records_say(bus: Bus) -> None:
    """One record for an update, with both images; the first fill is read, and a tombstone ends a key."""
    bus.publish("plain")
    filled = [json.loads(r.value or b"") for r in bus.records("plain")]
    assert {t["op"] for t in filled} == {"r"}
    assert {t["source"]["snapshot"] for t in filled} == {"true"}
    assert len(filled) == 5
    bus.tr.sql("UPDATE orders SET amount = 7 WHERE id = 1")
    report = bus.tr.refresh("plain")
    bus.tr.sql("DELETE FROM orders WHERE id = 1")
    bus.tr.refresh("plain")
    changed, deleted, tombstone = [r for r in bus.records("plain") if r.key == b'{"id":1}'][1:]
    old, new = {"id": 1, "region": "a", "amount": "10.00"}, {"id": 1, "region": "a", "amount": "7.00"}
    told = json.loads(changed.value or b"")
    assert (told["before"], told["after"], told["op"]) == (old, new, "u")
    assert {n: told["source"][n] for n in ("connector", "snapshot", "schema", "table", "snapshot_id")} == {
        "connector": "spark-trickle",
        "snapshot": "false",
        "schema": "main",
        "table": "plain",
        "snapshot_id": report.snapshot,
    }
    assert json.loads(deleted.value or b"")["op"] == "d"
    assert tombstone.value is None
    assert bus.tr.push("bus") == bus.tr.push("bus")
    assert len(bus.records("plain")) == 8  # no change, no record


def test_upserts(bus: Bus) -> None:
    """The new row alone, and a record without a value for one that goes: the topic may be compacted."""
    bus.publish("plain", "totals", options="OPTIONS (format 'upsert', partitions '3')")
    for statement in ("SELECT 1", *CHANGES.values(), CHANGES["insert"]):
        bus.tr.sql(statement)
        bus.tr.refresh_all()
        for name in ("plain", "totals"):
            found = {r.key: r.value for r in bus.records(name)}
            assert Counter(show(json.loads(v)) for v in found.values() if v) == held(bus.tr, name)
    assert {r.partition for r in bus.records("plain")} == {0, 1, 2}
    bus.tr.sql("PUBLISH STREAM TABLE plain REPAIR")
    with pytest.raises(UnsupportedError, match="no key"):
        bus.publish("bag", options="OPTIONS (format 'upsert')")


def test_java_finds_the_same_partitions(bus: Bus) -> None:
    """What murmur2 gives for keys, as the clients in Java compute it."""
    bus.publish("plain", options="OPTIONS (partitions '5')")
    found = {r.key: r.partition for r in bus.records("plain")}
    assert found == {key: (murmur2(key) & 0x7FFFFFFF) % 5 for key in found if key}


def murmur2(data: bytes) -> int:
    """From org.apache.kafka.common.utils.Utils."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    for i in range(0, len(data) // 4 * 4, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    rest = data[len(data) // 4 * 4 :]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


TYPED = (
    "id INT PRIMARY KEY, d DATE, m DECIMAL(38, 10), at TIMESTAMP, local TIMESTAMP_NTZ, f DOUBLE, g FLOAT, b BINARY,"
    " tags ARRAY<STRUCT<k: STRING, v: ARRAY<BIGINT>>>, s STRUCT<x: TINYINT, at: TIMESTAMP>, ok BOOLEAN, v STRING"
)
VALUES = """
    (1, DATE'2024-02-29', 12345678901234567890.0123456789, TIMESTAMP'2024-05-01 12:30:15.123456Z',
     TIMESTAMP_NTZ'0001-01-01 00:00:00', -0.0D, float('0.1'), X'00FF',
     array(named_struct('k', 'a"', 'v', array(9223372036854775807, NULL)), NULL),
     named_struct('x', 1Y, 'at', TIMESTAMP'9999-12-31 23:59:59.999999Z'), true, 'ü\\u0000\\n'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (3, DATE'0001-01-01', -0.0000000001, TIMESTAMP'1969-12-31 23:59:59.999999Z', NULL, double('NaN'),
     float('-Infinity'), X'', array(), named_struct('x', CAST(NULL AS TINYINT), 'at', CAST(NULL AS TIMESTAMP)),
     false, '')
"""


@pytest.mark.parametrize("rows_at_driver", [10, 100_000])
def test_our_own_source_reads_the_same(tr: Trickle, broker: Broker, topic: str, rows_at_driver: int) -> None:
    """Values of every type, through the topic and back into a mirror."""
    tr.sql(f"SET trickle.max_driver_rows = {rows_at_driver}")
    tr.sql(f"CREATE TABLE typed ({TYPED})")
    tr.sql(f"INSERT INTO typed VALUES {VALUES}")
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM typed")
    tr.attach_source("bus", "kafka", servers=broker.servers)
    tr.sql(f"PUBLISH STREAM TABLE kept TO SOURCE bus AS {topic}")
    columns = ", ".join(TYPED.replace(" PRIMARY KEY", "").split("\n"))
    tr.sql(f"CREATE TABLE back FROM SOURCE bus.{topic} OPTIONS (schema '{columns}', format 'debezium')")
    names = [c.name for c in tr.table("kept").schema]

    def check() -> None:
        assert repr(rows(tr.table("back").select(*names))) == repr(rows(tr.table("kept")))

    check()
    tr.sql(
        "INSERT INTO typed SELECT id + 10, d, m, at, local, f, g, b, tags, s, ok, v FROM typed, range(20) r(x) WHERE x = 0"
    )
    tr.sql(
        "INSERT INTO typed SELECT 100 + x, d, m + x, at, local, f, g, b, tags, s, ok, v FROM typed, range(50) r(x) WHERE id = 1"
    )
    tr.sql("UPDATE typed SET f = double('Infinity'), v = 'x' WHERE id IN (1, 12, 105)")
    tr.sql("DELETE FROM typed WHERE id = 3")
    tr.refresh("kept")
    tr.sync("bus")
    check()
    tr.sql("INSERT INTO typed (id, d) VALUES (500, DATE'10000-01-01')")
    with pytest.raises(TrickleError, match="beyond the years 1 to 9999"):
        tr.refresh("kept")
    tr.sql("DELETE FROM typed WHERE id = 500")
    tr.refresh_all()
    tr.sync("bus")
    check()


def test_what_is_refused(bus: Bus) -> None:
    tr, broker = bus.tr, bus.broker
    broker.create(f"{bus.suffix}theirs")
    broker.write(f"{bus.suffix}theirs", ["x"])
    broker.create(bus.topic("plain"), 2)  # empty: that is ours to fill
    tr.sql("CREATE STREAM TABLE spans AS SELECT make_dt_interval(id) AS i FROM orders")
    bus.publish("plain")
    refused = {
        f"PUBLISH STREAM TABLE bag TO SOURCE bus AS {bus.suffix}theirs": "did not write",
        f"PUBLISH STREAM TABLE bag TO SOURCE bus AS {bus.topic('plain')}": "spark-trickle keeps the stream table",
        "PUBLISH STREAM TABLE bag TO SOURCE bus AS `a b`": "no name of a topic",
        "PUBLISH STREAM TABLE spans TO SOURCE bus": "INTERVAL",
        "PUBLISH STREAM TABLE bag TO SOURCE bus OPTIONS (format 'avro')": '"avro" is not a value',
        "PUBLISH STREAM TABLE bag TO SOURCE bus OPTIONS (partitions 'two')": '"two" is not a value',
        "PUBLISH STREAM TABLE bag TO SOURCE bus OPTIONS (transaction_seconds '100000')": "longer than the brokers",
        "PUBLISH STREAM TABLE bag TO SOURCE bus OPTIONS (replication '3')": "replication",
    }
    for statement, words in refused.items():
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in caught.value.message, statement
        assert caught.value.hint, statement
    with pytest.raises(TargetExistsError):
        tr.publish("bag", "bus", f"{bus.suffix}theirs")
    bus.check("plain")


def test_a_record_that_is_too_long(bus: Bus) -> None:
    bus.broker.create(bus.topic("plain"), max_message_bytes="1000")
    bus.publish("plain")
    bus.tr.sql(
        "INSERT INTO orders SELECT 8, concat_ws('', transform(sequence(1, 60), i -> sha2(string(i), 256))), 1"
    )
    with pytest.raises(TargetRefusedError, match="too large"):
        bus.tr.refresh("plain")
    assert "too large" in bus.status("plain")["problem"]
    bus.tr.sql("DELETE FROM orders WHERE id = 8")
    bus.tr.refresh("plain")
    bus.check("plain")


# --- exactly once -----------------------------------------------------------------------------------


POINTS = ["before_target_commit", "after_target_commit"]


def kill(bus: Bus, tmp_path: Path, point: str, statement: str) -> None:
    environment = {**address_of(bus.tr.spark), "SPARK_TRICKLE_CRASH_POINT": point}
    with start(environment) as child:
        output = finish(child, Job(str(tmp_path / "warehouse"), None, (statement,)))
    assert child.returncode == -signal.SIGKILL, output


def stop_before_the_fill(monkeypatch: pytest.MonkeyPatch, bus: Bus) -> None:
    def stop(*_: Any) -> Any:
        raise SourceBusyError("stopped")

    monkeypatch.setattr("spark_trickle.targets.push._push_changes", stop)
    with pytest.raises(SourceBusyError):
        bus.publish("plain")
    monkeypatch.undo()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("step", ["the topic is made", "the first fill", "a change"])
@pytest.mark.shows("kafka", "a process killed while it publishes")
def test_a_killed_process_neither_loses_nor_doubles(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, step: str
) -> None:
    """What the dead process left open ends when the next one begins."""
    bus.publish("bag")
    match step:
        case "the topic is made":
            kill(bus, tmp_path, point, f"PUBLISH STREAM TABLE plain TO SOURCE bus AS {bus.topic('plain')}")
            bus.publish("plain")
        case "the first fill":
            stop_before_the_fill(monkeypatch, bus)
            kill(bus, tmp_path, point, "SYNC SOURCE bus")
        case "a change":
            bus.publish("plain")
            bus.tr.sql(CHANGES["update"])
            kill(bus, tmp_path, point, "REFRESH STREAM TABLE plain")
    bus.tr.sql(CHANGES["insert"])
    bus.tr.refresh("bag")  # another topic is not held up
    bus.check("bag")
    bus.tr.refresh("plain")
    bus.check("plain")
    ops = Counter(json.loads(r.value or b"")["op"] for r in bus.records("plain"))
    assert (ops["r"] + ops["c"], ops["u"]) == (7, int(step == "a change"))


class Overtaken:
    """A push that another one overtakes at some point."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str, other: Any) -> None:
        real = getattr(owner, name)

        def overtake(*arguments: Any, **named: Any) -> Any:
            monkeypatch.setattr(owner, name, real)
            other()
            return real(*arguments, **named)

        monkeypatch.setattr(owner, name, overtake)


@pytest.mark.parametrize("moment", ["before it begins", "before it reads the state", "before it writes"])
def test_a_push_that_another_one_overtakes(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """One that was believed dead is fenced: it writes nothing, and the next push finds nothing to do."""
    bus.publish("plain")
    bus.tr.sql(CHANGES["insert"])
    bus.tr.sql(CHANGES["update"])

    def overtake() -> None:
        with spark_trickle.connect(tmp_path / "warehouse") as other:
            other.push("bus")

    owner, name = {
        "before it begins": (TopicTarget, "apply"),
        "before it reads the state": (TopicTarget, "_require_state"),
        "before it writes": (TopicTarget, "_write"),
    }[moment]
    Overtaken(monkeypatch, owner, name, overtake)
    if moment == "before it writes":
        with pytest.raises(SourceBusyError, match="another process began"):
            bus.tr.refresh("plain")
    else:
        bus.tr.refresh("plain")
    bus.tr.push("bus")
    bus.check("plain")
    ops = Counter(json.loads(r.value or b"{}")["op"] for r in bus.records("plain"))
    assert ops == {"r": 5, "c": 2, "u": 1}


@pytest.mark.shows("kafka", "two processes that publish at once")
def test_two_that_push_at_once(bus: Bus, tmp_path: Path) -> None:
    bus.publish()

    with spark_trickle.connect(tmp_path / "warehouse") as other, ThreadPoolExecutor(2) as pool:
        for statement in ("insert", "update", "move to another key"):
            bus.tr.sql(CHANGES[statement])
            for name in QUERIES:
                bus.tr.refresh(name)
            for done in [pool.submit(push_patiently, tr) for tr in (bus.tr, other)]:
                done.result()
    bus.check()


def test_who_only_looks_stops_nobody(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.publish("plain")
    bus.tr.sql(CHANGES["update"])

    def look() -> None:
        assert bus.status("plain")["problem"] == ""
        bus.tr.answer("check_cdc_health")

    Overtaken(monkeypatch, TopicTarget, "_write", look)
    bus.tr.refresh("plain")
    bus.check("plain")


def test_a_broker_that_goes(tr: Trickle, broker: Broker, topic: str) -> None:
    bus = Bus(tr, broker, topic, timeout_seconds="3")
    bus.publish()
    bus.tr.sql(CHANGES["insert"])
    bus.broker.stop(kill=True)
    with pytest.raises(TrickleError):
        bus.tr.refresh_all()
    assert "cannot be reached" in bus.status("plain")["problem"]
    bus.broker.start()
    push_patiently(bus.tr)
    bus.check()


def push_patiently(tr: Trickle) -> None:
    """Whoever is fenced tries again, as the scheduler does, and so does it while a broker starts."""
    for _ in range(100):
        try:
            tr.push("bus")
            return
        except TrickleError as error:
            if not (error.retryable or isinstance(error, SeveralFailedError)):
                raise
    raise AssertionError("it never comes to its turn")


# --- what others do ---------------------------------------------------------------------------------


def test_many_rows_go_through_the_executors(bus: Bus) -> None:
    """More than one file of Spark's, each key's rows beside each other."""
    bus.tr.sql("SET trickle.max_driver_rows = 10")
    bus.publish(options="OPTIONS (partitions '3')")
    for statement in ("many", "insert", "delete one of two equal rows", "many", "delete everything"):
        bus.tr.sql(CHANGES[statement])
        bus.tr.refresh_all()
        bus.check()
    ops = Counter(json.loads(r.value)["op"] for r in bus.records("plain") if r.value)
    assert ops["u"] > 2000


@pytest.mark.parametrize("name", ["plain", "bag"])
@pytest.mark.shows("kafka", "changes by others are noticed", "repaired by comparison")
def test_other_writers_are_noticed_and_mended(bus: Bus, name: str) -> None:
    bus.publish(name)
    if name == "plain":
        gone = {"id": 1, "region": "a", "amount": "10.00"}
        others = [
            (b'{"id":1}', json.dumps({"before": gone, "after": None, "op": "d"})),
            (b'{"id":77}', json.dumps({"before": None, "after": {"id": 77}, "op": "c"})),
            (b'{"id":2}', "broken"),
            (b"\xff", "broken"),
            (None, "broken"),
        ]
    else:
        row = {"region": "b", "amount": "20.00"}
        others = [(b"k", json.dumps({"before": row, "after": None, "op": "d"})), (b"k", "broken")]
    bus.broker.write(bus.topic(name), others)
    assert "another writer" in bus.status(name)["problem"]
    bus.tr.sql(CHANGES["insert"])
    with pytest.raises(RepairNeededError, match="another writer"):
        bus.tr.refresh(name)
    bus.tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")
    assert bus.status(name)["problem"] == ""
    found = replay_loosely(bus.records(name), KEYS[name])
    assert found == held(bus.tr, name)
    bus.tr.sql(CHANGES["update"])
    bus.tr.refresh(name)
    assert replay_loosely(bus.records(name), KEYS[name]) == held(bus.tr, name)
    assert bus.status(name)["problem"] == ""


def replay_loosely(records: list[Heard], key: tuple[str, ...]) -> Counter[str]:
    """What someone comes to who takes what can be read."""
    content: Counter[str] = Counter()
    by_key: dict[bytes | None, str] = {}
    for record in records:
        if record.value is None:
            by_key.pop(record.key, None)
        if not record.value or record.value == b"broken":
            continue
        told = json.loads(record.value)
        for image, weight in ((told["before"], -1), (told["after"], 1)):
            if image is not None:
                content[show(image)] += weight
        by_key.pop(record.key, None)
        if told["after"] is not None:
            by_key[record.key] = show(told["after"])
    return Counter(by_key.values()) if key else +content


@pytest.mark.parametrize("what", ["topic", "made again", "ledger", "both"])
def test_topics_that_are_deleted(bus: Bus, what: str) -> None:
    bus.publish()
    for name in QUERIES:
        if what != "ledger":
            bus.broker.delete(bus.topic(name))
        if what == "made again":
            bus.broker.create(bus.topic(name), 2)
        if what in ("ledger", "both"):
            bus.broker.delete(f"_trickle_published.{bus.topic(name)}")
    bus.tr.sql(CHANGES["insert"])
    with pytest.raises(TrickleError, match="must be repaired"):
        bus.tr.refresh_all()
    words = {
        "topic": "is gone",
        "made again": "created again",
        "ledger": "ledger is gone",
        "both": "ledger is gone",
    }
    assert words[what] in bus.status("plain")["problem"]
    for name in QUERIES:
        bus.tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")
    bus.check()
    if what == "ledger":
        ops = Counter(json.loads(r.value or b"")["op"] for r in bus.records("plain"))
        assert ops == {"r": 7}  # only what was missing
    bus.tr.sql(CHANGES["update"])
    bus.tr.refresh_all()
    bus.check()


def test_partitions_that_are_added(bus: Bus) -> None:
    bus.publish("plain")
    bus.broker.add_partitions(bus.topic("plain"), 3)
    bus.tr.sql(CHANGES["insert"])
    with pytest.raises(RepairNeededError, match="more partitions"):
        bus.tr.refresh("plain")
    bus.tr.sql("PUBLISH STREAM TABLE plain REPAIR")
    bus.tr.sql("UPDATE orders SET amount = 0")
    bus.tr.refresh("plain")
    assert bus.status("plain")["problem"] == ""
    assert {r.partition for r in bus.records("plain")} > {0}
    bus.tr.sql("PUBLISH STREAM TABLE plain REPAIR")  # the later record of a key counts
    assert held(bus.tr, "plain") == Counter(
        {key: n for key, n in replay_loosely(bus.records("plain"), ()).items() if n > 0}
    )


def test_repair_of_what_is_whole_writes_nothing(bus: Bus) -> None:
    bus.publish()
    bus.tr.sql(CHANGES["update"])
    bus.tr.refresh_all()
    before = {name: bus.records(name) for name in QUERIES}
    for name in QUERIES:
        bus.tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")
    assert {name: bus.records(name) for name in QUERIES} == before


def test_unpublish_and_publish_again(bus: Bus) -> None:
    tr = bus.tr
    bus.publish()
    for name in QUERIES:
        tr.sql(f"UNPUBLISH STREAM TABLE {name}")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    with pytest.raises(TargetExistsError, match="spark-trickle keeps"):
        tr.publish("bag", "bus", bus.topic("plain"))
    with pytest.raises(InvalidDefinitionError, match="format"):
        bus.publish("plain", options="OPTIONS (format 'upsert')")
    bus.publish()
    bus.check()
    assert len(bus.records("plain")) == 6  # the update, and not the rest once more
    for name in QUERIES:
        tr.sql(f"UNPUBLISH STREAM TABLE {name} DROP TABLE")
    topics = bus.broker.admin.list_topics(timeout=10).topics
    assert not [t for t in topics if bus.suffix in t]
    with pytest.raises(NotPublishedError):
        tr.unpublish("plain")
    tr.publish("plain", "bus", bus.topic("plain"), format="upsert", tombstones="false")
    assert len(bus.records("plain")) == 5
    tr.sql("UNPUBLISH STREAM TABLE plain DROP TABLE")
    tr.sql("DETACH SOURCE bus")


def test_without_tombstones(bus: Bus) -> None:
    bus.publish("plain", options="OPTIONS (tombstones 'false')")
    bus.tr.sql("DELETE FROM orders WHERE id < 3")
    bus.tr.refresh("plain")
    assert all(r.value for r in bus.records("plain"))
    bus.check("plain")


@pytest.mark.shows("kafka", "wider types are followed")
def test_a_wider_type_is_followed(tr: Trickle, broker: Broker, topic: str) -> None:
    """Where the type of a key is another one, its text may be: then old keys go and new ones come."""
    bus = Bus(tr, broker, topic)
    tr.sql("CREATE STREAM TABLE sums AS SELECT amount, count(*) AS n FROM orders GROUP BY amount")
    bus.publish("sums", "plain", "bag")
    tr.sql("SET trickle.block_source_ddl = false")
    tr.sql("ALTER TABLE orders ALTER COLUMN amount TYPE DECIMAL(16, 4)")
    tr.sql("INSERT INTO orders VALUES (20, 'x', 1.2345)")
    tr.refresh_all()
    tr.sql("UPDATE orders SET amount = amount * 2 WHERE id < 4")
    tr.refresh_all()
    tr.push("bus")
    for name in ("sums", "bag"):
        assert replay_loosely(bus.records(name), ("n",) if name == "sums" else ()) == held(tr, name), name
        assert bus.status(name)["problem"] == ""
    tr.sql("PUBLISH STREAM TABLE plain REPAIR")
    assert replay_loosely(bus.records("plain"), ("id",)) == held(tr, "plain")


def test_a_copy_of_the_warehouse_does_not_write(bus: Bus, tmp_path: Path) -> None:
    bus.publish()
    bus.tr.close()
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    with spark_trickle.connect(tmp_path / "copy") as copy:
        copy.sql(CHANGES["insert"])
        with pytest.raises(TrickleError, match="is written by the copy of this warehouse"):
            copy.refresh_all()
        copy.push("bus", take_over=True)
        bus.tr = copy
        bus.check()
    with spark_trickle.connect(tmp_path / "warehouse") as original:
        original.sql(CHANGES["update"])
        with pytest.raises(TrickleError, match="is written by the copy of this warehouse"):
            original.refresh_all()


def test_a_warehouse_that_is_restored(bus: Bus, tmp_path: Path) -> None:
    """The topic goes back to what the warehouse holds now, by as few records as that takes."""
    bus.publish()
    bus.tr.close()
    shutil.copytree(tmp_path / "warehouse", tmp_path / "saved")
    with spark_trickle.connect(tmp_path / "warehouse") as tr:
        tr.sql(CHANGES["insert"])
        tr.sql(CHANGES["update"])
        tr.refresh_all()
    shutil.rmtree(tmp_path / "warehouse")
    shutil.copytree(tmp_path / "saved", tmp_path / "warehouse")
    with spark_trickle.connect(tmp_path / "warehouse") as tr:
        bus.tr = tr
        tr.push("bus")
        bus.check()
        tr.sql("INSERT INTO orders VALUES (30, 'other', 3)")
        tr.refresh_all()
        bus.check()


# --- a random walk ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.shows("kafka", "a random walk over published tables")
def test_a_walk(tr: Trickle, broker: Broker, topic: str, tmp_path: Path, seed: int) -> None:
    """Changes, pushes, kills, repairs, restarts: at each snapshot that is published, the records are the rows."""
    chance = random.Random(seed)
    tr.sql(f"SET trickle.max_driver_rows = {chance.choice([5, 100_000])}")
    bus = Bus(tr, broker, topic)
    bus.publish(options=f"OPTIONS (partitions '{chance.randrange(1, 4)}')")
    small = [s for name, s in CHANGES.items() if not name.startswith("many")]
    for step in range(30):
        name = chance.choice(list(QUERIES))
        match chance.randrange(12):
            case 0 | 1 | 2:
                id, region, amount = chance.randrange(30), chance.choice("abc"), chance.randrange(3)
                tr.sql(
                    f"MERGE INTO orders USING (SELECT {id} AS id, '{region}' AS region, {amount} AS amount) s"
                    " ON orders.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            case 3:
                tr.sql(chance.choice(small[1:]))
            case 4 | 5 | 6:
                refresh_patiently(tr, name)
                bus.check(name)
            case 7:
                tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")
            case 8:
                tr.sql(f"UNPUBLISH STREAM TABLE {name}")
                bus.publish(name)
            case 9 if step % 2:
                environment = {**address_of(tr.spark), "SPARK_TRICKLE_CRASH_POINT": chance.choice(POINTS)}
                with start(environment) as child:
                    finish(child, Job(str(tmp_path / "warehouse"), None, (f"REFRESH STREAM TABLE {name}",)))
            case 10 if step % 3 == 0:
                broker.stop(kill=chance.random() < 0.5)
                broker.start()
                push_patiently(tr)
            case 11:
                tr.sql("VACUUM RETAIN 0 HOURS")
    for name in QUERIES:
        refresh_patiently(tr, name)
    push_patiently(tr)
    bus.check()


def refresh_patiently(tr: Trickle, name: str) -> None:
    """After its brokers were restarted a topic may refuse for a moment; the refresh itself is committed."""
    try:
        tr.refresh(name)
    except TrickleError as error:
        if not error.retryable:
            raise
        push_patiently(tr)

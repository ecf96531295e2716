"""Stream tables told to topics: replayed by a plain consumer, the records are each published snapshot, exactly once."""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

import spark_trickle
from spark_trickle.errors import (
    InvalidDefinitionError,
    NotPublishedError,
    RepairNeededError,
    SourceBusyError,
    SourceUnavailableError,
    TargetExistsError,
    TargetRefusedError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.session import Trickle
from spark_trickle.targets.kafka.ledger import LEDGER, TopicLedger
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
        tr.attach_source("bus", "kafka", servers=broker.servers, timeout_seconds="15", **options)

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


def test_changes_follow(bus: Bus) -> None:
    bus.publish()
    bus.check()
    for statement in [*CHANGES.values(), CHANGES["insert"]]:
        bus.tr.sql(statement)
        bus.tr.refresh_all()
        bus.check()


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

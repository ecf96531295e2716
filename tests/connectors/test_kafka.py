"""Topics of a real broker: each record is read once, whatever happens; Python knows what it wrote."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.connectors.broker import JARS, Broker

pytestmark = pytest.mark.slow

SCHEMA = "id BIGINT, name STRING"
TOTALS = "SELECT name, count(*) AS n, sum(id) AS total FROM clicks GROUP BY name"
Record = tuple[Any, ...]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if not any(JARS.glob("kafka_*.jar")):
        pytest.skip("the broker is not installed: run make test-connectors")
    made = Broker.format(tmp_path_factory.mktemp("kafka"))
    made.start()
    yield made
    if made.process is not None:
        made.stop()


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


@pytest.fixture
def topic(broker: Broker) -> str:
    """The name of a topic that is not there yet."""
    return f"topic{next(_numbers)}"


def to_json(*records: Record) -> list[str]:
    return [json.dumps({"id": id, "name": name}) for id, name in records]


def attach(tr: Trickle, broker: Broker, **options: str) -> None:
    tr.attach_source("bus", "kafka", servers=broker.servers, **options)


def follow(tr: Trickle, topic: str, **options: str) -> None:
    given = ", ".join(f"{k} '{v}'" for k, v in {"schema": SCHEMA, **options}.items())
    tr.sql(f"CREATE TABLE clicks FROM SOURCE bus.{topic} OPTIONS ({given})")


def held(tr: Trickle, columns: str = "id, name") -> Counter[Record]:
    return Counter(tuple(r) for r in tr.sql(f"SELECT {columns} FROM clicks").collect())


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

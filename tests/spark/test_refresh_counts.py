"""What a small refresh may ask for: files and rows that Spark reads, calls to the JVM, statements to the catalog.

The numbers are those of today with a little room. Whoever needs more has made a refresh slower and should
know why; whoever needs much less should lower them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import event

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle


@dataclass(frozen=True)
class Spent:
    """Files and rows that scans of Parquet gave, calls to the JVM, and statements to the catalog."""

    files: int
    rows: int
    calls: int
    statements: int

    def within(self, most: Spent) -> bool:
        return all(vars(self)[name] <= limit for name, limit in vars(most).items())


_FILES, _ROWS = "number of files read", "number of output rows"  # as Spark calls them
QUERIES = {
    "scan": "SELECT * FROM o",
    "filtered": "SELECT id, a * 2 AS b FROM o WHERE a > 10",
    "summed": "SELECT c, sum(a) AS s, count(*) AS n FROM o GROUP BY c",
    "joined": "SELECT o.id, o.a, k.name FROM o JOIN k ON o.c = k.c",
    "unseen": "SELECT o.id, k.name FROM o JOIN k ON o.c = k.c",
    "joined_and_summed": "SELECT k.name, sum(o.a) AS s FROM o JOIN k ON o.c = k.c GROUP BY k.name",
    "in_both": "SELECT c, a FROM o WHERE id < 4000 INTERSECT SELECT c, a FROM o WHERE id > 1000",
    "in_one": "SELECT c, a FROM o WHERE id < 4000 EXCEPT SELECT c, a FROM o WHERE id > 1000",
    "ranked": "SELECT id, c, row_number() OVER (PARTITION BY c ORDER BY a, id) AS n FROM o WHERE c < 10",
}
# After ten changed rows of a table of five thousand.
MOST = {
    "scan": Spent(0, 0, 0, 36),
    "filtered": Spent(0, 0, 0, 36),
    "summed": Spent(0, 0, 0, 46),
    "joined": Spent(0, 0, 0, 38),
    "unseen": Spent(0, 0, 0, 24),
    "joined_and_summed": Spent(0, 0, 0, 48),
    "in_both": Spent(0, 0, 0, 60),
    "in_one": Spent(0, 0, 0, 60),
    "ranked": Spent(2, 7_500, 295, 38),  # two for what its rows take, so that a job need not measure them
}
NOTHING_NEW = Spent(0, 0, 0, 8)


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("counts") / "warehouse") as made:
        made.sql("CREATE TABLE o (id BIGINT, c INT, a DECIMAL(10, 2), PRIMARY KEY (id))")
        made.sql("CREATE TABLE k (c INT, name STRING, PRIMARY KEY (c))")
        made.sql("INSERT INTO o SELECT id, id % 20, id FROM range(5000)")
        made.sql("INSERT INTO k SELECT id, concat('n', id) FROM range(20)")
        for name, query in QUERIES.items():
            made.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        yield made


def test_a_small_refresh_asks_for_little(tr: Trickle) -> None:
    for step in range(2):  # the first round makes views that the second one finds
        tr.sql(f"UPDATE o SET a = a + 1 WHERE id BETWEEN {step * 100} AND {step * 100 + 9}")
        found = {name: spent(tr, name, Action.DIFFERENTIAL) for name in QUERIES}
    assert {name: took for name, took in found.items() if not took.within(MOST[name])} == {}


def test_nothing_new_asks_only_the_catalog(tr: Trickle) -> None:
    for name in QUERIES:
        tr.refresh(name)
        took = spent(tr, name, Action.NO_DATA)
        assert took.within(NOTHING_NEW), (name, took)


def spent(tr: Trickle, name: str, expected: Action) -> Spent:
    before = len(_executions(tr))
    with _counted_calls(tr) as calls, _counted_statements(tr) as statements:
        report = tr.refresh(name)
    assert report.action is expected
    scanned = _scanned(tr, before)
    return Spent(scanned[_FILES], scanned[_ROWS], calls["n"], statements["n"])


@contextmanager
def _counted_calls(tr: Trickle) -> Iterator[Counter[str]]:
    """Every request of this process to the JVM, but for notes that an object is no longer needed."""
    counted: Counter[str] = Counter()
    client = tr.spark.sparkContext._gateway._gateway_client
    send = client.send_command

    def counting(command: str, *args: Any, **kwargs: Any) -> Any:
        if not command.startswith("m\n"):
            counted["n"] += 1
        return send(command, *args, **kwargs)

    client.send_command = counting
    try:
        yield counted
    finally:
        del client.send_command


@contextmanager
def _counted_statements(tr: Trickle) -> Iterator[Counter[str]]:
    counted: Counter[str] = Counter()
    engine = tr._connection.place.warehouse.engine

    def count(*_: Any) -> None:
        counted["n"] += 1

    event.listen(engine, "before_cursor_execute", count)
    try:
        yield counted
    finally:
        event.remove(engine, "before_cursor_execute", count)


def _executions(tr: Trickle) -> list[Any]:
    """What Spark knows of the queries that ran, once it has written everything down."""
    context = tr.spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    found = tr.spark._jsparkSession.sharedState().statusStore().executionsList()
    return [found.apply(n) for n in range(found.size())]


def _scanned(tr: Trickle, before: int) -> Counter[str]:
    """The sums of some metrics over all scans of Parquet of the queries since."""
    store = tr.spark._jsparkSession.sharedState().statusStore()
    total: Counter[str] = Counter()
    for execution in _executions(tr)[before:]:
        values = store.executionMetrics(execution.executionId())
        nodes = store.planGraph(execution.executionId()).allNodes()
        for node in (nodes.apply(n) for n in range(nodes.size())):
            if not node.name().startswith("Scan parquet"):
                continue
            metrics = node.metrics()
            for metric in (metrics.apply(n) for n in range(metrics.size())):
                value = values.get(metric.accumulatorId())
                if metric.name() in (_FILES, _ROWS) and value.isDefined():
                    total[metric.name()] += int(value.get().replace(",", ""))
    return total

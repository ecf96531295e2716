"""A small change that meets a table too large for the driver fetches the rows it needs, and stays exact."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

QUERIES = {
    "by_number": "SELECT o.id, o.a, k.name FROM o JOIN k ON o.k = k.id WHERE k.name <> 'n7'",
    "by_text": "SELECT o.id, m.size FROM o JOIN m ON o.t = m.t AND m.size > o.a",
    "chain": "SELECT m.size, sum(o.a) AS s, count(*) AS n FROM o, k, m "
    "WHERE o.k = k.id AND k.name = m.t AND o.a < 90 GROUP BY m.size",
    "kept": "SELECT o.id, k.name FROM o LEFT JOIN k ON o.k = k.id",
    "there": "SELECT id, a FROM o WHERE EXISTS (SELECT 1 FROM k WHERE k.id = o.k)",
    "missing": "SELECT id, a FROM o WHERE NOT EXISTS (SELECT 1 FROM k WHERE k.id = o.k)",
    "best": "SELECT k, max(a) AS m, min(t) AS l FROM o GROUP BY k",
}


@pytest.fixture(scope="module", params=[0, 16], ids=["by jobs", "in memory"])
def tr(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Trickle]:
    """Few rows fit at the driver, so that all three tables are large; changes are smaller still."""
    settings = {"max_driver_rows": 40, "index_megabytes": request.param}
    with connect(tmp_path_factory.mktemp("lookups") / "warehouse", settings=settings) as made:
        made.sql("CREATE TABLE o (id BIGINT, k BIGINT, t STRING, a INT, PRIMARY KEY (id))")
        made.sql("CREATE TABLE k (id BIGINT, name STRING, PRIMARY KEY (id))")
        made.sql("CREATE TABLE m (t STRING, size INT)")
        made.sql(
            "INSERT INTO o SELECT id, IF(id % 11 = 0, NULL, id % 90), concat('n', id % 50), id % 100 FROM range(400)"
        )
        made.sql("INSERT INTO k SELECT id, concat('n', id % 50) FROM range(80)")
        made.sql("INSERT INTO m SELECT concat('n', id % 60), id % 5 FROM range(120)")
        for name, query in QUERIES.items():
            made.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        yield made


@pytest.mark.slow
def test_random_changes(tr: Trickle) -> None:
    chance = random.Random(11)
    here = 0
    for step in range(4):
        with tr.transaction():
            for table in chance.sample(("o", "k", "m"), 1 + step % 3):
                for statement in _statements(chance, table):
                    tr.sql(statement)
        for name in QUERIES:
            here += "spark" not in tr.refresh(name).phases
    for name in QUERIES:
        assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], name
    assert here >= 10  # most needed no plan of Spark's, only rows


@pytest.mark.one_in(2)
def test_rows_that_are_in_memory_need_no_job(tr: Trickle) -> None:
    """Changes of both sides of a join with large tables, after the first looks at them."""
    jobs = []
    for step in range(3):
        tr.sql(f"UPDATE o SET a = a + 1 WHERE id IN (3, {step})")
        tr.sql(f"UPDATE k SET name = concat('n', id % 7) WHERE id IN (4, {step})")
        megabytes = tr._connection.place.settings.index_megabytes
        context, group = tr.spark.sparkContext, f"lookups-{step}-{megabytes}"
        context.setJobGroup(group, "refresh")
        reports = [tr.refresh(name) for name in ("by_number", "kept", "missing", "chain")]
        jobs.append(len(context.statusTracker().getJobIdsForGroup(group)))
        assert {r.action for r in reports} <= {Action.DIFFERENTIAL, Action.NO_DATA}
    assert (jobs[-1] == 0) == (tr._connection.place.settings.index_megabytes > 0)


def _statements(chance: random.Random, table: str) -> list[str]:
    low = chance.randrange(60)
    if table == "o":
        return [
            f"UPDATE o SET k = {chance.choice(('NULL', '5', '70', '200'))}, a = a + 1 WHERE id BETWEEN {low} AND {low + 3}",
            f"DELETE FROM o WHERE id = {chance.randrange(400)}",
            f"INSERT INTO o SELECT max(id) + 1, {low}, 'n{low}', {low} FROM o",
        ]
    if table == "k":
        return [
            f"UPDATE k SET name = 'n{low}' WHERE id BETWEEN {low} AND {low + 2}",
            f"DELETE FROM k WHERE id = {chance.randrange(80)}",
        ]
    return [f"INSERT INTO m VALUES ('n{low}', {low % 5}), (NULL, 1)", f"DELETE FROM m WHERE t = 'n{low}'"]


def test_an_extremum_that_many_rows_have_is_not_sought_again(tmp_path: Path) -> None:
    """The first time that one of them goes they are counted; then they go one by one until none is left."""
    query = "SELECT o.id, l.most FROM o, LATERAL (SELECT max(a) AS most FROM o AS p WHERE p.odd = o.odd) AS l"
    with connect(tmp_path / "warehouse", settings={"max_driver_rows": 40, "index_megabytes": 0}) as tr:
        tr.sql("CREATE TABLE o (id BIGINT, odd BOOLEAN, a INT, b INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO o SELECT id, id % 2 = 1, id % 100, 0 FROM range(400)")
        tr.sql(f"CREATE STREAM TABLE top REFRESH MODE DIFFERENTIAL AS {query}")
        again, changed = [], []
        for step in range(4):
            tr.sql(f"DELETE FROM o WHERE id = {99 + 100 * step}")
            report = tr.refresh("top")
            again.append("read again" in report.reason)
            changed.append(report.rows_inserted + report.rows_deleted)
        assert again == [True, False, False, True]
        assert changed == [1, 1, 1, 1 + 2 * 196]
        assert tr.sql("SELECT * FROM trickle.audit('top')").collect() == []
        tr.sql("ALTER STREAM TABLE top SET REFRESH MODE FULL")
        tr.sql("DELETE FROM o WHERE id = 97")
        assert tr.refresh("top").action is Action.FULL  # which counts them as well
        tr.sql("ALTER STREAM TABLE top SET REFRESH MODE DIFFERENTIAL")
        tr.sql("DELETE FROM o WHERE id = 197")
        assert "read again" not in tr.refresh("top").reason
        tr.sql("UPDATE o SET b = 1 WHERE a = 97")
        tr.sql("UPDATE o SET a = 97 WHERE id = 0")
        report = tr.refresh("top")
        assert (report.rows_inserted, report.rows_deleted) == (0, 0)
        assert "spark" not in report.phases

"""What statements cost, counted in Spark jobs: a small change is a small job, nothing new is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spark_trickle.session import Trickle


@pytest.fixture
def jobs_of(tr_sqlite: Trickle) -> Callable[[str], int]:
    """Runs a statement and counts the Spark jobs it started."""
    context = tr_sqlite.spark.sparkContext
    numbers = iter(range(1000))

    def count(statement: str) -> int:
        group = f"costs-{id(tr_sqlite)}-{next(numbers)}"
        context.setJobGroup(group, statement)
        tr_sqlite.sql(statement)
        return len(context.statusTracker().getJobIdsForGroup(group))

    return count


COSTS = [
    ("INSERT INTO t VALUES (5000, 'x')", 1),  # a key beyond all files: the statistics answer
    ("INSERT INTO t VALUES (-1, 'y')", 1),
    ("UPDATE t SET name = 'z' WHERE id = 7", 1),
    ("UPDATE t SET name = 'z' WHERE id IN (8, 9)", 1),  # Spark sees that no earlier change meets these keys
    ("DELETE FROM t WHERE id = 10", 1),
    ("SELECT * FROM t WHERE id = 5", 0),  # a query runs when its rows are asked for
    ("SELECT count(*) FROM trickle.tables()", 0),
    ("SHOW TABLES", 0),
    ("DESCRIBE t", 0),
    ("CREATE TABLE u (a INT)", 0),
    ("ALTER TABLE t ADD COLUMN extra INT", 0),
    ("UPDATE t SET name = 'z' WHERE id = 7", 2),  # nothing changes, but the row must be looked at
    ("VACUUM RETAIN 0 HOURS", 0),
]


def test_jobs_per_statement(tr_sqlite: Trickle, jobs_of: Callable[[str], int]) -> None:
    tr_sqlite.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    tr_sqlite.append("t", tr_sqlite.spark.range(1000).selectExpr("id", "string(id) AS name"))
    found = [(statement, jobs_of(statement)) for statement, _ in COSTS]
    assert found == COSTS


def test_a_statement_without_effect_makes_no_snapshot(tr_sqlite: Trickle) -> None:
    tr_sqlite.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    tr_sqlite.sql("INSERT INTO t VALUES (1, 'a')")
    before = tr_sqlite.snapshot
    for statement in (
        "UPDATE t SET name = 'a' WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "INSERT INTO t SELECT * FROM t WHERE false",
        "CREATE TABLE IF NOT EXISTS t (x INT)",
        "DROP TABLE IF EXISTS nothing",
        "OPTIMIZE t",
    ):
        assert tr_sqlite.sql(statement).collect()[0].snapshot == before, statement
    assert tr_sqlite.snapshot == before

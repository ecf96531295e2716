"""Forms of statements that the reference shows, run for real."""

from __future__ import annotations

import pytest

from spark_trickle.session import Trickle
from tests.conftest import rows

ALL = "SELECT * FROM t"
FORMS = [
    (
        "WITH u AS (SELECT 1 AS id, 'x' AS n) UPDATE t SET n = u.n FROM u WHERE t.id = u.id",
        [(1, "x"), (2, "b")],
    ),
    ("DELETE FROM t USING VALUES (2) AS u(id) WHERE t.id = u.id", [(1, "a")]),
    ("INSERT INTO t BY NAME SELECT 'c' AS n, 3 AS id", [(1, "a"), (2, "b"), (3, "c")]),
    ("INSERT OVERWRITE t SELECT id + 10, n FROM t WHERE id = 1", [(11, "a")]),
    (
        "MERGE INTO t USING (SELECT 2 AS id, 'x' AS n) AS u ON t.id = u.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN DELETE",
        [(2, "x")],
    ),
    (
        "MERGE INTO t USING (VALUES (2, 'x'), (3, 'c')) AS u(id, n) ON t.id = u.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        [(1, "a"), (2, "x"), (3, "c")],
    ),
    ("TRUNCATE TABLE t", []),
]


@pytest.mark.parametrize(("statement", "expected"), FORMS)
def test_a_change(tr_sqlite: Trickle, statement: str, expected: list[tuple[int, str]]) -> None:
    tr_sqlite.sql("CREATE TABLE t (id INT, n STRING, PRIMARY KEY (id))")
    tr_sqlite.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    tr_sqlite.sql(statement)
    assert rows(tr_sqlite.sql(ALL)) == expected


BOUNDS = [
    ("VERSION 2 TO VERSION 4", [3, 4]),
    ("VERSION 2 INCLUSIVE TO VERSION 4 EXCLUSIVE", [2, 3]),
    ("VERSION 3", [4]),
    ("TIMESTAMP {2} TO TIMESTAMP {4}", [3, 4]),
    ("TIMESTAMP {2} INCLUSIVE TO TIMESTAMP {4} EXCLUSIVE", [2, 3]),
]


@pytest.mark.parametrize(("between", "expected"), BOUNDS)
def test_bounds_of_changes(tr_sqlite: Trickle, between: str, expected: list[int]) -> None:
    tr_sqlite.sql("CREATE TABLE t (id INT)")
    for n in (2, 3, 4):
        tr_sqlite.sql(f"INSERT INTO t VALUES ({n})")  # snapshot n
    times = [str(r[0]) for r in tr_sqlite.sql(
        "SELECT concat('TIMESTAMP''', snapshot_time, '''') FROM trickle.snapshots() ORDER BY snapshot_id"
    ).collect()]  # fmt: skip
    found = tr_sqlite.sql(f"SELECT id FROM t CHANGES FROM {between.format(*times)}")
    assert rows(found) == [(n,) for n in expected]

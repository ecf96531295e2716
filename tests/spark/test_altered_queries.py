"""Another query for a stream table: what told its rows apart before may not tell the new ones apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import connect
from tests.conftest import rows

QUERIES = (
    "SELECT g, v FROM t",
    "SELECT g, CAST(max(v) AS INT) AS v FROM t GROUP BY g",
    "SELECT DISTINCT g, v FROM t",
    "SELECT CAST(max(g) AS INT) AS g, v FROM t GROUP BY v",
)


_BY_SPARK = {"max_driver_rows": 1, "local_tail_rows": 0}
_ALL = (1, 0, 2, 1, 3, 0)


@pytest.mark.parametrize(
    ("numbers", "settings"),
    [((1, 2), {}), *(pytest.param(_ALL, s, marks=pytest.mark.slow) for s in ({}, _BY_SPARK))],
)
def test_every_query_after_every_other(
    tmp_path: Path, numbers: tuple[int, ...], settings: dict[str, int]
) -> None:
    with connect(tmp_path / "w", settings=settings) as tr:
        tr.sql("CREATE TABLE t (id INT, g INT, v INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 2, 20), (4, 2, 20), (5, NULL, NULL)")
        tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {QUERIES[0]}")
        tr.sql(
            "CREATE STREAM TABLE above REFRESH MODE DIFFERENTIAL AS SELECT count(*) AS n, sum(v) AS total FROM s"
        )
        for step, number in enumerate(numbers):
            tr.sql(f"ALTER STREAM TABLE s AS {QUERIES[number]}")
            assert rows(tr.sql("SELECT * FROM s")) == rows(tr.sql(QUERIES[number])), number
            tr.sql(f"UPDATE t SET v = v + 1 WHERE id = {1 + step % 4}")
            tr.sql(f"INSERT INTO t VALUES ({10 + step}, {step % 3}, 20)")
            tr.refresh("above", upstream=True)
            assert rows(tr.sql("SELECT * FROM s")) == rows(tr.sql(QUERIES[number])), number
            for name in ("s", "above"):
                assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], (name, number)

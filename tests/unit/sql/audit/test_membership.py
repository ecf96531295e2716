"""Where x IN (SELECT …) is a value, and where it is only a condition."""

from __future__ import annotations

import pytest

from spark_trickle.sql.audit.membership import membership_is_value

QUERIES = {
    "SELECT a IN (SELECT b FROM u) AS x FROM t": True,
    "SELECT CASE WHEN a IN (SELECT b FROM u) THEN 1 END AS x FROM t": True,
    "SELECT x FROM (SELECT NOT a IN (SELECT b FROM u) AS x FROM t)": True,
    "SELECT a, count(*) AS n FROM t GROUP BY a, b IN (SELECT b FROM u)": True,
    "SELECT a FROM t WHERE a IN (SELECT b FROM u) OR a NOT IN (SELECT c FROM u)": False,
    "SELECT a FROM t JOIN u ON a IN (SELECT b FROM u)": False,
    "SELECT a FROM t GROUP BY a HAVING max(b) IN (SELECT b FROM u)": False,
    "SELECT a IN (1, 2) AS x, EXISTS (SELECT 1 FROM u WHERE a IN (SELECT b FROM u)) AS y FROM t": False,
}


@pytest.mark.parametrize("query", QUERIES)
def test_values_and_conditions(query: str) -> None:
    assert membership_is_value(query) is QUERIES[query]

"""What a query uses of the queries around it is read off its tree, wherever in it that is."""

from __future__ import annotations

import pytest

from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.prune import find_free_columns
from spark_trickle.algebra.references import TableRef
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.named_windows import read_query
from spark_trickle.sql.bind.query import SparkBinder, bind_query
from spark_trickle.sql.bind.scope import Named, ReadableTable, Scope

FURTHER_OUT = Scope((Named(("far",), "y", "far_y"),))
OUTER = Scope((Named(("o",), "k", "outer_k"), Named(("o",), "v", "outer_v")), outer=FURTHER_OUT)
QUERIES = {
    "SELECT a FROM t": set(),
    "SELECT a, o.k FROM t": {"outer_k"},
    "SELECT a FROM t WHERE a = o.k AND a > o.v": {"outer_k", "outer_v"},
    "SELECT max(a + o.v) AS m FROM t GROUP BY a": {"outer_v"},
    "SELECT a FROM t GROUP BY a HAVING max(o.k) > 1": {"outer_k"},
    "SELECT a FROM t ORDER BY a + o.k LIMIT 1": {"outer_k"},
    "SELECT a FROM t ORDER BY a + o.k": set(),  # an order without a limit means nothing
    "SELECT sum(a) OVER (PARTITION BY o.k) AS s FROM t": {"outer_k"},
    "SELECT x FROM t LATERAL VIEW explode(array(a, o.v)) e AS x": {"outer_v"},
    "SELECT a FROM t JOIN (SELECT a AS b FROM t WHERE a < o.v) d ON a = b": {"outer_v"},
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a AND u.a = o.k)": {"outer_k"},
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.a = t.a)": set(),
    "SELECT (SELECT max(u.a) FROM t AS u WHERE u.a < far.y) AS m FROM t": {"far_y"},
    "WITH c AS (SELECT a FROM t WHERE a = o.k) SELECT a FROM c": {"outer_k"},
    "WITH c AS (SELECT a FROM t WHERE a = o.k) SELECT a FROM t": set(),  # nobody reads it
    "SELECT a FROM t UNION ALL SELECT o.v": {"outer_v"},
    "VALUES (1), (o.k)": {"outer_k"},
}


@pytest.mark.parametrize("sql", QUERIES)
def test_the_columns_of_queries_around(sql: str) -> None:
    env = Env(lambda *_: ReadableTable(TableRef(1), ("a",)), _types, "main", SparkBinder(), outer=OUTER)
    assert find_free_columns(bind_query(read_query(sql), env.on_trial()).plan) == QUERIES[sql]


def _types(op: Operator) -> dict[str, str]:
    raise AssertionError("a trial does not ask Spark")

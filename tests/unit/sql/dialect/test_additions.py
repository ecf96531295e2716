"""What Spark's grammar lacks and we have is taken away word by word, and nothing else is."""

from __future__ import annotations

import pytest

from spark_trickle.errors import ColumnNotFoundError, QueryError, SqlSyntaxError, TrickleError
from spark_trickle.sql.dialect.additions import may_be_taken, without_additions

ADDED = {
    "SELECT k FROM t WHERE v > ALL (SELECT w FROM u)": "SELECT k FROM t WHERE v >  (SELECT w FROM u)",
    "SELECT a = any((TABLE u)) AS x FROM t": "SELECT a = ((TABLE u)) AS x FROM t",
    "SELECT DISTINCT ON (a, f(b)) a, b FROM t": "SELECT DISTINCT   a, b FROM t",
    "SELECT a FROM t UNION ALL BY NAME SELECT a FROM u": "SELECT a FROM t UNION ALL   SELECT a FROM u",
    "SELECT sum(v) OVER (w ORDER BY v) FROM t WINDOW w AS (PARTITION BY k)": (
        "SELECT sum(v) OVER ( ORDER BY v) FROM t WINDOW w AS (PARTITION BY k)"
    ),
    "SELECT 1 FROM u JOIN t PIVOT (max(b) FOR k IN (1)) AS p ON u.a = p.a": (
        "SELECT 1 FROM u JOIN t   AS p ON u.a = p.a"
    ),
    "SELECT 1 FROM u JOIN t UNPIVOT INCLUDE NULLS (v FOR n IN (a)) p USING (a)": (
        "SELECT 1 FROM u JOIN t     p USING (a)"
    ),
}
PLAIN = [
    "SELECT any(v), v IN (1), x = any FROM t WHERE a LIKE ANY ('a%')",
    "SELECT k FROM t WHERE v = ANY (1, 2)",
    "SELECT `on`(k) FROM t JOIN u ON (t.k = u.k)",
    "SELECT name, v FROM t ORDER BY name",
    "WITH w AS (TABLE rows), x AS (SELECT 1) SELECT sum(v) OVER (PARTITION BY k ORDER BY v) FROM w",
    "SELECT * FROM t PIVOT (max(b) FOR k IN (1)) p JOIN u ON p.a = u.a",
    "SELECT 'v > ALL (SELECT 1)' FROM t",
]


@pytest.mark.parametrize("query", ADDED)
def test_additions(query: str) -> None:
    assert " ".join(without_additions(query).split()) == " ".join(ADDED[query].split())


@pytest.mark.parametrize("query", PLAIN)
def test_what_is_none(query: str) -> None:
    assert without_additions(query) == query


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (SqlSyntaxError("x"), False),
        (QueryError("x", "GROUP_BY_POS_OUT_OF_RANGE"), False),
        (QueryError("x", "AMBIGUOUS_REFERENCE"), False),
        (QueryError("x", "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.ANY"), True),
        (ColumnNotFoundError("x", ()), True),
    ],
)
def test_refusals(refusal: TrickleError, expected: bool) -> None:
    assert may_be_taken(refusal) is expected

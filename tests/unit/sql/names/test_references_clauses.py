"""Clauses that only look like a list of relations are left alone; those that hold relations are read."""

from __future__ import annotations

import pytest

from tests.unit.sql.marked import answer, bug, expected, question

TWO_BEFORE = "TABLE two words before a relation is taken for TABLE ( relation )"
KEYWORD_NAME = "a keyword used as a name still starts a clause"

EXPRESSIONS_WITH_FROM = [
    "SELECT EXTRACT(YEAR FROM d), y FROM «t»·",
    "SELECT EXTRACT(YEAR FROM (SELECT max(d) FROM «t»·))",
    "SELECT TRIM(BOTH 'x' FROM a), TRIM(LEADING FROM b), TRIM(TRAILING c FROM d) FROM «t»·",
    "SELECT SUBSTRING(a FROM 2 FOR 3), SUBSTR(a FROM 2) FROM «t»·",
    "SELECT OVERLAY(a PLACING 'x' FROM 3 FOR 2), y FROM «t»·",
    "SELECT POSITION('a' IN b), y FROM «t»·",
    "SELECT a IS DISTINCT FROM b, a IS NOT DISTINCT FROM u FROM «t»·",
    "SELECT * FROM «t»· WHERE a IS DISTINCT FROM b AND c IN (1, y)",
    "SELECT CASE WHEN a IS NOT DISTINCT FROM b THEN c END, y FROM «t»·",
    "SELECT from_json(a, 'x INT'), from_unixtime(b) FROM «t»·",
]

LATERAL_VIEWS = [
    "SELECT * FROM «t»· LATERAL VIEW explode(a) e AS x",
    "SELECT * FROM «t»· LATERAL VIEW inline(a) e AS x, y LATERAL VIEW OUTER inline(b) f AS i, j WHERE i = 1",
    "SELECT * FROM «t» a, «u»· LATERAL VIEW explode(a.b) e AS x, y",
    "SELECT * FROM «t»· LATERAL VIEW explode(array(1, 2)) AS x ORDER BY x, y",
    "SELECT * FROM «t»· LATERAL VIEW explode(a) e AS x, y UNION SELECT * FROM «u»·, «v»·",
    "SELECT * FROM (SELECT * FROM «t»· LATERAL VIEW explode(a) e AS x, y) z, «u»·",
    "SELECT * FROM «t»· LATERAL VIEW inline(f((SELECT max(a) FROM «u»·))) e AS x, y",
]

PIVOTS = [
    "SELECT * FROM «t»· PIVOT (sum(a) FOR c IN (1, 2))",
    "SELECT * FROM «t»· PIVOT (sum(a) AS x, max(b) FOR (c, d) IN ((1, 2) AS p, (3, 4) AS q)) AS z, «u»·",
    "SELECT * FROM «t»· UNPIVOT (v FOR n IN (a, b AS bb)) AS up JOIN «u»·",
    "SELECT * FROM «t»· UNPIVOT INCLUDE NULLS (v FOR n IN (a, b))",
    "SELECT * FROM «t»· UNPIVOT EXCLUDE NULLS ((v, w) FOR n IN ((a, b) AS x, (c, d) AS y))",
]

SAMPLES = [
    "SELECT * FROM «t» TABLESAMPLE (10 PERCENT)·",
    "SELECT * FROM «t» TABLESAMPLE (5 ROWS) x",
    "SELECT * FROM «t» TABLESAMPLE (BUCKET 4 OUT OF 10) REPEATABLE (3) AS x JOIN «u»·",
    "SELECT * FROM «t» TABLESAMPLE (10 PERCENT) REPEATABLE (7)·, «u»·",
    "SELECT * FROM «t» TABLESAMPLE (10 PERCENT)· WHERE a",
    bug(
        "SELECT * FROM «t» TABLESAMPLE SYSTEM (10 PERCENT)·",
        reason="SYSTEM and BERNOULLI after TABLESAMPLE are not expected",
    ),
    bug(
        "SELECT * FROM «t WITH ('k' = 'v')»·, «u»·",
        reason="options of a table are not passed over before the alias",
    ),
]

LISTS = [
    "SELECT a, sum(b) OVER w FROM «t»· WINDOW w AS (PARTITION BY a ORDER BY b), v AS (ORDER BY c)",
    "SELECT rank() OVER (PARTITION BY a, y ORDER BY b, z) FROM «t»· QUALIFY rank() OVER (ORDER BY a) = 1",
    "SELECT sum(a) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), y FROM «t»·",
    "SELECT a FROM «t»· GROUP BY a, y HAVING b IN (1, y)",
    "SELECT a FROM «t»· GROUP BY GROUPING SETS ((a, y), (a), ())",
    "SELECT a FROM «t»· GROUP BY CUBE (a, y), ROLLUP (b, z)",
    "SELECT a FROM «t»· GROUP BY a, y WITH CUBE",
    "SELECT a FROM «t»· CLUSTER BY a, y",
    "SELECT a FROM «t»· DISTRIBUTE BY a, y SORT BY b, z",
    "SELECT a FROM «t»· ORDER BY a, y LIMIT 5 OFFSET 2",
    "SELECT a FROM «t»· WHERE (a, y) IN ((1, 2), (3, 4)) AND f(a, y) OR b",
    "SELECT filter(a, x -> x > 1), transform(b, (x, i) -> x + i), y FROM «t»·",
    "SELECT CAST(a AS DECIMAL(10, 2)), b::int, a[0], m['k'], a:b.c, y FROM «t»·",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a, y) FILTER (WHERE b > 1) FROM «t»·",
    "SELECT TRANSFORM(a, b) USING 'cat' AS (c, d) FROM «t»·",
    "SELECT TRANSFORM(a, b) USING 'cat' AS c, d FROM «t»·",
    bug("FROM «t» MAP a, b USING 'cat' AS c, d", reason="MAP and REDUCE after FROM do not end it"),
]

HINTS = [
    "SELECT /*+ BROADCAST(u) */ * FROM «t»· JOIN «u»·",
    "SELECT /*+ BROADCAST(t), REPARTITION(3) */ * FROM «t»·",
    "SELECT /*+ MERGE ( u , t ) */ /*+ SHUFFLE_HASH(t) */ a, y FROM «t»· JOIN «u»·",
    "SELECT a FROM (SELECT /*+ COALESCE(1) */ * FROM «t»·) x, «u»·",
]

PIPES = [
    "FROM «t»· |> WHERE a > 1 |> SELECT a, y",
    "FROM «t»· |> JOIN «u»· USING (a) |> AGGREGATE sum(b) AS s, max(c) GROUP BY a, y |> ORDER BY a, y",
    "FROM «t»· |> UNION ALL TABLE «u» |> EXCEPT (SELECT * FROM «v»·) |> INTERSECT ALL VALUES (1)",
    "FROM «t»· |> AS x |> CROSS JOIN «u» AS y |> WHERE EXISTS (SELECT 1 FROM «v»·)",
    "FROM «t»· |> PIVOT (sum(a) FOR b IN (1, 2)) |> TABLESAMPLE (10 ROWS)",
    "FROM «t»· |> EXTEND (SELECT max(a) FROM «u»·) AS m, b + 1 AS c |> DROP b, d |> SET a = 5, c = 2",
    "FROM «t»· |> LEFT JOIN «u»· ON t.a = u.a |> LIMIT 3 OFFSET 1",
    "FROM «t»·, «u»· |> LIMIT 1",
    "SELECT * FROM «t»· |> SELECT a, y",
    "TABLE «t» |> WHERE a = 1 |> SELECT a, y",
    "VALUES (1), (2) |> JOIN «t»· |> SELECT a, y",
    "SELECT (FROM «t»· |> AGGREGATE max(a)), b FROM «u»·",
    "FROM «t»·|>JOIN «u»·|>WHERE a",
]

KEYWORDS_AS_NAMES = [
    "SELECT a table, y FROM «t»·",
    bug("SELECT date, time, table FROM «t»·", reason=TWO_BEFORE),
    "SELECT * FROM «t» AS version JOIN «u» AS changes",
    pytest.param(
        "SELECT * FROM «t» AS table LEFT JOIN «u»·, «v» table JOIN «w»·",
    ),
    bug("SELECT * FROM «t» AS table, «u»·", reason=TWO_BEFORE),
    "SELECT `from`, `join`.a, y FROM «t»·",
    bug("SELECT a AS table, y FROM «t»·", reason=KEYWORD_NAME),
    bug("SELECT t.from, y FROM «t»·", reason=KEYWORD_NAME),
    bug("SELECT t.join, y FROM «t»·", reason=KEYWORD_NAME),
    bug("SELECT a AS from, y FROM «t»·", reason=KEYWORD_NAME),
    bug("SELECT * FROM «t» AS set, «u»·", reason=KEYWORD_NAME),
    bug("SELECT * FROM «t» version JOIN «u» timestamp", reason="VERSION alone is an alias"),
    bug("SELECT * FROM «t» changes WHERE changes.a = 1", reason="CHANGES alone is an alias"),
]

ALL = [
    *EXPRESSIONS_WITH_FROM, *LATERAL_VIEWS, *PIVOTS, *SAMPLES, *LISTS, *HINTS, *PIPES,
    *KEYWORDS_AS_NAMES,
]  # fmt: skip


@pytest.mark.parametrize("marked", ALL, ids=question)
def test_relations_among_clauses(marked: str) -> None:
    assert answer(marked) == expected(marked)

"""A name defined by WITH hides a table exactly where SQL says so, and nowhere else."""

from __future__ import annotations

import pytest

from tests.unit.sql.marked import answer, bug, expected, question

RECURSIVE = "RECURSIVE is applied to the first CTE of the list only"
NO_AS = "the AS of a CTE may be left out, but is waited for"
PLACE = "a WITH is known only at a few places"

SCOPES = [
    "WITH c AS (SELECT 1) SELECT * FROM c",
    "WITH c AS (SELECT * FROM «t»·) SELECT * FROM c, «u»·",
    "WITH t AS (SELECT 1) SELECT * FROM t",
    "WITH t AS (SELECT * FROM «t»·) SELECT * FROM t, «s.t»·",
    "WITH t AS (SELECT * FROM «u»·), u AS (SELECT * FROM t) SELECT * FROM t, u",
    "WITH a AS (SELECT * FROM «t»·), b AS (SELECT * FROM a), c AS (SELECT * FROM b, «u»·) SELECT * FROM c",
    "WITH b AS (SELECT * FROM «c»·), c AS (SELECT * FROM b) SELECT * FROM c",
    "WITH c AS (SELECT * FROM «t»·) SELECT * FROM c UNION SELECT * FROM c, «u»·",
    "WITH c AS (SELECT * FROM «t»·) SELECT * FROM c x, c AS y JOIN «u»· ON x.a = u.a",
    "WITH c AS (SELECT * FROM «t»·) SELECT * FROM «u»· WHERE a IN (SELECT a FROM c)",
    "WITH C AS (SELECT * FROM «t»·) SELECT * FROM c",
    "WITH `c d` AS (SELECT * FROM «t»·) SELECT * FROM `c d`, `C D`",
    "WITH c (x, y) AS (SELECT * FROM «t»·) SELECT * FROM c",
    "WITH c AS (SELECT a, b FROM «t»·), d(x) AS (SELECT a FROM c) SELECT x, y FROM d, «u»·",
    "WITH c AS (SELECT a, (SELECT max(b) FROM «u»·) FROM «t»·), d AS (SELECT 1) SELECT * FROM d",
    "WITH c AS (SELECT 1), d AS (SELECT 2) SELECT * FROM «t»·, (SELECT * FROM c) AS x, d",
    "SELECT * FROM «c»·",
]

NESTED = [
    "WITH c AS (WITH t AS (SELECT 1) SELECT * FROM t) SELECT * FROM c, «t»·",
    "WITH c AS (WITH d AS (SELECT * FROM «t»·) SELECT * FROM d) SELECT * FROM c, «d»·",
    "WITH c AS (SELECT 1) SELECT * FROM (WITH c AS (SELECT * FROM c) SELECT * FROM c), c",
    "SELECT * FROM (WITH c AS (SELECT * FROM «t»·) SELECT * FROM c) x, «c»·",
    "SELECT * FROM «c»· WHERE a IN (WITH c AS (SELECT * FROM «t»·) SELECT a FROM c)",
    "WITH c AS (WITH i AS (SELECT * FROM «t»·), j AS (SELECT * FROM i) SELECT * FROM j), "
    "d AS (SELECT * FROM c) SELECT * FROM d, «i»·",
    "SELECT (WITH c AS (SELECT max(a) AS a FROM «t»·) SELECT a FROM c), b FROM «c»·",
]

BODIES = [
    "WITH c AS (TABLE «t») SELECT * FROM c",
    "WITH c AS (FROM «t»·) SELECT * FROM c",
    "WITH c AS (VALUES (1)) SELECT * FROM c, «t»·",
    "WITH c AS ((SELECT * FROM «t»·)) SELECT * FROM c",
    "WITH c AS (SELECT * FROM «t»·) (SELECT * FROM c)",
    "WITH c AS (SELECT * FROM «t»·) ((SELECT * FROM c) UNION (SELECT * FROM «u»·))",
    "WITH c AS (SELECT * FROM «t»·) TABLE c",
    pytest.param(
        "WITH c AS (SELECT 1) TABLE «t»",
    ),
    "WITH c AS (SELECT * FROM «t»·) FROM c SELECT *",
    "WITH c AS (SELECT * FROM «t»·) VALUES (1)",
    "WITH c AS (FROM «t»· |> WHERE a > 1) FROM c |> JOIN «u»· USING (a)",
]

COMMAS = [
    "WITH c AS (SELECT * FROM «t»·) SELECT max(a), b FROM c",
    "WITH c AS (SELECT * FROM «t»·) SELECT (a), y FROM c",
    "WITH c AS (SELECT * FROM «t»·) SELECT f(a), y AS z, (SELECT 1) AS w FROM c",
    "WITH c AS (SELECT 1 AS a) SELECT sum(a) OVER (w), b FROM c, «t»· WINDOW w AS (PARTITION BY a), v AS (w)",
    "WITH c AS (SELECT 1 AS a) SELECT a FROM c, «t»· WINDOW w AS (PARTITION BY a), t AS (ORDER BY a)",
    "WITH c AS (SELECT sum(a) OVER w FROM «t»· WINDOW w AS (ORDER BY a), u AS (w)) SELECT * FROM «u»·",
    "WITH c AS (SELECT 1) SELECT * FROM c GROUP BY (a), b ORDER BY (c), d",
]

RECURSION = [
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r, «t»·) SELECT * FROM r JOIN «t»·",
    "WITH RECURSIVE r(n) MAX RECURSION LEVEL 10 AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT * FROM r",
    "WITH RECURSIVE r AS (SELECT * FROM «t»· UNION ALL SELECT t.* FROM «t»· JOIN r USING (a)) TABLE r",
    "WITH r AS (SELECT 1 UNION ALL SELECT * FROM «r»·) SELECT * FROM r",
    bug(
        "WITH RECURSIVE a AS (SELECT 1), r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r",
        reason=RECURSIVE,
    ),
    bug(
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r), "
        "q(n) AS (SELECT n FROM r UNION ALL SELECT n + 1 FROM q, «t»·) SELECT * FROM q",
        reason=RECURSIVE,
    ),
]

WITHOUT_AS = [
    bug("WITH c (SELECT * FROM «t»·) SELECT * FROM c", reason=NO_AS),
    bug("WITH c (x) (SELECT * FROM «t»·) SELECT * FROM c", reason=NO_AS),
    bug("WITH c AS (SELECT 1), d (SELECT * FROM «t»·) SELECT * FROM c, d, «u»·", reason=NO_AS),
]

STATEMENTS = [
    "EXPLAIN SELECT * FROM «t»·",
    "EXPLAIN FORMATTED WITH c AS (SELECT * FROM «t»·) SELECT * FROM c",
    "EXPLAIN EXTENDED FROM «t»·",
    "DESCRIBE QUERY SELECT * FROM «t»·",
    "CACHE TABLE x AS SELECT * FROM «t»·",
    "CACHE TABLE x AS WITH c AS (SELECT * FROM «t»·) SELECT * FROM c",
    "CREATE TEMPORARY VIEW x (a) AS SELECT * FROM «t»·",
    "CREATE TEMPORARY VIEW x (a COMMENT 'b') AS WITH c AS (SELECT * FROM «t»·) SELECT * FROM c",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING parquet SELECT * FROM «t»·, «u»·",
    "SET VAR x = (SELECT max(a) FROM «t»·)",
    bug("EXPLAIN TABLE «t»", reason="TABLE is known only at a few places"),
    bug("DESCRIBE QUERY TABLE «t»", reason="TABLE is known only at a few places"),
    bug("DESCRIBE QUERY WITH c AS (SELECT 1) SELECT * FROM c, «t»·", reason=PLACE),
    bug("CACHE TABLE x WITH c AS (SELECT * FROM «t»·) SELECT * FROM c", reason=PLACE),
]

# What comes after INSERT INTO, and what other statements are turned into before Spark sees them.
DML_TEXTS = [
    "WITH c AS (SELECT * FROM «t»·) SELECT * FROM c WHERE a IN (SELECT a FROM «u»·)",
    "SELECT s.a AS _o0, (s.b + 1) AS _v2 FROM «main.t» AS s, «u»· WHERE s.a = u.a",
    "SELECT t.a FROM «u» AS s LEFT JOIN (SELECT *, f() AS _n FROM «main.t»·) AS t ON s.a = t.a",
    "SELECT 1 FROM «main.t» AS t LEFT ANTI JOIN (SELECT * FROM «u»·) AS s ON s.a = t.a",
    "SELECT t.a FROM «main.t» AS t WHERE EXISTS (SELECT 1 FROM «u»·, «v» x WHERE t.a = u.a)",
]

ALL = SCOPES + NESTED + BODIES + COMMAS + RECURSION + WITHOUT_AS + STATEMENTS + DML_TEXTS


@pytest.mark.parametrize("marked", ALL, ids=question)
def test_relations_beside_ctes(marked: str) -> None:
    assert answer(marked) == expected(marked)

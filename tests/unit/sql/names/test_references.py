"""Every place where a query may name a relation is found, and nothing else is touched."""

from __future__ import annotations

import pytest

from tests.unit.sql.marked import answer, bug, expected, question

VALUES_COMMA = "a comma between the rows of FROM VALUES is taken for a comma between relations"
NESTED_QUERY = "a bracket that opens with another bracket is not known to be a query"

PLAIN = [
    "SELECT * FROM «t»·",
    "SELECT * FROM «t»· WHERE a = 1",
    "SELECT * FROM «s.t»·",
    "SELECT * FROM «cat.s.t»·",
    "SELECT * FROM «s . t»·",
    "select a from «t»· where b",
    "SELECT 1",
    "SELECT * FROM\n\t«t»·\nWHERE a",
    "(SELECT * FROM «t»·)",
    "SELECT * FROM «t»· ;",
    "TABLE «t»",
    "TABLE «s.t»",
    "FROM «t»·",
    "FROM «t»· SELECT a, b WHERE c",
    "FROM «t» x, «u» y SELECT x.a, y.b WHERE x.a = y.a",
    "VALUES (1), (2)",
    "SELECT DISTINCT a FROM «t»·",
    "SELECT count(DISTINCT a), max(b) FROM «t»·",
    "SELECT ALL a FROM «t»·",
    "SELECT * EXCEPT (a, b), c FROM «t»·",
]

JOINS = [
    "SELECT * FROM «t»·, «u»·, «s.v»·",
    "SELECT * FROM «t» a, «u» AS b, «v»· WHERE a.x = b.x",
    "SELECT * FROM «t»· JOIN «u»· ON t.a = u.a",
    "SELECT * FROM «t»· JOIN «u»· USING (a, b) JOIN «v»· USING (a)",
    "SELECT * FROM «t»· INNER JOIN «u»· ON true LEFT JOIN «v»· ON true RIGHT OUTER JOIN «w»· ON true",
    "SELECT * FROM «t»· FULL OUTER JOIN «u»· USING (a)",
    "SELECT * FROM «t»· CROSS JOIN «u»·",
    "SELECT * FROM «t»· NATURAL JOIN «u»·",
    "SELECT * FROM «t»· NATURAL LEFT OUTER JOIN «u»·",
    "SELECT * FROM «t»· LEFT SEMI JOIN «u»· ON t.a = u.a",
    "SELECT * FROM «t»· LEFT ANTI JOIN «u»· ON t.a = u.a",
    "SELECT * FROM «t»· SEMI JOIN «u»· USING (a)",
    "SELECT * FROM «t»· ANTI JOIN «u»· USING (a)",
    bug(
        "SELECT * FROM «t»· ASOF JOIN «u»· MATCH_CONDITION (t.a >= u.a) ON t.b = u.b",
        reason="MATCH_CONDITION is taken for an alias",
    ),
    "SELECT * FROM «t» x LEFT ASOF JOIN «u» y MATCH_CONDITION (x.a >= y.a) USING (b)",
    "SELECT * FROM «t» x, LATERAL (SELECT * FROM «u»· WHERE u.a = x.a) y, «w»·",
    "SELECT * FROM «t»· JOIN LATERAL (SELECT * FROM «u»· WHERE u.a = t.a) x ON true",
    "SELECT * FROM «t»·, LATERAL explode(b) AS e(x), «u»·",
    "SELECT * FROM «t»· LEFT JOIN LATERAL explode(t.b) AS y ON true JOIN «u»·",
    "SELECT * FROM «t»· JOIN «u»· ON t.a IS NOT DISTINCT FROM u.a JOIN «v»· ON t.b IS DISTINCT FROM v.b",
    "SELECT * FROM «t»· JOIN (SELECT * FROM «u»·) x JOIN («v»· JOIN «w»·)",
    "SELECT * FROM «t»· JOIN «u»· ON CASE WHEN t.a THEN u.a END JOIN «v»·",
    pytest.param(
        "SELECT * FROM «t»· JOIN «u»· ON CASE WHEN t.a THEN u.a END, «v»·",
    ),
]

BRACKETS = [
    "SELECT * FROM («t»·)",
    "SELECT * FROM ((«t»·))",
    "SELECT * FROM («t»·) AS x",
    "SELECT * FROM («t» AS x) JOIN «u»·",
    "SELECT * FROM («t»·) x, («u»·) y",
    "SELECT * FROM ((«t»· JOIN «u»· ON t.a = u.a) JOIN («v»· JOIN «w»· USING (a)) USING (a))",
    "SELECT * FROM ((SELECT * FROM «t»·))",
    "SELECT * FROM ((SELECT * FROM «t»·) x JOIN «u»·)",
    "SELECT * FROM ((SELECT * FROM «t»·) UNION ALL (SELECT * FROM «u»·))",
    "SELECT * FROM (TABLE «t») AS x, «u»·",
    "SELECT * FROM (FROM «t»·)",
    "((SELECT * FROM «t»·))",
    "(SELECT * FROM «t»·) UNION (SELECT * FROM «u»·)",
    bug("((SELECT * FROM «t»·) UNION SELECT * FROM «u»·) ORDER BY 1", reason=NESTED_QUERY),
    bug(
        "(((SELECT * FROM «t»· EXCEPT TABLE «u») EXCEPT SELECT * FROM «v»·) INTERSECT ALL TABLE «w»)",
        reason=NESTED_QUERY,
    ),
    "SELECT * FROM ((SELECT * FROM «t»·) UNION SELECT * FROM «u»·)",
    bug("SELECT 1 WHERE 1 IN ((SELECT a FROM «t»·) UNION SELECT a FROM «u»·)", reason=NESTED_QUERY),
]

SUBQUERIES = [
    "SELECT a IN (SELECT b FROM «u»·) FROM «t»·",
    "SELECT a, (SELECT max(b) FROM «u»· WHERE u.a = t.a), EXISTS (SELECT 1 FROM «v»·) FROM «t»·",
    "SELECT a FROM «t»· WHERE (a, b) IN (SELECT c, d FROM «u»·)",
    "SELECT a FROM «t»· WHERE a = (((SELECT max(c) FROM «u»·)))",
    "SELECT * FROM «t»· WHERE a NOT IN (SELECT b FROM «u»·) AND NOT EXISTS (SELECT * FROM «v»·)",
    "SELECT * FROM «t»· WHERE a BETWEEN (SELECT 1 FROM «u»·) AND (SELECT 2 FROM «v»·)",
    "SELECT * FROM «t»· WHERE a IN (TABLE «u»)",
    "SELECT * FROM «t»· WHERE a IN (FROM «u»·)",
    "SELECT * FROM «t»· WHERE a IN (VALUES (1))",
    "SELECT CASE WHEN EXISTS (SELECT 1 FROM «u»·) THEN (SELECT 1 FROM «v»·) ELSE 2 END FROM «t»·",
    "SELECT a FROM «t»· GROUP BY a HAVING count(*) > (SELECT count(*) FROM «u»·)",
    "SELECT a FROM «t»· ORDER BY (SELECT max(b) FROM «u»·), a LIMIT 5",
    "SELECT coalesce((SELECT a FROM «t»·), (SELECT b FROM «u»·), c) FROM «v»·",
    "SELECT max(a) FILTER (WHERE b IN (SELECT c FROM «u»·)) FROM «t»·",
    "SELECT (SELECT a FROM «t»·) + (SELECT b FROM «u»·)",
    "SELECT * FROM «t»· JOIN «u»· ON t.a IN (SELECT b FROM «v»·) AND t.b = u.b, «w»·",
    "VALUES ((SELECT max(a) FROM «t»·)), (2)",
    "SELECT x FROM (SELECT a AS x FROM (SELECT a FROM (SELECT * FROM «t»·) i) j) k",
]

SET_OPERATIONS = [
    "SELECT * FROM «t»· UNION ALL SELECT * FROM «u»·",
    "SELECT * FROM «t»· INTERSECT SELECT * FROM «v»· EXCEPT ALL SELECT * FROM «w»· MINUS SELECT * FROM «x»·",
    "TABLE «t» UNION ALL TABLE «u»",
    "SELECT * FROM «t»· UNION TABLE «u» ORDER BY 1",
    "SELECT * FROM «t»· UNION DISTINCT TABLE «u»",
    "SELECT * FROM «t»· EXCEPT (SELECT * FROM «u»·) INTERSECT (TABLE «v»)",
    "SELECT * FROM «t» x UNION ALL (SELECT * FROM «u»·) ORDER BY 1",
    "FROM «t»· UNION FROM «u»·",
]

INLINE_TABLES = [
    "SELECT * FROM VALUES (1), (2)",
    "SELECT * FROM VALUES (1), (2) AS x(a), «t»·",
    "SELECT * FROM VALUES (1), (2) x(a) JOIN «t»· USING (a)",
    "SELECT * FROM (VALUES (1), (2)) AS x(a), «t»·",
    "SELECT * FROM «t»·, VALUES (1, 'a'), (2, 'b') AS x(a, b), «u»·",
    "SELECT * FROM «t»· JOIN VALUES (1), (2) AS x(a) ON true JOIN «u»·",
    "SELECT * FROM VALUES ((SELECT max(a) FROM «t»·)) AS x",
    bug("SELECT * FROM VALUES (NULL), (NULL) AS x(a)", reason=VALUES_COMMA),
    bug("SELECT * FROM VALUES (DATE '2020-01-01'), (DATE '2020-01-02') AS x(a)", reason=VALUES_COMMA),
    bug("SELECT * FROM VALUES (1L), (2L) AS x(a)", reason=VALUES_COMMA),
    bug("SELECT * FROM VALUES (1, true), (2, false) AS x(a, b), «t»·", reason=VALUES_COMMA),
    bug("SELECT * FROM VALUES 1, 2 AS x(a), «t»·", reason=VALUES_COMMA),
    bug("SELECT * FROM VALUES (true), (false) x(a)", reason=VALUES_COMMA),
]

TABLE_FUNCTIONS = [
    "SELECT * FROM range(10), «t»·",
    "SELECT * FROM range(0, 10, 2) r JOIN «t»·",
    "SELECT * FROM «t»·, explode(array(1)) AS e(x), «u»·",
    "SELECT * FROM f(TABLE(«t»)), «u»·",
    "SELECT * FROM f(TABLE(«t») PARTITION BY a ORDER BY b), «u»·",
    "SELECT * FROM f(TABLE(SELECT * FROM «t»·, «u»·) WITH SINGLE PARTITION)",
    "SELECT * FROM f(x => TABLE(«t»), y => TABLE(SELECT * FROM «u»·))",
    "SELECT * FROM f((SELECT max(a) FROM «t»·), 2), «u»·",
    "SELECT * FROM unnest(array(1, 2)) AS x, «t»·",
    "SELECT * FROM «parquet.`/data/x.parquet`»·, «t»·",
    "SELECT * FROM «trickle.snapshots()»·",
    "SELECT * FROM «trickle.changes('s.t', 3, 9)» AS c WHERE _change_type = 'insert'",
    "SELECT * FROM «trickle.files('t')» f JOIN «trickle.tables()»· USING (x), «t»·",
    "SELECT * FROM «`trickle`.`changes`('t', abs(1), (2))»·, «u»·",
    "SELECT * FROM «TRICKLE.Snapshots()»· ORDER BY 1",
    "SELECT (SELECT max(snapshot_id) FROM «trickle.snapshots()»·), a FROM «t»·",
    "SELECT trickle.a FROM «trickle»·",
]

ALL = PLAIN + JOINS + BRACKETS + SUBQUERIES + SET_OPERATIONS + INLINE_TABLES + TABLE_FUNCTIONS


@pytest.mark.parametrize("marked", ALL, ids=question)
def test_relations_of_a_query(marked: str) -> None:
    assert answer(marked) == expected(marked)

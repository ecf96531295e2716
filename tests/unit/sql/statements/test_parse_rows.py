"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE texts say exactly what they mean."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError, UnsupportedError
from spark_trickle.sql.statements.kinds import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Query,
    Statement,
    Truncate,
    Update,
)
from spark_trickle.sql.statements.parse import parse_statement
from spark_trickle.sql.statements.parse_rows import read_values_rows
from tests.unit.sql.marked import bug

END = "END closes a bracket, also where it is the name of a column"
T = ("t",)


def sets(**values: str) -> tuple[Assignment, ...]:
    return tuple(Assignment(column, value) for column, value in values.items())


INSERTS = [
    ("INSERT INTO t VALUES (1, 'a')", Insert(T, "VALUES (1, 'a')")),
    (
        "insert into table s.t (a, `b c`) select * from u;",
        Insert(("s", "t"), "select * from u", ("a", "b c")),
    ),
    ("INSERT INTO t SELECT 1 -- x", Insert(T, "SELECT 1")),
    ("INSERT INTO t (SELECT 1)", Insert(T, "(SELECT 1)")),
    ("INSERT INTO t ((SELECT 1) UNION (SELECT 2))", Insert(T, "((SELECT 1) UNION (SELECT 2))")),
    ("INSERT INTO t (a) (SELECT 1)", Insert(T, "(SELECT 1)", ("a",))),
    ("INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c", Insert(T, "WITH c AS (SELECT 1) SELECT * FROM c")),
    ("INSERT INTO t FROM u SELECT a", Insert(T, "FROM u SELECT a")),
    ("INSERT INTO t TABLE u", Insert(T, "TABLE u")),
    ("INSERT INTO t BY NAME SELECT 1 AS a", Insert(T, "SELECT 1 AS a", by_name=True)),
    ("INSERT OVERWRITE t SELECT 1", Insert(T, "SELECT 1", overwrite=True)),
    ("INSERT OVERWRITE TABLE t (a) VALUES (1)", Insert(T, "VALUES (1)", ("a",), overwrite=True)),
    ("INSERT INTO `a b`.`c.d` VALUES (DEFAULT, 'x;y')", Insert(("a b", "c.d"), "VALUES (DEFAULT, 'x;y')")),
    (
        "WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c",
        Insert(T, "SELECT * FROM c", ctes="WITH c AS (SELECT 1) "),
    ),
    (
        "INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT * FROM t",
        Query("INSERT OVERWRITE DIRECTORY '/x' USING csv SELECT * FROM t"),
    ),
    bug(
        "INSERT INTO t (from, to) VALUES (1, 2)",
        Insert(T, "VALUES (1, 2)", ("from", "to")),
        reason="a column called like the first word of a query is taken for a query",
    ),
]

UPDATES = [
    ("UPDATE t SET a = 1", Update(T, None, sets(a="1"))),
    (
        "UPDATE s.t AS x SET a = 1, x.b = x.b + 1 WHERE x.c",
        Update(("s", "t"), "x", sets(a="1", b="x.b + 1"), where="x.c"),
    ),
    ("UPDATE t x SET x.a = DEFAULT;", Update(T, "x", sets(a="DEFAULT"))),
    ("UPDATE t SET t.a = f(1, 2), b = m['x, y']", Update(T, None, sets(a="f(1, 2)", b="m['x, y']"))),
    (
        "UPDATE t SET a = CASE WHEN b THEN 1 ELSE 2 END, c = EXTRACT(YEAR FROM d) WHERE e = 'WHERE'",
        Update(
            T, None, sets(a="CASE WHEN b THEN 1 ELSE 2 END", c="EXTRACT(YEAR FROM d)"), where="e = 'WHERE'"
        ),
    ),
    (
        "UPDATE t SET a = (SELECT max(b) FROM u WHERE u.x = t.x) WHERE EXISTS (SELECT 1 FROM u WHERE z)",
        Update(
            T,
            None,
            sets(a="(SELECT max(b) FROM u WHERE u.x = t.x)"),
            where="EXISTS (SELECT 1 FROM u WHERE z)",
        ),
    ),
    (
        "UPDATE t SET a = u.b FROM u JOIN v ON u.a = v.a WHERE t.a = u.a",
        Update(T, None, sets(a="u.b"), "u JOIN v ON u.a = v.a", "t.a = u.a"),
    ),
    (
        "WITH c AS (SELECT 1) UPDATE t SET a = (SELECT * FROM c)",
        Update(T, None, sets(a="(SELECT * FROM c)"), ctes="WITH c AS (SELECT 1) "),
    ),
    bug(
        "UPDATE t SET a = coalesce(end, start), b = 1",
        Update(T, None, sets(a="coalesce(end, start)", b="1")),
        reason=END,
    ),
    bug(
        "UPDATE t SET a = b IS DISTINCT FROM c WHERE d",
        Update(T, None, sets(a="b IS DISTINCT FROM c"), where="d"),
        reason="the FROM of IS DISTINCT FROM is taken for the clause",
    ),
    bug("UPDATE t SET a == 1", Update(T, None, sets(a="1")), reason="Spark takes == for ="),
]

DELETES = [
    ("DELETE FROM t", Delete(T, None)),
    ("DELETE FROM s.t AS x WHERE x.a = 1;", Delete(("s", "t"), "x", where="x.a = 1")),
    (
        "DELETE FROM t x WHERE a IN (SELECT b FROM u WHERE c)",
        Delete(T, "x", where="a IN (SELECT b FROM u WHERE c)"),
    ),
    (
        "DELETE FROM t USING u JOIN (SELECT * FROM v WHERE w) x ON u.a = x.a WHERE t.a = u.a",
        Delete(T, None, "u JOIN (SELECT * FROM v WHERE w) x ON u.a = x.a", "t.a = u.a"),
    ),
    (
        "WITH c AS (SELECT 1) DELETE FROM t WHERE a IN (SELECT * FROM c)",
        Delete(T, None, where="a IN (SELECT * FROM c)", ctes="WITH c AS (SELECT 1) "),
    ),
    ("TRUNCATE TABLE s.t", Truncate(("s", "t"))),
    ("TRUNCATE t", Truncate(T)),
    (
        "WITH c AS (SELECT 1) SELECT * FROM c",
        Query("WITH c AS (SELECT 1) SELECT * FROM c"),
    ),
    bug(
        "WITH delete AS (SELECT 1) SELECT * FROM delete",
        Query("WITH delete AS (SELECT 1) SELECT * FROM delete"),
        reason="the name of a CTE is taken for the statement after WITH",
    ),
]


@pytest.mark.parametrize(("sql", "statement"), [*INSERTS, *UPDATES, *DELETES])
def test_changes_of_rows(sql: str, statement: Statement) -> None:
    assert parse_statement(sql) == statement


DELETE_ROW = MergeClause(True, False, None, True, ())
CLAUSES = [
    ("WHEN MATCHED THEN DELETE", DELETE_ROW),
    ("WHEN MATCHED AND s.a > 1 AND s.b THEN DELETE", MergeClause(True, False, "s.a > 1 AND s.b", True, ())),
    (
        "WHEN MATCHED AND CASE WHEN a THEN b END THEN UPDATE SET *",
        MergeClause(True, False, "CASE WHEN a THEN b END", False, None),
    ),
    (
        "WHEN MATCHED THEN UPDATE SET t.a = s.a, b = CASE WHEN s.b THEN 1 END, c = DEFAULT",
        MergeClause(True, False, None, False, sets(a="s.a", b="CASE WHEN s.b THEN 1 END", c="DEFAULT")),
    ),
    ("WHEN NOT MATCHED THEN INSERT *", MergeClause(False, False, None, False, None)),
    (
        "WHEN NOT MATCHED BY TARGET AND s.x THEN INSERT (a, t.b) VALUES (s.a, f(s.b, 1))",
        MergeClause(False, False, "s.x", False, sets(a="s.a", b="f(s.b, 1)")),
    ),
    ("WHEN NOT MATCHED BY SOURCE THEN DELETE", MergeClause(False, True, None, True, ())),
    (
        "WHEN NOT MATCHED BY SOURCE AND t.a > 1 THEN UPDATE SET a = 0",
        MergeClause(False, True, "t.a > 1", False, sets(a="0")),
    ),
    bug(
        "WHEN MATCHED AND (s.end > 1) THEN DELETE",
        MergeClause(True, False, "(s.end > 1)", True, ()),
        reason=END,
    ),
]


@pytest.mark.parametrize("other", ["", " WHEN MATCHED THEN DELETE"])
@pytest.mark.parametrize(("text", "clause"), CLAUSES)
def test_merge_clauses(text: str, clause: MergeClause, other: str) -> None:
    parsed = parse_statement(f"MERGE INTO t USING s ON t.a = s.a {text}{other}")
    assert parsed == Merge(T, None, "s", "t.a = s.a", (clause, DELETE_ROW) if other else (clause,))


MERGES = [
    (
        "MERGE INTO s.t AS x USING u AS y ON x.a = y.a",
        Merge(("s", "t"), "x", "u AS y", "x.a = y.a", (DELETE_ROW,)),
    ),
    (
        "MERGE INTO t x USING (SELECT * FROM u JOIN v ON u.a = v.a) y ON x.a = y.a AND (y.b OR y.c)",
        Merge(T, "x", "(SELECT * FROM u JOIN v ON u.a = v.a) y", "x.a = y.a AND (y.b OR y.c)", (DELETE_ROW,)),
    ),
    (
        "MERGE INTO t USING (VALUES (1, 'WHEN')) AS s(a, b) ON t.a <=> s.a",
        Merge(T, None, "(VALUES (1, 'WHEN')) AS s(a, b)", "t.a <=> s.a", (DELETE_ROW,)),
    ),
    (
        "WITH c AS (SELECT 1 AS a) MERGE INTO t USING c ON t.a = c.a",
        Merge(T, None, "c", "t.a = c.a", (DELETE_ROW,), ctes="WITH c AS (SELECT 1 AS a) "),
    ),
]


@pytest.mark.parametrize(("head", "statement"), MERGES)
def test_merge_sources(head: str, statement: Merge) -> None:
    assert parse_statement(f"{head} WHEN MATCHED THEN DELETE") == statement


VALUES = [
    ("VALUES (1, 'a')", [["1", "'a'"]]),
    ("VALUES (1), (2), (f(3, 4))", [["1"], ["2"], ["f(3, 4)"]]),
    ("VALUES 1, 2 + 3", [["1"], ["2 + 3"]]),
    ("values (DEFAULT, CASE WHEN a THEN 'b, c' END)", [["DEFAULT", "CASE WHEN a THEN 'b, c' END"]]),
    ("VALUES ((SELECT max(a), b FROM t), array(1, 2)[0])", [["(SELECT max(a), b FROM t)", "array(1, 2)[0]"]]),
    ("VALUES (1) AS x(a)", None),
    ("VALUES (1), (2) UNION SELECT 1", None),
    ("SELECT 1", None),
    ("(VALUES (1))", None),
]


@pytest.mark.parametrize(("source", "rows"), VALUES)
def test_rows_of_a_values_list(source: str, rows: list[list[str]] | None) -> None:
    assert read_values_rows(source) == rows


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t DEFAULT VALUES",
        "INSERT INTO t PARTITION (a = 1) SELECT 1",
        "INSERT INTO t REPLACE WHERE a = 1 SELECT 1",
    ],
)
def test_what_we_do_not_have_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_statement(sql)
    assert caught.value.hint.endswith(".")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET s.a = 1",
        "UPDATE t AS x SET x.s.a = 1",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET s.a = 1",
        "MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT (s.a) VALUES (1)",
    ],
)
def test_a_field_of_a_struct_is_not_taken_for_a_column(sql: str) -> None:
    with pytest.raises(TrickleError):
        parse_statement(sql)


@pytest.mark.parametrize("lists", ["(a,) VALUES (1,)", "() VALUES ()"])
def test_empty_places_in_a_list_are_refused(lists: str) -> None:
    with pytest.raises(TrickleError):
        parse_statement(f"MERGE INTO t USING u ON t.a = u.a WHEN NOT MATCHED THEN INSERT {lists}")

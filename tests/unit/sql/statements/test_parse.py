"""Statements that look around or steer, and the errors of broken ones: what, where, and the way out."""

from __future__ import annotations

import pytest

from spark_trickle.errors import SqlSyntaxError, TrickleError
from spark_trickle.sql.statements.kinds import (
    BackUp,
    Begin,
    CommitWork,
    Describe,
    Optimize,
    Query,
    RenewIdentity,
    Rollback,
    SetSetting,
    ShowColumns,
    ShowCreateTable,
    ShowSchemas,
    ShowSettings,
    ShowTables,
    Statement,
    Use,
    Vacuum,
)
from spark_trickle.sql.statements.parse import parse_statement
from tests.unit.sql.marked import bug

STATEMENTS = [
    ("BEGIN", Begin()),
    ("begin transaction;", Begin()),
    ("BEGIN WORK", Begin()),
    ("START TRANSACTION", Begin()),
    ("COMMIT", CommitWork()),
    ("COMMIT WORK", CommitWork()),
    ("COMMIT TRANSACTION", CommitWork()),
    ("ROLLBACK", Rollback()),
    ("ROLLBACK TRANSACTION", Rollback()),
    ("OPTIMIZE t", Optimize(("t",))),
    ("OPTIMIZE TABLE s.`t u`", Optimize(("s", "t u"))),
    ("VACUUM", Vacuum(None, None)),
    ("VACUUM s.t", Vacuum(("s", "t"), None)),
    ("VACUUM RETAIN 0 HOURS", Vacuum(None, 0.0)),
    ("VACUUM t RETAIN 1.5 HOURS", Vacuum(("t",), 1.5)),
    ("VACUUM RETAIN 1 HOUR", Vacuum(None, 1.0)),
    ("VACUUM retain", Vacuum(("retain",), None)),
    ("VACUUM DRY RUN", Vacuum(None, None, True)),
    ("VACUUM dry", Vacuum(("dry",), None)),
    ("VACUUM t RETAIN 2 HOURS DRY RUN", Vacuum(("t",), 2.0, True)),
    ("BACKUP WAREHOUSE TO '/b'", BackUp("/b")),
    ("BACKUP WAREHOUSE TO '/b' WITH LINKS", BackUp("/b", link=True)),
    ("ALTER WAREHOUSE RENEW IDENTITY", RenewIdentity()),
    ("USE s", Use("s")),
    ("USE SCHEMA `a b`", Use("a b")),
    ("USE DATABASE s", Use("s")),
    ("SHOW TABLES", ShowTables(None, None)),
    ("SHOW TABLES IN s", ShowTables("s", None)),
    ("SHOW TABLES FROM s LIKE 'a*|b'", ShowTables("s", "a*|b")),
    ("SHOW TABLES 'a*'", ShowTables(None, "a*")),
    ("SHOW SCHEMAS", ShowSchemas(None)),
    ("SHOW DATABASES LIKE 'x'", ShowSchemas("x")),
    ("SHOW NAMESPACES", ShowSchemas(None)),
    ("SHOW COLUMNS IN t", ShowColumns(("t",))),
    ("SHOW COLUMNS FROM s.t", ShowColumns(("s", "t"))),
    ("SHOW COLUMNS IN t IN s", ShowColumns(("s", "t"))),
    ("SHOW CREATE TABLE t", ShowCreateTable(("t",))),
    ("SHOW SETTINGS", ShowSettings(None)),
    ("SHOW trickle.compression", ShowSettings("compression")),
    ("DESCRIBE t", Describe(("t",))),
    ("DESC TABLE EXTENDED s.t", Describe(("s", "t"))),
    ("DESCRIBE FORMATTED t", Describe(("t",))),
    ("SET trickle.compression = snappy", SetSetting("compression", "snappy")),
    ("SET trickle.compression = 'zstd';", SetSetting("compression", "zstd")),
    ("SET trickle.retain_hours = 1.5", SetSetting("retain_hours", "1.5")),
    ("SET trickle.auto_compact TO false", SetSetting("auto_compact", "false")),
    bug(
        "SET trickle.max_driver_rows = -1",
        SetSetting("max_driver_rows", "-1"),
        reason="only one word is taken as the value, so the bounds are never named",
    ),
]


@pytest.mark.parametrize(("sql", "statement"), STATEMENTS)
def test_statements(sql: str, statement: Statement) -> None:
    assert parse_statement(sql) == statement


LEFT_TO_SPARK = [
    "SELECT 1",
    "SELECT a FROM t WHERE b = ';'",
    "WITH c AS (SELECT 1) SELECT * FROM c",
    "FROM t |> WHERE a",
    "TABLE t",
    "VALUES (1)",
    "(SELECT 1) UNION (SELECT 2)",
    "EXPLAIN SELECT 1",
    "SHOW VIEWS",
    "SHOW FUNCTIONS LIKE 'x'",
    "DESCRIBE QUERY SELECT 1",
    "DESC SELECT 1",
    "DESCRIBE FUNCTION f",
    "SET spark.sql.ansi.enabled = true",
    "SET TIME ZONE 'UTC'",
    "SET VAR x = 1",
    "SET",
    "CACHE TABLE t",
    "nonsense at all",
    bug("BEGIN SELECT 1; END", reason="a script of Spark's holds semicolons"),
]


@pytest.mark.parametrize("sql", LEFT_TO_SPARK)
def test_everything_else_is_left_to_spark(sql: str) -> None:
    assert parse_statement(sql) == Query(sql)


def test_space_and_comments_around_a_query_go() -> None:
    assert parse_statement("  -- first\n SELECT /* in */ 1 -- last\n ; ;") == Query("SELECT /* in */ 1")


BROKEN = [
    ("CREATE TABLE", "expected a name at the end", 1, 13),
    ("CREATE TABLE t", "expected a list of columns or AS SELECT at the end", 1, 15),
    ("CREATE TABLE t (", "expected a name at the end", 1, 17),
    ("CREATE TABLE t ()", "expected a name, found )", 1, 17),
    ("CREATE TABLE t (a)", "expected a type, found )", 1, 18),
    ("CREATE TABLE t (\n  a INT,\n)", "expected a name, found )", 3, 1),
    ("CREATE TABLE t (a INT", "expected ) at the end", 1, 22),
    ("CREATE TABLE t (a INT))", "expected AS SELECT or the end of the statement, found )", 1, 23),
    ("CREATE TABLE t (a INT COMMENT x)", "expected a string in quotes, found x", 1, 31),
    ("CREATE TABLE 'x' (a INT)", "expected a name, found 'x'", 1, 14),
    ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", "more than one primary key", 1, 54),
    ("CREATE VIEW v", "expected AS at the end", 1, 14),
    ("CREATE VIEW v AS", "expected a query at the end", 1, 17),
    ("DROP TABLE", "expected a name at the end", 1, 11),
    ("DROP TABLE t, u", "unexpected text after the statement, found ,", 1, 13),
    ("ALTER TABLE t", "expected ADD, DROP, RENAME or ALTER COLUMN at the end", 1, 14),
    ("ALTER TABLE t\nSET LOCATION 'x'", "expected ADD, DROP, RENAME or ALTER COLUMN, found SET", 2, 1),
    ("ALTER TABLE t RENAME COLUMN a b", "expected TO, found b", 1, 31),
    ("ALTER TABLE t ALTER COLUMN a TYPE", "expected a type at the end", 1, 34),
    ("INSERT t VALUES (1)", "expected INTO, found t", 1, 8),
    ("INSERT INTO t", "expected VALUES or a query at the end", 1, 14),
    ("INSERT INTO t (a b) VALUES (1)", "expected ), found b", 1, 18),
    ("UPDATE t", "expected SET at the end", 1, 9),
    ("UPDATE t SET", "expected a name at the end", 1, 13),
    ("UPDATE t SET a = , b = 1", "expected a value, found ,", 1, 18),
    ("UPDATE t SET a = 1 WHERE", "expected a condition at the end", 1, 25),
    ("DELETE t", "expected DELETE FROM", 1, 1),
    ("DELETE FROM t x y", "unexpected text after the statement, found y", 1, 17),
    ("MERGE INTO t USING u", "expected ON at the end", 1, 21),
    ("MERGE INTO t USING u ON t.a = u.a", "expected WHEN MATCHED or WHEN NOT MATCHED at the end", 1, 34),
    (
        "MERGE INTO t USING u ON a WHEN MATCHED THEN INSERT *",
        "expected UPDATE or DELETE, found INSERT",
        1,
        45,
    ),
    (
        "MERGE INTO t USING u ON a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
        "2 columns but 1 values",
        1,
        72,
    ),
    ("MERGE INTO t USING u ON a\nWHEN NOT MATCHED THEN UPDATE SET a = 1", "a row that does not exist", 2, 30),
    ("VACUUM t RETAIN x HOURS", "expected a number of hours, found x", 1, 17),
    ("VACUUM t RETAIN 5", "expected HOUR at the end", 1, 18),
    ("USE", "expected a name at the end", 1, 4),
    ("SHOW TABLES LIKE a", "expected a string in quotes, found a", 1, 18),
    ("SHOW COLUMNS t", "expected FROM, found t", 1, 14),
    ("DESCRIBE", "expected a name at the end", 1, 9),
    ("SET trickle.compression", "expected TO at the end", 1, 24),
    ("COMMIT now", "unexpected text after the statement, found now", 1, 8),
    ("SELECT 1;\nSELECT 2", "more than one statement", 1, 9),
]


@pytest.mark.parametrize(("sql", "detail", "line", "column"), BROKEN)
def test_broken_statements(sql: str, detail: str, line: int, column: int) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_statement(sql)
    error = caught.value
    assert error.detail.startswith(detail)
    assert (error.line, error.column) == (line, column)
    assert error.hint.endswith(".")


@pytest.mark.parametrize("hours", ["nan", "inf", "infinity", "1e400", "5L", "1e3s", "٣", "²", "9" * 5_000])
def test_hours_to_retain_are_a_number(hours: str) -> None:
    with pytest.raises(TrickleError):
        parse_statement(f"VACUUM t RETAIN {hours} HOURS")

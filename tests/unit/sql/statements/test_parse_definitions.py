"""CREATE, DROP and ALTER texts say exactly what they mean."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError, UnsupportedError
from spark_trickle.sql.statements.kinds import (
    AddColumns,
    AlterColumn,
    ColumnDefinition,
    CreateSchema,
    CreateTable,
    CreateTempView,
    CreateView,
    DropColumns,
    DropSchema,
    DropTable,
    DropView,
    Query,
    RenameColumn,
    RenameTable,
    Statement,
)
from spark_trickle.sql.statements.parse import parse_statement
from tests.unit.sql.marked import bug

C = ColumnDefinition
A = C("a", "INT")


def create(*columns: ColumnDefinition, **options: object) -> CreateTable:
    return CreateTable(("t",), columns, **options)  # type: ignore[arg-type]


def typed(type_text: str) -> tuple[str, CreateTable]:
    return f"CREATE TABLE t (a {type_text}, b INT)", create(C("a", type_text), C("b", "INT"))


TABLES = [
    ("CREATE TABLE t (a INT)", create(A)),
    ("create table T (a INT);", CreateTable(("T",), (A,))),
    ("CREATE TABLE IF NOT EXISTS s.t (a INT)", CreateTable(("s", "t"), (A,), if_not_exists=True)),
    ("CREATE OR REPLACE TABLE t (a INT)", create(A, replace=True)),
    ("CREATE TABLE `a``b`.`c d` (`e.f` INT)", CreateTable(("a`b", "c d"), (C("e.f", "INT"),))),
    ("CREATE TABLE `tö` (`select` INT, 1x INT)", CreateTable(("tö",), (C("select", "INT"), C("1x", "INT")))),
    (
        "CREATE TABLE select (from INT, where INT)",
        CreateTable(("select",), (C("from", "INT"), C("where", "INT"))),
    ),
    (
        "CREATE TABLE t (comment STRING COMMENT 'c', default INT DEFAULT 1, primary INT, unique INT)",
        create(
            C("comment", "STRING", comment="c"),
            C("default", "INT", default="1"),
            C("primary", "INT"),
            C("unique", "INT"),
        ),
    ),
    ("CREATE TABLE t (a INT) COMMENT 'x'", create(A)),
    (
        "CREATE TABLE t (a INT NOT NULL DEFAULT 5 COMMENT 'x, y', b INT COMMENT 'c' NOT NULL NULL)",
        create(C("a", "INT", False, "5", "x, y"), C("b", "INT", True, comment="c")),
    ),
    bug(
        "CREATE TABLE t (constraint INT)",
        create(C("constraint", "INT")),
        reason="CONSTRAINT is a good name for a column in Spark",
    ),
    bug(
        "CREATE TABLE t (a INT COMMENT 'it''s')",
        create(C("a", "INT", comment="it's")),
        reason="a doubled quote is a quote",
    ),
]

TYPES = [
    *map(
        typed,
        [
            "DECIMAL(10, 2)",
            "ARRAY<INT>",
            "ARRAY<STRUCT<x: INT, `y z`: ARRAY<STRING>>>",
            "STRUCT<x: INT NOT NULL COMMENT 'p, q', y: STRING>",
            "STRUCT<>",
            "MAP<STRING, ARRAY<INT>>",
            "INTERVAL DAY TO SECOND",
            "VARCHAR(10)",
            "STRING COLLATE UTF8_LCASE",
            "timestamp_ntz",
        ],
    ),
    ("CREATE TABLE t (a ARRAY<ARRAY<INT>> NOT NULL)", create(C("a", "ARRAY<ARRAY<INT>>", False))),
]

DEFAULTS = [
    ("5", "5"),
    ("-1", "-1"),
    ("NULL", "NULL"),
    ("'a, b'", "'a, b'"),
    ("(1 + 2) * 3", "(1 + 2) * 3"),
    ("current_timestamp()", "current_timestamp()"),
    ("CASE WHEN true THEN 1 ELSE 2 END", "CASE WHEN true THEN 1 ELSE 2 END"),
    ("coalesce(NULL, f(1, 2))", "coalesce(NULL, f(1, 2))"),
    ("TIMESTAMP '2026-01-01'", "TIMESTAMP '2026-01-01'"),
    bug("NOT true", "NOT true", reason="NOT is always taken for NOT NULL"),
]

KEYS = [
    ("a INT PRIMARY KEY", {"key": ("a",)}, C("a", "INT", primary_key=True)),
    (
        "a INT PRIMARY KEY NOT ENFORCED RELY",
        {"key": ("a",), "key_enforced": False},
        C("a", "INT", primary_key=True, key_enforced=False),
    ),
    ("a INT, PRIMARY KEY (a)", {"key": ("a",)}, A),
    ("PRIMARY KEY (a), a INT", {"key": ("a",)}, A),
    ("a INT, CONSTRAINT pk PRIMARY KEY (a) ENFORCED", {"key": ("a",)}, A),
    ("a INT, PRIMARY KEY (a, `B b`) NOT ENFORCED", {"key": ("a", "B b"), "key_enforced": False}, A),
]

QUERIES = [
    ("CREATE TABLE t AS SELECT * FROM u;", create(query="SELECT * FROM u")),
    ("CREATE TABLE t SELECT 1", create(query="SELECT 1")),
    ("CREATE TABLE t AS WITH c AS (SELECT 1) TABLE c", create(query="WITH c AS (SELECT 1) TABLE c")),
    ("CREATE TABLE t AS (SELECT 1)", create(query="(SELECT 1)")),
    ("CREATE TABLE t AS VALUES (1), (2)", create(query="VALUES (1), (2)")),
    ("CREATE TABLE t COMMENT 'x' AS SELECT 1 -- y", create(query="SELECT 1")),
    ("CREATE TABLE t (a INT) AS SELECT 1", create(A, query="SELECT 1")),
]

OTHERS = [
    ("CREATE SCHEMA s", CreateSchema("s")),
    ("CREATE SCHEMA IF NOT EXISTS `s t`", CreateSchema("s t", True)),
    ("CREATE DATABASE s", CreateSchema("s")),
    ("CREATE VIEW v AS SELECT 1", CreateView(("v",), "SELECT 1")),
    (
        "CREATE OR REPLACE VIEW s.v (a, `b c`) COMMENT 'x' AS SELECT 1, 2;",
        CreateView(("s", "v"), "SELECT 1, 2", ("a", "b c"), "x", replace=True),
    ),
    ("CREATE VIEW IF NOT EXISTS v AS FROM t", CreateView(("v",), "FROM t", if_not_exists=True)),
    ("CREATE TEMPORARY VIEW v AS SELECT 1", CreateTempView("v", False, "SELECT 1")),
    ("CREATE OR REPLACE TEMP VIEW `v w` AS SELECT 1", CreateTempView("v w", True, "SELECT 1")),
    ("CREATE TEMP VIEW v (a) AS SELECT 1", Query("CREATE TEMP VIEW v (a) AS SELECT 1")),
    ("CREATE FUNCTION f AS 'x.Y'", Query("CREATE FUNCTION f AS 'x.Y'")),
    ("DROP TABLE t", DropTable(("t",))),
    ("DROP TABLE IF EXISTS s.t PURGE", DropTable(("s", "t"), True)),
    ("DROP VIEW IF EXISTS v", DropView(("v",), True)),
    ("DROP SCHEMA s CASCADE", DropSchema("s", cascade=True)),
    ("DROP DATABASE IF EXISTS s RESTRICT", DropSchema("s", True)),
    ("DROP FUNCTION f", Query("DROP FUNCTION f")),
]

ALTERS = [
    ("ALTER TABLE t ADD COLUMN a INT", AddColumns(("t",), (A,))),
    ("ALTER TABLE t ADD a INT NOT NULL DEFAULT 0", AddColumns(("t",), (C("a", "INT", False, "0"),))),
    (
        "ALTER TABLE s.t ADD COLUMNS (a INT, b DECIMAL(4, 2) COMMENT 'x')",
        AddColumns(("s", "t"), (A, C("b", "DECIMAL(4, 2)", comment="x"))),
    ),
    ("ALTER TABLE t DROP COLUMN a", DropColumns(("t",), ("a",))),
    ("ALTER TABLE t DROP COLUMNS (a, `b c`)", DropColumns(("t",), ("a", "b c"))),
    ("ALTER TABLE t DROP COLUMN IF EXISTS a, b", DropColumns(("t",), ("a", "b"), True)),
    ("ALTER TABLE t RENAME TO s.u", RenameTable(("t",), ("s", "u"))),
    ("ALTER TABLE t RENAME COLUMN a TO `b c`", RenameColumn(("t",), "a", "b c")),
    ("ALTER TABLE t ALTER COLUMN a TYPE BIGINT", AlterColumn(("t",), "a", type="BIGINT")),
    ("ALTER TABLE t CHANGE COLUMN a TYPE BIGINT", AlterColumn(("t",), "a", type="BIGINT")),
    ("ALTER TABLE t ALTER a SET DATA TYPE DECIMAL(20, 2)", AlterColumn(("t",), "a", type="DECIMAL(20, 2)")),
    ("ALTER TABLE t ALTER a SET NOT NULL", AlterColumn(("t",), "a", nullable=False)),
    ("ALTER TABLE t ALTER COLUMN a DROP NOT NULL", AlterColumn(("t",), "a", nullable=True)),
    ("ALTER TABLE t ALTER COLUMN a SET DEFAULT 1 + 2;", AlterColumn(("t",), "a", default="1 + 2")),
    ("ALTER TABLE t ALTER COLUMN a DROP DEFAULT", AlterColumn(("t",), "a", drop_default=True)),
    ("ALTER TABLE t ALTER COLUMN a COMMENT 'x'", AlterColumn(("t",), "a", comment="x")),
    ("ALTER VIEW v AS SELECT 1", Query("ALTER VIEW v AS SELECT 1")),
]


@pytest.mark.parametrize(("sql", "statement"), [*TABLES, *TYPES, *QUERIES, *OTHERS, *ALTERS])
def test_definitions(sql: str, statement: Statement) -> None:
    assert parse_statement(sql) == statement


@pytest.mark.parametrize("after", ["", " NOT NULL", " COMMENT 'x'", ", b INT"])
@pytest.mark.parametrize(("text", "default"), DEFAULTS)
def test_defaults_end_where_the_next_word_begins(text: str, default: str, after: str) -> None:
    parsed = parse_statement(f"CREATE TABLE t (a INT DEFAULT {text}{after})")
    assert isinstance(parsed, CreateTable)
    assert parsed.columns[0].default == default


@pytest.mark.parametrize(("body", "options", "column"), KEYS)
def test_keys(body: str, options: dict[str, object], column: ColumnDefinition) -> None:
    assert parse_statement(f"CREATE TABLE t ({body})") == create(column, **options)


REFUSED = [
    ("CREATE TABLE t (a INT UNIQUE)", "UNIQUE"),
    ("CREATE TABLE t (a INT, UNIQUE (a))", "UNIQUE"),
    ("CREATE TABLE t (a INT CHECK (a > 1))", "CHECK"),
    ("CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 1))", "CHECK"),
    ("CREATE TABLE t (a INT REFERENCES u (a))", "REFERENCES"),
    ("CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u (a))", "FOREIGN"),
    ("CREATE TABLE t (a INT GENERATED ALWAYS AS IDENTITY)", "GENERATED"),
    ("CREATE TABLE t (a INT) USING delta", "USING"),
    ("CREATE TABLE t USING parquet AS SELECT 1", "USING"),
    ("CREATE TABLE t (a INT) PARTITIONED BY (a)", "PARTITIONED"),
    ("CREATE TABLE t (a INT) CLUSTER BY (a)", "CLUSTER"),
    ("CREATE TABLE t (a INT) LOCATION '/x'", "LOCATION"),
    ("ALTER TABLE t ADD COLUMN a INT FIRST", "FIRST"),
    ("ALTER TABLE t ADD COLUMN a INT DEFAULT 5 AFTER b", "AFTER"),
]


@pytest.mark.parametrize(("sql", "word"), REFUSED)
def test_what_we_do_not_have_is_refused_by_name(sql: str, word: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_statement(sql)
    assert word in caught.value.feature
    assert caught.value.hint.endswith(".")


WRONG_MEANINGS = [
    "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a), PRIMARY KEY (b))",
    "CREATE TABLE t (a INT DEFAULT)",
    "CREATE TABLE t (a INT DEFAULT, b INT)",
    "CREATE TABLE t AS",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT",
    "ALTER TABLE t ADD COLUMN s.f INT",
    "ALTER TABLE t ADD PRIMARY KEY (a)",
    "CREATE OR REPLACE SCHEMA s",
]


@pytest.mark.parametrize("sql", WRONG_MEANINGS)
def test_what_cannot_be_meant_is_refused(sql: str) -> None:
    """A part that is missing, or that we would ignore, is an error and not silence."""
    with pytest.raises(TrickleError):
        parse_statement(sql)

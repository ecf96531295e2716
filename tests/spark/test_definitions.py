"""CREATE, DROP and what shows them: tables, schemas, defaults, keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_trickle.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    InvalidDefinitionError,
    SchemaNotFoundError,
    TableNotFoundError,
    TrickleError,
    UnsupportedError,
)
from spark_trickle.session import Trickle
from tests.conftest import rows

_EVERYTHING = """
CREATE TABLE everything (
  id BIGINT NOT NULL COMMENT 'it''s the key', `two words` STRING DEFAULT 'a, b', n INT DEFAULT 1 + 2 NOT NULL,
  price DECIMAL(10, 2) DEFAULT 9.99, tags ARRAY<STRUCT<a: INT, b: ARRAY<STRING>>>, at TIMESTAMP DEFAULT current_timestamp(),
  c CHAR(3), d VARCHAR(5) DEFAULT 'x', span INTERVAL DAY TO SECOND,
  CONSTRAINT pk PRIMARY KEY (id, n) NOT ENFORCED
) COMMENT 'all options'
"""


def test_a_table_with_all_options_is_shown_as_it_was_made(tr: Trickle) -> None:
    tr.sql(_EVERYTHING)
    tr.sql("INSERT INTO everything (id, c) VALUES (1, 'abc')")
    assert rows(tr.sql("SELECT id, `two words`, n, price, tags, c, d, span FROM everything WHERE at IS NOT NULL")) == [
        (1, "a, b", 3, Decimal("9.99"), None, "abc", "x", None)
    ]  # fmt: skip
    described = rows(tr.sql("DESCRIBE everything"))
    assert ("id", "bigint", "it's the key") in described
    assert ("tags", "array<struct<`a`: int, `b`: array<string>>>", None) in described
    assert ("# Primary key", "(id, n)", "not enforced") in described
    text = tr.sql("SHOW CREATE TABLE everything").collect()[0][0]
    tr.sql("DROP TABLE everything")
    tr.sql(text)
    assert rows(tr.sql("DESCRIBE TABLE EXTENDED main.everything")) == described
    assert tr.sql("SHOW CREATE TABLE everything").collect()[0][0] == text
    assert rows(tr.table("everything")) == []


def test_if_not_exists_and_or_replace(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (a INT)")
    tr.sql("INSERT INTO t VALUES (1)")
    old = tr.snapshot
    tr.sql("CREATE TABLE IF NOT EXISTS T (b STRING)")
    assert tr.snapshot == old
    with pytest.raises(AlreadyExistsError):
        tr.sql("CREATE TABLE t (b STRING)")
    tr.sql("CREATE OR REPLACE TABLE t AS SELECT a + 1 AS b, 'x' AS c FROM t")
    assert rows(tr.table("t")) == [(2, "x")]
    tr.sql("CREATE OR REPLACE TABLE t (d DATE)")
    assert tr.table("t").columns == ["d"]
    assert rows(tr.table("t")) == []
    assert rows(tr.sql(f"SELECT a FROM t VERSION AS OF {old}")) == [(1,)]
    assert rows(tr.sql(f"SELECT * FROM t VERSION AS OF {old + 1}")) == [(2, "x")]


def test_create_table_as_select(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    done = tr.sql("CREATE TABLE a AS SELECT id, id % 2 = 0 AS even FROM range(5)").collect()[0]
    assert (done.rows_inserted, done.snapshot) == (5, tr.snapshot)
    tr.sql("CREATE TABLE b (PRIMARY KEY (id)) AS WITH x AS (SELECT * FROM a WHERE even) SELECT * FROM x")
    assert rows(tr.table("b")) == [(0, True), (2, True), (4, True)]
    with pytest.raises(TrickleError, match="duplicate primary key"):
        tr.sql("INSERT INTO b VALUES (2, false)")
    tr.sql("CREATE TABLE c (x BIGINT NOT NULL, y STRING DEFAULT 'd') AS SELECT id, even FROM b")
    assert rows(tr.table("c")) == [(0, "true"), (2, "true"), (4, "true")]
    before = tr.snapshot
    with pytest.raises(TrickleError, match="duplicate primary key"):
        tr.sql("CREATE TABLE d (PRIMARY KEY (even)) AS SELECT * FROM a")
    with pytest.raises(TrickleError):
        tr.sql("CREATE TABLE d AS SELECT 1 / (id - 3) AS x FROM a")
    assert tr.snapshot == before
    assert rows(tr.sql("SHOW TABLES")) == [("main", n, False) for n in "abc"]


def test_schemas(tr: Trickle) -> None:
    tr.sql("CREATE SCHEMA sales")
    tr.sql("CREATE SCHEMA IF NOT EXISTS SALES")
    tr.sql("CREATE TABLE sales.t AS SELECT 1 AS a")
    tr.sql("CREATE TABLE t AS SELECT 2 AS a")
    assert rows(tr.sql("SELECT a FROM sales.t UNION ALL SELECT a FROM t")) == [(1,), (2,)]
    tr.sql("USE sales")
    assert rows(tr.sql("SELECT a FROM t UNION ALL SELECT a FROM main.t")) == [(1,), (2,)]
    assert rows(tr.sql("SHOW TABLES")) == [("sales", "t", False)]
    assert rows(tr.sql("SHOW TABLES IN main LIKE 'T*'")) == [("main", "t", False)]
    assert rows(tr.sql("SHOW SCHEMAS")) == [("main",), ("sales",)]
    tr.sql("USE main")
    filled = tr.snapshot
    with pytest.raises(InvalidDefinitionError, match="not empty"):
        tr.sql("DROP SCHEMA sales")
    tr.sql("DROP SCHEMA sales CASCADE")
    assert rows(tr.sql(f"SELECT * FROM sales.t VERSION AS OF {filled}")) == [(1,)]
    tr.sql("DROP SCHEMA IF EXISTS sales")
    for statement in (
        "DROP SCHEMA sales",
        "USE sales",
        "CREATE TABLE sales.u (a INT)",
        "SHOW TABLES IN sales",
    ):
        with pytest.raises(SchemaNotFoundError):
            tr.sql(statement)
    tr.sql("CREATE SCHEMA sales")
    assert rows(tr.sql("SHOW TABLES IN sales")) == []


def test_drop_keeps_the_past(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 1 AS a")
    filled = tr.snapshot
    tr.sql("DROP TABLE t")
    tr.sql("DROP TABLE IF EXISTS t")
    with pytest.raises(TableNotFoundError):
        tr.sql("DROP TABLE t")
    with pytest.raises(TableNotFoundError):
        tr.sql("SELECT * FROM t")
    tr.sql("CREATE TABLE t (a STRING)")
    assert rows(tr.table("t")) == []
    assert rows(tr.table("t", snapshot=filled)) == [(1,)]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("CREATE TABLE x (a INT, A STRING)", InvalidDefinitionError),
        ("CREATE TABLE x (_w INT)", InvalidDefinitionError),
        ("CREATE TABLE x AS SELECT 1 AS _change_type", InvalidDefinitionError),
        ("CREATE TABLE x (a INT, PRIMARY KEY (b))", ColumnNotFoundError),
        ("CREATE TABLE x (a INT PRIMARY KEY, b INT PRIMARY KEY)", TrickleError),
        ("CREATE TABLE x (a ARRAY<INT>, PRIMARY KEY (a))", InvalidDefinitionError),
        ("CREATE TABLE x (a INT DEFAULT 'text')", InvalidDefinitionError),
        ("CREATE TABLE x (a INT DEFAULT (SELECT max(id) FROM t))", InvalidDefinitionError),
        ("CREATE TABLE x (a VARCHAR(2) DEFAULT 'abcdef')", TrickleError),
        ("CREATE TABLE x (a NOTHING)", TrickleError),
        ("CREATE TABLE x ()", TrickleError),
        ("CREATE TABLE x", TrickleError),
        ("CREATE TABLE a.b.c (a INT)", InvalidDefinitionError),
        ("CREATE TABLE x (a INT) USING delta", UnsupportedError),
        ("CREATE TABLE x (a INT) PARTITIONED BY (a)", UnsupportedError),
        ("CREATE TABLE x (a INT, CHECK (a > 0))", UnsupportedError),
        ("CREATE TABLE x (a INT GENERATED ALWAYS AS IDENTITY)", UnsupportedError),
        ("CREATE SCHEMA _trickle", InvalidDefinitionError),
        ("CREATE SCHEMA main", AlreadyExistsError),
        ("DROP SCHEMA main", InvalidDefinitionError),
        ("DROP SCHEMA _trickle", TrickleError),
        ("SELECT * FROM _trickle.`main.t`", TableNotFoundError),
        ("DESCRIBE nothing", TableNotFoundError),
    ],
)  # fmt: skip
def test_wrong_definitions_are_refused(module_tr: Trickle, sql: str, error: type[TrickleError]) -> None:
    before = module_tr.snapshot
    with pytest.raises(error) as found:
        module_tr.sql(sql)
    assert found.value.hint
    assert module_tr.snapshot == before


def test_defaults_fit_their_column_however_they_are_used(tr_sqlite: Trickle) -> None:
    """A default goes through the same door as a given value: CHAR is padded, VARCHAR is measured."""
    tr = tr_sqlite
    tr.sql(
        "CREATE TABLE t (id INT, c CHAR(4) DEFAULT 'ab', f FLOAT DEFAULT 0.1, d DATE DEFAULT date'2026-01-31')"
    )
    tr.sql("INSERT INTO t (id) VALUES (1)")
    tr.sql("INSERT INTO t VALUES (2, DEFAULT, DEFAULT, DEFAULT)")
    tr.sql("INSERT INTO t VALUES (3, 'ab', 0.1, date'2026-01-31')")
    tr.sql("INSERT INTO t VALUES (4, '', 0, NULL)")
    tr.sql("UPDATE t SET c = DEFAULT, f = DEFAULT, d = DEFAULT WHERE id = 4")
    tr.sql(
        "MERGE INTO t USING (SELECT 5 AS id) AS s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    tr.sql("ALTER TABLE t ADD COLUMN e CHAR(3) DEFAULT 'z'")
    found: list[tuple[Any, ...]] = rows(tr.sql("SELECT id, c, f = CAST(0.1 AS FLOAT), string(d), e FROM t"))
    assert found == [(n, "ab  ", True, "2026-01-31", "z  ") for n in range(1, 6)]

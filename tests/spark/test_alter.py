"""ALTER TABLE: old files and old snapshots stay readable, whatever happened to the columns since."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from spark_trickle.errors import InvalidDefinitionError, NotNullViolationError, TrickleError, UnsupportedError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.spark.paths import Lake


def test_columns_come_go_and_change_their_names(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (id INT, a STRING, b INT, PRIMARY KEY (id))")
    tr.sql("INSERT INTO t VALUES (1, 'x', 10), (2, 'y', 20)")
    first = tr.snapshot
    tr.sql("ALTER TABLE t DROP COLUMN a")
    tr.sql("ALTER TABLE t ADD COLUMN a INT")
    assert rows(tr.sql("SELECT id, a, b FROM t")) == [(1, None, 10), (2, None, 20)]
    tr.sql("UPDATE t SET a = 7 WHERE id = 1")
    second = tr.snapshot
    tr.sql("ALTER TABLE t RENAME COLUMN a TO tmp")
    tr.sql("ALTER TABLE t RENAME COLUMN b TO a")
    tr.sql("ALTER TABLE t RENAME COLUMN tmp TO b")
    assert rows(tr.sql("SELECT id, a, b FROM t")) == [(1, 10, 7), (2, 20, None)]
    tr.sql("ALTER TABLE t DROP COLUMNS (a, b)")
    assert rows(tr.table("t")) == [(1,), (2,)]
    assert rows(tr.sql(f"SELECT id, a, b FROM t VERSION AS OF {first}")) == [(1, "x", 10), (2, "y", 20)]
    assert rows(tr.sql(f"SELECT id, a, b FROM t VERSION AS OF {second}")) == [(1, 7, 10), (2, None, 20)]
    tr.sql("OPTIMIZE t")
    assert rows(tr.table("t", snapshot=first)) == [(1, "x", 10), (2, "y", 20)]
    assert rows(tr.table("t")) == [(1,), (2,)]


_REUSED: dict[str, tuple[list[str], str, list[tuple[Any, ...]]]] = {
    # a name that meant another column in old files: what changes the table, a query, its rows
    "null": (["DROP COLUMN a", "ADD COLUMN a INT"], "SELECT id FROM t WHERE a IS NULL", [(1,), (2,), (3,)]),
    "default": (["DROP COLUMN a", "ADD COLUMN a INT DEFAULT 5"], "SELECT id FROM t WHERE a = 5", [(1,), (2,), (3,)]),
    "swapped": (
        ["RENAME COLUMN a TO x", "RENAME COLUMN b TO a", "RENAME COLUMN x TO B"],
        "SELECT id, a, b FROM t WHERE a > 100 AND b < 100",
        [(2, 200, 20), (3, 300, 30)],
    ),
    "moved": (
        ["RENAME COLUMN a TO x", "RENAME COLUMN b TO A"],
        "SELECT id, a FROM t WHERE a IN (200, 300) AND x <> 30",
        [(2, 200)],
    ),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", _REUSED)
def test_a_condition_on_a_name_that_meant_another_column(lake: Lake, name: str) -> None:
    """Spark skips files by what their columns are called in them."""
    alters, query, found = _REUSED[name]
    tr = lake.tr
    tr.sql("CREATE TABLE t (id INT, a INT, b INT)")
    tr.sql("INSERT INTO t VALUES (1, 10, 100), (2, 20, 200)")
    tr.sql("INSERT INTO t VALUES (3, 30, 300)")
    for alter in alters:
        tr.sql(f"ALTER TABLE t {alter}")
    assert rows(tr.sql(query)) == found
    tr.sql(f"CREATE STREAM TABLE st AS {query}")
    assert rows(tr.table("st")) == found
    tr.sql("INSERT INTO t VALUES (4, NULL, NULL)")
    tr.sql("DELETE FROM t WHERE id = 3")
    tr.refresh("st")
    assert rows(tr.table("st")) == rows(tr.sql(query))
    condition = query.partition("WHERE")[2]
    tr.sql(f"DELETE FROM t WHERE {condition}")
    assert rows(tr.sql(query)) == []
    tr.sql("DROP STREAM TABLE st")
    tr.sql("DROP TABLE t")


def test_values_that_are_missing_are_found_under_a_name_used_before(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (id INT, a INT)")
    tr.sql("INSERT INTO t VALUES (1, 10)")
    tr.sql("ALTER TABLE t DROP COLUMN a")
    tr.sql("ALTER TABLE t ADD COLUMN a INT")
    with pytest.raises(NotNullViolationError):
        tr.sql("ALTER TABLE t ALTER COLUMN a SET NOT NULL")


_ADDED: list[tuple[str, str, Any]] = [
    ("INT", "40 + 2", "42"),
    ("STRING", "'it''s {x} \\\\ ok'", "it's {x} \\ ok"),
    ("STRING", "''", ""),
    ("STRING", "'NULL'", "NULL"),
    ("DOUBLE", "double('NaN')", "NaN"),
    ("FLOAT", "0.1", "0.1"),
    ("DECIMAL(38, 18)", "-1.5", "-1.500000000000000000"),
    ("BOOLEAN", "true", "true"),
    ("DATE", "date'0001-01-01'", "0001-01-01"),
    ("TIMESTAMP", "timestamp'2026-07-01 12:00:00+02:00'", "2026-07-01 10:00:00"),
    ("TIMESTAMP_NTZ", "timestamp_ntz'2026-07-01 12:00:00.000001'", "2026-07-01 12:00:00.000001"),
]  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        "INTERVAL DAY TO SECOND DEFAULT interval '1' day",
        "BINARY DEFAULT X'00'",
    ],
)
def test_a_default_that_old_files_cannot_take_is_refused(tr_sqlite: Trickle, column: str) -> None:
    tr_sqlite.sql("CREATE TABLE t (id INT)")
    with pytest.raises(UnsupportedError, match="then UPDATE the rows"):
        tr_sqlite.sql(f"ALTER TABLE t ADD COLUMN c {column}")


def test_an_added_column_gives_its_default_to_old_rows(lake: Lake) -> None:
    """Also after the default changed, after old rows were updated or deleted, and after compaction."""
    tr = lake.tr
    tr.spark.conf.set("spark.sql.session.timeZone", "UTC")
    lake.setup.sql("CREATE TABLE grown (id INT)")
    lake.setup.sql("INSERT INTO grown VALUES (1), (2), (3), (4), (5)")
    before = tr.snapshot
    for n, (kind, default, _) in enumerate(_ADDED):
        tr.sql(f"ALTER TABLE grown ADD COLUMN c{n} {kind} DEFAULT {default}")
    texts = ", ".join(f"string(c{n})" for n in range(len(_ADDED)))
    values = tuple(text for _, _, text in _ADDED)
    assert rows(tr.sql(f"SELECT id, {texts} FROM grown")) == [(i, *values) for i in range(1, 6)]
    tr.sql("ALTER TABLE grown ALTER COLUMN c0 SET DEFAULT 43")
    tr.sql("INSERT INTO grown (id) VALUES (6), (7)")
    tr.sql("UPDATE grown SET id = id + 10 WHERE id IN (2, 3)")
    tr.sql("DELETE FROM grown WHERE id IN (1, 6)")
    expected = sorted([(7, "43", *values[1:]), *((i, *values) for i in (4, 5, 12, 13))], key=repr)
    assert rows(tr.sql(f"SELECT id, {texts} FROM grown")) == expected
    assert rows(tr.sql(f"SELECT * FROM grown VERSION AS OF {before}")) == [(i,) for i in range(1, 6)]
    tr.sql("ALTER TABLE grown ALTER COLUMN c0 DROP DEFAULT")
    tr.sql("OPTIMIZE grown")
    assert rows(tr.sql(f"SELECT id, {texts} FROM grown")) == expected
    tr.sql("INSERT INTO grown (id, c1) VALUES (8, NULL)")
    assert rows(tr.sql("SELECT c0, c1, c3 FROM grown WHERE id = 8")) == [(None, None, "NULL")]


_WIDENED = [
    ("TINYINT", "-128", "SMALLINT", "300", [-128, 300]),
    ("SMALLINT", "-300", "INT", "70000", [-300, 70000]),
    ("INT", "-70000", "BIGINT", "5000000000", [-70000, 5000000000]),
    ("TINYINT", "127", "BIGINT", "5000000000", [127, 5000000000]),
    ("FLOAT", "0.5", "DOUBLE", "0.1", [0.1, 0.5]),
    ("DECIMAL(5, 2)", "123.45", "DECIMAL(20, 4)", "1.2345", [Decimal("1.2345"), Decimal("123.4500")]),
    ("DECIMAL(20, 2)", "-9.99", "DECIMAL(38, 18)", "1", [Decimal("-9.99"), Decimal(1)]),
    ("VARCHAR(2)", "'ab'", "VARCHAR(4)", "'abcd'", ["ab", "abcd"]),
    ("VARCHAR(4)", "'abcd'", "STRING", "'abcdef'", ["abcd", "abcdef"]),
]  # fmt: skip


def test_every_widening_reads_old_files(lake: Lake) -> None:
    """Rows deleted before and after a widening are gone, whatever type their deletion was written in."""
    tr = lake.tr
    columns = ", ".join(f"c{n} {old}" for n, (old, *_) in enumerate(_WIDENED))
    lake.setup.sql(f"CREATE TABLE wide (k STRING, {columns})")
    small = ", ".join(value for _, value, *_ in _WIDENED)
    lake.setup.sql(
        f"INSERT INTO wide VALUES ('keep', {small}), ('keep', {small}), ('gone', {small}), ('later', {small})"
    )
    tr.sql(f"INSERT INTO wide VALUES ('keep', {small}), ('later', {small})")
    tr.sql("DELETE FROM wide WHERE k = 'gone'")
    before = tr.snapshot
    for n, (_, _, new, *_) in enumerate(_WIDENED):
        tr.sql(f"ALTER TABLE wide ALTER COLUMN c{n} TYPE {new}")
    large = ", ".join(value for _, _, _, value, _ in _WIDENED)
    tr.sql(f"INSERT INTO wide VALUES ('new', {large}), ('later', {large})")
    tr.sql("DELETE FROM wide WHERE k = 'later'")
    for _ in range(2):
        assert rows(tr.sql("SELECT k, count(*) FROM wide GROUP BY k")) == [("keep", 3), ("new", 1)]
        found = tr.sql("SELECT DISTINCT * FROM wide").collect()
        for n, (*_, values) in enumerate(_WIDENED):
            assert sorted(r[n + 1] for r in found) == values
        tr.sql("OPTIMIZE wide")
    assert rows(tr.sql(f"SELECT k, count(*) FROM wide VERSION AS OF {before} GROUP BY k")) == [
        ("keep", 3),
        ("later", 2),
    ]
    types = dict(r[:2] for r in rows(tr.sql("DESCRIBE wide")))
    assert types["c5"] == "decimal(20,4)"


def test_a_default_of_a_float_column_survives_its_widening(tr_sqlite: Trickle) -> None:
    """Old rows hold the FLOAT 0.1; as DOUBLE that is not 0.1, and their deletions must still meet them."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (id INT)")
    tr.sql("INSERT INTO t VALUES (1), (2), (3)")
    tr.sql("ALTER TABLE t ADD COLUMN f FLOAT DEFAULT 0.1")
    tr.sql("INSERT INTO t (id) VALUES (4)")
    tr.sql("DELETE FROM t WHERE id = 1")
    before = rows(tr.sql("SELECT id, double(f) FROM t"))
    tr.sql("ALTER TABLE t ALTER COLUMN f TYPE DOUBLE")
    assert rows(tr.table("t")) == before
    tr.sql("DELETE FROM t WHERE id = 2")
    assert rows(tr.table("t")) == before[1:]


def test_tables_are_renamed_and_moved(tr: Trickle) -> None:
    tr.sql("CREATE SCHEMA s")
    tr.sql("CREATE TABLE a AS SELECT 'a' AS x")
    tr.sql("CREATE TABLE b AS SELECT 'b' AS x")
    first = tr.snapshot
    with tr.transaction():
        tr.sql("ALTER TABLE a RENAME TO c")
        tr.sql("ALTER TABLE b RENAME TO a")
        tr.sql("ALTER TABLE c RENAME TO s.b")
        tr.sql("INSERT INTO s.b VALUES ('more')")
    assert rows(tr.sql("SELECT x FROM a")) == [("b",)]
    assert rows(tr.sql("SELECT x FROM s.b")) == [("a",), ("more",)]
    assert rows(tr.sql(f"SELECT x FROM a VERSION AS OF {first}")) == [("a",)]
    assert rows(tr.sql(f"SELECT x, _change_type FROM trickle.changes('s.b', {first})")) == [
        ("more", "insert")
    ]
    with pytest.raises(TrickleError):
        tr.sql("ALTER TABLE a RENAME TO s.b")


def test_nullability_and_defaults_can_be_altered(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT NOT NULL)")
    tr.sql("INSERT INTO t VALUES (1, NULL, 2)")
    with pytest.raises(NotNullViolationError):
        tr.sql("ALTER TABLE t ALTER COLUMN a SET NOT NULL")
    with pytest.raises(NotNullViolationError):
        tr.sql("ALTER TABLE t ADD COLUMN c INT NOT NULL")
    tr.sql("UPDATE t SET a = 1")
    tr.sql("ALTER TABLE t ALTER COLUMN a SET NOT NULL")
    with pytest.raises(NotNullViolationError):
        tr.sql("INSERT INTO t VALUES (2, NULL, 2)")
    tr.sql("ALTER TABLE t ALTER COLUMN b DROP NOT NULL")
    tr.sql("ALTER TABLE t ADD COLUMNS (c INT NOT NULL DEFAULT 5, d STRING COMMENT 'new')")
    tr.sql("INSERT INTO t VALUES (2, 2, NULL, DEFAULT, 'd')")
    assert rows(tr.table("t")) == [(1, 1, 2, 5, None), (2, 2, None, 5, "d")]
    tr.sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS d INT")
    assert tr.table("t").columns == ["id", "a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("ADD COLUMN ID INT", InvalidDefinitionError),
        ("ADD COLUMN c INT FIRST", UnsupportedError),
        ("ADD COLUMN c MAP<INT, INT>", TrickleError),
        ("ADD COLUMN c INT DEFAULT 'x'", InvalidDefinitionError),
        ("DROP COLUMN nothing", TrickleError),
        ("DROP COLUMNS (id, v)", InvalidDefinitionError),
        ("RENAME COLUMN id TO v", InvalidDefinitionError),
        ("RENAME COLUMN id TO _w", InvalidDefinitionError),
        ("ALTER COLUMN id TYPE SMALLINT", InvalidDefinitionError),
        ("ALTER COLUMN id TYPE STRING", InvalidDefinitionError),
        ("ALTER COLUMN v TYPE VARCHAR(10)", InvalidDefinitionError),
        ("ALTER COLUMN v SET DEFAULT unknown_function()", TrickleError),
        ("SET TBLPROPERTIES ('a' = 'b')", TrickleError),
    ],
)
def test_wrong_changes_are_refused(module_tr: Trickle, change: str, error: type[TrickleError]) -> None:
    before = module_tr.snapshot
    with pytest.raises(error):
        module_tr.sql(f"ALTER TABLE t {change}")
    assert module_tr.snapshot == before

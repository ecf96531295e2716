"""A statement that asks for what is not there or cannot be gets a clear error and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import errors as e
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import Errors, check_refused

SETUP = (
    "CREATE SCHEMA other",
    "CREATE TABLE t (id BIGINT, name STRING, n INT, PRIMARY KEY (id))",
    "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 2147483647)",
    "CREATE TABLE plain (id INT, txt STRING)",
    "INSERT INTO plain VALUES (1, '1'), (2, 'zwei'), (0, NULL)",
    "CREATE TABLE words (word STRING NOT NULL, n INT, PRIMARY KEY (word))",
    "INSERT INTO words SELECT repeat('w', 5000), 1",
    "CREATE TABLE typed (b TINYINT, s SMALLINT, i INT, l BIGINT, d DOUBLE, m DECIMAL(5,2), c VARCHAR(3), "
    "bo BOOLEAN, da DATE, ts TIMESTAMP, a ARRAY<INT>, st STRUCT<x: INT>, nn INT NOT NULL DEFAULT 1)",
    "CREATE VIEW v AS SELECT id FROM t",
)
T = [(1, "a", 10), (2, "b", 20), (3, None, 2147483647)]

# statement, error, words of its text
NAMES: list[tuple[str, Errors, str]] = [
    ("SELECT * FROM nope", e.TableNotFoundError, '"nope" plain t typed'),
    ("SELECT * FROM plian", e.TableNotFoundError, '"plian" Did you mean "plain"?'),
    ("SELECT * FROM other.nope", e.TableNotFoundError, '"other.nope"'),
    ("SELECT * FROM nope.t", e.TableNotFoundError, '"nope.t"'),
    ("SELECT nope FROM t", e.ColumnNotFoundError, '"nope" id n name'),
    ("SELECT t.nope FROM t", e.ColumnNotFoundError, '"t.nope"'),
    ("SELECT x.id FROM t", e.ColumnNotFoundError, '"x.id"'),
    ("SELECT nope(id) FROM t", e.QueryError, "nope"),
    ("SELECT abs(id, id) FROM t", e.QueryError, "abs 1 2"),
    ("SELECT sum(id), name FROM t", e.QueryError, "GROUP BY"),
    ("SELECT id FROM t JOIN plain ON t.id = plain.id", e.QueryError, "ambiguous id"),
    ("SELECT * FROM t UNION SELECT id FROM t", e.QueryError, "UNION 3 1"),
    ("SELECT * FROM parquet.`/nowhere`", e.QueryError, "/nowhere"),
    ("INSERT INTO nope VALUES (1)", e.TableNotFoundError, '"nope"'),
    ("INSERT INTO v VALUES (1)", e.TableNotFoundError, "view"),
    ("INSERT INTO t (id, nope) VALUES (1, 2)", e.ColumnNotFoundError, '"nope"'),
    ("INSERT INTO t (id, ID) VALUES (1, 2)", e.InvalidDefinitionError, "twice"),
    ("INSERT INTO t VALUES (9)", e.InvalidDefinitionError, "3 columns 1 values id, name, n"),
    ("INSERT INTO t VALUES (9, 'x', 2, 3)", e.InvalidDefinitionError, "3 columns 4 values"),
    ("INSERT INTO t (id, name) VALUES (9)", e.InvalidDefinitionError, "2 columns 1 values"),
    ("INSERT INTO t VALUES (9, 'x', 2), (10, 'y')", (e.QueryError, e.InvalidDefinitionError), "3 columns 2"),
    ("INSERT INTO t SELECT nope FROM plain", e.ColumnNotFoundError, '"nope"'),
    ("INSERT INTO t SELECT * FROM nope", e.TableNotFoundError, '"nope"'),
    ("UPDATE nope SET n = 1", e.TableNotFoundError, '"nope"'),
    ("UPDATE v SET id = 1", e.TableNotFoundError, "view"),
    ("UPDATE t SET nope = 1", e.ColumnNotFoundError, '"nope"'),
    ("UPDATE t SET n = nope", e.ColumnNotFoundError, '"nope"'),
    ("UPDATE t SET n = 1 WHERE nope = 2", e.ColumnNotFoundError, '"nope"'),
    ("UPDATE t SET n = 1, N = 2", e.InvalidDefinitionError, "twice"),
    ("UPDATE t SET n = p.nope FROM plain AS p", e.ColumnNotFoundError, '"p.nope"'),
    ("DELETE FROM nope", e.TableNotFoundError, '"nope"'),
    ("DELETE FROM v WHERE id = 1", e.TableNotFoundError, "view"),
    ("DELETE FROM t WHERE nope = 1", e.ColumnNotFoundError, '"nope"'),
    ("DELETE FROM t WHERE id IN (SELECT id, txt FROM plain)", e.QueryError, "IN subquery 1 2"),
    ("DELETE FROM t WHERE name", e.QueryError, "name boolean"),
    ("TRUNCATE TABLE nope", e.TableNotFoundError, '"nope"'),
    ("TRUNCATE TABLE v", e.TableNotFoundError, "view"),
    ("MERGE INTO nope USING t ON true WHEN MATCHED THEN DELETE", e.TableNotFoundError, '"nope"'),
    ("MERGE INTO t USING nope ON true WHEN MATCHED THEN DELETE", e.TableNotFoundError, '"nope"'),
    ("MERGE INTO t USING plain p ON t.id = p.nope WHEN MATCHED THEN DELETE",
     e.ColumnNotFoundError, '"p.nope"'),
    ("MERGE INTO t USING plain p ON t.id = p.id WHEN MATCHED THEN UPDATE SET nope = 1",
     e.ColumnNotFoundError, '"nope"'),
    ("MERGE INTO t USING plain p ON true WHEN NOT MATCHED THEN INSERT (id, nope) VALUES (1, 2)",
     e.ColumnNotFoundError, '"nope"'),
    ("DROP TABLE nope", e.TableNotFoundError, '"nope"'),
    ("DROP TABLE v", e.TableNotFoundError, "view"),
    ("DROP VIEW nope", e.TableNotFoundError, 'view "nope" v'),
    ("DROP VIEW t", e.TableNotFoundError, '"main.t" is a table, not a view Use DROP TABLE'),
    ("DROP STREAM TABLE t", e.TableNotFoundError, '"main.t" is a table, not a stream'),
    ("COMMENT ON TABLE t IS 'x'", e.UnsupportedError, '"t"'),
    ("COMMENT ON TABLE main.T IS 'x'", e.UnsupportedError, '"main.T"'),
    ("DROP SCHEMA nope", e.SchemaNotFoundError, '"nope" main other'),
    ("DROP SCHEMA main", e.InvalidDefinitionError, "main"),
    ("DROP SCHEMA _trickle", e.SchemaNotFoundError, "_trickle"),
    ("CREATE SCHEMA other", e.AlreadyExistsError, "other"),
    ("CREATE SCHEMA _trickle", e.InvalidDefinitionError, "reserved"),
    ("CREATE TABLE nope.x (id INT)", e.SchemaNotFoundError, '"nope"'),
    ("CREATE TABLE a.b.c (id INT)", e.InvalidDefinitionError, "a.b.c"),
    ("CREATE TABLE _trickle.x (id INT)", e.SchemaNotFoundError, "_trickle"),
    ("CREATE TABLE `` (id INT)", (e.InvalidDefinitionError, e.SqlSyntaxError), "name"),
    ("CREATE TABLE odd (`` INT)", (e.InvalidDefinitionError, e.SqlSyntaxError), "name"),
    ("CREATE TABLE t (id INT)", e.AlreadyExistsError, "table main.t"),
    ("CREATE TABLE v (id INT)", e.AlreadyExistsError, "view main.v"),
    ("CREATE VIEW t AS SELECT 1 AS x", e.AlreadyExistsError, "table main.t"),
    ("CREATE VIEW w AS SELECT nope FROM t", e.ColumnNotFoundError, '"nope"'),
    ("CREATE VIEW w (a, b) AS SELECT id FROM t", e.InvalidDefinitionError, "2 columns 1"),
    ("ALTER TABLE nope ADD COLUMN x INT", e.TableNotFoundError, '"nope"'),
    ("ALTER TABLE v ADD COLUMN x INT", e.TableNotFoundError, "view"),
    ("ALTER TABLE t DROP COLUMN nope", e.ColumnNotFoundError, '"nope"'),
    ("ALTER TABLE t RENAME COLUMN nope TO x", e.ColumnNotFoundError, '"nope"'),
    ("ALTER TABLE t RENAME COLUMN n TO ID", e.InvalidDefinitionError, "once"),
    ("ALTER TABLE t RENAME TO plain", e.AlreadyExistsError, "plain"),
    ("ALTER TABLE t RENAME TO nope.x", e.SchemaNotFoundError, '"nope"'),
    ("USE nope", e.SchemaNotFoundError, '"nope"'),
    ("DESCRIBE nope", e.TableNotFoundError, '"nope"'),
    ("SHOW TABLES IN nope", e.SchemaNotFoundError, '"nope"'),
    ("SHOW CREATE TABLE nope", e.TableNotFoundError, '"nope"'),
    ("OPTIMIZE nope", e.TableNotFoundError, '"nope"'),
    ("OPTIMIZE v", e.TableNotFoundError, "view"),
    ("VACUUM nope", e.TableNotFoundError, '"nope"'),
]  # fmt: skip

SNAPSHOTS: list[tuple[str, Errors, str]] = [
    ("SELECT * FROM t VERSION AS OF 999", e.SnapshotNotFoundError, "999"),
    ("SELECT * FROM t VERSION AS OF 99999999999999999999999",
     e.SnapshotNotFoundError, "99999999999999999999999"),
    ("SELECT * FROM t VERSION AS OF 0", e.TableNotFoundError, '"t" snapshot 0 trickle.snapshots()'),
    ("SELECT * FROM t VERSION AS OF x", e.SqlSyntaxError, "x snapshot"),
    ("SELECT * FROM t VERSION AS OF -1", (e.SqlSyntaxError, e.SnapshotNotFoundError), "-"),
    ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", e.SnapshotNotFoundError, "1999-01-01"),
    ("SELECT * FROM t TIMESTAMP AS OF 'nonsense'", (e.QueryError, e.SqlSyntaxError), "nonsense"),
    ("SELECT * FROM trickle.changes('t', 0, 999)", e.SnapshotNotFoundError, "999"),
    ("SELECT * FROM trickle.changes('t', 3, 1)", e.SnapshotNotFoundError, "3 1"),
    ("SELECT * FROM trickle.changes('t', 'a', 1)", e.InvalidDefinitionError, "snapshot numbers"),
    ("SELECT * FROM trickle.changes('t')", e.InvalidDefinitionError, "2 3 arguments 1"),
    ("SELECT * FROM trickle.changes('nope', 1, 2)", e.TableNotFoundError, '"nope"'),
    ("SELECT * FROM trickle.files('nope')", e.TableNotFoundError, '"nope"'),
    ("SELECT * FROM trickle.nope()", e.UnsupportedError, "trickle.nope trickle.changes"),
    ("SELECT * FROM t CHANGES FROM VERSION 1 TO VERSION 999", e.SnapshotNotFoundError, "999"),
    ("SELECT * FROM t CHANGES FROM VERSION 1 TO TIMESTAMP '2020-01-01'", e.SqlSyntaxError, "both"),
]  # fmt: skip

DEFINITIONS: list[tuple[str, Errors, str]] = [
    ("CREATE TABLE x (id INT, ID INT)", e.InvalidDefinitionError, "id once"),
    ("CREATE TABLE x (_w INT)", e.InvalidDefinitionError, "_w reserved"),
    ("CREATE TABLE x (id NOPE)", e.QueryError, "NOPE"),
    ("CREATE TABLE x (id INT, PRIMARY KEY (nope))", e.ColumnNotFoundError, '"nope"'),
    ("CREATE TABLE x (id INT, PRIMARY KEY (id, id))", e.InvalidDefinitionError, "twice"),
    ("CREATE TABLE x (a ARRAY<INT>, PRIMARY KEY (a))", e.InvalidDefinitionError, "ARRAY<INT>"),
    ("CREATE TABLE x (m MAP<INT, INT>)", e.TypeNotAllowedError, "MAP ARRAY<STRUCT"),
    ("CREATE TABLE x (m STRUCT<a: ARRAY<MAP<INT, INT>>>)", e.TypeNotAllowedError, "MAP"),
    ("CREATE TABLE x (m VARIANT)", e.TypeNotAllowedError, "VARIANT STRING"),
    ("CREATE TABLE x (id INT DEFAULT 'x')", e.InvalidDefinitionError, "id 'x'"),
    ("CREATE TABLE x (id INT DEFAULT nope)", (e.ColumnNotFoundError, e.InvalidDefinitionError), "nope"),
    ("CREATE TABLE x (id INT DEFAULT (SELECT max(id) FROM t))", e.InvalidDefinitionError, "reads table"),
    ("CREATE TABLE x (id INT DEFAULT 1/0)", e.InvalidDefinitionError, "zero"),
    ("CREATE TABLE x AS SELECT 1 AS a, 2 AS A", e.InvalidDefinitionError, "once"),
    ("CREATE TABLE x AS SELECT map(1, 2) AS m", e.TypeNotAllowedError, "MAP"),
    ("CREATE TABLE x AS SELECT NULL AS m", e.TypeNotAllowedError, "CAST"),
    ("CREATE TABLE x AS INSERT INTO t VALUES (9, 'x', 1)", (e.SqlSyntaxError, e.UnsupportedError), "query"),
    ("CREATE VIEW x AS DELETE FROM t", (e.SqlSyntaxError, e.UnsupportedError), "query"),
    ("CREATE TABLE x (id INT) USING csv", e.UnsupportedError, "USING"),
    ("CREATE TABLE x (id INT) PARTITIONED BY (id)", e.UnsupportedError, "PARTITIONED"),
    ("CREATE INDEX i ON t (id)", (e.SqlSyntaxError, e.UnsupportedError), "INDEX"),
    ("ANALYZE TABLE t COMPUTE STATISTICS", (e.SqlSyntaxError, e.UnsupportedError), "ANALYZE"),
    ("ALTER TABLE t ADD COLUMN id INT", e.InvalidDefinitionError, "id once"),
    ("ALTER TABLE t ADD COLUMN x NOPE", e.QueryError, "NOPE"),
    ("ALTER TABLE t ADD COLUMN x INT NOT NULL", e.NotNullViolationError, "x existing rows"),
    ("ALTER TABLE t ADD COLUMN x INT DEFAULT 'a'", e.InvalidDefinitionError, "x 'a'"),
    ("ALTER TABLE t DROP COLUMN id", e.InvalidDefinitionError, "primary key"),
    ("ALTER TABLE t ALTER COLUMN n TYPE SMALLINT", e.InvalidDefinitionError, "INT SMALLINT widened"),
    ("ALTER TABLE t ALTER COLUMN name SET NOT NULL", e.NotNullViolationError, "name existing"),
    ("ALTER TABLE t ALTER COLUMN id DROP NOT NULL", e.InvalidDefinitionError, "primary key"),
    ("SHOW trickle.nope", e.SettingError, '"nope" commit_retries'),
    ("SET trickle.nope = 1", e.SettingError, '"nope" commit_retries'),
    ("SET trickle.commit_retries = many", e.SettingError, "many number"),
    ("SET trickle.commit_retries = -1", e.SettingError, "-1"),
    ("SET trickle.max_driver_rows = 0", e.SettingError, "0"),
    ("SET trickle.compression = brotli", e.SettingError, "brotli zstd"),
    ("SET trickle.auto_compact = maybe", e.SettingError, "maybe true false"),
    ("VACUUM RETAIN nan HOURS", e.SqlSyntaxError, "number hours"),
    ("VACUUM RETAIN -1 HOURS", e.SqlSyntaxError, "-"),
    ("COMMIT", e.TransactionStateError, "BEGIN"),
    ("ROLLBACK", e.TransactionStateError, "BEGIN"),
]  # fmt: skip

# Found out while rows are computed: at the driver, and again on the executors.
VALUES: list[tuple[str, Errors, str]] = [
    ("INSERT INTO t VALUES (9, 'x', 1/0), (10, 'y', 1)", e.QueryError, "0"),
    ("INSERT INTO t VALUES (9, 'x', 3000000000), (10, 'y', 1)", e.QueryError, "3000000000 INT overflow"),
    ("INSERT INTO t VALUES (9, 'x', 'abc')", e.TypeMismatchError, '"n" INT STRING CAST'),
    ("INSERT INTO t VALUES (9, 'x', CAST('abc' AS INT))", e.QueryError, "abc INT"),
    ("INSERT INTO t VALUES (9, 'x', true)", e.TypeMismatchError, "INT BOOLEAN"),
    ("INSERT INTO t VALUES (NULL, 'x', 1), (10, 'y', 1)", e.NotNullViolationError, '"id" main.t NULL, x'),
    ("INSERT INTO t VALUES (1, 'x', 1), (10, 'y', 1)", e.DuplicateKeyError, "main.t (id) (1) MERGE"),
    ("INSERT INTO t VALUES (9, 'x', 1), (9, 'y', 2)", e.DuplicateKeyError, "main.t (9)"),
    ("INSERT INTO t SELECT id + 4, txt, CAST(txt AS INT) FROM plain", e.QueryError, "zwei INT try_cast"),
    ("INSERT INTO t SELECT id + 4, txt, CAST(10 / id AS INT) FROM plain", e.QueryError, "zero try_divide"),
    ("INSERT INTO t SELECT id + 4, name, n + 1 FROM t", e.QueryError, "overflow"),
    ("INSERT INTO typed (b) SELECT 300 FROM plain", e.QueryError, "300 TINYINT"),
    ("INSERT INTO typed (s) SELECT 70000 FROM plain", e.QueryError, "70000 SMALLINT"),
    ("INSERT INTO typed (l) SELECT 1e30 FROM plain", e.QueryError, "BIGINT overflow"),
    ("INSERT INTO typed (i) SELECT double('NaN') FROM plain", e.QueryError, "NaN INT"),
    ("INSERT INTO typed (m) SELECT 12345.678 FROM plain", e.QueryError, "12345.678 wider DECIMAL"),
    ("INSERT INTO typed (c) SELECT 'toolong' FROM plain",
     (e.QueryError, e.ValueTooLongError), "toolong VARCHAR(3)"),
    ("INSERT INTO typed (bo) VALUES (7)", e.TypeMismatchError, "BOOLEAN INT"),
    ("INSERT INTO typed (da) VALUES ('2020-13-45')", e.TypeMismatchError, "DATE STRING"),
    ("INSERT INTO typed (da) SELECT CAST(concat('2020-13-', txt) AS DATE) FROM plain",
     e.QueryError, "2020-13- DATE"),
    ("INSERT INTO typed (ts) SELECT CAST(txt AS TIMESTAMP) FROM plain", e.QueryError, "TIMESTAMP"),
    ("INSERT INTO typed (a) VALUES (array('x'))", e.TypeMismatchError, "ARRAY<INT> ARRAY<STRING>"),
    ("INSERT INTO typed (st) VALUES (named_struct('x', 1, 'y', 2))", e.TypeMismatchError, "STRUCT"),
    ("INSERT INTO typed (nn) SELECT NULL FROM plain", e.NotNullViolationError, '"nn"'),
    ("INSERT OVERWRITE t SELECT id + 4, txt, CAST(txt AS INT) FROM plain", e.QueryError, "zwei"),
    ("INSERT OVERWRITE t VALUES (9, 'x', 1), (9, 'y', 2)", e.DuplicateKeyError, "(9)"),
    ("CREATE TABLE x AS SELECT CAST(txt AS INT) AS i FROM plain", e.QueryError, "zwei"),
    ("CREATE TABLE x AS SELECT 1 / id AS i FROM plain", e.QueryError, "zero"),
    ("UPDATE t SET n = n + 1", e.QueryError, "overflow"),
    ("UPDATE t SET n = 1 / 0", e.QueryError, "zero"),
    ("UPDATE t SET n = 3000000000", e.QueryError, "3000000000"),
    ("UPDATE t SET n = 'abc'", e.TypeMismatchError, '"n" INT STRING'),
    ("UPDATE t SET n = CAST(name AS INT)", e.QueryError, "'a' INT"),
    ("UPDATE t SET id = NULL", e.NotNullViolationError, '"id"'),
    ("UPDATE t SET id = 2 WHERE id < 3", e.DuplicateKeyError, "(2)"),
    ("UPDATE t SET id = 7", e.DuplicateKeyError, "(7)"),
    ("UPDATE t SET n = p.id FROM plain AS p", e.MergeCardinalityError, "main.t (1, a, 10)"),
    ("DELETE FROM t WHERE 1 / (id - 1) > 0", e.QueryError, "zero"),
    ("DELETE FROM t WHERE CAST(name AS INT) = 1", e.QueryError, "'a' INT"),
    ("DELETE FROM t WHERE id = (SELECT id FROM plain)", e.QueryError, "More than one row"),
    ("MERGE INTO t USING plain p ON true WHEN MATCHED THEN UPDATE SET n = 1",
     e.MergeCardinalityError, "main.t"),
    ("MERGE INTO t USING plain p ON t.id = p.id WHEN MATCHED THEN UPDATE SET n = CAST(p.txt AS INT)",
     e.QueryError, "zwei"),
    ("MERGE INTO t USING plain p ON t.id = p.id WHEN MATCHED THEN UPDATE SET id = NULL",
     e.NotNullViolationError, '"id"'),
    ("MERGE INTO t USING plain p ON t.id = p.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (9, 1 / p.id)",
     e.QueryError, "zero"),
    ("MERGE INTO t USING plain p ON t.id = p.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (1, 1)",
     e.DuplicateKeyError, "(1)"),
    ("MERGE INTO t USING plain p ON t.id = CAST(p.txt AS INT) WHEN MATCHED THEN DELETE",
     e.QueryError, "zwei"),
]  # fmt: skip

# A value of thousands of characters must not become a message of thousands of characters.
LONG: list[tuple[str, Errors, str]] = [
    (f"SELECT {'x' * 5000} FROM t", e.ColumnNotFoundError, "xxx"),
    (f"SELECT * FROM {'x' * 5000}", e.TableNotFoundError, "xxx"),
    (f"INSERT INTO t VALUES (9, 'a', 1 +/ {'x' * 5000})", e.SqlSyntaxError, "'/'"),
    ("INSERT INTO words SELECT repeat('w', 5000), 1", e.DuplicateKeyError, "www"),
    ("INSERT INTO words SELECT 'x', CAST(repeat('9', 5000) AS INT)", e.QueryError, "999 INT"),
    ("INSERT INTO typed (c) SELECT repeat('x', 5000)", (e.QueryError, e.ValueTooLongError), "xxx"),
    ("UPDATE words SET word = NULL, n = length(word)", e.NotNullViolationError, '"word"'),
    ("UPDATE words SET n = CAST(word AS INT)", e.QueryError, "www INT"),
]


_BRACKETS = f"{'(' * 2000}1{')' * 2000}"
_CONDITIONS = " AND ".join(f"n <> {n}" for n in range(3000))
_WIDE = ", ".join(f"{n} AS c{n}" for n in range(1001))

# What is too deep, too long, too wide or too far away: the limit is named where it is ours.
LARGE: list[tuple[str, Errors, str]] = [
    (f"SELECT {_BRACKETS}", e.UnsupportedError, "nested WITH"),
    (f"SELECT id FROM t WHERE {_CONDITIONS}", e.UnsupportedError, "parts"),
    (f"DELETE FROM t WHERE {_CONDITIONS}", e.UnsupportedError, "parts"),
    (f"UPDATE t SET n = {_BRACKETS}", e.UnsupportedError, "nested"),
    (f"INSERT INTO t VALUES (9, 'x', {_BRACKETS})", e.UnsupportedError, "nested"),
    (f"DELETE FROM t WHERE id = {_BRACKETS}", e.UnsupportedError, "nested"),
    (f"CREATE TABLE x (id INT DEFAULT {_BRACKETS})", e.TrickleError, "nested"),
    (f"CREATE VIEW x AS SELECT {_BRACKETS} AS x", e.UnsupportedError, "nested"),
    (f"CREATE STREAM TABLE x AS SELECT {_BRACKETS} AS x FROM t", e.UnsupportedError, "60 WITH"),
    (f"CREATE STREAM TABLE x AS {' UNION ALL '.join(['SELECT id FROM t'] * 300)}", e.UnsupportedError, "200"),
    (f"CREATE STREAM TABLE x AS SELECT {'- ' * 3000}id AS x FROM t", e.TrickleError, ""),
    (f"CREATE TABLE x ({', '.join(f'c{n} INT' for n in range(5000))})", e.InvalidDefinitionError, "5000 1000"),
    (f"CREATE TABLE x AS SELECT {_WIDE}", e.InvalidDefinitionError, "1001 1000"),
    (f"CREATE VIEW x AS SELECT {_WIDE}", e.InvalidDefinitionError, "1001 1000"),
    (f"CREATE STREAM TABLE x AS SELECT {_WIDE} FROM t", e.InvalidDefinitionError, "1001 1000"),
    ("CREATE TABLE `\u200b` (id INT)", e.InvalidDefinitionError, "only invisible"),
    ("CREATE TABLE x (`\u3164` INT)", e.InvalidDefinitionError, "only invisible"),
    ("CREATE SCHEMA `\u200b`", e.InvalidDefinitionError, "only invisible"),
    ("CREATE VIEW `\u2800` AS SELECT 1 AS x", e.InvalidDefinitionError, "only invisible"),
    ("CREATE STREAM TABLE `\u200b` AS SELECT id FROM t", e.InvalidDefinitionError, "only invisible"),
    ("ALTER TABLE t RENAME TO `\u200b`", e.InvalidDefinitionError, "only invisible"),
    ("ALTER TABLE t RENAME COLUMN n TO `\u200b`", e.InvalidDefinitionError, "only invisible"),
    (f"CREATE TABLE {'x' * 5000} (id INT)", e.InvalidDefinitionError, "255"),
    ("CREATE STREAM TABLE x SCHEDULE '5m5h' AS SELECT id FROM t", e.InvalidDefinitionError, "order"),
    ("CREATE STREAM TABLE x SCHEDULE CRON '*/99999999 * * * *' AS SELECT id FROM t",
     e.InvalidDefinitionError, "60"),
    ("SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL 5000 YEARS", e.SnapshotNotFoundError, "0001-01-01"),
    ("SELECT * FROM t TIMESTAMP AS OF '-5000-01-01'", e.SnapshotNotFoundError, "0001-01-01"),
    ("SELECT * FROM t CHANGES FROM TIMESTAMP '-5000-01-01'", e.SnapshotNotFoundError, ""),
    (f"SELECT * FROM t VERSION AS OF {'9' * 5000}", e.SqlSyntaxError, "snapshot"),
    ("SELECT * FROM t VERSION AS OF '²'", e.SqlSyntaxError, "snapshot"),
    ("SELECT * FROM trickle.changes('t', 99999999999999999999)", e.SnapshotNotFoundError, ""),
    ("CREATE STREAM TABLE x AS WITH RECURSIVE r(n) AS (SELECT id FROM t UNION ALL SELECT n + 1 FROM r) "
     "SELECT n FROM r", e.RecursionTooDeepError, "main.x"),
    ("CREATE STREAM TABLE x AS SELECT timestamp'2026-01-01' + INTERVAL 500000 YEARS AS x FROM t",
     e.QueryError, ""),
]  # fmt: skip


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return Location(str(tmp_path_factory.mktemp("bad") / "warehouse"), None)


@pytest.fixture(scope="module")
def bad(location: Location) -> Iterator[Trickle]:
    """One warehouse for all of them, since none of them may change it."""
    with location.connect() as tr:
        for statement in SETUP:
            tr.sql(statement)
        yield tr
        assert rows(tr.table("t")) == T


@pytest.fixture(scope="module")
def large(location: Location, bad: Trickle) -> Iterator[Trickle]:
    """The same warehouse, but nearly every row goes through the executors."""
    with location.connect(settings={"max_driver_rows": 1}) as tr:
        yield tr


@pytest.mark.parametrize(("statement", "error", "words"), NAMES + SNAPSHOTS + DEFINITIONS + LONG)
def test_refused(bad: Trickle, location: Location, statement: str, error: Errors, words: str) -> None:
    found = check_refused(bad, location, lambda: bad.sql(statement), error, words)
    if isinstance(found, (e.SettingError, e.TableNotFoundError)):
        assert found.hint != f'Did you mean "{found.name}"?'


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("statement", "error", "words"), LARGE, ids=lambda value: str(value)[:60])
def test_what_is_too_large_is_refused(
    bad: Trickle, location: Location, statement: str, error: Errors, words: str
) -> None:
    check_refused(bad, location, lambda: bad.sql(statement), error, words)


@pytest.mark.parametrize("moment", ["'99999-01-01'", "now() + INTERVAL 5000 YEARS"])
def test_a_moment_that_is_far_away_shows_the_newest_rows(bad: Trickle, moment: str) -> None:
    assert rows(bad.sql(f"SELECT * FROM t TIMESTAMP AS OF {moment}")) == T


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("statement", "error", "words"), VALUES)
def test_values_refused_at_the_driver(
    bad: Trickle, location: Location, statement: str, error: Errors, words: str
) -> None:
    check_refused(bad, location, lambda: bad.sql(statement), error, words)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("statement", "error", "words"), [v for v in VALUES if v[1] is not e.TypeMismatchError]
)
def test_values_refused_on_the_executors(
    large: Trickle, location: Location, statement: str, error: Errors, words: str
) -> None:
    check_refused(large, location, lambda: large.sql(statement), error, words)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["bad", "large"])
def test_a_refused_statement_leaves_its_transaction_as_it_was(
    name: str, request: pytest.FixtureRequest, location: Location
) -> None:
    """What was changed before it stays, what it would have changed is not there, and all can be undone."""
    tr: Trickle = request.getfixturevalue(name)
    request.getfixturevalue("bad")
    tr.sql("BEGIN")
    try:
        tr.sql("UPDATE t SET n = 11 WHERE id = 1")
        tr.sql("CREATE TABLE fresh AS SELECT * FROM plain")
        for statement, error, _ in [*NAMES[13:30:4], *VALUES[::6], *DEFINITIONS[:6]]:
            check_refused(tr, location, lambda sql=statement: tr.sql(sql), error)
        assert rows(tr.table("t")) == [(1, "a", 11), *T[1:]]
        assert tr.table("fresh").count() == 3
    finally:
        tr.sql("ROLLBACK")
    assert rows(tr.table("t")) == T
    check_refused(tr, location, lambda: tr.table("fresh"), e.TableNotFoundError, "fresh")

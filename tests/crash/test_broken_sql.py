"""Text that is not SQL is refused, at the right place if one is given, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import errors as e
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import check_refused

BROKEN = """
SELEC 1
SELECT
SELECT * FROM t WHERE
SELECT * FROM t GROUP
SELECT (1
SELECT 1)
SELECT * FROM (SELECT 1
SELECT 'abc
SELECT "abc
SELECT `abc
SELECT /* abc
SELECT 'a'b'
SELECT 1; SELECT 2
SELECT * FROM {t}
SELECT {nope} FROM t
SELECT 💥 FROM t
SELECT * FROM t VERSION AS OF
SELECT * FROM t CHANGES FROM 1
SELECT * FROM t CHANGES FROM VERSION
SELECT * FROM trickle.changes(t, 1, 2)
WITH x AS SELECT 1
;
-- only a comment
/* only a comment */
INSERT
INSERT INTO
INSERT INTO t
INSERT INTO t VALUES
INSERT INTO t VALUES (
INSERT INTO t VALUES (9, 'a'
INSERT INTO t VALUES (9,, 2)
INSERT INTO t VALUES ()
INSERT INTO t VALUES (9 'a')
INSERT INTO t VALUES (9, 'a'))
INSERT INTO t () VALUES ()
INSERT INTO t (id, VALUES (9)
INSERT INTO t SELECT
INSERT INTO VALUES (9)
INSERT t VALUES (9)
UPDATE
UPDATE t
UPDATE t SET
UPDATE t SET name
UPDATE t SET name =
UPDATE t SET name = , id = 1
UPDATE t SET name = 'x',
UPDATE t SET name = 'x' WHERE
UPDATE t SET name = 'x' id = 2
UPDATE t name = 'x'
UPDATE SET name = 'x'
UPDATE t SET name = 'x' WHERE id = (
DELETE
DELETE t
DELETE * FROM t
DELETE FROM
DELETE FROM t WHERE
DELETE FROM t WHERE id =
DELETE FROM t WHERE id = 1 AND
DELETE FROM t WHERE (id = 1
DELETE FROM t WHERE id = 1)
DELETE FROM t id = 1
MERGE
MERGE INTO t
MERGE INTO t USING t AS s
MERGE INTO t USING t AS s ON
MERGE INTO t USING t AS s ON true
MERGE INTO t USING t AS s ON true WHEN
MERGE INTO t USING t AS s ON true WHEN MATCHED
MERGE INTO t USING t AS s ON true WHEN MATCHED THEN
MERGE INTO t USING t AS s ON true WHEN MATCHED THEN EXPLODE
MERGE INTO t USING t AS s ON true WHEN MATCHED THEN INSERT (id) VALUES (1)
MERGE INTO t USING t AS s ON true WHEN NOT MATCHED THEN DELETE
MERGE INTO t USING t AS s ON true WHEN NOT MATCHED THEN INSERT
MERGE INTO t USING t AS s ON true WHEN MATCHED THEN UPDATE SET
CREATE
CREATE NONSENSE x
CREATE TABLE
CREATE TABLE x
CREATE TABLE x (
CREATE TABLE x ()
CREATE TABLE x (id)
CREATE TABLE x (id INT
CREATE TABLE x (id INT,)
CREATE TABLE x (id INT,, n INT)
CREATE TABLE x (id INT) garbage
CREATE TABLE x (id INT PRIMARY)
CREATE TABLE x (id INT NOT)
CREATE TABLE x (id INT DEFAULT)
CREATE TABLE x (PRIMARY KEY (id))
CREATE TABLE x (id INT, PRIMARY KEY ())
CREATE TABLE x (id INT, PRIMARY KEY id)
CREATE TABLE x AS
CREATE TABLE x AS SELECT
CREATE TABLE IF EXISTS x (id INT)
CREATE TABLE '' (id INT)
CREATE SCHEMA
CREATE VIEW
CREATE VIEW x
CREATE VIEW x AS
DROP
DROP NONSENSE t
DROP TABLE
DROP TABLE t garbage
DROP TABLE IF EXISTS
ALTER TABLE
ALTER TABLE t
ALTER TABLE t EXPLODE
ALTER TABLE t ADD
ALTER TABLE t ADD COLUMN
ALTER TABLE t ADD COLUMN x
ALTER TABLE t DROP COLUMN
ALTER TABLE t RENAME TO
ALTER TABLE t RENAME COLUMN name
ALTER TABLE t ALTER COLUMN name
ALTER TABLE t ALTER COLUMN name TYPE
TRUNCATE
OPTIMIZE
OPTIMIZE t garbage
VACUUM t garbage
VACUUM RETAIN x HOURS
VACUUM RETAIN 1 DAYS
USE
SHOW NONSENSE
DESCRIBE
SET trickle.
SET trickle.commit_retries
SET trickle.commit_retries =
COMMIT garbage
BEGIN garbage
START
"""

# text, and the line and column of the first word that cannot stand there
PLACES = [
    ("SELEC 1", 1, 1),
    ("SELECT 1 FROM t\nWHERE id = = 2", 2, 12),
    ("SELECT 1\n\n  FROM t t2 t3", 3, 13),
    ("INSERT INTO t VALUES (9, 'a', )", 1, 31),
    ("INSERT INTO t VALUES (9, 'a'\n", 1, 29),
    ("UPDATE t SET name =\n  , id = 1", 2, 3),
    ("UPDATE t SET name = 'x'\n WHERE id = = 1", 2, 13),
    ("DELETE FROM t\n WHERE id = = 1", 2, 13),
    ("CREATE TABLE x (\n  id INT,\n  , n INT)", 3, 3),
    ("CREATE VIEW x AS\n  SELECT 1 2 3", 2, 12),
    ("DROP TABLE t\n  garbage", 2, 3),
]


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Location:
    return Location(str(tmp_path_factory.mktemp("broken") / "warehouse"), None)


@pytest.fixture(scope="module")
def tr(location: Location) -> Iterator[Trickle]:
    """One warehouse for all of them, since none of them may change it."""
    with location.connect() as connection:
        connection.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
        connection.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        yield connection
        assert rows(connection.table("t")) == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("statement", ["", " \n", *BROKEN.strip().splitlines()])
def test_broken(tr: Trickle, location: Location, statement: str) -> None:
    check_refused(tr, location, lambda: tr.sql(statement), e.SqlSyntaxError)


@pytest.mark.parametrize(("statement", "line", "column"), PLACES)
def test_place(tr: Trickle, location: Location, statement: str, line: int, column: int) -> None:
    """No place is better than a wrong one: Spark sees another text than the user wrote."""
    error = check_refused(tr, location, lambda: tr.sql(statement), e.SqlSyntaxError)
    assert isinstance(error, e.SqlSyntaxError)
    assert (error.line, error.column) in [(line, column), (0, 0)], error.message

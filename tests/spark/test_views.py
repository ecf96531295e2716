"""Views: nested, with column names of their own, over time, and while their tables change."""

from __future__ import annotations

import pytest

from spark_trickle.errors import AlreadyExistsError, InvalidDefinitionError, TableNotFoundError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import rows


def test_views_of_views(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t AS VALUES (1, 'a'), (2, 'b'), (3, NULL) AS x(id, v)")
    tr.sql("CREATE VIEW v (number, `the text`) COMMENT 'c' AS SELECT id * 10, v FROM t WHERE id < 3")
    tr.sql(
        "CREATE VIEW w AS WITH t AS (SELECT * FROM v) SELECT a.number, b.`the text` FROM t a JOIN v b USING (number)"
    )
    expected = [(10, "a"), (20, "b")]
    assert rows(tr.sql("SELECT number, `the text` FROM w")) == expected
    assert tr.table("v").columns == ["number", "the text"]
    assert rows(tr.table("w")) == expected
    tr.sql("INSERT INTO t VALUES (0, 'z')")
    tr.sql("UPDATE t SET v = 'A' WHERE id = 1")
    assert rows(tr.sql("SELECT * FROM w")) == [(0, "z"), (10, "A"), (20, "b")]
    assert rows(tr.sql("DESCRIBE v"))[0][:2] == ("number", "int")
    text = tr.sql("SHOW CREATE TABLE v").collect()[0][0]
    tr.sql("DROP VIEW v")
    with pytest.raises(TableNotFoundError):
        tr.sql("SELECT * FROM w")
    tr.sql(text)
    assert rows(tr.sql("SELECT * FROM w")) == [(0, "z"), (10, "A"), (20, "b")]


def test_views_over_time(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 1 AS a")
    first = tr.snapshot
    tr.sql(f"CREATE VIEW was AS SELECT a FROM t VERSION AS OF {first}")
    tr.sql("CREATE VIEW is AS SELECT a FROM t")
    tr.sql("CREATE VIEW IF NOT EXISTS is AS SELECT 99 AS a")
    with tr.transaction():
        tr.sql("INSERT INTO t VALUES (2)")
        assert rows(tr.sql("SELECT * FROM is")) == [(1,), (2,)]
    assert rows(tr.sql("SELECT * FROM was")) == [(1,)]
    assert rows(tr.sql("SELECT count(*) FROM is JOIN was")) == [(2,)]
    tr.sql("CREATE OR REPLACE VIEW is AS SELECT a + 100 AS a FROM t")
    assert rows(tr.sql("SELECT * FROM is")) == [(101,), (102,)]
    with pytest.raises(TrickleError):
        tr.sql(f"SELECT * FROM was VERSION AS OF {first}")


def test_a_view_reads_the_tables_it_was_made_for(tr_sqlite: Trickle) -> None:
    """Names in a view mean what they meant where it was created, whatever schema is current later."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 'main' AS a")
    tr.sql("CREATE SCHEMA s")
    tr.sql("CREATE TABLE s.t AS SELECT 's' AS a")
    tr.sql("USE s")
    tr.sql("CREATE VIEW main.v AS SELECT a FROM t")
    tr.sql("CREATE VIEW w AS SELECT a FROM t")
    assert rows(tr.sql("SELECT * FROM main.v UNION ALL SELECT * FROM w")) == [("s",), ("s",)]
    tr.sql("USE main")
    assert rows(tr.sql("SELECT * FROM v UNION ALL SELECT * FROM s.w")) == [("s",), ("s",)]


@pytest.mark.parametrize(
    "change",
    [
        ["ADD COLUMN c INT DEFAULT 3"],
        ["DROP COLUMN b", "ADD COLUMN c INT DEFAULT 3"],
        ["DROP COLUMN b"],
        ["RENAME COLUMN b TO c"],
    ],
)
def test_a_view_never_shows_one_column_under_the_name_of_another(
    tr_sqlite: Trickle, change: list[str]
) -> None:
    """After its table changed, a view of SELECT * shows the columns it names, or fails with our error."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 2 AS b, 1 AS a")
    tr.sql("CREATE VIEW v AS SELECT * FROM t")
    for each in change:
        tr.sql(f"ALTER TABLE t {each}")
    values = {"a": 1, "b": 2, "c": 2 if "RENAME" in change[0] else 3}
    try:
        found = tr.sql("SELECT * FROM v").collect()[0].asDict()
    except TrickleError:
        return
    assert found == {name: values[name] for name in found}


def test_wrong_views_are_refused(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 1 AS a")
    tr.sql("CREATE VIEW v AS SELECT * FROM t")
    before = tr.snapshot
    for statement, error in {
        "CREATE VIEW w (x, y) AS SELECT a FROM t": InvalidDefinitionError,
        "CREATE VIEW w AS SELECT a, a FROM t": InvalidDefinitionError,
        "CREATE VIEW w AS SELECT nothing FROM t": TrickleError,
        "CREATE VIEW w AS SELECT * FROM nothing": TableNotFoundError,
        "CREATE VIEW t AS SELECT 1 AS a": AlreadyExistsError,
        "CREATE OR REPLACE VIEW t AS SELECT 1 AS a": AlreadyExistsError,
        "CREATE OR REPLACE TABLE v AS SELECT 1 AS a": AlreadyExistsError,
        "CREATE OR REPLACE VIEW v AS SELECT * FROM v": TrickleError,
        "DROP TABLE v": TrickleError,
        "DROP VIEW t": TableNotFoundError,
        "INSERT INTO v VALUES (1)": TrickleError,
        "UPDATE v SET a = 1": TrickleError,
        "DELETE FROM v": TrickleError,
        "ALTER TABLE v ADD COLUMN b INT": TrickleError,
        "SELECT * FROM trickle.changes('v', 0)": TrickleError,
    }.items():
        with pytest.raises(error):
            tr.sql(statement)
    assert tr.snapshot == before
    assert rows(tr.sql("SELECT * FROM v")) == [(1,)]

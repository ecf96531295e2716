"""SELECT of anything: our tables are found wherever a query names them, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.errors import SnapshotNotFoundError, SqlSyntaxError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import rows


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """Tables t and u, a table t of another schema, a temp view, a table of Spark and a Parquet file."""
    folder = tmp_path_factory.mktemp("shop")
    with spark_trickle.connect(folder / "warehouse") as tr:
        tr.sql("CREATE TABLE t AS VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, 30) AS x(id, v, n)")
        tr.sql("CREATE TABLE u (id INT, l ARRAY<INT>)")
        tr.sql("INSERT INTO u VALUES (1, array(5, 6)), (2, array())")
        tr.sql("CREATE SCHEMA other")
        tr.sql("CREATE TABLE other.t AS VALUES (1, 'other') AS x(id, v)")
        tr.spark.range(2, 5).createOrReplaceTempView("temp")
        tr.spark.range(3).write.parquet(str(folder / "file"))
        tr.spark.sql("DROP TABLE IF EXISTS spark_table")
        tr.spark.sql(f"CREATE TABLE spark_table (id INT) USING parquet LOCATION '{folder / 'spark_table'}'")
        tr.spark.sql("INSERT INTO spark_table VALUES (1), (9)")
        tr.spark.conf.set("trickle.test.file", str(folder / "file"))
        yield tr
        tr.spark.sql("DROP TABLE spark_table")


_QUERIES: list[tuple[str, list[Any]]] = [
    # mixes with what is not ours
    ("SELECT t.id FROM t JOIN temp ON t.id = temp.id", [2, 3]),
    ("SELECT t.id FROM t JOIN parquet.`{file}` f ON t.id = f.id", [1, 2]),
    ("SELECT t.id FROM t JOIN spark_table USING (id)", [1]),
    ("SELECT t.id FROM t JOIN spark_catalog.default.spark_table s ON s.id = t.id", [1]),
    ("SELECT t.id FROM range(3) AS t", [0, 1, 2]),
    ("SELECT r.id FROM range(3) AS r SEMI JOIN t ON r.id = t.id", [1, 2]),
    # CTEs hide tables of the same name, only where they are visible
    ("WITH t AS (SELECT id + 100 AS id FROM t) SELECT id FROM t", [101, 102, 103]),
    ("WITH x AS (SELECT id FROM t), t (id) AS (SELECT id * 2 FROM x) SELECT t.id FROM t JOIN x USING (id)", [2]),
    ("SELECT id FROM t WHERE id IN (WITH t AS (SELECT 2 AS id) SELECT id FROM t)", [2]),
    ("SELECT (WITH t AS (SELECT 7 AS id) SELECT max(id) FROM t), id FROM t WHERE id = 1", [(7, 1)]),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT r.n FROM r JOIN t ON r.n = id AND v = 'b'", [2]),
    # words that look like the start of a table
    ("SELECT id FROM t WHERE v IS DISTINCT FROM 'a'", [2, 3]),
    ("SELECT EXTRACT(DAY FROM date'2026-01-31') + id, trim(BOTH 'a' FROM v) FROM t WHERE id = 1", [(32, "")]),
    ("SELECT substring(v FROM 1 FOR 1), 'FROM u' /* FROM nothing */ FROM t -- JOIN nothing", [("a", "FROM u"), ("b", "FROM u"), (None, "FROM u")]),
    ("SELECT /*+ BROADCAST(t) */ t.id FROM u JOIN t ON t.id = u.id", [1, 2]),
    ("SELECT id -- the owner's\nFROM t /* don't, /* won't, */ can't */ WHERE v = 'a'", [1]),
    ("SELECT r'\\' FROM t WHERE v = 'a'", ["\\"]),
    ("SELECT '{\"a\": {}} {0} {_trickle_0}' FROM t WHERE id = 1", ['{"a": {}} {0} {_trickle_0}']),
    ("SELECT t.id FROM t JOIN u ON CASE WHEN t.id = u.id THEN true ELSE false END, other.t AS o WHERE o.id = t.id", [1]),
    # every place where a table may stand
    ("TABLE u", [(1, [5, 6]), (2, [])]),
    ("FROM t SELECT id WHERE n > 10", [2, 3]),
    ("FROM t |> WHERE n > 10 |> JOIN u USING (id) |> SELECT id", [2]),
    ("SELECT count(*) FROM ((t)) JOIN (t AS x JOIN u ON x.id = u.id)", [6]),
    ("SELECT id FROM t AS x (id, b, c) WHERE x.c = 30", [3]),
    ("SELECT t.id, z FROM t JOIN u USING (id) LATERAL VIEW explode(l) e AS z", [(1, 5), (1, 6)]),
    ("SELECT t.id, y.m FROM t, LATERAL (SELECT size(l) AS m FROM u WHERE u.id = t.id) AS y", [(1, 2), (2, 0)]),
    ("SELECT * FROM (SELECT id, n FROM t) PIVOT (sum(n) FOR id IN (1, 2))", [(10, 20)]),
    ("SELECT count(*) FROM t TABLESAMPLE (100 PERCENT)", [3]),
    ("SELECT id FROM t NATURAL JOIN u", [1, 2]),
    ("SELECT id FROM t LEFT ANTI JOIN u USING (id)", [3]),
    ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id) OR n = (SELECT max(n) FROM t)", [1, 2, 3]),
    ("SELECT id FROM t WHERE (id, n) NOT IN (SELECT id, id * 10 FROM u)", [3]),
    ("SELECT id FROM t EXCEPT SELECT id FROM u UNION ALL (SELECT id FROM u INTERSECT SELECT id FROM t)", [1, 2, 3]),
    ("SELECT id FROM t QUALIFY row_number() OVER (ORDER BY n DESC) = 1", [3]),
    ("SELECT id, sum(n) OVER w, lag(v) OVER w FROM t WINDOW w AS (ORDER BY id)", [(1, 10, None), (2, 30, "a"), (3, 60, "b")]),
    ("SELECT id, count(DISTINCT v) FILTER (WHERE n > 10) FROM t GROUP BY GROUPING SETS ((), (id)) HAVING id IS NULL", [(None, 1)]),
    ("SELECT transform(array(1), x -> x + t.id)[0] FROM t", [2, 3, 4]),
    # qualified names
    ("SELECT main.t.id FROM main.t WHERE main.t.n = 10", [1]),
    ("SELECT `T`.`ID` FROM `Main`.`T` WHERE t.n = 10", [1]),
    # our own functions, anywhere
    ("SELECT c.id FROM trickle.changes('t', 0) c JOIN trickle.snapshots() s ON s.snapshot_id = c._commit_version JOIN u ON u.id = c.id", [1, 2]),
    ("SELECT table_name FROM trickle.tables() WHERE row_count = (SELECT count(*) FROM t)", ["t"]),
    ("SELECT sum(row_count) FROM trickle.files('other.t')", [1]),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("query", "expected"), _QUERIES, ids=[q[:80] for q, _ in _QUERIES])
def test_queries(shop: Trickle, query: str, expected: list[Any]) -> None:
    found = rows(shop.sql(query.replace("{file}", shop.spark.conf.get("trickle.test.file"))))
    assert found == [e if isinstance(e, tuple) else (e,) for e in expected]


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT * FROM tt", 'Did you mean "t"?'),
        ("SELECT idd FROM t", 'Did you mean "id"?'),
        ("SELECT * FRM t", ""),
        ("SELECT * FROM t VERSION AS OF 999", "snapshots"),
        ("SELECT * FROM t VERSION AS OF 'x'", ""),
        ("SELECT * FROM t TIMESTAMP AS OF '1999-01-01'", "snapshots"),
        ("SELECT * FROM trickle.nothing()", "trickle.changes"),
        ("SELECT * FROM trickle.changes('t')", ""),
        ("SELECT * FROM trickle.changes('t', 5, 3)", "snapshots"),
        ("SELECT * FROM trickle.files('nothing')", ""),
    ],
)
def test_mistakes_are_explained(shop: Trickle, query: str, hint: str) -> None:
    """With an error of ours that has a hint, and without a word of Java."""
    with pytest.raises(TrickleError) as found:
        shop.sql(query).collect()
    assert hint in found.value.hint
    assert "org.apache" not in str(found.value)


def test_time_travel(tr: Trickle) -> None:
    tr.sql("CREATE TABLE a AS SELECT 1 AS x")
    first = tr.snapshot
    tr.sql("CREATE TABLE b AS SELECT 1 AS x")
    with tr.transaction():
        tr.sql("UPDATE a SET x = 2")
        tr.sql("UPDATE b SET x = 2")
    second = tr.snapshot
    tr.sql("UPDATE a SET x = 3")
    times = {r.snapshot_id: r.snapshot_time for r in tr.sql("SELECT * FROM trickle.snapshots()").collect()}
    assert rows(
        tr.sql(f"SELECT a.x, old.x, b.x FROM a, a VERSION AS OF {first} AS old, b FOR VERSION AS OF {second}")
    ) == [(3, 1, 2)]
    assert rows(tr.sql(f"SELECT x FROM a FOR SYSTEM_VERSION AS OF {second} WHERE x = 2")) == [(2,)]
    exact = f"SELECT a.x FROM a TIMESTAMP AS OF '{times[second]}' JOIN b ON a.x = b.x"
    assert rows(tr.sql(exact)) == [(2,)]
    just_before = f"SELECT x FROM a TIMESTAMP AS OF timestamp'{times[second]}' - INTERVAL 1 MICROSECOND"
    assert rows(tr.sql(just_before)) == [(1,)]
    assert rows(
        tr.sql("SELECT x FROM a TIMESTAMP AS OF current_timestamp() - INTERVAL '0 seconds' WHERE x = 3")
    ) == [(3,)]
    with pytest.raises(TrickleError):
        tr.sql(f"SELECT * FROM b VERSION AS OF {first}")
    with pytest.raises(SnapshotNotFoundError):
        tr.table("a", snapshot=second + 100)


def test_a_statement_sees_one_snapshot(tr_sqlite: Trickle) -> None:
    """A DataFrame is of the moment it was made, all its tables alike, whatever is committed before it is read."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE a AS SELECT 1 AS x")
    tr.sql("CREATE TABLE b AS SELECT 1 AS x")
    tr.sql("CREATE VIEW both AS SELECT a.x AS ax, b.x AS bx FROM a, b")
    frames = [tr.sql("SELECT a.x, b.x FROM a, b"), tr.sql("SELECT * FROM both"), tr.table("both")]
    with tr.transaction():
        tr.sql("UPDATE a SET x = 2")
        tr.sql("UPDATE b SET x = 2")
    tr.sql("OPTIMIZE a")
    tr.sql("TRUNCATE TABLE b")
    assert [rows(f) for f in frames] == [[(1, 1)]] * 3
    assert rows(tr.sql("SELECT * FROM both")) == []


def test_temp_views_made_here_are_of_one_snapshot(tr_sqlite: Trickle) -> None:
    tr = tr_sqlite
    tr.sql("CREATE TABLE t AS SELECT 1 AS x")
    tr.sql("CREATE OR REPLACE TEMPORARY VIEW frozen AS SELECT x + 1 AS y FROM t")
    tr.sql("UPDATE t SET x = 10")
    assert rows(tr.sql("SELECT x, y FROM t, frozen")) == [(10, 2)]
    tr.spark.catalog.dropTempView("frozen")


@pytest.mark.parametrize(
    "text", ["", "-- nothing", "SELECT 1; SELECT 2", "SELECT 'open", "INSERT INTO t", "MERGE INTO t"]
)
def test_half_statements_are_refused(module_tr: Trickle, text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        module_tr.sql(text)


def test_folders_with_odd_names(tmp_path: Path) -> None:
    with spark_trickle.connect(tmp_path / "sales [2026] {a,b} *?é %20") as tr:
        tr.sql("CREATE TABLE t AS SELECT id FROM range(3)")
        tr.sql("DELETE FROM t WHERE id = 1")
        assert rows(tr.table("t")) == [(0,), (2,)]
        tr.sql("OPTIMIZE t")
        assert rows(tr.table("t")) == [(0,), (2,)]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE t SET n = n + 1",
        "UPDATE t SET n = t.n + 1 FROM u WHERE u.id = t.id",
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET n = t.n + 1",
        "MERGE INTO t USING (SELECT * FROM u WHERE rand() < 2) AS u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ],
)
def test_executors_write_to_folders_with_odd_names(tmp_path: Path, sql: str) -> None:
    with spark_trickle.connect(tmp_path / "sales [2026] {a,b}", settings={"max_driver_rows": 1}) as tr:
        tr.sql("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        tr.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)")
        tr.sql("CREATE TABLE u AS SELECT id FROM t")
        tr.sql(sql)
        assert rows(tr.table("t")) == [(1, 11), (2, 21), (3, 31)]

"""The life of a stream table: made, refreshed, changed, explained, audited, and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle import errors as e
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import DuckQuery, Location, rows


@pytest.fixture
def tr(tmp_path: Path) -> Trickle:
    made = connect(tmp_path / "warehouse")
    made.sql("CREATE TABLE t (id INT, k INT, v INT, PRIMARY KEY (id))")
    made.sql("INSERT INTO t VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30)")
    return made


def test_made_in_every_way(tr: Trickle) -> None:
    made = tr.sql(
        "CREATE STREAM TABLE a SCHEDULE '1m' REFRESH MODE AUTO WITH (append_only = false) AS SELECT k FROM t"
    )
    assert made.collect()[0]["rows_inserted"] == 3
    tr.sql("CREATE MATERIALIZED VIEW b (key, total) AS SELECT k, sum(v) FROM t GROUP BY k")
    assert rows(tr.sql("SELECT * FROM b")) == [(1, 30), (2, 30)]
    tr.sql("CREATE STREAM TABLE IF NOT EXISTS b AS SELECT 1 AS one")
    assert tr.table("b").columns == ["key", "total"]
    with pytest.raises(e.AlreadyExistsError):
        tr.sql("CREATE STREAM TABLE b AS SELECT 1 AS one")
    tr.sql("CREATE OR REPLACE STREAM TABLE b AS SELECT max(v) AS top FROM t")
    assert rows(tr.table("b")) == [(30,)]
    tr.create_stream_table("c", "SELECT id, v FROM t WHERE v > 10", refresh_mode="FULL", initialize=False)
    assert rows(tr.table("c")) == []
    report = tr.refresh("c")
    assert (report.action, report.rows_inserted) == (Action.FULL, 2)
    tr.create_stream_table("main.d", "SELECT count(*) AS n FROM c", schedule="calculated")
    shown = {r["table_name"]: r for r in tr.sql("SELECT * FROM trickle.stream_tables()").collect()}
    assert {n: r["refresh_mode"] for n, r in shown.items()} == {
        "a": "AUTO",
        "b": "AUTO",
        "c": "FULL",
        "d": "AUTO",
    }
    assert (shown["a"]["schedule"], shown["d"]["schedule"]) == ("1m", "calculated")
    names = {r["tableName"] for r in tr.sql("SHOW TABLES").collect()}
    assert names == {"t", "a", "b", "c", "d"}


WRONG: dict[str, tuple[type[e.TrickleError], str]] = {
    "CREATE STREAM TABLE s AS SELECT v + 1 FROM t": (e.InvalidDefinitionError, "AS total"),
    "CREATE STREAM TABLE s AS SELECT k, k FROM t": (e.InvalidDefinitionError, "AS k_2"),
    "CREATE STREAM TABLE s (a) AS SELECT id, k FROM t": (e.InvalidDefinitionError, "1 names for 2"),
    "CREATE STREAM TABLE s AS SELECT nope FROM t": (e.ColumnNotFoundError, "nope"),
    "CREATE STREAM TABLE s AS SELECT * FROM nope": (e.TableNotFoundError, "nope"),
    "CREATE STREAM TABLE s AS SELECT id, rand() AS r FROM t": (e.UnsupportedError, "rand()"),
    "CREATE STREAM TABLE s AS SELECT uuid() AS r FROM t": (e.UnsupportedError, "uuid()"),
    "CREATE STREAM TABLE s AS SELECT monotonically_increasing_id() AS r FROM t": (e.UnsupportedError, "increasing"),
    "CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS SELECT id, current_date() AS d FROM t": (
        e.UnsupportedError, "current_date()",
    ),
    "CREATE STREAM TABLE s AS SELECT * FROM t TABLESAMPLE (10 PERCENT)": (e.UnsupportedError, "TABLESAMPLE"),
    "CREATE STREAM TABLE s AS SELECT id FROM t WHERE": (e.TrickleError, ""),
    "CREATE STREAM TABLE s AS DELETE FROM t": (e.SqlSyntaxError, "SELECT"),
    "CREATE STREAM TABLE s REFRESH MODE OFTEN AS SELECT id FROM t": (e.SqlSyntaxError, "AUTO"),
    "CREATE STREAM TABLE s SCHEDULE AS SELECT id FROM t": (e.SqlSyntaxError, "SCHEDULE"),
    "CREATE STREAM TABLE s WITH (nope = 1) AS SELECT id FROM t": (e.InvalidDefinitionError, "nope"),
    "CREATE STREAM TABLE s WITH (fuse_ceiling = '²') AS SELECT id FROM t": (e.InvalidDefinitionError, "not a number"),
    "CREATE STREAM TABLE s AS SELECT id FROM t ORDER BY id LIMIT ²": (e.TrickleError, ""),
    "CREATE STREAM TABLE s AS SELECT id FROM t GROUP BY ²": (e.TrickleError, ""),
    "CREATE STREAM TABLE s AS SELECT id FROM t VERSION AS OF 1": (e.UnsupportedError, "VERSION AS OF"),
    "CREATE STREAM TABLE s AS SELECT id, k / 0 AS x FROM t": (e.QueryError, "zero"),
    "REFRESH STREAM TABLE nope": (e.TableNotFoundError, "nope"),
    "REFRESH STREAM TABLE t": (e.TableNotFoundError, "not a stream table"),
    "DROP STREAM TABLE t": (e.TableNotFoundError, "not a stream table"),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("statement", WRONG)
def test_wrong_definitions_leave_nothing(tr: Trickle, statement: str) -> None:
    kind, words = WRONG[statement]
    before = tr.snapshot
    with pytest.raises(kind) as caught:
        tr.sql(statement)
    assert words in str(caught.value)
    assert tr.snapshot == before
    assert [r["tableName"] for r in tr.sql("SHOW TABLES").collect()] == ["t"]


DIRECT = (
    "INSERT INTO s VALUES (1, 1)", "UPDATE s SET n = 1", "DELETE FROM s", "TRUNCATE TABLE s", "DROP TABLE s",
    "ALTER TABLE s ADD COLUMN x INT", "INSERT OVERWRITE s VALUES (1, 1)", "CREATE OR REPLACE TABLE s (a INT)",
    "MERGE INTO s USING t ON s.k = t.k WHEN MATCHED THEN DELETE",
)  # fmt: skip


def test_nobody_else_changes_it(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT k, count(*) AS n FROM t GROUP BY k")
    for statement in DIRECT:
        with pytest.raises(e.ReadOnlyTableError, match="source tables"):
            tr.sql(statement)
    with pytest.raises(e.ReadOnlyTableError):
        tr.append("s", tr.spark.sql("SELECT 1 AS k, 1L AS n"))
    assert rows(tr.table("s")) == [(1, 2), (2, 1)]


def test_duckdb_reads_it(location: Location, duck: DuckQuery) -> None:
    with location.connect() as tr:
        tr.sql("CREATE TABLE t (k INT, v INT)")
        tr.sql("INSERT INTO t VALUES (1, 10), (1, 20), (2, 30)")
        tr.sql("CREATE STREAM TABLE s AS SELECT k, sum(v) AS total, count(*) AS n FROM t GROUP BY k")
        first = tr.snapshot
        tr.sql("DELETE FROM t WHERE v = 10")
        tr.refresh("s")
        assert sorted(duck("SELECT * FROM lake.s")) == [(1, 20, 1), (2, 30, 1)]
        assert sorted(duck("SELECT * FROM lake.s", snapshot=first)) == [(1, 30, 2), (2, 30, 1)]
        assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []


def test_columns_and_history_of_snapshots(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT k, avg(v) AS a FROM t GROUP BY k")
    first = tr.snapshot
    tr.sql("UPDATE t SET v = 40 WHERE id = 3")
    report = tr.refresh("s")
    assert (report.rows_inserted, report.rows_deleted, report.delta_rows) == (1, 1, 2)
    assert tr.table("s").columns == ["k", "a"]
    assert rows(tr.sql(f"SELECT * FROM s VERSION AS OF {first}")) == [(1, 15.0), (2, 30.0)]
    feed = rows(tr.sql(f"SELECT k, a, _change_type FROM trickle.changes('s', {first})"))
    assert feed == [(2, 30.0, "delete"), (2, 40.0, "insert")]
    assert set(report.phases) == {"decide", "plan", "driver", "write", "commit"}
    assert report.snapshot == tr.snapshot


def test_streams_on_streams(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE sums AS SELECT k, sum(v) AS s FROM t GROUP BY k")
    tr.sql("CREATE STREAM TABLE top AS SELECT max(s) AS m, count(*) AS n FROM sums")
    tr.sql("INSERT INTO t VALUES (4, 3, 500)")
    assert tr.refresh("top").action is Action.NO_DATA
    assert tr.refresh("sums").action is Action.DIFFERENTIAL
    assert tr.refresh("top").action is Action.DIFFERENTIAL
    assert rows(tr.table("top")) == [(500, 3)]
    with pytest.raises(e.InUseError, match=r"main\.top"):
        tr.sql("DROP STREAM TABLE sums")
    tr.sql("DROP STREAM TABLE sums CASCADE")
    assert [r["tableName"] for r in tr.sql("SHOW TABLES").collect()] == ["t"]
    assert rows(tr.sql("SELECT table_name FROM trickle.tables()")) == [("t",)]


def test_the_mode_decides(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s REFRESH MODE FULL AS SELECT k, sum(v) AS s FROM t GROUP BY k")
    tr.sql("UPDATE t SET v = 11 WHERE id = 1")
    report = tr.refresh("s")
    assert (report.action, report.rows_inserted, report.rows_deleted) == (Action.FULL, 1, 1)
    tr.sql("ALTER STREAM TABLE s SET REFRESH MODE AUTO")
    tr.sql("UPDATE t SET v = 12 WHERE id = 1")
    assert tr.refresh("s").action is Action.DIFFERENTIAL
    tr.sql("SET trickle.differential_free_rows = 0")
    tr.sql("CREATE STREAM TABLE unknown AS SELECT k, sum(v) AS s FROM t GROUP BY k")
    tr.sql("UPDATE t SET v = v + 1")
    report = tr.refresh("unknown")  # nothing is learned yet
    assert report.action is Action.FULL
    assert "15%" in report.reason
    assert rows(tr.table("unknown")) == [(1, 34), (2, 31)]
    tr.refresh("s")
    assert rows(tr.table("s")) == [(1, 34), (2, 31)]
    tr.sql("CREATE STREAM TABLE today AS SELECT id, current_date() AS d FROM t")
    report = tr.refresh("today")
    assert report.action is Action.FULL
    assert "current_date()" in report.reason
    last = dict(tr.sql("SELECT * FROM trickle.explain_refresh_mode('s')").collect())
    assert (last["configured mode"], last["next refresh"]) == ("AUTO", "NO_DATA")
    assert last["last refresh"] in ("FULL", "DIFFERENTIAL")


def test_a_failing_expression_keeps_the_last_state(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT id, 100 / v AS x FROM t")
    before = rows(tr.table("s"))
    tr.sql("INSERT INTO t VALUES (9, 1, 0)")
    with pytest.raises(e.QueryError, match="zero"):
        tr.refresh("s")
    assert rows(tr.table("s")) == before
    shown = tr.sql("SELECT status, error FROM trickle.stream_tables()").collect()[0]
    assert shown["status"] == "ERROR"
    assert "zero" in shown["error"]
    tr.sql("DELETE FROM t WHERE id = 9")
    tr.sql("INSERT INTO t VALUES (8, 1, 50)")
    tr.refresh("s")
    assert rows(tr.table("s")) == sorted([*before, (8, 2.0)], key=repr)
    history = [r["action"] for r in tr.sql("SELECT * FROM trickle.refresh_history('s')").collect()]
    assert history == ["DIFFERENTIAL", "ERROR", "FULL"]


def test_sources_change_their_shape(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT k, sum(v) AS s FROM t GROUP BY k")
    for statement in (
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t ALTER COLUMN v TYPE BIGINT",
    ):
        with pytest.raises(e.InUseError, match=r"main\.s"):
            tr.sql(statement)
    tr.sql("ALTER TABLE t ADD COLUMN note STRING")
    tr.sql("ALTER TABLE t RENAME COLUMN v TO value")
    tr.sql("ALTER TABLE t RENAME TO renamed")
    tr.sql("INSERT INTO renamed VALUES (4, 2, 5, 'x')")
    assert tr.refresh("s").action is Action.DIFFERENTIAL
    assert rows(tr.table("s")) == [(1, 30), (2, 35)]
    tr.sql("ALTER TABLE renamed DROP COLUMN note")
    tr.sql("SET trickle.block_source_ddl = false")
    tr.sql("ALTER TABLE renamed ALTER COLUMN value TYPE BIGINT")
    tr.sql("ALTER STREAM TABLE s AS SELECT k, sum(value) AS s FROM renamed GROUP BY k")
    tr.sql("ALTER TABLE renamed DROP COLUMN value")
    with pytest.raises(e.SourceLostError, match="value"):
        tr.refresh("s")
    tr.sql("ALTER STREAM TABLE s AS SELECT k, count(*) AS n FROM renamed GROUP BY k")
    assert rows(tr.table("s")) == [(1, 2), (2, 2)]


def test_a_wider_source_column_builds_it_anew(tr: Trickle) -> None:
    tr.sql("SET trickle.block_source_ddl = false")
    tr.sql("CREATE STREAM TABLE s AS SELECT k, sum(v) AS s, max(v) AS m FROM t GROUP BY k")
    tr.sql("ALTER TABLE t ALTER COLUMN v TYPE BIGINT")
    tr.sql("INSERT INTO t VALUES (5, 1, 5000000000)")
    report = tr.refresh("s")
    assert report.action is Action.REINITIALIZE
    assert "main.t.v" in report.reason
    assert rows(tr.table("s")) == [(1, 5000000030, 5000000000), (2, 30, 30)]


def test_another_query_with_the_same_columns_publishes_the_difference(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT id, v FROM t")
    tr.sql("CREATE STREAM TABLE n AS SELECT count(*) AS n FROM s")
    before = tr.snapshot
    tr.sql("ALTER STREAM TABLE s AS SELECT id, v FROM t WHERE v > 10")
    assert rows(tr.sql(f"SELECT id, _change_type FROM trickle.changes('s', {before})")) == [(1, "delete")]
    assert tr.refresh("n").action is Action.DIFFERENTIAL
    assert rows(tr.table("n")) == [(2,)]
    with pytest.raises(e.InUseError):
        tr.sql("ALTER STREAM TABLE s AS SELECT id FROM t")


def test_not_in_a_transaction(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT id FROM t")
    with tr.transaction():
        tr.sql("DELETE FROM t WHERE id = 1")
        for statement in (
            "CREATE STREAM TABLE x AS SELECT id FROM t",
            "ALTER STREAM TABLE s AS SELECT k AS id FROM t",
            "REFRESH STREAM TABLE s",
        ):
            with pytest.raises(e.UnsupportedError, match="transaction"):
                tr.sql(statement)
    assert tr.refresh("s").rows_deleted == 1


def test_two_sessions_refresh_at_once(tr: Trickle, tmp_path: Path) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT id, v FROM t")
    with connect(tmp_path / "warehouse") as other:
        for n in range(3):
            tr.sql(f"INSERT INTO t VALUES ({10 + n}, 1, 1)")
            tr.refresh("s")
            other.sql(f"INSERT INTO t VALUES ({20 + n}, 1, 1)")
            other.refresh("s")
            tr.refresh("s")
        assert rows(tr.table("s")) == rows(other.sql("SELECT id, v FROM t"))


def test_vacuum_keeps_what_a_stream_table_has_not_seen(tr: Trickle) -> None:
    tr.sql("CREATE STREAM TABLE s AS SELECT k, count(*) AS n FROM t GROUP BY k")
    tr.sql("DELETE FROM t WHERE id = 1")
    tr.sql("OPTIMIZE t")
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert tr.refresh("s").action is Action.DIFFERENTIAL
    assert rows(tr.table("s")) == [(1, 1), (2, 1)]


def test_what_makes_refreshes_dear_is_told_at_once(tr: Trickle) -> None:
    dear = tr.sql("CREATE STREAM TABLE s AS SELECT k, median(v) AS m FROM t GROUP BY k").collect()[0]
    assert dear["warnings"].startswith(
        "group recomputation: touched groups are computed again because of median"
    )
    assert tr.sql("CREATE STREAM TABLE c AS SELECT k, v FROM t").collect()[0]["warnings"] == ""
    clock = tr.sql("ALTER STREAM TABLE c AS SELECT k, v + year(current_date()) AS v FROM t").collect()[0]
    assert (
        "AUTO computes everything at every refresh because the value of current_date()" in clock["warnings"]
    )
    told = tr.sql("SELECT name, event, message FROM trickle.alerts()").collect()
    assert [(r["name"], r["event"]) for r in told] == [
        ("main.c", "costly_definition"),
        ("main.s", "costly_definition"),
    ]
    assert told[1]["message"] == dear["warnings"]
    modes = {r["name"]: r["effective_mode"] for r in tr.sql("SELECT * FROM trickle.status()").collect()}
    assert modes == {"main.s": None, "main.c": "FULL"}
    tr.sql("DELETE FROM t WHERE id = 1")
    explained = tr.sql("SELECT * FROM trickle.explain_stream_table('s')").collect()
    assert dict(explained)["warning"] == dear["warnings"]
    assert dict(explained)["threshold differential_free_rows"].startswith("1 changed rows; limit 10,000. ")
    tr.refresh("s")
    modes = {r["name"]: r["effective_mode"] for r in tr.sql("SELECT * FROM trickle.status()").collect()}
    assert modes["main.s"] == "DIFFERENTIAL"
    advice = tr.sql("SELECT * FROM trickle.recommend_refresh_mode('s')").collect()[0]
    assert "1 rows took" in advice["reason"]


def test_audit_and_explain_tell_the_same(tr: Trickle) -> None:
    query = "SELECT k, sum(v) AS s, median(v) AS m FROM t GROUP BY k"
    tr.sql(f"CREATE STREAM TABLE s AS {query}")
    tr.sql("DELETE FROM t WHERE id = 1")
    assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []
    tr.refresh("s")
    assert rows(tr.sql("SELECT * FROM trickle.audit('s')")) == []
    text = tr.sql("EXPLAIN STREAM TABLE s").collect()[0]["plan"]
    assert "O(Δ + rows of touched keys)" in text
    assert "because of median" in text
    assert "delta when main.t changes" in text
    planned = tr.sql(f"EXPLAIN CREATE STREAM TABLE x AS {query}").collect()[0]["plan"]
    assert "because of median" in planned
    explained = dict(tr.sql("SELECT * FROM trickle.explain_stream_table('s')").collect())
    assert explained["next refresh"] == "NO_DATA"
    checked = {
        r["check_name"]: r for r in tr.sql(f"SELECT * FROM trickle.validate_query('{query}')").collect()
    }
    assert checked["refresh mode"]["detail"] == "DIFFERENTIAL"
    wrong = tr.sql("SELECT * FROM trickle.validate_query('SELECT rand() AS r FROM t')").collect()[0]
    assert wrong["result"] == "error"
    assert "rand()" in wrong["detail"]


def test_the_passes_of_a_query_are_listed(tr: Trickle) -> None:
    tr.sql("CREATE TABLE g (x INT, y INT, label STRING)")
    tr.sql("INSERT INTO g VALUES (1, 2, 'a'), (2, 3, 'b'), (3, 4, 'c')")
    query = """WITH RECURSIVE p(x, y) AS (SELECT x, y FROM g UNION SELECT p.x, g.y FROM p JOIN g ON p.y = g.x)
        SELECT x, count(*) AS n FROM p GROUP BY x"""
    rows = tr.sql(f"SELECT * FROM trickle.explain_query_rewrite('{query}')").collect()
    assert [r["position"] for r in rows] == list(range(1, len(rows) + 1))
    left = {r["pass"]: r["tree"] for r in rows}
    assert list(left) == [
        "bind",
        "connect",
        "prune",
        "split",
        "differentiate",
        "arrange",
        "order",
        "reduce",
        "steps",
        "render",
    ]
    assert "Scan main.g (x, y, label): 3 rows" in left["bind"]
    assert "label" not in left["prune"]
    assert [line[:3] for line in left["split"].splitlines() if line[0] == "n"] == ["n1:", "n2:", "n3:"]
    assert "Scan main.g delta (x, y)\n" in left["differentiate"]  # nothing has changed yet
    assert "in each round" in left["steps"]
    assert "LEFT SEMI JOIN" in left["render"]
    plain = tr.sql("SELECT * FROM trickle.explain_query_rewrite('SELECT x FROM g WHERE y > 1')").collect()
    assert {r["pass"]: r["what"] for r in plain}["steps"] == "nothing to do"

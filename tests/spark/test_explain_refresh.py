"""What a refresh executed, operator by operator, and what the next one would; at the driver and by Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import LongType

from spark_trickle import connect
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

QUERIES = {
    "joined": "SELECT o.id, name, amount FROM orders o JOIN customers c ON o.customer = c.id",
    "sums": "SELECT customer, sum(amount) AS total, count(*) AS n FROM orders GROUP BY customer",
    "best": "SELECT customer, max(amount) AS best FROM orders GROUP BY customer",
    "numbered": "SELECT id, row_number() OVER (PARTITION BY customer ORDER BY id) AS n FROM orders",
    "listed": "SELECT customer, collect_list(amount) AS amounts FROM orders GROUP BY customer",
}


@pytest.fixture(params=["driver", "spark"])
def tr(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    folder = tmp_path_factory.mktemp("explained") / "warehouse"
    with connect(folder, settings={"small_changes": request.param}) as made:
        made.sql("CREATE TABLE customers (id INT, name STRING)")
        made.sql("CREATE TABLE orders (id INT, customer INT, amount INT)")
        made.sql("INSERT INTO customers VALUES (1, 'ada'), (2, 'bob')")
        made.sql("INSERT INTO orders VALUES (1, 1, 5), (2, 1, 7), (3, 2, 9)")
        for name, query in QUERIES.items():
            made.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
        yield made


def executed(tr: Trickle, name: str, number: int = 1) -> list[dict[str, Any]]:
    return tr.answer("explain_refresh", name, number).dicts()


def test_every_way_is_exact_and_tells_what_it_executed(tr: Trickle) -> None:
    by_driver = tr.sql("SHOW trickle.small_changes").collect()[0]["value"] == "driver"
    tr.sql("INSERT INTO orders VALUES (4, 2, 1)")
    tr.sql("DELETE FROM orders WHERE id = 2")
    tr.sql("UPDATE customers SET name = 'eve' WHERE id = 2")
    for name in QUERIES:
        report = tr.refresh(name)
        assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").count() == 0, name
        lines = executed(tr, name)
        engines = {line["engine"] for line in lines}
        assert "driver" not in engines or by_driver, name
        assert by_driver or "one Spark task" in engines, name
        for root in (line for line in lines if not line["operator"].startswith(" ")):
            assert root["reason"], name
            assert root["ms"] >= 0, name
        (result,) = [x for x in lines if x["plan"] == lines[-1]["plan"] and x["operator"][0] != " "]
        if result["plan"] == "n1" and by_driver and name == "joined":
            assert result["rows_out"] == report.rows_inserted + report.rows_deleted


@pytest.mark.one_in(2)
def test_the_driver_counts_the_rows_of_each_operator(tr: Trickle) -> None:
    tr.sql("INSERT INTO orders VALUES (4, 2, 1), (5, 9, 1)")
    tr.refresh("joined")
    lines = executed(tr, "joined")
    if tr.sql("SHOW trickle.small_changes").collect()[0]["value"] == "spark":
        assert [x["rows_in"] for x in lines if "orders delta" in x["operator"]] == [2]
        assert {x["ms"] is None for x in lines if x["operator"].startswith(" ")} == {True}
        return
    join = next(x for x in lines if "join" in x["operator"])
    assert (join["rows_in"], join["rows_out"], join["engine"]) == (4, 1, "driver")
    change = next(x for x in lines if "orders delta" in x["operator"])
    assert (change["rows_in"], change["rows_out"]) == (None, 2)
    assert all(x["ms"] is not None for x in lines)


@pytest.mark.one_in(2)
def test_refreshes_are_counted_from_the_newest(tr: Trickle) -> None:
    for amount in (1, 2):
        tr.sql(f"INSERT INTO orders VALUES (9, 1, {amount})")
        tr.refresh("sums")
    newest, before, filled = (executed(tr, "sums", n) for n in (1, 2, 3))
    assert newest[0]["started"] > before[0]["started"] > filled[0]["started"]
    assert [x[0]["action"] for x in (newest, before, filled)] == ["DIFFERENTIAL", "DIFFERENTIAL", "FULL"]
    assert executed(tr, "sums", 4) == []
    assert tr.sql("SELECT * FROM trickle.explain_refresh('sums', 2)").count() == len(before)
    with pytest.raises(InvalidDefinitionError, match="no refresh number 0"):
        executed(tr, "sums", 0)


@pytest.mark.one_in(2)
def test_explain_says_where_the_next_refresh_runs(tr: Trickle) -> None:
    def explained(name: str = "joined") -> dict[str, str]:
        return dict(tr.sql(f"SELECT property, value FROM trickle.explain_stream_table('{name}')").collect())

    assert not [name for name in explained() if "next:" in name]  # nothing changed
    tr.sql("INSERT INTO orders VALUES (4, 2, 1)")
    told = explained()
    for stage in ("differentiate", "order"):
        assert "Scan main.orders delta (id, customer, amount): 1 row\n" in told[f"n1 next: {stage}"]
        assert "Scan main.customers (id, name): 2 rows" in told[f"n1 next: {stage}"]
        assert "main.customers delta" not in told[f"n1 next: {stage}"]
    result = explained("sums")["n2 next: differentiate"].splitlines()
    assert [x.strip().split(" (")[0] for x in result if "Scan" in x] == ["Scan n1 delta"]
    assert not any("row" in x for x in result)  # what comes of the node before is not known yet
    tr.refresh("joined")
    engines = {line["engine"] for line in executed(tr, "joined")}
    assert told["n1 next: runs"].split(":")[0] in engines


def test_every_node_runs_where_explain_says(tr: Trickle) -> None:
    """Also where Arrow cannot hold a column, and where the result is computed by the job of its node."""
    tr.sql("CREATE TABLE trips (id INT, took INTERVAL DAY TO SECOND)")
    tr.sql(
        "CREATE STREAM TABLE long_ones REFRESH MODE DIFFERENTIAL AS SELECT id, took FROM trips WHERE id > 0"
    )
    tr.sql("INSERT INTO trips VALUES (1, INTERVAL '1' DAY)")
    tr.sql("INSERT INTO orders VALUES (4, 2, 1)")
    for name in (*QUERIES, "long_ones"):
        explained = tr.sql(f"SELECT property, value FROM trickle.explain_stream_table('{name}')")
        told = dict(explained.collect())
        tr.refresh(name)
        ran = [line for line in executed(tr, name) if not line["operator"].startswith(" ")]
        for line in (line for line in ran if f"{line['plan']} next: runs" in told):
            said = told[f"{line['plan']} next: runs"]
            if said == "in the same job as the node before it":
                assert line["reason"].startswith("computed by the job of"), name
            else:
                assert said == f"{line['engine']}: {line['reason']}", name
    assert {line["engine"] for line in executed(tr, "long_ones")} == {"one Spark task, which stores the rows"}


@pytest.mark.one_in(2)
def test_plans_of_old_refreshes_are_forgotten(tr: Trickle) -> None:
    for n in range(42):
        tr.sql(f"INSERT INTO orders VALUES ({100 + n}, 1, 1)")
        tr.refresh("joined")
    kept = [n for n in range(1, 50) if executed(tr, "joined", n)]
    assert 20 <= len(kept) <= 40
    assert kept == list(range(1, len(kept) + 1))
    assert len(tr.answer("refresh_history", "joined").rows) == 43


def test_steps_that_stay_on_the_executors_are_told_as_that(tmp_path: Path) -> None:
    settings = {"small_changes": "spark", "max_driver_rows": 1}
    with connect(tmp_path / "warehouse", settings=settings) as tr:
        tr.sql("CREATE TABLE t (g INT, v INT)")
        tr.sql("INSERT INTO t SELECT id % 40, id FROM range(80)")
        tr.sql("CREATE STREAM TABLE top REFRESH MODE DIFFERENTIAL AS SELECT g, max(v) AS v FROM t GROUP BY g")
        tr.sql("DELETE FROM t WHERE v > 30")
        tr.refresh("top")
        steps = [x for x in executed(tr, "top") if " " in x["plan"] and not x["operator"].startswith(" ")]
        assert ("Spark", "more rows came of it than the driver may hold") in {
            (x["engine"], x["reason"]) for x in steps
        }


def test_a_change_that_fails_alone_leaves_the_record_of_what_ran(tmp_path: Path) -> None:
    with connect(tmp_path / "warehouse", settings={"small_changes": "spark"}) as tr:
        tr.sql("CREATE TABLE l AS VALUES (1, 5), (2, 9) AS v(id, x)")
        tr.sql("CREATE TABLE r AS VALUES (1, 3), (2, 3) AS v(id, x)")
        tr.sql(
            "CREATE STREAM TABLE s AS SELECT c, 10 / (l.x - r.x) AS q FROM l JOIN r ON l.id = r.id "
            "JOIN (SELECT id, count(*) AS c FROM l GROUP BY id) AS g ON g.id = l.id"
        )
        tr.sql("UPDATE l SET x = 8 WHERE id = 1")
        tr.sql("UPDATE r SET x = 5 WHERE id = 1")
        report = tr.refresh("s")
        plans = [x["plan"] for x in executed(tr, "s") if not x["operator"].startswith(" ")]
        assert report.action is Action.FULL
        assert report.reason.endswith("DIVIDE_BY_ZERO")
        assert len(plans) > len(set(plans)), "the plans of the attempt stand before those of the full refresh"
        assert tr.sql("SELECT * FROM trickle.audit('s')").count() == 0


def test_explain_shows_the_clock_and_the_session_of_the_next_refresh(tmp_path: Path) -> None:
    with connect(tmp_path / "warehouse") as tr:
        tr.sql("CREATE TABLE t (id BIGINT, updated BIGINT)")
        tr.sql("INSERT INTO t VALUES (1, 2)")
        tr.sql("CREATE STREAM TABLE dated AS SELECT id, current_date() AS today FROM t")
        tr.spark.udf.register("same", lambda n: n, LongType())
        tr.sql("CREATE STREAM TABLE own AS SELECT id, same(updated) AS updated FROM t")
        tr.sql("CREATE STREAM TABLE homes AS SELECT id, current_schema() AS home FROM t")
        tr.sql("INSERT INTO t VALUES (2, 3)")
        told = explain(tr, "dated")
        assert "CURRENT_DATE" in told["n1 next: content"]
        assert "CURRENT_DATE" not in told["n1 next: clock"]
        assert "TIMESTAMP" in told["n1 next: clock"]
        assert "next: session" not in told
        assert explain(tr, "homes")["next: session"] == (
            "in your session, because the query calls current_schema()"
        )
        assert "registered only there" in explain(tr, "own")["next: session"]


def test_a_column_called_updated_has_nothing_to_do_with_time_zones(tmp_path: Path) -> None:
    with connect(tmp_path / "warehouse") as tr:
        tr.sql("CREATE TABLE t (id BIGINT, updated BIGINT)")
        tr.sql("CREATE STREAM TABLE s AS SELECT updated, count(*) AS n FROM t GROUP BY updated")
        tr.sql("CREATE STREAM TABLE days AS SELECT id, date_from_unix_date(updated) AS d FROM t")
        zone = tr.spark.conf.get("spark.sql.session.timeZone")
        tr.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        try:
            assert tr.refresh("s").action is Action.NO_DATA
            assert tr.refresh("days").action is Action.REINITIALIZE
        finally:
            tr.spark.conf.set("spark.sql.session.timeZone", zone)


def explain(tr: Trickle, name: str) -> dict[str, str]:
    return dict(tr.sql(f"SELECT property, value FROM trickle.explain_stream_table('{name}')").collect())

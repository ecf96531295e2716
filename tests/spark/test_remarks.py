"""A refresh that has to read more than what changed says so, and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.errors import QueryError
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import rows


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("remarks") / "warehouse") as made:
        yield made


PATHS = (
    "WITH RECURSIVE p(x) AS (SELECT x FROM b UNION ALL SELECT g.y FROM p JOIN g ON g.x = p.x) SELECT x FROM p"
)
PAIRS = """WITH RECURSIVE p(x, y) AS (SELECT x, y FROM g UNION SELECT a.x, b.y FROM p a JOIN p b ON a.y = b.x)
    SELECT x, y FROM p"""
# the query; settings; a change that is cheap; one that is not; and what is said of it
REMARKS = {
    "rounds": (  # what leads in a circle goes as it comes
        PATHS,
        "SET trickle.max_recursion_depth = 4",
        ("INSERT INTO g VALUES (3, 4)",),
        ("DELETE FROM b WHERE x = 3", "INSERT INTO g VALUES (4, 3)"),
        "the recursion was computed again because its change took more than 4 rounds",
    ),
    "rows": (
        PATHS,
        "SET trickle.max_driver_rows = 5",
        ("INSERT INTO g VALUES (3, 4)",),
        ("INSERT INTO g VALUES (1, 2), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2), (1, 2)",),
        "the recursion was computed again because its change led to more than 10 rows",
    ),
    "first": (
        "SELECT id, id % 7 AS v FROM many ORDER BY id LIMIT 2",
        "SET trickle.max_driver_rows = 1000",
        ("DELETE FROM many WHERE id < 3",),
        ("DELETE FROM many WHERE id < 150",),
        "the first rows were chosen again from the whole input because too few or too many were kept",
    ),
    "least": (
        "SELECT id % 3 AS k, min(id) AS least FROM many GROUP BY id % 3",
        "SET trickle.max_driver_rows = 1000",
        ("DELETE FROM many WHERE id > 200",),
        ("DELETE FROM many WHERE id < 2",),
        "2 groups were read again because they lost their smallest or largest value",
    ),
}


# two tables, a query, a change of which the old and the new rows never met, and what it must not fail on
PHANTOMS = {
    "pairs": (
        "SELECT l.id, 10 / (l.x - r.x) AS q FROM l JOIN r ON l.id = r.id",
        ("UPDATE l SET x = 8 WHERE id = 1", "UPDATE r SET x = 5 WHERE id = 1"),
        "DIVIDE_BY_ZERO",
    ),
    "sums": (
        "SELECT l.id, sum(10 / (l.x - r.x)) AS q FROM l JOIN r ON l.id = r.id GROUP BY l.id",
        ("UPDATE l SET x = 5 WHERE id = 1", "UPDATE r SET x = 8 WHERE id = 1"),
        "DIVIDE_BY_ZERO",
    ),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", PHANTOMS)
@pytest.mark.parametrize("mode", ["AUTO", "DIFFERENTIAL"])
def test_what_cancels_out_may_fail_alone(tr: Trickle, name: str, mode: str) -> None:
    query, changes, condition = PHANTOMS[name]
    tr.sql("CREATE OR REPLACE TABLE l AS VALUES (1, 5), (2, 9) AS v(id, x)")
    tr.sql("CREATE OR REPLACE TABLE r AS VALUES (1, 3), (2, 3) AS v(id, x)")
    tr.sql(f"CREATE STREAM TABLE phantoms REFRESH MODE {mode} AS {query}")
    for change in changes:
        tr.sql(change)
    report = tr.refresh("phantoms")
    if name == "pairs":  # the driver sums without Spark where it can, and then need not fail
        assert report.action is Action.FULL
        assert report.reason.endswith(f"; the change alone could not be computed: {condition}")
    assert rows(tr.table("phantoms")) == rows(tr.sql(query))
    tr.sql("UPDATE l SET x = 3 WHERE id = 2")
    with pytest.raises(QueryError, match=condition):
        tr.refresh("phantoms")
    tr.sql("DROP STREAM TABLE phantoms")


def set_up(tr: Trickle) -> None:
    tr.sql("CREATE TABLE b (x INT)")
    tr.sql("CREATE TABLE g (x INT, y INT)")
    tr.sql("CREATE TABLE many (id INT)")
    tr.sql("INSERT INTO b VALUES (1), (3)")
    tr.sql("INSERT INTO g VALUES (1, 2), (2, 5)")
    tr.sql("INSERT INTO many SELECT id FROM range(300)")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", REMARKS)
def test_more_than_the_change(name: str, tr: Trickle) -> None:
    query, setting, cheap, dear, remark = REMARKS[name]
    tr.sql(f"CREATE SCHEMA {name}")
    tr.sql(f"USE {name}")
    set_up(tr)
    tr.sql(setting)
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {query}")
    for statement in cheap:
        tr.sql(statement)
    report = tr.refresh("s")
    assert report.action is Action.DIFFERENTIAL
    assert "again" not in report.reason
    for statement in dear:
        tr.sql(statement)
    report = tr.refresh("s")
    assert report.action is Action.DIFFERENTIAL
    assert remark in report.reason
    last = tr.sql(f"SELECT reason FROM trickle.refresh_history('{name}.s')").collect()[0]["reason"]
    assert last == report.reason


def test_a_limit_above_all_rows_asks_for_nothing_again(tr: Trickle) -> None:
    tr.sql("CREATE SCHEMA above")
    tr.sql("USE above")
    set_up(tr)
    query = "SELECT id FROM many ORDER BY id LIMIT 400"
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {query}")
    for statement in ("INSERT INTO many VALUES (500), (-1)", "DELETE FROM many WHERE id < 50"):
        tr.sql(statement)
        assert "again" not in tr.refresh("s").reason
        assert rows(tr.table("s")) == rows(tr.sql(query))


def test_a_recursion_that_is_always_computed_again(tr: Trickle) -> None:
    tr.sql("USE main")
    set_up(tr)
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {PAIRS}")
    tr.sql("DELETE FROM g WHERE x = 2")
    assert "because the step joins the rows of the previous step with themselves" in tr.refresh("s").reason

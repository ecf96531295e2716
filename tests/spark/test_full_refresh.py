"""A refresh in full: few rows are compared with what was there, many take its place; both are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.states import load_experience
from spark_trickle.model.stream import Action, Run
from spark_trickle.session import Trickle
from tests.conftest import rows

QUERY = "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY v, id) AS place FROM t"
GROUPS = "SELECT g, count(*) AS n, sum(v) AS total, max(v) AS most FROM t GROUP BY g"


@pytest.fixture
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """Twenty rows are many here."""
    with connect(tmp_path_factory.mktemp("full"), settings={"max_driver_rows": 200}) as made:
        made.sql("CREATE TABLE t (id INT, g INT, v INT, PRIMARY KEY (id))")
        made.sql("INSERT INTO t SELECT id, id % 3, (id * 7) % 11 FROM range(60)")
        yield made


def _bag(frame: Any) -> Counter[tuple[Any, ...]]:
    return Counter(rows(frame))


def _changes(tr: Trickle, name: str, since: int) -> Counter[tuple[Any, ...]]:
    """The net change, as weights of rows."""
    total: Counter[tuple[Any, ...]] = Counter()
    for *row, kind, _, _ in rows(tr.sql(f"SELECT * FROM trickle.changes('{name}', {since}, {tr.snapshot})")):
        total[tuple(row)] += -1 if kind in ("delete", "update_preimage") else 1
    return Counter({row: n for row, n in total.items() if n})


def _change(tr: Trickle) -> None:
    tr.sql("UPDATE t SET v = v + 5 WHERE id % 10 = 1")
    tr.sql("DELETE FROM t WHERE id % 10 = 2")
    tr.sql("INSERT INTO t VALUES (100, 0, 3), (101, NULL, 3)")


def test_merging_files_counts_as_part_of_the_refresh_that_made_it_necessary(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Files that are merged by Spark, after the commit."""
    settings = {"max_driver_rows": 1, "compact_change_ratio": 0.1}
    with connect(tmp_path_factory.mktemp("merged"), settings=settings) as tr:
        tr.sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))")
        tr.sql("INSERT INTO t SELECT id, id FROM range(60)")
        tr.sql("CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS SELECT id, v FROM t")
        tr.sql("UPDATE t SET v = v + 1 WHERE id % 2 = 0")
        tr.refresh("s")
        newest, first = _runs(tr)
        assert newest.compact_ms > 0
        assert newest.total_ms == newest.duration_ms + newest.compact_ms
        assert first.compact_ms == 0


def test_many_rows_take_the_place_of_what_was_there(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {QUERY}")
    before, then = _bag(tr.sql("SELECT * FROM s")), tr.snapshot
    _change(tr)
    report = tr.refresh("s")
    now = _bag(tr.sql("SELECT * FROM s"))
    assert report.action is Action.FULL
    assert report.apply.startswith("replace")
    assert (report.rows_inserted, report.rows_deleted) == (56, 60)
    assert now == _bag(tr.sql(QUERY))
    assert _bag(tr.sql(f"SELECT * FROM s VERSION AS OF {then}")) == before
    difference = Counter(now)
    difference.subtract(before)
    assert _changes(tr, "s", then) == Counter({row: n for row, n in difference.items() if n})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "query", ["SELECT g, v % 3 AS w, IF(v > 5, -0D, 0D) AS f FROM t", "SELECT id, g, v FROM t WHERE v <> 4"]
)
def test_files_with_deletions_tell_in_sum_what_went(tr: Trickle, query: str) -> None:
    """They are not copied for it; rows that repeat, and both zeros, are told as often as they were there."""
    tr.sql("SET trickle.auto_compact = false")
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {query}")
    _change(tr)
    assert tr.refresh("s").rows_deleted > 0
    tr.sql("DELETE FROM t WHERE id < 12")
    tr.refresh("s")
    before, then = rows(tr.sql("SELECT * FROM s")), tr.snapshot
    tr.sql("ALTER STREAM TABLE s SET REFRESH MODE FULL")
    tr.sql("UPDATE t SET v = v + 1 WHERE id % 10 = 5")
    assert tr.refresh("s").apply.startswith("replace")
    now = rows(tr.sql("SELECT * FROM s"))
    assert Counter(map(repr, now)) == Counter(map(repr, rows(tr.sql(query))))
    feed = rows(tr.sql(f"SELECT * FROM trickle.changes('s', {then}, {tr.snapshot})"))
    gone, come = ([repr(r[:-3]) for r in feed if r[-3] == kind] for kind in ("delete", "insert"))
    assert Counter(gone) == Counter(map(repr, before))
    assert Counter(come) == Counter(map(repr, now))
    assert len(feed) == len(before) + len(now)


def test_what_follows_is_computed_from_the_change_again(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {QUERY}")
    _change(tr)
    tr.refresh("s")
    tr.sql("ALTER STREAM TABLE s SET REFRESH MODE DIFFERENTIAL")
    tr.sql("DELETE FROM t WHERE id % 10 = 3")
    assert tr.refresh("s").action is Action.DIFFERENTIAL
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(QUERY))


def test_many_rows_are_compared_for_those_who_follow(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {QUERY}")
    tr.sql(
        "CREATE STREAM TABLE above REFRESH MODE DIFFERENTIAL AS SELECT g, max(place) AS last FROM s GROUP BY g"
    )
    tr.sql("UPDATE t SET v = -1 WHERE id = 3")
    report = tr.refresh("s")
    assert report.action is Action.FULL
    assert report.rows_inserted == report.rows_deleted < 20
    assert tr.refresh("above").action in (Action.DIFFERENTIAL, Action.NO_DATA)
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(QUERY))
    assert _bag(tr.sql("SELECT * FROM above")) == _bag(tr.sql("SELECT g, max(place) FROM s GROUP BY g"))


def test_few_rows_are_compared(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {GROUPS}")
    tr.sql("UPDATE t SET v = v + 100 WHERE id = 3")
    report = tr.refresh("s")
    assert report.action is Action.FULL
    assert (report.rows_inserted, report.rows_deleted) == (1, 1)
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(GROUPS))


def test_a_result_that_grows_beyond_few_rows(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {QUERY} WHERE id < 10")
    tr.sql("UPDATE t SET id = id - 200 WHERE id > 9")
    tr.sql("INSERT INTO t SELECT id - 1000, id % 3, 1 FROM range(100)")
    assert tr.refresh("s").action is Action.FULL
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(f"{QUERY} WHERE id < 10"))
    assert sum(_bag(tr.sql("SELECT * FROM s")).values()) == 160


def test_nothing_is_left_of_a_source_that_is_empty(tr: Trickle) -> None:
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE FULL AS {QUERY}")
    tr.sql("TRUNCATE TABLE t")
    report = tr.refresh("s")
    assert (report.rows_inserted, report.rows_deleted) == (0, 60)
    assert _bag(tr.sql("SELECT * FROM s")) == Counter()
    tr.sql("INSERT INTO t VALUES (1, 1, 1)")
    tr.refresh("s")
    assert _bag(tr.sql("SELECT * FROM s")) == Counter({(1, 1, 1): 1})


# Two thousand rows, each of which changes when one does.
SHIFTED = {
    "of all": "SELECT id, g, row_number() OVER (ORDER BY v, id) AS place FROM many",
    "of groups": "SELECT id, v, s FROM many JOIN (SELECT g, sum(v) AS s FROM many GROUP BY g) USING (g)",
}


def _runs(tr: Trickle) -> tuple[Run, ...]:
    """What is known of earlier refreshes of s."""
    work = tr._connection.read()
    (id,) = (t.id for t in work.catalog.tables() if t.name == "s")
    with open_reader(work.place.warehouse.engine) as connection:
        return load_experience(connection, id).runs


def _many(tr: Trickle) -> None:
    tr.sql("CREATE TABLE many (id INT, g INT, v INT, PRIMARY KEY (id))")
    tr.sql("INSERT INTO many SELECT id, id % 3, id * 2 FROM range(2000)")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("query", SHIFTED.values(), ids=SHIFTED)
def test_a_change_that_turns_out_to_be_everything_is_given_up(tr: Trickle, query: str) -> None:
    _many(tr)
    tr.sql(f"CREATE STREAM TABLE s AS {query}")
    tr.sql("UPDATE many SET v = v - 3999 WHERE id > 1996")
    report = tr.refresh("s")
    assert report.action is Action.FULL
    assert "the change has 4,000 rows, but everything is only 2,000" in report.reason
    assert report.duration_ms == pytest.approx(sum(report.phases.values()))
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(query))
    newest, first = _runs(tr)
    assert newest.given_up_ms == pytest.approx(report.phases["given_up"], abs=0.01)
    assert newest.total_ms == newest.duration_ms - newest.given_up_ms + newest.compact_ms
    assert first.given_up_ms == 0
    tr.sql("ALTER STREAM TABLE s SET REFRESH MODE DIFFERENTIAL")
    tr.sql("UPDATE many SET v = v + 1 WHERE id = 7")
    assert tr.refresh("s").action is Action.DIFFERENTIAL
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(query))
    other = query.replace("sum(v)", "max(v)").replace("ORDER BY v", "ORDER BY g, v")
    tr.sql(f"ALTER STREAM TABLE s AS {other}")
    assert [r.action for r in _runs(tr)] == [Action.REINITIALIZE]  # what another query cost tells nothing
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(other))


def test_a_change_that_others_follow_is_not_given_up(tr: Trickle) -> None:
    """They want to know what changed, so everything would be compared with what was there."""
    _many(tr)
    tr.sql(f"CREATE STREAM TABLE s AS {SHIFTED['of all']}")
    tr.sql("CREATE STREAM TABLE above AS SELECT g, sum(place) AS places FROM s GROUP BY g")
    tr.sql("UPDATE many SET v = v - 3999 WHERE id > 1996")
    assert [r.action for r in tr.refresh_all()] == [Action.DIFFERENTIAL] * 2
    assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(SHIFTED["of all"]))


def test_a_change_of_some_of_many_rows_is_not_given_up(tr: Trickle) -> None:
    """Four thousand rows are too many for a small job, which only the first of them has to find out."""
    tr.sql("CREATE TABLE many (id INT, g INT, v INT, PRIMARY KEY (id))")
    tr.sql("INSERT INTO many SELECT id, id % 10, id * 2 FROM range(20000)")
    query = "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY v, id) AS place, v FROM many"
    tr.sql(f"CREATE STREAM TABLE s AS {query}")
    for number in range(3):
        tr.sql(f"UPDATE many SET v = v - 39999 WHERE id = {19993 - number}")
        report = tr.refresh("s")
        assert (report.action, report.rows_inserted) == (Action.DIFFERENTIAL, 2000), report.reason
        assert ("planned as a large job" in report.reason) is (number > 0)
        assert _bag(tr.sql("SELECT * FROM s")) == _bag(tr.sql(query))

"""Circles of stream tables: the least fixpoint after every change, in one commit, or nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest

from spark_trickle import connect
from spark_trickle.errors import (
    CircleRefusedError,
    CircularError,
    InUseError,
    NoFixpointError,
    TrickleError,
)
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

Pair = tuple[int | None, int | None]
MEMBERS = ("odd", "even", "seen")


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    """Ways through a graph: `odd` makes all of them longer by an edge, `even` joins them to each other.

    `even` has no DISTINCT of its own, so it shows a way as often as it is found.
    """
    folder = tmp_path_factory.mktemp("circular") / "warehouse"
    with connect(folder, settings={"allow_circular": True}) as tr:
        tr.sql("CREATE TABLE edges (a INT, b INT)")
        tr.sql("CREATE STREAM TABLE odd AS SELECT a, b FROM edges")
        tr.sql("CREATE STREAM TABLE seen AS SELECT DISTINCT a, b FROM odd")
        tr.sql("""
            CREATE STREAM TABLE even AS SELECT a, b FROM edges
            UNION ALL SELECT o.a, s.b FROM odd AS o JOIN seen AS s ON o.b = s.a
        """)
        tr.sql("ALTER STREAM TABLE seen AS SELECT a, b FROM odd UNION SELECT a, b FROM even")
        tr.sql("INSERT INTO edges VALUES (1, 2), (2, 3), (2, 3), (3, 1), (NULL, 1), (4, NULL)")
        tr.sql("""
            ALTER STREAM TABLE odd AS SELECT a, b FROM edges
            UNION SELECT s.a, e.b FROM edges AS e JOIN seen AS s ON s.b = e.a
        """)
        yield tr


def fixpoint(edges: Iterable[Pair]) -> dict[str, list[Pair]]:
    """The same three queries, round by round from nothing."""
    edges = list(edges)
    odd: set[Pair] = set()
    seen: set[Pair] = set()
    even: list[Pair] = []
    while True:
        before = (len(odd), len(even), len(seen))
        odd = set(edges) | {(a, d) for a, b in seen for c, d in edges if b is not None and b == c}
        even = edges + [(a, d) for a, b in odd for c, d in seen if b is not None and b == c]
        seen = odd | set(even)
        if before == (len(odd), len(even), len(seen)):
            return {"odd": ordered(odd), "even": ordered(even), "seen": ordered(seen)}


def ordered(rows: Iterable[Pair]) -> list[Pair]:
    return sorted(rows, key=repr)


def stored(tr: Trickle, name: str) -> list[Pair]:
    return ordered((r.a, r.b) for r in tr.table(name).collect())


def check(tr: Trickle) -> None:
    wanted = fixpoint((r.a, r.b) for r in tr.table("edges").collect())
    for name in MEMBERS:
        assert stored(tr, name) == wanted[name], name


def audit(tr: Trickle, names: Iterable[str] = MEMBERS) -> None:
    for name in names:
        assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], name


def test_a_circle_is_filled_when_it_is_closed(ways: Trickle) -> None:
    check(ways)
    audit(ways)
    assert ways.refresh("odd").action is Action.NO_DATA


def test_rows_that_come_are_added(ways: Trickle) -> None:
    ways.sql("INSERT INTO edges VALUES (3, 5), (5, 6), (3, 5)")
    before = ways.snapshot
    report = ways.refresh("seen")
    assert (report.action, report.rows_deleted, report.snapshot) == (Action.DIFFERENTIAL, 0, before + 1)
    assert report.reason == "rows were only inserted into main.edges"
    check(ways)
    audit(ways)
    assert {r.action for r in ways.refresh_all()} == {Action.NO_DATA}


def test_explain_shows_the_first_turn(ways: Trickle) -> None:
    def explain() -> dict[str, str]:
        found = ways.sql("SELECT property, value FROM trickle.explain_stream_table('odd')").collect()
        return {name: value for name, value in found if "next" in name}

    ways.sql("INSERT INTO edges VALUES (11, 12)")
    told = explain()
    assert told["next"].startswith("the stream tables of the circle take turns")
    assert "Scan main.edges delta (a, b): 1 row\n" in told["n1 next: differentiate"]
    assert told["n1 next: runs"]
    before = ways.snapshot
    ways.sql("DELETE FROM edges WHERE a = 11")
    told = explain()
    assert "Scan main.edges (a, b)" in told["n1 next: content"]
    assert ways.snapshot == before + 1
    ways.refresh("odd")
    check(ways)


def test_rows_that_hold_each_other_up_go(ways: Trickle) -> None:
    ways.sql("INSERT INTO edges VALUES (7, 8), (8, 7)")
    ways.refresh("odd")
    ways.sql("DELETE FROM edges WHERE a = 7")
    reports = {r.name: r for r in ways.refresh_all()}
    assert {r.action for r in reports.values()} == {Action.FULL}
    assert "rows of a circle can keep each other alive" in reports["main.odd"].reason
    # (7, 8), (7, 7) and (8, 8) go; nothing else is written.
    assert (reports["main.seen"].rows_inserted, reports["main.seen"].rows_deleted) == (0, 3)
    check(ways)
    audit(ways)


def test_readers_of_a_circle_see_the_difference(ways: Trickle) -> None:
    ways.sql("CREATE STREAM TABLE per_start AS SELECT a, count(*) AS n FROM seen GROUP BY a")
    ways.sql("DELETE FROM edges WHERE a = 5")
    report = ways.refresh("per_start", upstream=True)
    assert report.action is Action.DIFFERENTIAL
    check(ways)
    audit(ways, ("per_start",))
    ways.sql("DROP STREAM TABLE per_start")


@pytest.mark.slow
def test_random_changes(ways: Trickle) -> None:
    chance = random.Random(7)
    nodes: list[int | None] = [None, *range(1, 7)]
    for _ in range(5):
        rows = [(chance.choice(nodes), chance.choice(nodes)) for _ in range(chance.randint(1, 3))]
        values = ", ".join(f"({a or 'NULL'}, {b or 'NULL'})" for a, b in rows)
        ways.sql(f"INSERT INTO edges VALUES {values}")
        if chance.random() < 0.4:
            ways.sql(f"DELETE FROM edges WHERE a = {chance.randint(1, 6)} AND b > {chance.randint(0, 5)}")
        ways.refresh(chance.choice(MEMBERS))
        check(ways)
    audit(ways)


def test_the_scheduler_moves_a_circle_on_as_one(ways: Trickle) -> None:
    ways.sql("INSERT INTO edges VALUES (6, 10), (10, 11)")
    assert ways.drain()
    check(ways)
    states = ways.sql("SELECT DISTINCT frontier FROM trickle.stream_tables()").collect()
    assert len(states) == 1
    tree = [r["tree"].strip() for r in ways.answer("dependency_tree").dicts()]
    assert "main.odd ↺" in tree


def test_a_member_is_not_dropped_alone(ways: Trickle) -> None:
    with pytest.raises(InUseError):
        ways.sql("DROP STREAM TABLE even")


def test_a_circle_is_opened_again(ways: Trickle) -> None:
    """What is left of it is a smaller circle at first, and then no circle any more."""
    ways.sql("ALTER STREAM TABLE odd AS SELECT a, b FROM edges")
    ways.sql("DELETE FROM edges WHERE a = 1")
    actions = {r.name: r.action for r in ways.refresh_all()}
    assert actions.pop("main.odd") is Action.DIFFERENTIAL
    assert set(actions.values()) == {Action.FULL}
    audit(ways)
    ways.sql("ALTER STREAM TABLE seen AS SELECT DISTINCT a, b FROM odd")
    ways.sql("DELETE FROM edges WHERE a = 2")
    assert {r.action for r in ways.refresh_all()} == {Action.DIFFERENTIAL}
    audit(ways)


def test_a_circle_is_dropped_as_a_whole(ways: Trickle) -> None:
    ways.sql("ALTER STREAM TABLE seen AS SELECT a, b FROM odd UNION SELECT a, b FROM even")
    ways.sql("DROP STREAM TABLE even CASCADE")
    assert [r["name"] for r in ways.answer("dependency_tree").dicts()] == ["main.edges", "main.odd"]


# --- one that reads itself -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("self") / "warehouse") as connection:
        connection.sql("CREATE TABLE links (a INT, b INT)")
        connection.sql("CREATE TABLE closed (n INT)")
        connection.sql("INSERT INTO links VALUES (1, 2), (2, 3), (3, 4)")
        connection.sql("CREATE STREAM TABLE up AS SELECT DISTINCT b AS n FROM links WHERE a = 1")
        connection.sql("CREATE STREAM TABLE down AS SELECT n, n + 1 AS m FROM up")
        yield connection


REACH = """
    SELECT b AS n FROM links WHERE a = 1
    UNION SELECT b FROM links WHERE a IN (SELECT n FROM up) AND b NOT IN (SELECT n FROM closed)
"""


def numbers(tr: Trickle, name: str = "up") -> list[int]:
    return sorted(r.n for r in tr.table(name).collect())


def test_circles_are_refused_until_they_are_allowed(tr: Trickle) -> None:
    with pytest.raises(CircularError) as caught:
        tr.sql(f"ALTER STREAM TABLE up AS {REACH}")
    assert caught.value.path == ("main.up", "main.up")
    assert "trickle.allow_circular" in caught.value.hint
    tr.sql("SET trickle.allow_circular = true")


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT max(m) AS n FROM down", "an aggregate"),
        ("SELECT a AS n FROM links WHERE a NOT IN (SELECT n FROM down)", "NOT IN"),
        ("SELECT a AS n FROM links EXCEPT SELECT n FROM down", "EXCEPT"),
        ("SELECT DISTINCT n FROM down ORDER BY n LIMIT 3", "LIMIT"),
        ("SELECT DISTINCT l.a AS n FROM links AS l LEFT JOIN down AS d ON l.a = d.n", "an outer join"),
        (
            "SELECT DISTINCT n FROM (SELECT n, rank() OVER (ORDER BY n) AS r FROM down) WHERE r < 9",
            "a window",
        ),
        ("SELECT a AS n FROM links UNION ALL SELECT n FROM down", "DISTINCT"),
    ],
)
def test_what_could_shrink_or_grow_for_ever_is_refused(tr: Trickle, query: str, word: str) -> None:
    with pytest.raises(CircleRefusedError, match=word):
        tr.sql(f"ALTER STREAM TABLE up AS {query}")


def test_a_circle_without_end(tr: Trickle) -> None:
    """Nothing is left of it: the stream tables are as they were."""
    before = (tr.snapshot, numbers(tr))
    tr.sql("SET trickle.max_fixpoint_iterations = 4")
    with pytest.raises(NoFixpointError, match="4 rounds") as caught:
        tr.sql("ALTER STREAM TABLE up AS SELECT b AS n FROM links UNION SELECT m FROM down")
    assert "trickle.max_fixpoint_iterations" in caught.value.hint
    assert (tr.snapshot, numbers(tr)) == before
    # It comes to rest as long as there is a bound, and fails whole when the bound is gone.
    tr.sql("CREATE TABLE bound (n INT)")
    tr.sql("INSERT INTO bound VALUES (5)")
    tr.sql(
        "ALTER STREAM TABLE up AS SELECT b AS n FROM links UNION SELECT m FROM down JOIN bound ON m <= bound.n"
    )
    assert numbers(tr) == [2, 3, 4, 5]
    tr.sql("INSERT INTO bound VALUES (12)")
    before = (tr.snapshot, numbers(tr), numbers(tr, "down"))
    with pytest.raises(NoFixpointError):
        tr.refresh("down")
    assert (tr.snapshot, numbers(tr), numbers(tr, "down")) == before
    tr.sql("SET trickle.max_fixpoint_iterations = 100")
    assert tr.refresh("down").action is Action.DIFFERENTIAL
    assert numbers(tr) == list(range(2, 13))
    audit(tr, ("up", "down"))


def test_one_that_reads_itself(tr: Trickle) -> None:
    tr.sql(f"ALTER STREAM TABLE up AS {REACH}")
    assert numbers(tr) == [2, 3, 4]
    tr.sql("INSERT INTO links VALUES (4, 5), (5, 2)")
    assert tr.refresh("up").action is Action.DIFFERENTIAL
    assert numbers(tr) == [2, 3, 4, 5]
    tr.sql("INSERT INTO closed VALUES (4)")  # a row that comes, and takes others away
    report = tr.refresh("up")
    assert (report.action, report.rows_deleted) == (Action.FULL, 2)
    assert "main.closed may remove rows" in report.reason
    assert numbers(tr) == [2, 3]
    tr.refresh("down")
    audit(tr, ("up", "down"))


def test_a_setting_does_not_stop_a_circle_that_is_there(tr: Trickle) -> None:
    tr.sql("SET trickle.allow_circular = false")
    tr.sql("DELETE FROM closed")
    assert tr.refresh("up").action is Action.FULL
    assert numbers(tr) == [2, 3, 4, 5]
    tr.sql("ALTER STREAM TABLE up SET SCHEDULE '5s'")
    with pytest.raises(CircleRefusedError, match="IMMEDIATE"):
        tr.sql("ALTER STREAM TABLE up SET REFRESH MODE IMMEDIATE")
    with pytest.raises(TrickleError):
        tr.sql("ALTER STREAM TABLE up AS SELECT n, n AS twice FROM up UNION SELECT a, b FROM links")
    tr.sql("DROP STREAM TABLE down")
    tr.sql("DROP STREAM TABLE up")

"""What makes refreshes dear is known when a stream table is defined; EXPLAIN shows each threshold with its value."""

from __future__ import annotations

import pytest

from spark_trickle.model.stream import Mode, Stream
from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.refresh.concerns import find_concerns
from spark_trickle.refresh.decide import Facts
from spark_trickle.refresh.thresholds import Known, list_thresholds
from spark_trickle.settings import Settings
from tests.laws.duck import Table, World

COLUMNS = Table((("id", "int"), ("k", "int"), ("v", "int")))
DEEP = "SELECT a.id FROM t a " + " ".join(f"JOIN t b{n} ON a.id = b{n}.id" for n in range(8))
WIDE = " UNION ALL ".join(["SELECT id FROM t"] * 12)
# a query, and the subjects of what is said of it
CONCERNS = {
    "SELECT k, sum(v) AS s, max(v) AS m FROM t GROUP BY k": [],
    "SELECT a.id FROM t a JOIN t b ON a.id = b.k": [],
    "SELECT id, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM t": [],
    WIDE: [],  # many tables, but no join
    DEEP: ["deep join"],
    "SELECT k, median(v) AS m FROM t GROUP BY k": ["group recomputation"],
    "SELECT median(v) AS m FROM t": ["whole input"],
    "SELECT id, row_number() OVER (ORDER BY v, id) AS r FROM t": ["whole input"],
    "SELECT a.id FROM t a LEFT JOIN t b ON a.v < b.v": ["whole input"],
    f"SELECT median(id) AS m FROM ({DEEP})": ["deep join", "whole input"],
}


def world(query: str) -> World:
    return World({"t": COLUMNS}, query)


@pytest.mark.parametrize("query", CONCERNS)
def test_concerns_of_a_query(query: str) -> None:
    nodes = world(query).nodes
    found = find_concerns(nodes, Mode.AUTO, Settings())
    assert sorted({c.subject for c in found}) == CONCERNS[query]
    assert all(c.text.endswith(".") and c.advice for c in found)
    assert find_concerns(nodes, Mode.FULL, Settings()) == ()  # as its user wants it


def test_the_threshold_is_a_setting() -> None:
    nodes = world(DEEP).nodes
    assert find_concerns(nodes, Mode.AUTO, Settings(deep_join_scan_threshold=9)) == ()
    (found,) = find_concerns(nodes, Mode.DIFFERENTIAL, Settings(deep_join_scan_threshold=3))
    assert found.reason.startswith(
        "the join has 9 tables, more than deep_join_scan_threshold allows (3), and"
    )


def test_auto_that_always_computes_everything_says_so() -> None:
    (found,) = find_concerns(world("SELECT id, current_date() AS d FROM t").nodes, Mode.AUTO, Settings())
    assert found.subject == "clock"
    assert found.reason.startswith(
        "AUTO computes everything at every refresh because the value of current_date() depends"
    )


def test_every_threshold_has_a_value_a_limit_and_advice() -> None:
    stream = Stream("", "main", Mode.AUTO, None, StreamOptions(fuse_ceiling=90), (), (), "")
    facts = Facts(Mode.AUTO, 1, 2, ("t",), 100, 400)
    known = Known(stream, world(DEEP).nodes, facts, (), errors_in_a_row=2, in_circle=False)
    found = {t.setting: t for t in list_thresholds(known, Settings())}
    assert found["deep_join_scan_threshold"].text == (
        "9 tables in one join; limit 8, exceeded. Above the limit, put a part of the join into a stream table of its own."
    )
    assert found["differential_max_change_ratio"].text.startswith(
        "0.25 of the source rows changed; limit 0.15, exceeded. "
    )
    assert {name for name, t in found.items() if t.is_exceeded} == {
        "deep_join_scan_threshold",
        "differential_max_change_ratio",
        "fuse_ceiling",
    }
    assert found["max_consecutive_errors"].text.startswith("2 consecutive failures; limit 2. Above the limit")
    assert found.keys() >= {"differential_free_rows", "max_driver_rows", "buffer_alert_rows"}
    assert found.keys() >= {"compact_change_files", "compact_change_ratio"}
    rounds = {t.setting for t in list_thresholds(Known(**{**vars(known), "in_circle": True}), Settings())}
    assert "max_fixpoint_iterations" in rounds

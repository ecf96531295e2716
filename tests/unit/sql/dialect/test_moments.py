"""Functions of the clock are found in every spelling, and in views; what only looks like one is not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from spark_trickle.algebra.prune import prune
from spark_trickle.algebra.references import TableRef
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import Bound, ReadableTable, SourceView
from spark_trickle.sql.dialect.moments import list_moments, list_words, stop_clock

VIEWS = {
    "recent": "SELECT * FROM t WHERE ts > now() - INTERVAL 1 DAY",
    "deeper": "SELECT k FROM recent",
    "beside": "SELECT k, current_date() AS d FROM t",
    "chance": "SELECT k FROM t WHERE rand() < 0.5",
}
FOUND = {
    "SELECT k, now() AS n FROM t": "now",
    "SELECT k, `current_date`() AS n FROM t": "current_date",
    "SELECT k, Current_Date AS n FROM t": "current_date",
    "SELECT k, `current_timestamp` AS n FROM t": "current_timestamp",
    "SELECT k, user AS n FROM t": "",
    "SELECT k, session_user AS n FROM t": "session_user",
    "SELECT k, system.builtin.now() AS n FROM t": "now",
    "SELECT k, builtin.`curdate`() AS n FROM t": "curdate",
    "SELECT k, unix_timestamp() AS n FROM t": "unix_timestamp",
    "SELECT k, unix_timestamp(ts) AS n FROM t": "",
    "SELECT k, DATE 'today' AS n FROM t": "today",
    "SELECT k, CAST(' Tomorrow UTC' AS TIMESTAMP_NTZ) AS n FROM t": "tomorrow",
    "SELECT k, date('yesterday') AS n FROM t": "yesterday",
    "SELECT k, CAST('today' AS STRING) AS n, 'now()' AS m FROM t": "",
    "SELECT k, current_date AS n FROM (SELECT k, ts AS current_date FROM t)": "",
    "SELECT * FROM VALUES (now()), (current_date)": "now current_date",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM recent r WHERE r.k = t.k)": "now",
    "SELECT k FROM deeper": "now",
    "SELECT k, d FROM beside": "current_date",
    "SELECT k FROM beside": "",
}
CHANCE = [
    "SELECT k, rand() AS r FROM t",
    "SELECT k, `rand`() AS r FROM t",
    "SELECT k, system.builtin.rand() AS r FROM t",
    "SELECT k FROM t UNION ALL VALUES (rand())",
    "SELECT k FROM chance",
]


def bound(query: str) -> Bound:
    def find(parts: tuple[str, ...], home: str) -> ReadableTable | SourceView | None:
        if parts == ("t",):
            return ReadableTable(TableRef(1), ("k", "ts", "user"))
        columns = {"recent": ("k", "ts"), "beside": ("k", "d")}.get(parts[0], ("k",))
        return SourceView(VIEWS[parts[0]], columns, columns, "main")

    return bind(query, find, lambda op: dict.fromkeys(op.columns, "int"), "main")


@pytest.mark.parametrize("query", FOUND)
def test_moments(query: str) -> None:
    assert " ".join(list_moments([prune(bound(query).plan)])) == FOUND[query]


@pytest.mark.parametrize("query", CHANCE)
def test_chance_is_refused(query: str) -> None:
    with pytest.raises(UnsupportedError, match="every refresh"):
        bound(query)


@pytest.mark.parametrize("query", FOUND)
def test_a_clock_that_stands_still_is_asked_by_nobody(query: str) -> None:
    plan = prune(bound(query).plan)
    still = stop_clock(plan, datetime(2024, 2, 29, tzinfo=UTC))
    assert list_moments([still]) == (("session_user",) if FOUND[query] == "session_user" else ())
    assert still.columns == plan.columns
    assert (still is plan) == (FOUND[query] in ("", "session_user"))


def test_words_are_functions_types_and_keywords_but_no_columns() -> None:
    plan = bound("SELECT CAST(k AS DATE) AS `month`, upper('year') AS u FROM t WHERE ts IS NULL").plan
    assert {"cast", "date", "upper"} <= list_words([plan])
    assert not {"k", "ts", "month", "year"} & list_words([plan])

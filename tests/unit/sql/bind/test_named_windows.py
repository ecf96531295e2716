"""OVER w, written out as the WINDOW clause says."""

from __future__ import annotations

import pytest

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.named_windows import write_out_windows
from spark_trickle.sql.dialect.spark import parse_query, sql_of

WRITTEN_OUT = {
    "SELECT rank() OVER w FROM t WINDOW w AS (ORDER BY sum(a) DESC)": (
        "SELECT rank() OVER (ORDER BY sum(a) DESC) FROM t"
    ),
    "SELECT rank() OVER (w ORDER BY b) FROM t WINDOW w AS (PARTITION BY a)": (
        "SELECT rank() OVER (PARTITION BY a ORDER BY b) FROM t"
    ),
    "SELECT a FROM t QUALIFY rank() OVER v = 1 WINDOW w AS (ORDER BY a), v AS w": (
        "SELECT a FROM t QUALIFY rank() OVER (ORDER BY a) = 1"
    ),
    "SELECT rank() OVER w, rank() OVER W FROM t WINDOW w AS (ORDER BY a), W AS (ORDER BY b)": (
        "SELECT rank() OVER (ORDER BY a), rank() OVER (ORDER BY b) FROM t"
    ),
    "SELECT r FROM (SELECT rank() OVER w AS r FROM t) JOIN (SELECT 1) ON true WINDOW w AS (ORDER BY a)": (
        "SELECT r FROM (SELECT rank() OVER (ORDER BY a) AS r FROM t) JOIN (SELECT 1) ON TRUE"
    ),
    "SELECT rank() OVER w FROM (SELECT rank() OVER w FROM t WINDOW w AS (ORDER BY b)) WINDOW w AS (ORDER BY a)": (
        "SELECT rank() OVER (ORDER BY a) FROM (SELECT rank() OVER (ORDER BY b) FROM t)"
    ),
    "SELECT a FROM t WINDOW w AS (ORDER BY nothing)": "SELECT a FROM t",
}


@pytest.mark.parametrize("query", WRITTEN_OUT)
def test_written_out(query: str) -> None:
    found = sql_of(write_out_windows(parse_query(query)))
    assert found == sql_of(parse_query(WRITTEN_OUT[query]))


NOT_DEFINED = [
    "SELECT rank() OVER w FROM t",
    "SELECT rank() OVER W FROM t WINDOW w AS (ORDER BY a)",
    "SELECT rank() OVER w FROM t WINDOW w AS w",
    "SELECT rank() OVER w FROM t WINDOW w AS v, v AS w",
    "SELECT (SELECT max(rank() OVER w) FROM t) FROM t WINDOW w AS (ORDER BY a)",
    "SELECT a FROM t JOIN u ON EXISTS (SELECT rank() OVER w FROM t) WINDOW w AS (ORDER BY a)",
]


@pytest.mark.parametrize("query", NOT_DEFINED)
def test_not_defined(query: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="is not defined"):
        write_out_windows(parse_query(query))

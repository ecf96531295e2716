"""Queries with a LIMIT at their end, and what they choose from."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from spark_trickle.sql.audit.ties import find_choice

ORDERS = {
    "SELECT a, b FROM t ORDER BY a LIMIT 3": ("c1 ASC NULLS FIRST",),
    "SELECT a, b FROM t ORDER BY 2 DESC, A LIMIT 3": ("c2 DESC NULLS LAST", "c1 ASC NULLS FIRST"),
    "SELECT a, b FROM t ORDER BY c NULLS LAST LIMIT 3": ("o1 ASC NULLS LAST",),
    "SELECT a, b FROM t ORDER BY a + b LIMIT 3": ("c1 + c2 ASC NULLS FIRST",),
    "SELECT x AS a, b FROM t ORDER BY a + c LIMIT 3": ("o1 ASC NULLS FIRST",),
    "SELECT a, sum(b) AS b FROM t GROUP BY a ORDER BY sum(b), max(b) LIMIT 3": (
        "c2 ASC NULLS FIRST",
        "o1 ASC NULLS FIRST",
    ),
    "SELECT * FROM t ORDER BY b LIMIT 3": ("c2 ASC NULLS FIRST",),
    "SELECT a, b FROM t ORDER BY ALL DESC LIMIT 3": ("c1 DESC NULLS LAST", "c2 DESC NULLS LAST"),
    "SELECT a, b FROM t ORDER BY (2) LIMIT 3": ("c2 ASC NULLS FIRST",),
    "SELECT DISTINCT a, b + 1 FROM t ORDER BY b + 1 LIMIT 3": ("c2 ASC NULLS FIRST",),
    "(SELECT a, b FROM t) UNION SELECT a, b FROM u ORDER BY b LIMIT 3": ("c2 ASC NULLS FIRST",),
    "WITH w AS (SELECT a, b FROM t) SELECT a, b FROM w LIMIT 3": (),
}


@pytest.mark.parametrize("query", ORDERS)
def test_orders(query: str) -> None:
    found = find_choice(query, ["a", "b"])
    assert found is not None
    assert (found.order, found.start, found.end) == (ORDERS[query], 0, 3)


NONE = [
    "SELECT a, b FROM t",
    "SELECT a, b FROM t ORDER BY a",
    "SELECT a, b FROM (SELECT a, b FROM t LIMIT 3)",
]


@pytest.mark.parametrize("query", NONE)
def test_no_choice(query: str) -> None:
    assert find_choice(query, ["a", "b"]) is None


# a row is its value and what orders it; the value alone is in the result
ROWS = [("x", 1), ("y", 1), ("z", 2), ("u", 2), ("v", 2), ("z", 3), ("w", 4)]
CHOICES = [
    ("LIMIT 3", "xyz", 0),  # any of z, u, v
    ("LIMIT 3", "xyu", 0),
    ("LIMIT 3", "xyw", 1),  # w is too late
    ("LIMIT 3", "xzu", 1),  # y must be there
    ("LIMIT 4", "xyuv", 0),
    ("LIMIT 2 OFFSET 1", "yv", 0),  # either of the first two, any of the next three
    ("LIMIT 1 OFFSET 3", "u", 0),  # a group that is cut at both ends
    ("LIMIT 1 OFFSET 3", "x", 1),
    ("LIMIT 6", "xyzuvz", 0),
    ("LIMIT 6", "xyzuvw", 1),  # the other z must be there as well
    ("LIMIT 3", "xyzz", 1),
    ("LIMIT 3 OFFSET 4", "vzw", 0),
    ("LIMIT 3 OFFSET 4", "zzw", 0),
    ("LIMIT 3 OFFSET 4", "xyu", 2),
    ("OFFSET 5", "zw", 0),
]


@pytest.mark.parametrize(("limit", "found", "wrong"), CHOICES)
def test_the_nearest_choice(limit: str, found: str, wrong: int) -> None:
    choice = find_choice(f"SELECT v FROM t ORDER BY k {limit}", ["v"])
    assert choice is not None
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t (v VARCHAR, k INT)")
    duck.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
    duck.execute("CREATE TABLE found (c1 VARCHAR)")
    duck.executemany("INSERT INTO found VALUES (?)", [(v,) for v in found])
    text = choice.select_nearest(["c1"]).replace("<=>", "IS NOT DISTINCT FROM").replace("{found}", "found")
    rows = duck.execute(text.replace("{rows}", f"({choice.query})")).fetchall()
    nearest = Counter(r[0] for r in rows)
    assert nearest.total() == len(ROWS[choice.start : choice.end])
    assert (Counter(found) - nearest).total() == wrong

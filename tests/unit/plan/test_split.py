"""Which tables a query needs: one for each operator that keeps rows, and no second one of the same rows."""

from __future__ import annotations

import pytest

from tests.laws.duck import Table, World

RANKED = "SELECT id, k, v, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM t"
TABLES = {
    RANKED: 1,
    "SELECT row_number() OVER (PARTITION BY k ORDER BY v) AS r, v AS x, k AS y FROM t": 1,  # other names
    "SELECT id, v, sum(v) OVER () AS s FROM t WHERE v > 1": 1,
    "SELECT id, k, sum(v) OVER (PARTITION BY k) AS a, v, count(*) OVER (PARTITION BY v) AS b FROM t": 2,
    "SELECT id, k, v FROM t ORDER BY v, id LIMIT 3": 3,  # a buffer, the first rows of it, and these without their order
    # What is shown is not what is kept.
    "SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM t": 2,  # v is not shown
    "SELECT id, k, k AS l, sum(v) OVER (PARTITION BY k) AS s, v FROM t": 2,  # shown twice
    "SELECT id, k, v, 1 + sum(v) OVER (PARTITION BY k) AS s FROM t": 2,
    f"{RANKED} QUALIFY r = 1": 2,
    f"{RANKED} UNION ALL SELECT 1, 1, 1, 1": 2,
    f"SELECT * FROM ({RANKED}) JOIN (SELECT k AS l FROM t) ON k = l": 2,
    "SELECT k, count(*) AS n FROM t GROUP BY k": 2,
    "SELECT DISTINCT k FROM t": 2,
    "SELECT id, k, v FROM t": 1,
}


@pytest.mark.parametrize("query", TABLES)
def test_tables_of_a_query(query: str) -> None:
    world = World({"t": Table((("id", "int"), ("k", "int"), ("v", "int")))}, query)
    assert len(world.nodes) == TABLES[query], [n.plan for n in world.nodes]
    assert [str(n.name) for n in world.nodes] == [f"n{i}" for i in range(1, len(world.nodes) + 1)]

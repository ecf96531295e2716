"""Extrema that many rows share: they stay while one of these is left, and no more are counted than there are."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from spark_trickle.algebra.stateful_operators import Aggregate
from tests.laws.duck import Row, Table, World

QUERIES = {
    "SELECT k, min(v) AS a, max(v) AS b FROM t GROUP BY k": True,
    "SELECT k, max(v) AS b, count(*) AS n, sum(v) AS s FROM t GROUP BY k": True,
    "SELECT min(v) AS a, max(v) AS b FROM t": False,
    "SELECT t.k, t.v, m.b FROM t JOIN (SELECT k, max(v) AS b FROM t GROUP BY k) m ON t.k <=> m.k": True,
}


def rows(chance: random.Random, count: int) -> Counter[Row]:
    return Counter(
        (chance.choice((None, 1, 2)), chance.choice((None, 0, 1, 1, 2, 3, 3))) for _ in range(count)
    )


def changed(chance: random.Random, now: Counter[Row]) -> Counter[Row]:
    """Mostly the least and greatest values go, so that the last of them goes sometimes."""
    ends = [r for r in now.elements() if r[1] in (0, 3)] + chance.sample(list(now.elements()), 2)
    change = rows(chance, chance.randrange(4))
    change.subtract(Counter(chance.sample(ends, min(len(ends), chance.randrange(5)))) & now)
    return Counter({row: n for row, n in change.items() if n})


@pytest.mark.one_in(3)
@pytest.mark.parametrize("query", QUERIES)
def test_no_more_rows_are_counted_than_there_are(query: str) -> None:
    more_than_one = 0
    for seed in range(8):
        chance = random.Random(f"{query} {seed}")
        world = World({"t": Table((("k", "int"), ("v", "int")), rows(chance, 30))}, query)
        assert world.result == world.oracle()
        for _ in range(10):
            world.refresh({"t": changed(chance, world.tables["t"].rows)})
            assert world.result == world.oracle(), (query, seed)
            for counted, there in _ties(world, keyed=QUERIES[query]):
                assert min(there, 1) <= counted <= there, (query, seed)
                more_than_one += counted > 1
    assert more_than_one > 20


def _ties(world: World, keyed: bool) -> Iterator[tuple[int, int]]:
    """How many rows are said to have an extremum, and how many have it."""
    for node in world.nodes:
        calls = node.plan.calls if isinstance(node.plan, Aggregate) else ()
        for stored in world.content[node.name].elements():
            values = dict(zip(node.plan.columns, stored, strict=True))
            for c in calls:
                if c.ties_of:
                    best, rows = values[c.ties_of], world.tables["t"].rows.items()
                    there = (n for (k, v), n in rows if v == best and (not keyed or k == stored[0]))
                    yield values[c.name], 0 if best is None else sum(there)

"""The law of every delta, on DuckDB: the stream table equals the query after each batch of changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from spark_trickle.algebra.stateful_operators import Buffer
from tests.laws.duck import Table, World
from tests.laws.queries import QUERIES

Row = tuple[Any, ...]
SEEDS, STEPS = 2, 4


def tables() -> dict[str, Table]:
    return {
        "t": Table((("id", "int"), ("k", "int"), ("v", "int"), ("s", "string"))),
        "u": Table((("id", "int"), ("k", "int"), ("w", "int"))),
    }


def random_row(chance: random.Random, name: str) -> Row:
    """Few different values, so that rows repeat, match, and come back after they were gone."""
    k = chance.choice((None, 1, 2, 3))
    if name == "t":
        return chance.randint(1, 6), k, chance.choice((None, 1, 2, 3, -5)), chance.choice((None, "a", "b"))
    return chance.randint(1, 6), k, chance.choice((None, 1, 2, 7))


def random_change(chance: random.Random, world: World) -> dict[str, Counter[Row]]:
    """Rows that go and rows that come, in some of the tables; now and then all rows of one."""
    changes = {}
    for name, table in world.tables.items():
        if chance.random() < 0.3:
            continue
        change: Counter[Row] = Counter()
        there = list(table.rows.elements())
        gone = len(there) if chance.random() < 0.1 else min(len(there), chance.randint(0, 3))
        for row in chance.sample(there, gone):
            change[row] -= 1
        for _ in range(chance.randint(0, 3)):
            change[random_row(chance, name)] += 1
        changes[name] = Counter({row: n for row, n in change.items() if n})
    return changes


@pytest.mark.one_in(7)
@pytest.mark.parametrize("query", QUERIES)
def test_a_refresh_equals_the_query(query: str) -> None:
    """So does a full refresh: it finds all nodes as they are, but for buffers, whose spare rows may differ."""
    checked = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        start = tables()
        for name, table in start.items():
            table.rows = Counter(random_row(chance, name) for _ in range(chance.randint(0, 8)))
        world = World(start, query)
        assert world.result == world.oracle()
        for _ in range(STEPS):
            world.refresh(random_change(chance, world))
            assert world.result == world.oracle()
            for node in world.nodes:
                assert isinstance(node.plan, Buffer) or not world.compare_in_full(node)
            checked += 1
    assert checked == SEEDS * STEPS


def test_the_oracle_can_disagree() -> None:
    """A stream table that is not refreshed is found out."""
    world = World(tables(), "SELECT k, count(*) c FROM t GROUP BY k")
    world.tables["t"].rows = Counter({(1, 1, 1, "a"): 2})
    assert world.result != world.oracle()

"""The law of recursion, on random graphs: what changed leads on to exactly what the query says.

Each change is also computed by the generic rule, the whole fixpoint again, and both agree.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from spark_trickle.algebra.change_operators import Fixpoint, Trimmed
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.delta.recursive import recompute_fixpoint
from spark_trickle.plan.split import Node
from tests.laws.duck import Row, Table, World

# Sets end on cycles; g, h: edges with a label, s: where to start.
SETS = (
    "p(x, y) AS (SELECT x, y FROM g UNION SELECT p.x, g.y FROM p JOIN g ON p.y = g.x) SELECT x, y FROM p",
    "r(n) AS (SELECT n FROM s UNION SELECT y FROM r JOIN g ON n = x) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s WHERE n > 1 UNION SELECT y FROM r JOIN g ON n = x WHERE c > 0) SELECT n FROM r",
    "r(n, c) AS (SELECT n, 0 FROM s UNION SELECT y, g.c FROM r JOIN g ON n = x) SELECT n, c FROM r",
    "r(n) AS (SELECT x FROM g WHERE c = 1 UNION SELECT y FROM g JOIN r ON n = x) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT h.y FROM r JOIN g ON n = g.x JOIN h ON g.y = h.x) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT b.y FROM r JOIN g a ON n = a.x JOIN g b ON a.y = b.x) SELECT n FROM r",
    "r(a, b) AS (SELECT x, y FROM g UNION SELECT b, a FROM r) SELECT a, b FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT y FROM r LEFT JOIN g ON n = x) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT y FROM r LEFT JOIN g ON n < x AND c = 1) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT y FROM r JOIN g ON n <=> x) SELECT n FROM r",
    "r(n) AS (SELECT n FROM s UNION SELECT y FROM r JOIN g ON n = x OR n = c) SELECT n FROM r",
    """r(n) AS (SELECT n FROM s UNION SELECT y FROM r JOIN g ON n = x
       WHERE NOT EXISTS (SELECT 1 FROM h WHERE h.x = g.y)) SELECT n FROM r""",
    """r(n) AS (SELECT n FROM s UNION SELECT y FROM r JOIN g ON n = x
       WHERE y IN (SELECT h.x FROM h WHERE h.c > 0)) SELECT n FROM r""",
    """r(n) AS (SELECT n FROM s UNION SELECT m FROM r JOIN (SELECT x, max(y) AS m FROM g GROUP BY x) t ON n = x)
       SELECT n FROM r""",
    """r(n) AS (SELECT n FROM s UNION
       (SELECT y FROM r JOIN g ON n = x UNION ALL SELECT x FROM r JOIN h ON n = y)) SELECT n FROM r""",
    """r(a, b) AS (SELECT g.x, h.y FROM g JOIN h ON g.y = h.x UNION SELECT a, y FROM r JOIN g ON b = x)
       SELECT a, count(*) AS n FROM r GROUP BY a""",
    """r(n) AS (SELECT n FROM s UNION
       SELECT q.y FROM (SELECT g.y FROM r JOIN g ON n = g.x) q JOIN h ON q.y = h.x) SELECT n FROM r""",
    """r(n) AS (SELECT n FROM s UNION SELECT CASE WHEN n = x THEN y ELSE x END FROM r JOIN g ON n = x OR n = y)
       SELECT n FROM r""",
)
# Bags end because edges lead upwards, or because steps are counted.
BAGS = (
    """p(x, y) AS (SELECT x, y FROM g WHERE x < y UNION ALL SELECT p.x, g.y FROM p JOIN g ON p.y = g.x
       WHERE g.x < g.y) SELECT x, y FROM p""",
    """r(n, d) AS (SELECT n, 0 FROM s UNION ALL SELECT y, d + 1 FROM r JOIN g ON n = x WHERE d < 3)
       SELECT n, d FROM r""",
    """r(n, d) AS (SELECT n, 0 FROM s WHERE n > 1 UNION ALL SELECT y, d + 1 FROM r LEFT JOIN g ON n = x
       WHERE d < 2) SELECT n, d FROM r""",
    """r(n, d) AS (SELECT n, 0 FROM s UNION ALL SELECT y, d + 1 FROM r JOIN g ON n = x
       WHERE d < 3 AND NOT EXISTS (SELECT 1 FROM h WHERE h.x = g.y)) SELECT n, d FROM r""",
    """r(n) AS (SELECT n FROM s UNION ALL (SELECT y FROM r JOIN g ON n = x AND x < y
       UNION ALL SELECT y FROM r JOIN h ON n = x AND x < y)) SELECT n FROM r""",
    """r(n) AS (SELECT n FROM s UNION ALL SELECT b.y FROM r JOIN g a ON n = a.x AND a.x < a.y
       JOIN g b ON a.y = b.x AND b.x < b.y) SELECT n FROM r""",
    "r(n) AS (SELECT n FROM s UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT n, count(*) AS c FROM r GROUP BY n",
)
# What is not linear in the rows found last is computed again, for this reason.
AGAIN = {
    "p(x, y) AS (SELECT x, y FROM g UNION SELECT a.x, b.y FROM p a JOIN p b ON a.y = b.x) SELECT x, y FROM p":
        "the step joins the rows of the previous step with themselves",
    "r(n) AS (SELECT n FROM s UNION (SELECT y FROM r JOIN g ON n = x UNION ALL SELECT x FROM h)) SELECT n FROM r":
        "a part of the step does not read the rows of the previous step",
}  # fmt: skip
SEEDS, STEPS = 4, 5


class Doubting(World):
    """A world that computes the change of a recursion by the generic rule as well."""

    compared = 0

    def _refresh_node(self, node: Node, changed: frozenset[str]) -> list[Row]:
        if isinstance(node.plan, Recursive) and (fast := self.delta_plan(node, changed)) is not None:
            assert self._net(fast) == self._net(recompute_fixpoint(node.plan, node.own))
            self.compared += 1
        return super()._refresh_node(node, changed)

    def _net(self, plan: Operator) -> Counter[Row]:
        net: Counter[Row] = Counter()
        for *row, weight in self.con.execute(f"FROM {self.keep('net', plan)}").fetchall():
            net[tuple(row)] += weight
        return Counter({row: n for row, n in net.items() if n})


def a_graph(chance: random.Random) -> dict[str, Table]:
    edges = (("x", "int"), ("y", "int"), ("c", "int"))
    tables = {"g": Table(edges), "h": Table(edges), "s": Table((("n", "int"),))}
    for name, table in tables.items():
        table.rows = Counter(a_row(chance, name) for _ in range(chance.randrange(4 if name == "s" else 9)))
    return tables


def a_row(chance: random.Random, name: str) -> Row:
    nodes = (None, *range(1, 6)) if chance.random() < 0.2 else tuple(range(1, 6))
    return tuple(chance.choice(nodes) for _ in range(1 if name == "s" else 2)) + (
        () if name == "s" else (chance.choice((None, 0, 1)),)
    )


def a_batch(chance: random.Random, world: World) -> dict[str, Counter[Row]]:
    """Edges go, come, and get other ends or labels; often in several tables at once, now and then all of one."""
    changes: dict[str, Counter[Row]] = {}
    for name, table in world.tables.items():
        if chance.random() < 0.35:
            continue
        there = list(table.rows.elements())
        gone = there if chance.random() < 0.1 else chance.sample(there, min(len(there), chance.randrange(4)))
        change = Counter({row: -n for row, n in Counter(gone).items()})
        for row in gone:
            if chance.random() < 0.4:
                at = chance.randrange(len(row))
                change[(*row[:at], a_row(chance, name)[at], *row[at + 1 :])] += 1
        for _ in range(chance.randrange(3)):
            change[a_row(chance, name)] += 1
        changes[name] = Counter({row: n for row, n in change.items() if n})
    return changes


def followed_through(query: str, seed: int, world_type: type[World] = Doubting) -> World:
    chance = random.Random(f"{query} {seed}")
    world = world_type(a_graph(chance), f"WITH RECURSIVE {query}")
    assert world.result == world.oracle()
    for _ in range(STEPS):
        world.refresh(a_batch(chance, world))
        assert world.result == world.oracle(), (query, seed)
    return world


@pytest.mark.one_in(6)
@pytest.mark.parametrize("query", [*SETS, *BAGS])
def test_what_changed_leads_on(query: str) -> None:
    compared = 0
    for seed in range(SEEDS):
        world = followed_through(query, seed)
        compared += world.compared if isinstance(world, Doubting) else 0
        assert reasons(world) == [None]
    assert compared > SEEDS


@pytest.mark.parametrize(("query", "reason"), AGAIN.items())
def test_what_is_not_linear_is_computed_again(query: str, reason: str) -> None:
    for seed in range(3):
        assert reasons(followed_through(query, seed)) == [reason]


class Impatient(Doubting):
    """One that gives up after the first rows."""

    most_rows = 1


@pytest.mark.parametrize("query", [SETS[0], SETS[1], BAGS[0], BAGS[1]])
def test_too_many_rows_are_computed_again(query: str) -> None:
    for seed in range(3):
        followed_through(query, seed, Impatient)


CIRCLES = {
    "what went leads on for ever, with weights of both signs": (
        [(1,)], [(1, 2), (2, 3)], [(1,)], [(9,)], [(3, 2)], [9],
    ),
    "what went and what came cancel out at once": (
        [(1,), (3,)], [(1, 2), (3, 4)], [(3,)], [], [(4, 3)], [1, 2],
    ),
    "what went and what came cancel out later": (
        [(1,), (3,)], [(3, 4), (4, 5), (5, 6)], [(3,)], [], [(6, 8), (8, 4)], [1],
    ),
    "there is no circle": (
        [(1,), (3,)], [(1, 2), (3, 4)], [(3,)], [], [(2, 3)], [1, 2, 3, 4],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CIRCLES)
def test_a_circle_that_nothing_leads_to_is_not_there(name: str) -> None:
    starts, edges, gone, come, added, left = CIRCLES[name]
    tables = {
        "s": Table((("n", "int"),), Counter(starts)),
        "g": Table((("x", "int"), ("y", "int")), Counter(edges)),
    }
    world = World(
        tables,
        "WITH RECURSIVE r(n) AS (SELECT n FROM s UNION ALL SELECT y FROM r JOIN g ON n = x) SELECT n FROM r",
    )
    world.refresh({"s": Counter({**dict.fromkeys(gone, -1), **dict.fromkeys(come, 1)}), "g": Counter(added)})
    assert world.result == world.oracle() == Counter((n,) for n in left)


def reasons(world: World) -> list[str | None]:
    return [find_obstacle(n.plan) for n in world.nodes if isinstance(n.plan, Recursive)]


def test_losses_of_a_step_are_not_set_off_against_gains() -> None:
    """1→3 goes and 2→3 comes; but 2 goes as well, since 1→2 does."""
    query = """WITH RECURSIVE r(n) AS (SELECT n FROM s UNION
        SELECT q.y FROM (SELECT g.y FROM r JOIN g ON n = g.x) q JOIN h ON q.y = h.x) SELECT n FROM r"""
    edges = (("x", "int"), ("y", "int"))
    g, h = Counter([(1, 3), (1, 2)]), Counter([(2, 2), (3, 3)])
    world = World(
        {"g": Table(edges, g), "h": Table(edges, h), "s": Table((("n", "int"),), Counter([(1,)]))}, query
    )
    (node,) = (n for n in world.nodes if isinstance(n.plan, Recursive))
    change = world.delta_plan(node, frozenset((world.ids["g"],)))
    assert isinstance(change, Fixpoint)
    assert not any(isinstance(op, Trimmed) for _, plan in change.plans() for op in plan.walk())
    world.refresh({"g": Counter({(1, 3): -1, (1, 2): -1, (2, 3): 1})})
    assert world.result == Counter([(1,)])

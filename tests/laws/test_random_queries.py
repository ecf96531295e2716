"""Random queries as stream tables on DuckDB: right after every batch, however the batches are cut."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_trickle.algebra.operator import Aggregate, At, Expr, Join, Operator, Output, Project
from spark_trickle.algebra.prune import prune
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.stateful import fold, recompute_groups
from spark_trickle.delta.touched import before_and_after, restricted, touched_keys
from spark_trickle.errors import TrickleError
from spark_trickle.refresh.split import Node, split
from spark_trickle.refresh.steps import with_steps
from spark_trickle.sql.render import render
from spark_trickle.sql.scope import Bound
from tests.laws.duck import Table, World, duck_sql
from tests.laws.generate import queries
from tests.laws.test_deltas import random_row, tables

Row = tuple[Any, ...]
Changes = dict[str, Counter[Row]]
Law = Callable[[str, Random], None]

STEPS = 3
LEAST = 0.9  # of what is generated must be executed
_LIMITS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Tally:
    """How many queries were tried, and what became of them."""

    executed: int = 0
    refused: int = 0

    def check(self) -> None:
        generated = self.executed + self.refused
        assert self.executed, "no query was executed"
        assert self.executed >= LEAST * generated, f"only {self.executed} of {generated} were executed"


class RefusedError(Exception):
    """The query is not taken, by us or by DuckDB."""


class Compiled(World):
    """A world whose plan is pruned and named as a definition would have it."""

    def __init__(self, start: dict[str, Table], query: str) -> None:
        super().__init__(start, query)
        names = tuple(f"out{n}" for n in range(len(self.bound.outputs)))
        columns = zip(names, self.bound.columns, strict=True)
        root = Project(self.bound.plan, tuple(Output(n, Expr(f"`{c}`", frozenset((c,)))) for n, c in columns))
        self.bound = Bound(prune(root), tuple((n, n) for n in names))
        self.nodes = split(self.bound.plan)
        self.content = {}
        self._start()

    def oracle(self) -> Counter[Row]:
        try:
            return super().oracle()
        except (duckdb.InternalException, duckdb.NotImplementedException) as error:
            raise RefusedError from error


class Doubting(Compiled):
    """A world that computes the change of a node by the generic rule as well."""

    compared = 0

    def _refresh_node(self, node: Node, changed: frozenset[str]) -> list[Row]:
        if isinstance(node.plan, Aggregate) and node.plan.algebraic:
            delta = differentiate(node.plan.input, changed)
            if delta is not None:
                self._same(fold(node.plan, node.own, delta), recompute_groups(node.plan, node.own, delta))
        for op in node.plan.walk():
            if isinstance(op, Join) and (fast := differentiate(op, changed)) is not None:
                self._same(fast, _joined_again(op, changed))
        return super()._refresh_node(node, changed)

    def _same(self, fast: Operator, generic: Operator) -> None:
        assert self._net(fast) == self._net(generic)
        self.compared += 1

    def _net(self, plan: Operator) -> Counter[Row]:
        steps, plan = with_steps(plan)
        for step in steps:
            self.con.execute(
                f'CREATE OR REPLACE TABLE "frame_{step.name}_new" AS {duck_sql(render(step.plan))}'
            )
        net: Counter[Row] = Counter()
        for *row, weight in self.run(plan):
            net[tuple(row)] += weight
        return Counter({row: n for row, n in net.items() if n})


def _joined_again(op: Join, changed: frozenset[str]) -> Operator:
    """The generic rule for a join of any kind: rows with touched keys, before and after."""
    lefts, rights = tuple(k.left for k in op.keys), tuple(k.right for k in op.keys)
    keys = touched_keys((differentiate(op.left, changed), lefts), (differentiate(op.right, changed), rights))

    def joined(when: At) -> Operator:
        return replace(
            op,
            left=restricted(op.left.at(when), lefts, keys),
            right=restricted(op.right.at(when), rights, keys),
        )

    return before_and_after(joined)


# --- worlds and changes --------------------------------------------------------------------------------


def start_tables(chance: Random) -> dict[str, Table]:
    start = tables()
    for name, table in start.items():
        table.rows = Counter(random_row(chance, name) for _ in range(chance.choice((8, 10, 12, 3, 0))))
    return start


def opened(kind: type[World], start: dict[str, Table], query: str) -> World:
    """The stream table, unless the query is refused: by us, or by DuckDB as it is written."""
    _ask_duckdb(query)
    try:
        world = kind(copy.deepcopy(start), query)
    except TrickleError as error:
        raise RefusedError from error
    assert world.result == world.oracle()
    return world


def _ask_duckdb(query: str) -> None:
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (id INT, k INT, v INT, s VARCHAR); CREATE TABLE u (id INT, k INT, w INT)")
        try:
            con.execute(f"EXPLAIN {duck_sql(query)}")
        except duckdb.Error as error:
            raise RefusedError from error


def random_change(chance: Random, world: World) -> Changes:
    """Rows that come, go, and change their key, mostly in both tables; now and then all rows of one go."""
    changes: Changes = {}
    for name, table in world.tables.items():
        if chance.randrange(6) == 5:
            continue
        there = sorted(table.rows.elements(), key=repr)
        chance.shuffle(there)
        gone = len(there) if chance.randrange(12) == 11 else min(len(there), chance.randint(0, 4))
        change = Counter(random_row(chance, name) for _ in range(chance.randint(1, 5)))
        change.subtract(there[:gone])
        for row in there[: min(gone, chance.randint(0, 2))]:
            change[row[0], chance.choice((1, 2, 3, None)), *row[2:]] += 1
        changes[name] = Counter({row: n for row, n in change.items() if n})
    return changes


def parts_of(chance: Random, changes: Changes) -> tuple[Changes, Changes]:
    """The same changes in two batches."""
    parts: tuple[Changes, Changes] = {}, {}
    for name, change in changes.items():
        for row, weight in change.items():
            for _ in range(abs(weight)):
                part = parts[chance.randint(0, 1)].setdefault(name, Counter())
                part[row] += 1 if weight > 0 else -1
    return parts


def undone(changes: Changes) -> Changes:
    return {name: Counter({row: -n for row, n in change.items()}) for name, change in changes.items()}


# --- laws ----------------------------------------------------------------------------------------------


def stays_right(query: str, chance: Random) -> None:
    """The content equals the query after every batch, and a refresh without changes does nothing."""
    world = opened(Compiled, start_tables(chance), query)
    for _ in range(STEPS):
        world.refresh(random_change(chance, world))
        assert world.result == world.oracle()
    assert not any(world.refresh({}).values())
    assert world.result == world.oracle()


def batches_do_not_matter(query: str, chance: Random) -> None:
    """One batch, the same in two, and these the other way round; and what is undone leaves no trace."""
    start = start_tables(chance)
    at_once = opened(Compiled, start, query)
    changes, before = random_change(chance, at_once), at_once.result
    first, second = parts_of(chance, changes)
    at_once.refresh(changes)
    expected = at_once.oracle()
    assert at_once.result == expected
    for order in ((first, second), (second, first)):
        world = Compiled(copy.deepcopy(start), query)
        for part in order:
            world.refresh(part)
        assert world.result == expected
    at_once.refresh(undone(changes))
    assert at_once.result == before


def fast_rules_are_right(query: str, chance: Random) -> None:
    """Folded sums and joins with one changed side change as the generic rule says."""
    world = opened(Doubting, start_tables(chance), query)
    for _ in range(STEPS):
        world.refresh(random_change(chance, world))
        assert world.result == world.oracle()


LAWS: tuple[tuple[Law, int], ...] = (
    (stays_right, 30),
    (batches_do_not_matter, 12),
    (fast_rules_are_right, 12),
)


def _try(law: Law, limits: settings, deepest: int) -> Tally:
    tally = Tally()

    @limits
    @given(queries(deepest), st.randoms(use_true_random=False))
    def tried(query: str, chance: Random) -> None:
        try:
            law(query, chance)
        except RefusedError:
            tally.refused += 1
        else:
            tally.executed += 1

    tried()
    tally.check()
    return tally


@pytest.mark.parametrize(("law", "examples"), LAWS)
def test_a_random_query_obeys(law: Law, examples: int) -> None:
    assert _try(law, settings(_LIMITS, max_examples=examples), deepest=2).executed


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("law", "examples"), LAWS)
def test_many_random_queries_obey(law: Law, examples: int) -> None:
    many = settings(_LIMITS, max_examples=examples * 80, derandomize=False)
    assert _try(law, many, deepest=3).executed

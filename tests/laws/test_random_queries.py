"""Random queries as stream tables on DuckDB: right after every batch, however the batches are cut."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_trickle.algebra.operators import At, Join, Operator
from spark_trickle.algebra.stateful_operators import Aggregate, Recursive
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.recursive import recompute_fixpoint
from spark_trickle.delta.stateful import fold_sums, recompute_groups
from spark_trickle.delta.touched import collect_touched_keys, restrict_to_keys, subtract_before
from spark_trickle.errors import InternalError, TrickleError
from spark_trickle.plan.split import Node
from spark_trickle.sql.bind import limit
from tests.cases.reader import CaseTable, parse_cases
from tests.cases.test_cases import run_on_duckdb
from tests.cases.writer import Story, case_text, shrunk, told
from tests.laws.duck import Table, World, duck_sql
from tests.laws.generate import queries
from tests.laws.test_deltas import tables

Row = tuple[Any, ...]
Changes = dict[str, Counter[Row]]

STEPS = 3
TRIES = 4  # to find a batch that changes the result
LEAST = 0.95  # of what is generated must be executed
TELLING = 0.65  # of the batches must change the result: others prove little
sys.setrecursionlimit(10_000)  # the text of a plan is nested deeply
_LIMITS = settings(
    derandomize=True,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@dataclass
class Tally:
    """How many queries were tried, what became of them, and how many batches showed in their results."""

    executed: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # by reason
    batches: int = 0
    telling: int = 0
    story: Story | None = None  # of the world that was opened last

    def check(self) -> None:
        generated = self.executed + self.refused.total()
        assert self.executed, f"no query was executed: {self}"
        assert self.executed >= LEAST * generated, f"too few queries were executed: {self}"
        assert self.telling >= TELLING * self.batches, f"too few batches changed a result: {self}"

    def __str__(self) -> str:
        reasons = "".join(f"\n  {n} refused: {reason}" for reason, n in self.refused.most_common())
        return (
            f"{self.executed} executed, {self.telling} of {self.batches} batches changed the result{reasons}"
        )


Law = Callable[[str, Random, Tally], None]


class RefusedError(Exception):
    """The query is not taken, by us or by DuckDB."""

    def __init__(self, error: Exception) -> None:
        who = "we" if isinstance(error, TrickleError) else "DuckDB"
        super().__init__(f"{who}: {str(error).splitlines()[0]}")


class Compiled(World):
    """A world that tells its story."""

    tally: Tally

    def __init__(self, start: dict[str, Table], query: str) -> None:
        self._written: dict[str, object] = {}
        super().__init__(start, query)

    def _start(self) -> None:
        self.con.execute("SET threads = 1")  # more are slower with so few rows
        self.con.execute("SET disabled_optimizers = 'unused_columns'")  # it loses rows of laterals
        super()._start()

    def _frame(self, name: str, table: Table, rows: list[Row], weighted: bool = False) -> None:
        """Most frames stay as they are from batch to batch."""
        wanted = table.columns, weighted, tuple(rows)
        if self._written.get(name) != wanted:
            super()._frame(name, table, rows, weighted)
            self._written[name] = wanted

    def refresh(self, changes: Changes) -> dict[str, list[Row]]:
        assert self.tally.story is not None
        self.tally.story.batches.append(changes)
        before = self.result
        deltas = super().refresh(changes)
        if any(changes.values()):
            self.tally.batches += 1
            self.tally.telling += self.result != before
        return deltas

    def oracle(self) -> Counter[Row]:
        try:
            return super().oracle()
        except (duckdb.InternalException, duckdb.NotImplementedException) as error:
            raise RefusedError(error) from error


class Doubting(Compiled):
    """A world that computes the change of a node by the generic rule as well."""

    compared = 0

    def _refresh_node(self, node: Node, changed: frozenset[str]) -> list[Row]:
        if isinstance(node.plan, Aggregate) and node.plan.algebraic:
            delta = differentiate(node.plan.input, changed)
            if delta is not None:
                self._same(
                    fold_sums(node.plan, node.own, delta), recompute_groups(node.plan, node.own, delta)
                )
        if isinstance(node.plan, Recursive) and (delta := self.delta_plan(node, changed)) is not None:
            self._same(delta, recompute_fixpoint(node.plan, node.own))
        # The step of a recursion reads rows that are there only while it runs.
        for op in () if isinstance(node.plan, Recursive) else node.plan.walk():
            if isinstance(op, Join) and (fast := differentiate(op, changed)) is not None:
                self._same(fast, _joined_again(op, changed))
        return super()._refresh_node(node, changed)

    def _same(self, fast: Operator, generic: Operator) -> None:
        assert self._net(fast) == self._net(generic)
        self.compared += 1

    def _net(self, plan: Operator) -> Counter[Row]:
        net: Counter[Row] = Counter()
        for *row, weight in self.con.execute(f"FROM {self.keep('net', plan)}").fetchall():
            net[tuple(row)] += weight
        return Counter({row: n for row, n in net.items() if n})


def _joined_again(op: Join, changed: frozenset[str]) -> Operator:
    """The generic rule for a join of any kind: rows with touched keys, before and after."""
    lefts, rights = tuple(k.left for k in op.keys), tuple(k.right for k in op.keys)
    keys = collect_touched_keys(
        (differentiate(op.left, changed), lefts), (differentiate(op.right, changed), rights)
    )

    def joined(when: At) -> Operator:
        return replace(
            op,
            left=restrict_to_keys(op.left.at(when), lefts, keys),
            right=restrict_to_keys(op.right.at(when), rights, keys),
        )

    return subtract_before(joined)


# --- worlds and changes --------------------------------------------------------------------------------


def random_row(chance: Random, name: str) -> Row:
    """Few different values, so that rows repeat, match, and come back after they were gone."""
    number, k = chance.randint(1, 5), chance.choice((1, 2, 3, 1, 2, 3, None))
    if name == "t":
        return number, k, chance.choice((1, 2, 3, 2, -5, None)), chance.choice(("a", "b", "a", "b", None))
    return number, k, chance.choice((1, 2, 3, 7, None))


def start_tables(chance: Random) -> dict[str, Table]:
    start = tables()
    for name, table in start.items():
        size = chance.choice((8, 10, 9, 12, 10, 4, 8, 0))
        table.rows = Counter(random_row(chance, name) for _ in range(size))
    return start


def opened(kind: type[Compiled], start: dict[str, Table], query: str, tally: Tally) -> Compiled:
    """The stream table, unless the query is refused: by us, or by DuckDB as it is written."""
    _ask_duckdb(query)
    tally.story = Story(tuple(CaseTable(n, t.columns, Counter(t.rows)) for n, t in start.items()), query)
    try:
        world = kind(copy.deepcopy(start), query)
    except InternalError:
        raise  # our mistake, never a refusal
    except TrickleError as error:
        raise RefusedError(error) from error
    world.tally = tally
    assert world.result == world.oracle()
    return world


@cache
def _tables_in_duckdb() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    return con.execute("CREATE TABLE t (id INT, k INT, v INT, s TEXT); CREATE TABLE u (id INT, k INT, w INT)")


def _ask_duckdb(query: str) -> None:
    try:
        _tables_in_duckdb().execute(f"EXPLAIN {duck_sql(query)}")
    except duckdb.Error as error:
        _tables_in_duckdb.cache_clear()  # some errors are the end of a connection
        raise RefusedError(error) from error


def random_change(chance: Random, world: World, effort: int = 0) -> Changes:
    """Rows that come, go, and change their key, mostly in both tables; now and then all rows of one go."""
    changes: Changes = {}
    for name, table in world.tables.items():
        if chance.randrange(6) == 5:
            continue
        there = sorted(table.rows.elements(), key=repr)
        chance.shuffle(there)
        everything = chance.randrange(4 if effort else 16) == 3
        gone = len(there) if everything else min(len(there), chance.randint(0, 4))
        change = Counter(random_row(chance, name) for _ in range(chance.randint(1, 5 + 3 * effort)))
        change.subtract(there[:gone])
        for row in there[: min(gone, chance.randint(0, 2))]:
            change[row[0], chance.choice((1, 2, 3, None)), *row[2:]] += 1
        changes[name] = Counter({row: n for row, n in change.items() if n})
    return changes


def telling_change(chance: Random, world: World) -> tuple[Changes, Counter[Row]]:
    """A change and what the query says after it: of ever larger changes the first that makes a difference."""
    for effort in range(TRIES):
        changes = random_change(chance, world, effort)
        expected = _foreseen(world, changes)
        if expected != world.result:
            break
    return changes, expected


def _foreseen(world: World, changes: Changes) -> Counter[Row]:
    before = {name: table.rows for name, table in world.tables.items()}
    for name, change in changes.items():
        rows = Counter(before[name])
        rows.update(change)
        world.tables[name].rows = +rows
    try:
        return world.oracle()
    finally:
        for name, rows in before.items():
            world.tables[name].rows = rows


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


def stays_right(query: str, chance: Random, tally: Tally) -> None:
    """The content equals the query after every batch, and a refresh without changes does nothing."""
    world = opened(Compiled, start_tables(chance), query, tally)
    for _ in range(STEPS):
        changes, expected = telling_change(chance, world)
        before = world.result
        world.refresh(changes)
        assert world.result == expected
        if expected == before:
            break  # what hardly anything moves is not worth more
    assert not any(world.refresh({}).values())
    assert world.result == expected


def batches_do_not_matter(query: str, chance: Random, tally: Tally) -> None:
    """One batch, the same in two, and these the other way round; and what is undone leaves no trace."""
    start = start_tables(chance)
    world = opened(Compiled, start, query, tally)
    changes, expected = telling_change(chance, world)
    before = world.result
    world.refresh(changes)
    assert world.result == expected
    world.refresh(undone(changes))
    assert world.result == before
    if expected == before:
        return  # what hardly anything moves is not worth more
    first, second = parts_of(chance, changes)
    for order in ((first, second), (second, first)):
        world = opened(Compiled, start, query, tally)
        for part in order:
            world.refresh(part)
        assert world.result == expected


def fast_rules_are_right(query: str, chance: Random, tally: Tally) -> None:
    """Folded sums and joins with one changed side change as the generic rule says."""
    world = opened(Doubting, start_tables(chance), query, tally)
    for _ in range(STEPS):
        changes, expected = telling_change(chance, world)
        before = world.result
        world.refresh(changes)
        assert world.result == expected
        if expected == before:
            break


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
            law(query, chance, tally)
        except RefusedError as error:
            tally.refused[str(error)] += 1
        else:
            tally.executed += 1

    try:
        tried()
    except Exception as error:
        assert tally.story is not None
        # What was tried last is the smallest query that fails.
        raise AssertionError(f"{error}\n\n{failing_case(tally.story, law.__name__)}") from error
    tally.check()
    return tally


# --- failures ------------------------------------------------------------------------------------------


def failing_case(story: Story, name: str) -> str:
    """The text of a case that fails as the story does, with no more rows than that takes."""
    return case_text(told(shrunk(story, _fails), name))


def _fails(story: Story) -> bool:
    try:
        run_on_duckdb(told(story, "smaller"))
    except Exception:
        return True
    return False


def test_a_failure_tells_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream table that never changes fails, its case fails too, and holds once that is mended."""
    few = settings(_LIMITS, max_examples=20, phases=(Phase.generate,))
    with monkeypatch.context() as broken:
        broken.setattr(World, "delta_plan", lambda *_: None)
        with pytest.raises(AssertionError) as failure:
            _try(stays_right, few, deepest=0)
        _, mark, text = str(failure.value).partition("# stays_right")
        (case,) = parse_cases(mark + text, "chance")
        with pytest.raises(AssertionError):
            run_on_duckdb(case)
    run_on_duckdb(case)


@pytest.fixture(autouse=True)
def small_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With so few rows a buffer of the usual size would never run dry."""
    monkeypatch.setattr(limit, "_SPARE_ROWS", 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("law", "examples"), LAWS)
def test_a_random_query_obeys(law: Law, examples: int) -> None:
    assert _try(law, settings(_LIMITS, max_examples=examples), deepest=2).executed


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("law", "examples"), LAWS)
def test_many_random_queries_obey(law: Law, examples: int) -> None:
    many = settings(_LIMITS, max_examples=examples * 80, derandomize=False)
    assert _try(law, many, deepest=3).executed

"""Nexmark's queries as stream tables on DuckDB: right after every batch, and never computed anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.plan.split import Node
from tests.laws.duck import Table, World
from tests.laws.nexmark import QUERIES, TABLES, batch, create_tables, insert_rows

Row = tuple[Any, ...]
SEEDS, BATCHES = (1, 2), 3


class Watched(World):
    """A world that follows changes; a plan that reads everything but them is found out."""

    def delta_plan(self, node: Node, changed: frozenset[str]) -> Operator | None:
        plan = super().delta_plan(node, changed)
        assert plan is None or _follows_changes(plan), f"{node.name} is computed anew"
        return plan


def _follows_changes(plan: Operator) -> bool:
    return any(isinstance(op, Scan) and op.moment is At.DELTA for op in plan.walk())


def content(con: duckdb.DuckDBPyConnection) -> dict[str, Counter[Row]]:
    return {name: Counter(con.execute(f"SELECT * FROM {name}").fetchall()) for name in TABLES}


def difference(before: Counter[Row], after: Counter[Row]) -> Counter[Row]:
    found = Counter(after)
    found.subtract(before)
    return Counter({row: n for row, n in found.items() if n})


def history(seed: int, batches: int) -> Iterator[dict[str, Counter[Row]]]:
    """The content of the tables as the site opens, then what each batch changes in them."""
    with duckdb.connect() as con:
        for statement in (*create_tables(), *insert_rows(seed)):
            con.execute(statement)
        before = content(con)
        yield before
        for number in range(batches):
            for statement in batch(seed, number):
                con.execute(statement)
            after = content(con)
            yield {name: difference(before[name], after[name]) for name in TABLES}
            before = after


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_stays_right(name: str, seed: int) -> None:
    start, *changes = history(seed, BATCHES)
    world = Watched({table: Table(TABLES[table], rows) for table, rows in start.items()}, QUERIES[name])
    assert world.result == world.oracle()
    for change in changes:
        before = world.result
        world.refresh(change)
        assert world.result == world.oracle()
        assert world.result != before, "a batch that changes nothing proves nothing"


def test_a_batch_changes_every_table_in_every_way() -> None:
    """Rows come and go, and the statements are the same for the same seed."""
    _, *changes = history(SEEDS[0], BATCHES)
    for change in changes:
        for name in TABLES:
            assert min(change[name].values()) < 0 < max(change[name].values()), name
    assert batch(1, 0) == batch(1, 0) != batch(1, 1)


def test_the_site_has_the_proportions_of_the_benchmark() -> None:
    start = next(history(SEEDS[0], 0))
    assert [start[name].total() for name in TABLES] == [10, 30, 460]
    assert any(None in row for rows in start.values() for row in rows)


def test_a_plan_that_computes_everything_is_found_out() -> None:
    world = Watched({"bid": Table(TABLES["bid"])}, QUERIES["q2"])
    plan = world.nodes[-1].plan
    assert not _follows_changes(plan)
    assert _follows_changes(plan.at(At.DELTA))

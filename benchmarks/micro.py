"""The steps of a refresh that need no Spark, each against a fixed piece of Python beside it.

The yardstick is plain dictionary work of about a millisecond, so figures mean the same on any machine.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import reduce

from benchmarks.commit import SNAPSHOTS, committing, filled
from benchmarks.joins import change_of, join_node
from benchmarks.timing import Ratio, add, race, ratio
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.warehouse import Warehouse, open_warehouse
from spark_trickle.model.experience import Experience, add_run
from spark_trickle.model.stream import Action, Mode, Run
from spark_trickle.refresh.decide import Facts, decide_refresh
from spark_trickle.refresh.graph import Graph
from spark_trickle.settings import Settings
from spark_trickle.sql.render.query import render

DEPTHS = (2, 4, 6, 8)
CROWDS = (100, 500)
_YARDSTICK = "a millisecond of Python"


def yardstick() -> int:
    found: dict[int, int] = {}
    for n in range(8_000):
        found[n % 997] = found.get(n % 997, 0) + n
    return sum(found.values())


def run(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warehouse = open_warehouse(folder, None, 30)
        try:
            _measure(
                {**_of_a_query(), **_of_a_decision(), **_of_a_graph(), **_of_a_catalog(warehouse)}, rounds
            )
        finally:
            warehouse.engine.dispose()


def _measure(contenders: dict[str, Callable[[], object]], rounds: int) -> None:
    found = race({_YARDSTICK: yardstick, **contenders}, rounds * 10, warm_up=5)
    base = found.pop(_YARDSTICK)
    lines: list[Ratio] = [ratio("a step without Spark", took, base) for took in found.values()]
    add("micro", lines)


def _of_a_query() -> dict[str, Callable[[], object]]:
    made: dict[str, Callable[[], object]] = {}
    for depth in DEPTHS:
        node = join_node(depth)
        change = change_of(node)
        made[f"parse and bind, {depth} tables"] = lambda d=depth: join_node(d)  # type: ignore[misc]
        made[f"differentiate, {depth} tables"] = lambda n=node: change_of(n)  # type: ignore[misc]
        made[f"render, {depth} tables"] = lambda c=change: render(c)  # type: ignore[misc]
    return made


def _of_a_decision() -> dict[str, Callable[[], object]]:
    runs = tuple(
        Run(Action.FULL if n % 10 == 9 else Action.DIFFERENTIAL, 1_000 * n, 10**6, 100.0 + n)
        for n in range(50)
    )
    known = reduce(add_run, reversed(runs), Experience())
    facts = Facts(Mode.AUTO, 1, 9, ("main.t",), 50_000, 10**6, known=known)
    return {"decide, from 50 earlier refreshes": lambda: decide_refresh(facts, Settings())}


def _of_a_graph() -> dict[str, Callable[[], object]]:
    """Layers of ten, each of which reads two of the layer below."""
    made: dict[str, Callable[[], object]] = {}
    for crowd in CROWDS:
        reads = {
            100 + n: (n % 5,) if n < 10 else (90 + n, 90 + 10 * (n // 10) + (n + 1) % 10)
            for n in range(crowd)
        }
        made[f"order and groups of {crowd} stream tables"] = lambda r=reads: Graph({}, r).groups  # type: ignore[misc]
    return made


def _of_a_catalog(warehouse: Warehouse) -> dict[str, Callable[[], object]]:
    table = filled(warehouse)
    commit = committing(warehouse, table)

    def few_of_many() -> None:
        with open_reader(warehouse.engine) as connection:
            upto = read.read_newest(connection).id
            assert len(read.read_change_files(connection, table.id, upto - 5, upto)) == 5

    def all_of_them() -> None:
        with open_reader(warehouse.engine) as connection:
            upto = read.read_newest(connection).id
            assert len(read.read_change_files(connection, table.id, 2, upto)) >= SNAPSHOTS

    return {
        f"commit beside {SNAPSHOTS:,} files": commit,
        f"plan a change of 5 files beside {SNAPSHOTS:,}": few_of_many,
        f"plan a change of {SNAPSHOTS:,} files": all_of_them,
    }

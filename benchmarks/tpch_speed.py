"""TPC-H: every query as a stream table, against computing it anew, while its eight tables change in two ways.

Uniform changes are spread over all rows of all tables. Recent ones are what a shop sees: new orders with
their lines, and changes of the last months.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import spark_trickle
from benchmarks.contest import Cell, Contest
from benchmarks.store import Store
from benchmarks.tpch_changes import Batches
from tests.spark.tpch import KEYS, QUERIES, generate, load

MIXES = ("uniform", "recent")
STORE = Store("tpch", Cell, ("scenario", "rows", "percent", "mix"))


def run(
    scale: float, percents: Sequence[float], rounds: int, names: Sequence[str], mixes: Sequence[str]
) -> None:
    queries = {name: QUERIES[name] for name in _chosen(names)}
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        generate(Path(folder), scale)
        load(tr, Path(folder))
        batches = Batches(tr)
        contest = Contest(tr, folder, queries)
        contest.open(tuple(KEYS))
        rows = batches.rows
        for mix in mixes:
            for percent in (p for p in percents if p <= 1):
                change = lambda m=mix, p=percent: batches.apply(m, p)  # type: ignore[misc] # noqa: E731
                for took in contest.run(change, rounds, warm_up=1, own=1):
                    STORE.add([took.cell(rows, percent, mix)])
        contest.check()


def _chosen(names: Sequence[str]) -> list[str]:
    """q3 and q03 are the same."""
    wanted = {int(n.removeprefix("q")) for n in names}
    return [n for n in QUERIES if not wanted or int(n.removeprefix("q")) in wanted]

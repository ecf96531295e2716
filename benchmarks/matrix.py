"""The scenarios of the reference system: a refresh of what changed against computing everything."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence

import spark_trickle
from benchmarks.contest import Cell, Contest
from benchmarks.regions import SCENARIOS, TABLES, Changes, fill
from benchmarks.store import Store

# At ten million rows, one in a hundred and one in ten thousand changed.
BARS = {
    1.0: {"scan": 20, "filter": 10, "aggregate": 5, "join": 15, "join_agg": 6},
    0.01: {"scan": 50, "filter": 25, "aggregate": 6.8, "join": 30, "join_agg": 10},
}
STORE = Store("matrix", Cell, ("scenario", "rows", "percent"))
_WARM_UP = 2


def run(rows: int, percents: Sequence[float], rounds: int, names: Sequence[str] = ()) -> None:
    queries = {n: SCENARIOS[n] for n in names or SCENARIOS}
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        fill(tr, rows)
        contest = Contest(tr, folder, queries)
        contest.open(TABLES)
        changes = Changes(tr, rows)
        for percent in percents:
            own = rounds // 2 + 1
            for took in contest.run(lambda p=percent: changes.share(p), rounds, _WARM_UP, own):  # type: ignore[misc]
                STORE.add([took.cell(rows, percent)])
        contest.check()


def bar_of(cell: Cell) -> float | None:
    return BARS.get(cell.percent, {}).get(cell.scenario) if cell.rows == 10_000_000 else None

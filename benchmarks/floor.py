"""One changed row in a large table, against the bare cost of one small Spark job that runs beside it.

The job filters a handful of rows that are at the driver and brings them back through Arrow: no refresh that
asks Spark anything can be cheaper. A refresh with nothing to do is held against ten milliseconds.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from statistics import median

import pyarrow as pa

import spark_trickle
from benchmarks.contest import require_exact
from benchmarks.regions import SCENARIOS, SINGLE_NODE, Changes, fill
from benchmarks.timing import add, bar, clocked, measured, ratio, timed
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

BAR = 2.5
NO_DATA_MS = 10.0
_WARM_UP = 3


def run(rows: int, rounds: int, names: Sequence[str] = ()) -> None:
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        fill(tr, rows)
        changes = Changes(tr, rows)
        # One stream table at a time, so that none profits from what another one has read.
        for name in names or SCENARIOS:
            tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {SCENARIOS[name]}")
            _measure(tr, changes, name, rounds * 2)
            require_exact(tr, f"{name}_st")
            tr.sql(f"DROP STREAM TABLE {name}_st")


def _measure(tr: Trickle, changes: Changes, name: str, rounds: int) -> None:
    small, refreshes, nothing = [], [], []
    phases: dict[str, list[float]] = defaultdict(list)
    job = _small_job(tr)
    for number in range(_WARM_UP + rounds):
        changes.one()
        bare = timed(job)
        took, report = clocked(lambda: tr.refresh(f"{name}_st"))
        idle, again = clocked(lambda: tr.refresh(f"{name}_st"))
        assert (report.action, again.action) == (Action.DIFFERENTIAL, Action.NO_DATA), name
        if number < _WARM_UP:
            continue
        small.append(bare)
        refreshes.append(took)
        nothing.append(idle)
        for phase, ms in report.phases.items():
            phases[phase].append(ms)
    label = f"1 row of {changes.rows:,}"
    detail = {phase: round(median(times), 2) for phase, times in phases.items()}
    base = measured("a small Spark job", small)
    add(
        "floor",
        [
            ratio(label, measured(name, refreshes), base, BAR if name in SINGLE_NODE else None, detail),
            ratio(
                f"nothing changed, {changes.rows:,} rows",
                measured(name, nothing),
                bar(f"{NO_DATA_MS:g} ms", NO_DATA_MS),
                1.0,
            ),
        ],
    )


def _small_job(tr: Trickle) -> Callable[[], None]:
    """Every time over other rows, so that no part of it is remembered."""
    number = count()

    def run() -> None:
        n = next(number)
        rows = pa.table({"id": list(range(n, n + 10)), "amount": list(range(10))})
        assert tr.spark.createDataFrame(rows).where("amount >= 5").toArrow().num_rows == 5

    return run

"""A change of a thousand rows as the table grows: what a refresh costs, keeps and takes of memory.

Full is the query over plain Parquet, written as Parquet. A small run on several executor processes shows that
nothing depends on sharing memory with the driver.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import spark_trickle
from benchmarks.contest import plain_copies, plain_full, require_exact
from benchmarks.regions import SCENARIOS, TABLES, Changes, fill
from benchmarks.store import Store
from benchmarks.timing import measured, timed
from spark_trickle.session import Trickle

NAMES = ("scan", "filter", "aggregate", "join", "join_agg")
CHANGED = 1_000
_WARM_UP = 2


@dataclass(frozen=True)
class Grown:
    """One scenario at one size."""

    scenario: str
    rows: int
    changed: int
    differential_ms: float
    full_ms: float
    spread: float
    rounds: int
    state_bytes: int  # of the stream table and the nodes below it
    data_bytes: int  # of its sources
    python_mb: float  # the most that this process had so far
    jvm_mb: float  # used heap after a collection


STORE = Store("scale", Grown, ("scenario", "rows", "changed"))


def run(sizes: Sequence[int], rounds: int) -> None:
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
            fill(tr, rows)
            plain_copies(tr, folder, TABLES)
            changes = Changes(tr, rows)
            for name in NAMES:
                STORE.add([_grown(tr, folder, changes, name, rounds)])
    on_a_cluster()


def _grown(tr: Trickle, folder: str, changes: Changes, name: str, rounds: int) -> Grown:
    before = _bytes(tr)
    tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {SCENARIOS[name]}")
    state = _bytes(tr) - before
    differential, full = [], []
    for number in range(_WARM_UP + rounds):
        changes.some(CHANGED)
        took = timed(lambda: tr.refresh(f"{name}_st")), timed(lambda: plain_full(tr, folder, SCENARIOS[name]))
        if number >= _WARM_UP:
            differential.append(took[0])
            full.append(took[1])
    require_exact(tr, f"{name}_st")
    tr.sql(f"DROP STREAM TABLE {name}_st")
    refreshes = measured(name, differential)
    return Grown(
        name,
        changes.rows,
        CHANGED,
        round(refreshes.median_ms, 1),
        round(measured(name, full).median_ms, 1),
        round((refreshes.high_ms - refreshes.low_ms) / refreshes.median_ms, 2),
        rounds,
        state,
        before,
        round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        round(_heap(tr) / 2**20, 1),
    )


def _bytes(tr: Trickle) -> int:
    """What all tables of the warehouse hold now, on disk."""
    return sum(size.bytes for size in tr._connection.read().sizes().values())


def _heap(tr: Trickle) -> int:
    runtime = tr.spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    runtime.gc()
    return int(runtime.totalMemory() - runtime.freeMemory())


# --- several processes ---------------------------------------------------------------------------


def on_a_cluster(rows: int = 50_000) -> None:
    """In a process of its own, since a process has one Spark session."""
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    command = [sys.executable, "-m", "benchmarks.scale", str(rows)]
    subprocess.run(command, check=True, cwd=root, env=environment)


def _check_on_a_cluster(rows: int) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local-cluster[2,1,1024]").appName("spark-trickle")
    options = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.log.level": "ERROR",
    }
    for option, value in options.items():
        builder = builder.config(option, value)
    spark = builder.getOrCreate()
    # Few rows at the driver, so that the executors have to do the work.
    settings = {"max_driver_rows": 50, "local_tail_rows": 10}
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_trickle.connect(f"{folder}/warehouse", spark=spark, settings=settings) as tr,
    ):
        fill(tr, rows)
        for name, query in SCENARIOS.items():
            tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {query}")
        changes = Changes(tr, rows)
        for _ in range(2):
            changes.some(CHANGED)
            for name in SCENARIOS:
                require_exact(tr, f"{name}_st")
    spark.stop()
    print(f"two executors of their own: {len(SCENARIOS)} scenarios over {rows:,} rows are exact")


if __name__ == "__main__":
    _check_on_a_cluster(int(sys.argv[1]))

"""The first copy of a large table: against COPY of the server to nowhere, and how much memory we need for it.

Each size has a process of its own: the most memory that a process ever had never becomes less.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass

import psycopg

import spark_trickle
from benchmarks.timing import RESULTS
from tests.postgres.server import Server, new_server

_SHARES = (10, 3, 1)  # the last size is all rows, the others show whether memory grows with them


@dataclass(frozen=True)
class Copied:
    """`memory_mb` is the most that the Python process had; `before_mb` what it had when the copy began."""

    rows: int
    copy_s: float
    mirror_s: float
    before_mb: float
    memory_mb: float

    @property
    def ratio(self) -> float:
        return round(self.mirror_s / self.copy_s, 2)


def run(rows: int) -> list[Copied]:
    server = new_server()
    try:
        found = [_apart(server, rows // share) for share in _SHARES]
    finally:
        server.remove()
    RESULTS.mkdir(exist_ok=True)
    lines = [{**asdict(c), "ratio": c.ratio} for c in found]
    (RESULTS / "copy.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for c in found:
        print(
            f"first copy of {c.rows:,} rows: {c.ratio}× of COPY to nowhere ({c.copy_s:.1f} s), "
            f"memory {c.before_mb:.0f} -> {c.memory_mb:.0f} MB"
        )
    return found


def _apart(server: Server, rows: int) -> Copied:
    """Measure one size in a process of its own."""
    with server.connect() as application:
        application.execute("DROP TABLE IF EXISTS t")
        application.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b numeric(12, 2), c timestamptz)")
        application.execute(
            f"INSERT INTO t SELECT g, 'text ' || g, g * 0.5, now() FROM generate_series(1, {rows}) g"
        )
    environment = {**os.environ, "BENCH_DSN": server.conninfo()}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.copy", str(rows)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Copied(**json.loads(done.stdout.splitlines()[-1]))


def measure(rows: int) -> Copied:
    start = time.perf_counter()
    with (
        psycopg.connect(os.environ["BENCH_DSN"]) as application,
        application.cursor().copy("COPY t TO STDOUT") as found,
    ):
        for _ in found:
            pass
    plain = time.perf_counter() - start
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(folder) as tr:
        tr.attach_source("bench", dsn="env:BENCH_DSN", cdc_mode="trigger")
        before, start = _memory(), time.perf_counter()
        tr.create_mirror("t", "bench.public.t")
        mirror = time.perf_counter() - start
        memory = _memory()
        assert tr.sql("SELECT count(*) AS n FROM t").collect()[0].n == rows
        tr.detach_source("bench")
    return Copied(rows, round(plain, 2), round(mirror, 2), round(before, 1), round(memory, 1))


def _memory() -> float:
    """Megabytes; Linux counts kilobytes, macOS bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)


if __name__ == "__main__":
    print(json.dumps(asdict(measure(int(sys.argv[1])))))

"""From a commit in PostgreSQL until it is seen in a stream table; and how fast a first copy is."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from queue import Queue

import spark_trickle
from benchmarks.timing import Measured, Ratio, race, ratio, save
from spark_trickle.lake.catalog.reports import find_quantile
from tests.postgres.server import Server, new_server

_ROWS = 200_000


def run(rounds: int) -> list[Ratio]:
    server = new_server()
    try:
        lines = [line for mode in ("trigger", "wal") for line in _latency(server, mode, rounds * 8)]
        lines += _copy(server, rounds)
    finally:
        server.remove()
    save("latency", lines)
    return lines


def _latency(server: Server, mode: str, times: int) -> list[Ratio]:
    """Percentiles against the median of the refresh itself: what is left is the way to it."""
    database = f"latency_{mode}"
    with server.connect() as admin:
        admin.execute(f"CREATE DATABASE {database}")
    os.environ["BENCH_DSN"] = server.conninfo(database)
    app = server.connect(database)
    app.execute("CREATE TABLE orders (id int PRIMARY KEY, customer int, amount int)")
    app.execute(f"INSERT INTO orders SELECT g, g % 100, g FROM generate_series(1, {_ROWS}) g")
    settings = {"source_sync_interval_ms": 50.0, "min_schedule_seconds": 0.01, "auto_backoff": False}
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(folder, settings=settings) as tr:
        tr.attach_source("bench", dsn="env:BENCH_DSN", cdc_mode=mode)
        tr.create_mirror("orders", "bench.public.orders")
        query = "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer"
        tr.create_stream_table("totals", query, schedule="10ms")
        seen: Queue[tuple[float, float]] = Queue()
        scheduler = tr.scheduler()
        scheduler.report_listeners.append(lambda r: seen.put((time.perf_counter(), r.duration_ms)))
        waits, refreshes = [], []
        with scheduler:
            for n in range(times + 5):
                start = time.perf_counter()
                app.execute(f"UPDATE orders SET amount = amount + 1 WHERE id = {n + 1}")
                end, refresh = seen.get(timeout=60)
                if n >= 5:
                    waits.append((end - start) * 1000)
                    refreshes.append(refresh)
        tr.detach_source("bench")
    app.close()
    base = Measured("the refresh itself", statistics.median(refreshes), min(refreshes), max(refreshes), times)
    lines = []
    for share in (0.5, 0.95, 0.99):
        found = find_quantile(waits, share) or 0.0
        name = f"commit to visible, p{share * 100:.0f}"
        lines.append(ratio(f"{mode}: one row", Measured(name, found, min(waits), max(waits), times), base))
    return lines


def _copy(server: Server, rounds: int) -> list[Ratio]:
    """The first copy of a table into the warehouse against COPY of the server to nowhere."""
    with server.connect() as admin:
        admin.execute("CREATE DATABASE copies")
    os.environ["BENCH_DSN"] = server.conninfo("copies")
    app = server.connect("copies")
    app.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b numeric(12, 2), c timestamptz)")
    app.execute(
        f"INSERT INTO t SELECT g, 'text ' || g, g * 0.5, now() FROM generate_series(1, {5 * _ROWS}) g"
    )

    def plain() -> None:
        with app.cursor().copy("COPY t TO STDOUT") as rows:
            for _ in rows:
                pass

    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(folder) as tr:
        tr.attach_source("bench", dsn="env:BENCH_DSN", cdc_mode="trigger")

        def mirrored() -> None:
            tr.create_mirror("t", "bench.public.t")
            tr.sql("DROP TABLE t")

        measured = race({"COPY to nowhere": plain, "a mirror": mirrored}, rounds)
        tr.detach_source("bench")
    app.close()
    return [ratio("first copy, 1 million rows", measured["a mirror"], measured["COPY to nowhere"])]

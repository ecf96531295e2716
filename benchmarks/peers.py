"""The same views kept up to date in other ways, in one run on the same data: where does a peer win?

Each way starts from sources that have changed already and from what it had before, and the clock runs until
its view is fresh on disk. Full recomputation by Spark and DuckDB reads plain Parquet; a Spark user who knows
which partitions changed rewrites only these; a user of Delta Lake works the change out by hand and merges it;
PostgreSQL refreshes a materialized view, at once or concurrently, and does not wait for its disk. Changes are
spread over all ids, so that most partitions have some.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb

import spark_trickle
from benchmarks.contest import plain_copies, plain_full, require_exact
from benchmarks.peers_delta import Merged, delta_is_installed
from benchmarks.regions import SCENARIOS, TABLES, Changes, fill
from benchmarks.servers import tuned_server
from benchmarks.timing import add, measured, ratio, timed
from spark_trickle.session import Trickle
from tests.postgres.server import Server

NAMES = ("scan", "filter", "aggregate", "join", "join_agg")
PERCENTS = (0.1, 1.0)
KEYS = {"aggregate": "region", "join_agg": "region_name"}  # the others have the key id
_BUCKETS = 64
_WARM_UP = 1


def run(rows: int, rounds: int, names: Sequence[str] = ()) -> None:
    chosen = [n for n in NAMES if n in (names or NAMES)]
    if not delta_is_installed():
        print("deltalake is not installed: MERGE into Delta Lake is left out (install the extra bench)")
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_trickle.connect(f"{folder}/warehouse") as tr,
        tuned_server("shared_buffers = '512MB'", "work_mem = '64MB'") as server,
    ):
        fill(tr, rows)
        plain_copies(tr, folder, TABLES)
        changes = Changes(tr, rows)
        for name in chosen:
            _measure(Arena(tr, folder, server, changes, name), rounds)


class Arena:
    """One view in all the ways; they are made here, and refreshed one after the other."""

    def __init__(self, tr: Trickle, folder: str, server: Server, changes: Changes, name: str) -> None:
        self.tr, self.changes, self.name = tr, changes, name
        self._folder, self._query = folder, SCENARIOS[name]
        self._duck = duckdb.connect()
        for table in TABLES:
            path = f"{folder}/plain/{table}/*.parquet"
            self._duck.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'")
        self._merged = Merged(tr, f"{folder}/delta_{name}", name) if delta_is_installed() else None
        self._pg = server.connect()
        self._partitioned()
        self._materialized()
        tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {self._query}")

    def close(self) -> None:
        require_exact(self.tr, f"{self.name}_st")
        if self._merged is not None:
            self._merged.check()
        self.tr.sql(f"DROP STREAM TABLE {self.name}_st")
        self._duck.close()
        self._pg.execute("DROP MATERIALIZED VIEW mv_plain, mv_concurrent; DROP TABLE src, dim")
        self._pg.close()

    def change(self, percent: float) -> None:
        """In our tables, and as many rows in those of PostgreSQL; the plain copies stay about the same."""
        before = self.tr.snapshot
        self.changes.share(percent)
        if self._merged is not None:
            self._merged.changed(before)
        share = percent / 100
        for statement in (
            f"UPDATE src SET amount = amount + 1 WHERE random() < {0.7 * share}",
            f"DELETE FROM src WHERE random() < {0.15 * share}",
            "INSERT INTO src SELECT (SELECT max(id) FROM src) + row_number() OVER (), region, category, "
            f"amount, score FROM src WHERE random() < {0.15 * share}",
            "VACUUM ANALYZE src",
        ):
            self._pg.execute(statement.encode())
        # The partitions that changed, as a user would have noted them.
        files = f"id DIV {self._width}"
        self._dirty = [r[0] for r in self.tr.changes("src", before).selectExpr(files).distinct().collect()]

    def ways(self) -> Mapping[str, Callable[[], object]]:
        found: dict[str, Callable[[], object]] = {
            "ours": lambda: self.tr.refresh(f"{self.name}_st"),
            "Spark, everything": lambda: plain_full(self.tr, self._folder, self._query),
            "DuckDB, everything": lambda: self._duck.execute(
                f"COPY ({self._query}) TO '{self._folder}/duck.parquet' (FORMAT parquet)"
            ),
            "PostgreSQL, REFRESH": lambda: self._pg.execute("REFRESH MATERIALIZED VIEW mv_plain"),
            "PostgreSQL, CONCURRENTLY": lambda: self._pg.execute(
                "REFRESH MATERIALIZED VIEW CONCURRENTLY mv_concurrent"
            ),
        }
        if self.name not in KEYS:  # every group is touched by some changed row
            found["Spark, changed partitions"] = self._rewrite
        if self._merged is not None:
            found["Delta Lake, MERGE by hand"] = self._merged.refresh
        return found

    # --- Spark, by partitions --------------------------------------------------------------------

    def _partitioned(self) -> None:
        """Ranges of ids, in the source and in the view; a view of groups depends on all of them."""
        self._width = max(1, self.changes.rows // _BUCKETS)
        source = self.tr.spark.table("src").selectExpr("*", f"id DIV {self._width} AS bucket")
        source.write.mode("overwrite").partitionBy("bucket").parquet(f"{self._folder}/buckets")
        self._dirty = [r[0] for r in source.select("bucket").distinct().collect()]
        if self.name not in KEYS:
            self._rewrite()

    def _rewrite(self) -> None:
        spark = self.tr.spark
        source = spark.read.parquet(f"{self._folder}/buckets").where(f"bucket IN ({_listed(self._dirty)})")
        source.createOrReplaceTempView("src_changed")
        query = self._query.replace("FROM src", "FROM src_changed")
        rows = spark.sql(query).selectExpr("*", f"id DIV {self._width} AS bucket")
        writer = rows.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("bucket").parquet(f"{self._folder}/view_by_bucket_{self.name}")

    # --- PostgreSQL ------------------------------------------------------------------------------

    def _materialized(self) -> None:
        self._pg.execute(
            "CREATE TABLE src (id int8 PRIMARY KEY, region text, category text, amount int, score int)"
        )
        self._pg.execute(
            "CREATE TABLE dim (id int PRIMARY KEY, region text, region_name text, multiplier numeric)"
        )
        for table in TABLES:
            path = f"{self._folder}/{table}.csv"
            self._duck.execute(f"COPY {table} TO '{path}' (FORMAT csv, HEADER false)")
            with open(path, "rb") as file, self._pg.cursor().copy(f"COPY {table} FROM STDIN CSV") as copy:
                while piece := file.read(2**20):
                    copy.write(piece)
        for view in ("mv_plain", "mv_concurrent"):
            self._pg.execute(f"CREATE MATERIALIZED VIEW {view} AS {self._query}".encode())
            key = KEYS.get(self.name, "id")
            self._pg.execute(f"CREATE UNIQUE INDEX ON {view} ({key})".encode())
        self._pg.execute("VACUUM ANALYZE")


def _measure(arena: Arena, rounds: int) -> None:
    for percent in PERCENTS:
        times: dict[str, list[float]] = {way: [] for way in arena.ways()}
        for number in range(_WARM_UP + rounds):
            arena.change(percent)
            for way, refresh in arena.ways().items():
                took = timed(refresh)
                if number >= _WARM_UP:
                    times[way].append(took)
        ours = measured("ours", times.pop("ours"))
        label = f"{arena.name}, {percent:g}% of {arena.changes.rows:,} rows"
        add("peers", [ratio(label, measured(way, found), ours) for way, found in times.items()])
    arena.close()


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(str(v) for v in values)

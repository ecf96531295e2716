"""What tests of tables in place share: tables, stream tables over them, and what must hold of both."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

import spark_trickle
from spark_trickle.errors import OutsideFileError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.int64())])
FIRST = [(1, "a", 10), (2, "b", 20), (3, None, None), (3, None, None)]
QUERIES = {
    "copied": "SELECT id, region, amount FROM orders",
    "grouped": "SELECT region, count(*) AS n, sum(amount) AS total, max(id) AS last FROM orders GROUP BY region",
    "joined": "SELECT o.id, s.name FROM orders o JOIN shops s ON o.region = s.region",
    "distinct_": "SELECT DISTINCT region FROM orders",
}


def orders(values: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(zip(*values, strict=True), SCHEMA, strict=True)], SCHEMA
    )


def shops(*pairs: tuple[str, str]) -> pa.Table:
    return pa.table({"region": [p[0] for p in pairs], "name": [p[1] for p in pairs]})


class RemoteLake(Protocol):
    """Tables of others, and what their own library reads of them."""

    def read(self, name: str = "orders") -> pa.Table: ...

    def attach(self, tr: Trickle) -> None: ...

    def follow(self, tr: Trickle) -> None: ...


def count_rows(found: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[c] for c in found.column_names) for row in found.to_pylist())


def define_streams(tr: Trickle) -> None:
    for name, query in QUERIES.items():
        tr.sql(f"CREATE STREAM TABLE {name} AS {query}")


def check_tables(tr: Trickle, lake: RemoteLake) -> None:
    """Our tables hold what the library says that theirs do."""
    for name in ("orders", "shops"):
        assert Counter(map(tuple, tr.table(name).collect())) == count_rows(lake.read(name)), name


def check_exact(tr: Trickle, lake: RemoteLake) -> None:
    """And stream tables hold what Spark answers for their queries over rows that the library read."""
    check_tables(tr, lake)
    for name in ("orders", "shops"):
        tr.spark.createDataFrame(lake.read(name)).createOrReplaceTempView(f"oracle_{name}")
    for name, query in QUERIES.items():
        for table in ("orders", "shops"):
            query = query.replace(f" {table}", f" oracle_{table}")
        assert rows(tr.table(name)) == rows(tr.spark.sql(query)), name


def check_change(tr: Trickle, lake: RemoteLake, source: str, expected: tuple[int, int]) -> None:
    """A sync finds so many inserted and deleted rows; the feed tells the same, and everything is exact."""
    before = tr.snapshot
    report = tr.sync(source)
    assert (report.rows_inserted, report.rows_deleted) == expected
    assert not report.problems
    assert not report.resynced
    tr.refresh_all()
    check_exact(tr, lake)
    types = Counter(r._change_type for r in tr.changes("orders", before).collect())
    came, went = types["insert"] + types["update_postimage"], types["delete"] + types["update_preimage"]
    assert (came, went) == expected


# Where a process that syncs may be killed.
KILLS = (
    "before_data",
    "half_data",
    "after_data",
    "begin",
    "after_snapshot_row",
    "after_files",
    "before_commit",
    "after_commit",
    "after_landing",
)


def check_killed_syncs(
    tr: Trickle, change: Callable[[], None], lake: RemoteLake, source: str, point: str, place: Path
) -> None:
    """A process that is killed while it syncs loses nothing, and what it did is not done twice."""
    for _ in range(2):
        before = count_rows(lake.read())
        change()
        environment = {**address_of(tr.spark), "SPARK_TRICKLE_CRASH_POINT": point}
        with start(environment) as child:
            output = finish(child, Job(str(place), None, (f"SYNC SOURCE {source}",)))
        assert child.returncode == -signal.SIGKILL, output
        with spark_trickle.connect(place) as other:
            held = Counter(map(tuple, other.table("orders").collect()))
            assert held in (before, count_rows(lake.read()))
        report = tr.sync(source)
        assert not report.problems
        assert not report.resynced
        tr.refresh_all()
        check_exact(tr, lake)


def check_two_syncs(
    tr: Trickle, change: Callable[[], None], lake: RemoteLake, source: str, place: Path
) -> None:
    """What one of two processes lands, the other does not land again."""
    with spark_trickle.connect(place) as other, ThreadPoolExecutor(2) as pool:
        for _ in range(3):
            change()
            for done in [pool.submit(c.sync, source) for c in (tr, other)]:
                assert not done.result().problems
            check_tables(tr, lake)
        tr.refresh_all()
        check_exact(tr, lake)


class LakeWalk:
    """A random walk over what applications, other tools and users of the warehouse do."""

    source = "lake"
    steps: Sequence[Callable[[Any], None]] = ()  # what is done there

    def __init__(self, lake: Any, place: Path, seed: int) -> None:
        self.lake, self.place, self.random = lake, place, random.Random(seed)
        self.tr = spark_trickle.connect(place)
        lake.follow(self.tr)

    def row(self) -> tuple[Any, ...]:
        choose = self.random.choice
        return (choose(range(8)), choose(["a", "b", "c", None]), choose([None, 1, 2, 10**12]))

    def sync(self) -> None:
        assert not self.tr.sync(self.source).problems

    def refresh(self) -> None:
        with suppress(OutsideFileError):  # the version that we pinned is gone: only a sync helps
            self.tr.refresh_all()

    def compare(self) -> None:
        self.tr.sql("RESYNC TABLE orders")

    def vacuum_ours(self) -> None:
        self.tr.sql("VACUUM RETAIN 0 HOURS")

    def reconnect(self) -> None:
        self.tr.close()
        self.tr = spark_trickle.connect(self.place)

    ours = (sync, sync, sync, sync, refresh, refresh, refresh, compare, vacuum_ours, reconnect)

    def run(self, count: int) -> None:
        try:
            for _ in range(count):
                self.random.choice((*self.steps, *self.ours))(self)
            self.sync()
            self.tr.refresh_all()
            check_exact(self.tr, self.lake)
        finally:
            self.tr.close()

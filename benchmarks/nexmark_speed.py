"""Nexmark: how many events a second a stream table keeps up with, and whether it falls behind as tables grow.

An auction site is fed batch after batch; of fifty events one is a person, three are auctions and the rest are
bids. With each batch some of the newest rows change and some go. The clock runs while rows are written and
while the stream table is refreshed, not while events are made up. Growth is the median time of a batch in the
last quarter against that in the second one; a lag that is bounded stays near 1.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

import pyarrow as pa

import spark_trickle
from benchmarks.contest import plain_copies, plain_full, require_exact
from benchmarks.store import Store
from benchmarks.timing import timed
from spark_trickle.session import Trickle
from tests.laws.nexmark import QUERIES, TABLES, Site, create_tables

_TYPES = {"bigint": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", tz="UTC")}
_LEAST_BATCHES = 8


@dataclass(frozen=True)
class Sustained:
    """One query, fed for some time."""

    query: str
    start: int  # events that were there before
    events: int  # of a batch
    batches: int
    per_second: float  # events, written and refreshed
    batch_ms: float  # of a refresh alone
    spread: float
    growth: float
    full_ms: float  # the query over everything by plain Spark, at the end
    speed_up: float


STORE = Store("nexmark", Sustained, ("query", "start", "events"))


def run(start: int, events: int, seconds: float, rounds: int, names: Sequence[str] = ()) -> None:
    for name in (n for n in QUERIES if not names or n in names):
        with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
            STORE.add([_sustained(tr, folder, name, start, events, seconds, rounds)])


def _sustained(
    tr: Trickle, folder: str, name: str, start: int, events: int, seconds: float, rounds: int
) -> Sustained:
    for statement in create_tables():
        tr.sql(statement)
    feed = Feed(tr, Random(7))
    feed.write(feed.made(start))
    tr.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")
    for _ in range(2):  # to warm up
        _batch(tr, feed, name, events)
    written, refreshed = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(written) < _LEAST_BATCHES:
        for times, took in zip((written, refreshed), _batch(tr, feed, name, events), strict=True):
            times.append(took)
    require_exact(tr, name)
    plain_copies(tr, folder, tuple(TABLES))
    full, beside = [], []
    for _ in range(rounds + 1):
        full.append(timed(lambda: plain_full(tr, folder, QUERIES[name])))
        beside.append(_batch(tr, feed, name, events)[1])
    require_exact(tr, name)
    whole = [a + b for a, b in zip(written, refreshed, strict=True)]
    quarter = len(whole) // 4
    return Sustained(
        name,
        start,
        events,
        len(whole),
        round(1000 * events * len(whole) / sum(whole), 1),
        round(median(refreshed), 1),
        round((max(refreshed) - min(refreshed)) / median(refreshed), 2),
        round(median(whole[-quarter:]) / median(whole[quarter : 2 * quarter]), 2),
        round(median(full[1:]), 1),
        round(median(full[1:]) / median(beside[1:]), 2),
    )


def _batch(tr: Trickle, feed: Feed, name: str, events: int) -> tuple[float, float]:
    """Milliseconds that a batch took to write, and to refresh."""
    rows = feed.made(events)

    def write() -> None:
        feed.write(rows)
        feed.amend()

    return timed(write), timed(lambda: tr.refresh(name))


@dataclass
class Feed:
    """Events that go on where the last batch ended, and second thoughts about the newest of them."""

    tr: Trickle
    chance: Random
    at: int = 0

    def made(self, events: int) -> dict[str, pa.Table]:
        site = Site(self.chance, at=self.at)
        rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}
        for name, row in site.events(events):
            rows[name].append(row)
        self.at += events
        return {name: _arrow(name, found) for name, found in rows.items() if found}

    def write(self, rows: dict[str, pa.Table]) -> None:
        """All tables at once, as one commit."""
        self.tr.sql("BEGIN")
        for name, table in rows.items():
            self.tr.append(name, self.tr.spark.createDataFrame(table))
        self.tr.sql("COMMIT")

    def amend(self) -> None:
        """Some of what came in the last two batches changes or goes: a few rows in a hundred."""
        n = self.at // 50  # epochs, each with one person and three auctions
        person, auction = 100 + n, 1000 + 3 * n
        for statement in (
            f"UPDATE bid SET price = price + 70 WHERE auction BETWEEN {auction - 4} AND {auction - 3}",
            f"DELETE FROM bid WHERE auction = {auction - 7}",
            f"UPDATE auction SET category = 10, expires = expires + INTERVAL '1' MINUTE "
            f"WHERE id = {auction - 2}",
            f"DELETE FROM auction WHERE id = {auction - 9}",
            f"UPDATE person SET state = 'OR', name = 'renamed' WHERE id = {person - 1}",
            f"DELETE FROM person WHERE id = {person - 5}",
        ):
            self.tr.sql(statement)


def _arrow(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table(
        {
            column: pa.array(values, _TYPES[kind])
            for (column, kind), values in zip(TABLES[name], columns, strict=True)
        }
    )

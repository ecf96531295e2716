"""A process that writes to or reads a warehouse which others use at the same time, and tells what it did.

A writer prints a line before each operation and one after it: only what it printed as done was acknowledged.
A reader checks while others write that it sees every commit whole, and that no snapshot ever changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

import spark_trickle
from spark_trickle.errors import ConflictError
from spark_trickle.session import Trickle
from tests.crash.child import ROOT, leave
from tests.crash.sharing import open_spark
from tests.crash.witness import Bag, bag, feed_sum, ordered

TABLES = (
    "CREATE TABLE log (id BIGINT)",
    "CREATE TABLE lefts (id BIGINT, PRIMARY KEY (id))",
    "CREATE TABLE rights (id BIGINT)",
    "CREATE TABLE purse (id INT, amount BIGINT, PRIMARY KEY (id))",
    "CREATE TABLE bank (id INT, amount BIGINT)",
    "CREATE TABLE counter (id INT, n BIGINT, PRIMARY KEY (id))",
    "CREATE TABLE tally (name STRING, n BIGINT)",
    "CREATE TABLE kept (id BIGINT, PRIMARY KEY (id))",
    "INSERT INTO purse VALUES (0, 1000), (1, 1000), (2, 1000)",
    "INSERT INTO bank VALUES (0, 0), (1, 0), (2, 0)",
    "INSERT INTO counter VALUES (0, 0)",
    "INSERT INTO tally VALUES ('all', 0), ('none', 0)",
)
NAMES = ("log", "lefts", "rights", "purse", "bank", "counter", "tally", "kept")
MONEY = 3000


@dataclass(frozen=True)
class Work:
    """What one process shall do, until so many operations, so many seconds, or a file that appears."""

    path: str
    data_path: str | None
    number: int
    reads: bool = False
    own_rows: bool = False  # writes only rows that no other process touches
    threads: int = 1
    operations: int = 1_000_000
    seconds: float = 1_000_000
    stop_file: str = ""
    reconnect_after: int = 5  # operations: a new connection lets VACUUM forget what the old one read
    settings: dict[str, Any] = field(default_factory=dict)

    def turns(self) -> Iterator[int]:
        end = time.monotonic() + self.seconds
        for n in range(self.operations):
            if time.monotonic() > end or (self.stop_file and Path(self.stop_file).exists()):
                return
            yield n


def start(work: Work, environment: dict[str, str], output: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.load", json.dumps(asdict(work))]
    with output.open("ab") as sink:
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=sink, stderr=subprocess.STDOUT
        )


# --- writing ---------------------------------------------------------------------------------------


def append(tr: Trickle, id: int) -> None:
    tr.sql(f"INSERT INTO log VALUES ({id})")


def pair(tr: Trickle, id: int) -> None:
    with tr.transaction():
        tr.sql(f"INSERT INTO lefts VALUES ({id})")
        tr.sql(f"INSERT INTO rights SELECT id FROM lefts WHERE id = {id}")


def move(tr: Trickle, id: int) -> None:
    with tr.transaction():
        tr.sql(f"UPDATE purse SET amount = amount - 1 WHERE id = {id % 3}")
        tr.sql(f"UPDATE bank SET amount = amount + 1 WHERE id = {id % 3}")


def increment(tr: Trickle, id: int) -> None:
    tr.sql("UPDATE counter SET n = n + 1 WHERE id = 0")


def tally(tr: Trickle, id: int) -> None:
    tr.sql("UPDATE tally SET n = n + 1 WHERE name = 'all'")


def keep(tr: Trickle, id: int) -> None:
    tr.sql(f"INSERT INTO kept VALUES ({id}), ({-id})")
    tr.sql(f"DELETE FROM kept WHERE id = {-id}")


def optimize(tr: Trickle, id: int) -> None:
    tr.sql(f"OPTIMIZE {NAMES[id % len(NAMES)]}")


def vacuum(tr: Trickle, id: int) -> None:
    tr.sql("VACUUM RETAIN 0 HOURS")


def keep_own_rows(tr: Trickle, id: int) -> None:
    """A writer that reads and changes nothing but rows of its own, in tables that all writers share."""
    mine = id // 1_000_000
    with tr.transaction():
        n = tr.sql(f"SELECT n FROM accounts WHERE id = {mine}").collect()[0].n
        tr.sql(f"UPDATE accounts SET n = {n} + 1 WHERE id = {mine}")
        tr.sql(f"UPDATE labels SET n = n + 1 WHERE name = 'p{mine}'")
        tr.sql(f"INSERT INTO kept VALUES ({id})")
    tr.sql(f"DELETE FROM kept WHERE id = {id - 1}")


OPERATIONS: dict[str, Callable[[Trickle, int], None]] = {
    f.__name__: f for f in (append, pair, move, increment, tally, keep, optimize, vacuum)
}
OWN_ROWS = {keep_own_rows.__name__: keep_own_rows}


def write(work: Work, spark: SparkSession | None, thread: int) -> None:
    """Every operation in a random order, again and again."""
    random = Random(work.number * 100 + thread)
    first = (work.number * 100 + thread) * 1_000_000 + 1
    order: list[str] = []
    tr: Trickle | None = None
    for n in work.turns():
        if n % work.reconnect_after == 0:
            if tr is not None:
                tr.close()
            tr = open_warehouse(work, spark)
        operations = OWN_ROWS if work.own_rows else OPERATIONS
        order = order or random.sample(sorted(operations), len(operations))
        assert tr is not None
        perform(tr, order.pop(), first + n)
    if tr is not None:
        tr.close()


def perform(tr: Trickle, name: str, id: int) -> None:
    say(name, id, "tried")
    try:
        {**OPERATIONS, **OWN_ROWS}[name](tr, id)
    except ConflictError:
        say(name, id, "refused")
    else:
        say(name, id, "done")


def say(operation: str, id: int, what: str) -> None:
    os.write(1, (json.dumps([operation, id, what]) + "\n").encode())  # one call, so that lines stay whole


def open_warehouse(work: Work, spark: SparkSession | None) -> Trickle:
    return spark_trickle.connect(work.path, data_path=work.data_path, spark=spark, settings=work.settings)


# --- reading ---------------------------------------------------------------------------------------


@dataclass
class Memory:
    """What a reader has seen of one snapshot after another."""

    first: int
    contents: dict[int, dict[str, Bag]] = field(default_factory=dict)
    count: int = -1


def read(work: Work, spark: SparkSession | None) -> None:
    random = Random(work.number)
    tr: Trickle | None = None
    for n in work.turns():
        if n % work.reconnect_after == 0:
            if tr is not None:
                tr.close()
            tr = open_warehouse(work, spark)
            seen = Memory(tr.snapshot)
            seen.contents[seen.first] = contents(tr, seen.first)
        assert tr is not None
        look_at_now(tr, seen)
        look_at_then(tr, seen, random)
        say("look", n, "done")
    if tr is not None:
        tr.close()


def look_at_now(tr: Trickle, seen: Memory) -> None:
    """Everything in one query, so of one snapshot; and twice in a transaction, so of one snapshot too."""
    question = (
        "SELECT (SELECT sum(amount) FROM purse) + (SELECT sum(amount) FROM bank) AS money, "
        "(SELECT count(*) FROM lefts FULL JOIN rights ON lefts.id = rights.id "
        "WHERE lefts.id IS NULL OR rights.id IS NULL) AS halves, "
        "(SELECT max(n) FROM counter) AS top, (SELECT count(*) FROM counter) AS counters, "
        "(SELECT count(*) FROM tally) AS tallies"
    )
    found = tr.sql(question).collect()[0]
    assert (found.money, found.halves, found.counters, found.tallies) == (MONEY, 0, 1, 2), found
    assert found.top >= seen.count, (found, seen.count)
    seen.count = found.top
    with tr.transaction():
        once = tr.sql(question).collect()
        assert tr.sql(question).collect() == once


def look_at_then(tr: Trickle, seen: Memory, random: Random) -> None:
    """A snapshot seen before is still the same, and the feed since then leads to a newer one."""
    now = tr.snapshot
    seen.contents[now] = contents(tr, now)
    then = random.choice(sorted(seen.contents))
    assert contents(tr, then) == seen.contents[then], then
    for name in random.sample(NAMES, 3):
        difference = bag(seen.contents[now][name].elements())
        difference.subtract(seen.contents[then][name])
        assert feed_sum(tr, name, then, now) == ordered(difference), (name, then, now)


def contents(tr: Trickle, snapshot: int) -> dict[str, Bag]:
    return {name: bag(map(tuple, tr.table(name, snapshot=snapshot).collect())) for name in NAMES}


def main(work: Work) -> None:
    spark = open_spark()
    if work.reads:
        read(work, spark)
        return
    if spark is None:
        spark = open_warehouse(work, None).spark  # one for all threads
    with ThreadPoolExecutor(work.threads) as pool:
        for done in [pool.submit(write, work, spark, n) for n in range(work.threads)]:
            done.result()


if __name__ == "__main__":
    try:
        main(Work(**json.loads(sys.argv[1])))
    except BaseException:
        traceback.print_exc()
        leave(1)
    leave(0)

"""Processes that write and read one warehouse at once lose nothing and never see half a commit."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from spark_trickle.session import Trickle
from tests.conftest import DuckQuery, Location, rows
from tests.crash.load import MONEY, NAMES, TABLES, Work, start
from tests.crash.sharing import address_of
from tests.crash.witness import bag, feed_sum, files_of_tables, files_on_disk, ordered, without_checksums

pytestmark = pytest.mark.both_catalogs

RETRIES = {"commit_retries": 200, "compact_change_files": 8}


@pytest.mark.slow
def test_writers_and_a_reader(location: Location, duck: DuckQuery, tmp_path: Path) -> None:
    """Two processes with two threads each write, one reads; all use the Spark of this process."""
    with location.connect() as tr:
        for statement in TABLES:
            tr.sql(statement)
        shared = address_of(tr.spark)
    stop = tmp_path / "stop"
    writers = [
        Work(location.path, location.data_path, n, threads=2, operations=8, settings=RETRIES) for n in (1, 2)
    ]
    readers = [Work(location.path, location.data_path, 3, reads=True, stop_file=str(stop))]
    outcomes = run(writers, readers, shared, stop, tmp_path)
    assert not unknown(outcomes)
    check(location, duck, outcomes)


@pytest.mark.one_in(2)
def test_writers_of_different_rows_never_conflict(location: Location, tmp_path: Path) -> None:
    """Four processes change the same tables at once, each its own rows, and nothing is ever run again."""
    numbers, operations = (1, 2, 3, 4), 5
    with location.connect() as tr:
        tr.sql("CREATE TABLE accounts (id BIGINT, n INT, PRIMARY KEY (id))")
        tr.sql("CREATE TABLE labels (name STRING, n INT)")
        tr.sql("CREATE TABLE kept (id BIGINT, PRIMARY KEY (id))")
        tr.sql(f"INSERT INTO accounts VALUES {', '.join(f'({100 * n}, 0)' for n in numbers)}")
        tr.sql("INSERT INTO labels SELECT concat('p', id), n FROM accounts")
        tr.sql("CREATE STREAM TABLE total AS SELECT sum(n) AS n FROM accounts")
        shared = address_of(tr.spark)
    settings = {"commit_retries": 0, "compact_change_files": 8}
    writers = [
        Work(location.path, location.data_path, n, own_rows=True, operations=operations, settings=settings)
        for n in numbers
    ]
    outcomes = run(writers, [], shared, tmp_path / "stop", tmp_path)
    assert set(outcomes.values()) == {"done"}
    with location.connect() as tr:
        assert rows(tr.table("accounts")) == [(100 * n, operations) for n in numbers]
        assert rows(tr.table("labels")) == [(f"p{100 * n}", operations) for n in numbers]
        assert rows(tr.table("kept")) == [(100_000_000 * n + operations,) for n in numbers]
        tr.refresh("total")
        assert rows(tr.table("total")) == [(len(numbers) * operations,)]


def test_a_large_update_gets_through_between_many_inserts(location: Location) -> None:
    """Every INSERT brings a row that the UPDATE would have met; in the end they wait for it."""
    done = Event()
    slow = {"max_driver_rows": 10, "commit_retries": 3}
    with location.connect(settings=slow) as mine, location.connect() as theirs:
        mine.sql("CREATE TABLE big (id BIGINT, n INT, PRIMARY KEY (id))")
        mine.sql("INSERT INTO big SELECT id, 0 FROM range(1000)")

        def insert_until_done() -> int:
            for id in count(1000):
                if done.is_set():
                    return id
                theirs.sql(f"INSERT INTO big VALUES ({id}, 0)")
            raise AssertionError

        with ThreadPoolExecutor(1) as pool:
            inserted = pool.submit(insert_until_done)
            try:
                result = mine.sql("UPDATE big SET n = n + 1").collect()[0]
            finally:
                done.set()
            total = inserted.result()
        then = Counter(r.n for r in mine.table("big", snapshot=result.snapshot).collect())
        assert then == {1: result.rows_updated}
        assert mine.table("big").count() == total


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_minute_of_six_processes(location: Location, duck: DuckQuery, tmp_path: Path) -> None:
    """Four processes write and two read for a minute, each with a JVM of its own."""
    with location.connect() as tr:
        for statement in TABLES:
            tr.sql(statement)
    stop = tmp_path / "stop"
    writers = [Work(location.path, location.data_path, n, seconds=60, settings=RETRIES) for n in range(1, 5)]
    readers = [
        Work(location.path, location.data_path, n, reads=True, stop_file=str(stop)) for n in range(5, 7)
    ]
    outcomes = run(writers, readers, {}, stop, tmp_path)
    assert not unknown(outcomes)
    check(location, duck, outcomes)


Outcomes = dict[tuple[str, int], str]  # of each operation: tried, refused or done


def run(
    writers: list[Work], readers: list[Work], environment: dict[str, str], stop: Path, folder: Path
) -> Outcomes:
    """Start all, wait for the writers, tell the readers to stop, and read what all said."""
    outputs = {work.number: folder / f"{work.number}.txt" for work in writers + readers}
    started = {w.number: start(w, environment, outputs[w.number]) for w in writers + readers}
    wait(started[w.number] for w in writers)
    stop.touch()
    wait(started[r.number] for r in readers)
    for number, process in started.items():
        assert process.returncode == 0, outputs[number].read_text()[-4000:]
    lines = [line for output in outputs.values() for line in output.read_text().splitlines()]
    return {(name, id): what for name, id, what in (json.loads(x) for x in lines if x.startswith("["))}


def wait(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.wait(timeout=600)


def ids(outcomes: Outcomes, name: str, what: str = "done") -> list[int]:
    return [id for (operation, id), found in outcomes.items() if operation == name and found == what]


def unknown(outcomes: Outcomes) -> list[Any]:
    return [key for key, what in outcomes.items() if what == "tried"]


def check(location: Location, duck: DuckQuery, outcomes: Outcomes) -> None:
    """Every acknowledged write is there, nothing else is, and the feed and DuckDB agree."""
    with location.connect() as tr:
        tables = {name: bag(map(tuple, tr.table(name).collect())) for name in NAMES}
        assert tables["log"] == Counter((id,) for id in ids(outcomes, "append"))
        assert tables["lefts"] == tables["rights"] == Counter((id,) for id in ids(outcomes, "pair"))
        assert tables["counter"] == Counter([(0, len(ids(outcomes, "increment")))])
        assert tables["tally"] == Counter([("all", len(ids(outcomes, "tally"))), ("none", 0)])
        assert tables["kept"] == Counter((id,) for id in ids(outcomes, "keep"))
        moved = Counter(id % 3 for id in ids(outcomes, "move"))
        assert tables["bank"] == Counter((n, moved[n]) for n in range(3))
        assert tables["purse"] == Counter((n, MONEY // 3 - moved[n]) for n in range(3))
        for name in NAMES:
            assert bag(duck(f"SELECT * FROM lake.{name}")) == tables[name]
        check_feed(tr, tables)
        tr.sql("SET trickle.orphan_hours = 0")
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert without_checksums(set(files_on_disk(location))) == files_of_tables(tr, location)


def check_feed(tr: Trickle, tables: dict[str, Any]) -> None:
    """From the oldest snapshot that VACUUM left to the newest."""
    oldest = tr.sql("SELECT min(snapshot_id) FROM trickle.snapshots()").collect()[0][0]
    for name in NAMES:
        difference = bag(tables[name].elements())
        difference.subtract(bag(map(tuple, tr.table(name, snapshot=oldest).collect())))
        assert feed_sum(tr, name, oldest, tr.snapshot) == ordered(difference)

"""Stream tables published as Delta tables: one whole snapshot in every version, read by the `deltalake` library."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import spark_trickle
from spark_trickle.errors import (
    RepairNeededError,
    SourceBusyError,
    TargetExistsError,
    TrickleError,
)
from spark_trickle.session import Trickle

QUERIES = {
    "totals": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region",
    "bag": "SELECT region, amount FROM orders",
}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder with one Delta table of somebody else."""
    write_deltalake(tmp_path / "lake" / "theirs", pa.table({"a": [1]}))
    return tmp_path / "lake"


@pytest.fixture
def tr(tmp_path: Path, lake: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        fill(connection, lake)
        yield connection


def fill(tr: Trickle, lake: Path) -> None:
    tr.sql("CREATE TABLE orders (id INT, region STRING, amount BIGINT)")
    tr.sql("INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'b', 20), (4, NULL, NULL), (5, 'a', 1)")
    for name, query in QUERIES.items():
        tr.sql(f"CREATE STREAM TABLE {name} AS {query}")
    tr.attach_source("lake", "delta", path=str(lake))


def read_there(lake: Path, name: str, version: int | None = None) -> Counter[tuple[Any, ...]]:
    found = DeltaTable(lake / name, version=version).to_pyarrow_table()
    return Counter(tuple(row[c] for c in found.column_names) for row in found.to_pylist())


def check(tr: Trickle, lake: Path, name: str) -> None:
    assert read_there(lake, name) == Counter(map(tuple, tr.table(name).collect())), name
    row = next(r for r in tr.answer("published_status").dicts() if r["published_as"] == name)
    assert row["problem"] == ""
    assert row["rows"] == tr.table(name).count()


def publish_all(tr: Trickle) -> None:
    for name in QUERIES:
        tr.sql(f"PUBLISH STREAM TABLE {name} TO SOURCE lake AS {name}")


CHANGES = {
    "insert": "INSERT INTO orders VALUES (6, 'c', 1), (7, 'c', 1)",
    "update": "UPDATE orders SET amount = amount + 1 WHERE id = 1",
    "delete one of two equal rows": "DELETE FROM orders WHERE id = 2",
    "delete a row of nulls": "DELETE FROM orders WHERE id = 4",
    "delete everything": "DELETE FROM orders",
    "many": "INSERT INTO orders SELECT id, concat('r', id % 7), id FROM range(5000)",
}


@pytest.mark.shows("delta", "each refresh once, in one commit")
def test_changes_follow(tr: Trickle, lake: Path) -> None:
    publish_all(tr)
    for statement in CHANGES.values():
        tr.sql(statement)
        before = {name: DeltaTable(lake / name).version() for name in QUERIES}
        tr.refresh_all()
        for name, version in before.items():
            check(tr, lake, name)
            assert DeltaTable(lake / name).version() <= version + 1  # one commit, if anything changed


@pytest.mark.slow
def test_only_touched_files_are_written_again(tr: Trickle, lake: Path) -> None:
    publish_all(tr)
    tr.sql("INSERT INTO orders SELECT id, 'z', id FROM range(1000, 2000)")
    tr.refresh_all()
    files = set(DeltaTable(lake / "bag").file_uris())
    assert len(files) == 2
    tr.sql("UPDATE orders SET amount = -1 WHERE id = 1")
    tr.refresh_all()
    kept = files & set(DeltaTable(lake / "bag").file_uris())
    assert len(kept) == 1
    check(tr, lake, "bag")


@pytest.mark.slow
def test_many_rows_go_through_the_executors(tmp_path: Path, lake: Path) -> None:
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": 10}) as tr:
        fill(tr, lake)
        publish_all(tr)
        for statement in (
            CHANGES["many"],
            "DELETE FROM orders WHERE id % 3 = 0",
            CHANGES["insert"],
            CHANGES["delete everything"],
        ):
            tr.sql(statement)
            tr.refresh_all()
            for name in QUERIES:
                check(tr, lake, name)


def test_types(tr: Trickle, lake: Path) -> None:
    instant = datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
    tr.sql(
        "CREATE TABLE typed (d DATE, m DECIMAL(10, 2), at TIMESTAMP, local TIMESTAMP_NTZ, f DOUBLE, b BINARY, "
        "tags ARRAY<STRUCT<k: STRING, v: INT>>, s STRUCT<x: TINYINT>, ok BOOLEAN, v VARCHAR(3))"
    )
    tr.sql(
        "INSERT INTO typed VALUES (DATE'2024-01-01', 1.50, TIMESTAMP'2024-05-01 12:30:15.123456Z', "
        "TIMESTAMP_NTZ'2024-05-01 12:30:15.123456', -0.0D, X'00FF', array(named_struct('k', 'a', 'v', 1)), "
        "named_struct('x', 1Y), true, 'abc'), "
        "(NULL, NULL, NULL, NULL, double('NaN'), NULL, NULL, NULL, NULL, NULL)"
    )
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM typed")
    tr.sql("PUBLISH STREAM TABLE kept TO SOURCE lake")
    found = DeltaTable(lake / "kept").to_pyarrow_table().sort_by([("d", "ascending")]).to_pylist()
    assert repr(found[0]) == repr(
        {
            "d": date(2024, 1, 1),
            "m": Decimal("1.50"),
            "at": instant,
            "local": instant.replace(tzinfo=None),
            "f": -0.0,
            "b": b"\x00\xff",
            "tags": [{"k": "a", "v": 1}],
            "s": {"x": 1},
            "ok": True,
            "v": "abc",
        }
    ).replace("datetime.timezone.utc", "<UTC>").replace("<UTC>", repr(found[0]["at"].tzinfo))
    tr.sql("DELETE FROM typed WHERE d IS NULL")
    tr.refresh_all()
    assert DeltaTable(lake / "kept").to_pyarrow_table().num_rows == 1


def test_rows_that_are_merged_keep_every_bit(tr: Trickle, lake: Path) -> None:
    """Those that change, and those that lie in the same file."""
    tr.sql(
        "CREATE TABLE typed (id INT, `a.b` DATE, `Über uns` DECIMAL(38, 10), at TIMESTAMP, local TIMESTAMP_NTZ, "
        "f DOUBLE, b BINARY, tags ARRAY<STRUCT<k: STRING, v: INT>>, s STRUCT<x: TINYINT, y: ARRAY<FLOAT>>, "
        "`order` BOOLEAN, `qu\"ote'` STRING, PRIMARY KEY (id))"
    )
    values = (
        "DATE'0001-01-01', 1234567890123456789012345678.0123456789, TIMESTAMP'1969-12-31 23:59:59.999999Z', "
        "TIMESTAMP_NTZ'9999-12-31 12:30:15.123456', -0.0D, X'00FF', array(named_struct('k', 'ü', 'v', NULL), NULL), "
        "named_struct('x', 1Y, 'y', array(float('NaN'), NULL)), true, ''"
    )
    nothing = "NULL, NULL, NULL, NULL, double('NaN'), NULL, NULL, NULL, NULL, NULL"
    tr.sql(
        f"INSERT INTO typed VALUES (1, {values}), (2, {nothing}), (3, {values}), (4, {nothing}), (5, {nothing})"
    )
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM typed")
    tr.sql("PUBLISH STREAM TABLE kept TO SOURCE lake")
    tr.sql("UPDATE typed SET `order` = false WHERE id IN (3, 4)")
    tr.sql("DELETE FROM typed WHERE id = 5")
    tr.sql(f"INSERT INTO typed VALUES (6, {values})")
    tr.refresh_all()
    assert DeltaTable(lake / "kept").history(1)[0]["operation"] == "MERGE"
    found = DeltaTable(lake / "kept").to_pyarrow_table().sort_by("id")
    expected = tr.table("kept").toArrow().sort_by("id")
    assert repr(found.to_pylist()).replace("<UTC>", "UTC") == repr(expected.to_pylist()).replace(
        "<UTC>", "UTC"
    )


@pytest.mark.shows("delta", "changes by others are noticed", "repaired by comparison")
def test_compaction_by_others_does_no_harm_and_other_changes_are_repaired(tr: Trickle, lake: Path) -> None:
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    tr.refresh_all()
    DeltaTable(lake / "bag").optimize.compact()
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check(tr, lake, "bag")
    DeltaTable(lake / "bag").delete("region = 'a'")
    tr.sql(CHANGES["delete one of two equal rows"])
    with pytest.raises(RepairNeededError, match="another writer changed its rows in version"):
        tr.refresh_all()
    assert "another writer" in str(tr.answer("published_status").dicts())
    tr.sql("PUBLISH STREAM TABLE bag REPAIR")
    check(tr, lake, "bag")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check(tr, lake, "bag")


@pytest.mark.shows("delta", "two processes that publish at once")
def test_two_processes_at_once(tr: Trickle, lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one commits, the other does not commit again."""
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    from spark_trickle.targets.delta import table as module

    commit = module.DeltaTarget.commit

    def overtake(self: Any, rewrite: Any, state: Any, version: Any) -> None:
        monkeypatch.setattr(module.DeltaTarget, "commit", commit)
        with spark_trickle.connect(
            tr.catalog_url.removeprefix("sqlite:///").removesuffix("/catalog.sqlite")
        ) as other:
            other.push("lake")
        commit(self, rewrite, state, version)

    monkeypatch.setattr(module.DeltaTarget, "commit", overtake)
    with pytest.raises(SourceBusyError, match="refuses the commit"):
        tr.refresh_all()
    tr.push("lake")
    for name in QUERIES:
        check(tr, lake, name)


def read_feed(lake: Path, name: str, since: int) -> Counter[tuple[Any, ...]]:
    """The rows that Delta's change data feed tells, with how they changed."""
    found = pa.table(DeltaTable(lake / name).load_cdf(starting_version=since).read_all())
    columns = [n for n in found.column_names if n not in ("_commit_version", "_commit_timestamp")]
    return Counter(tuple(row[c] for c in columns) for row in found.select(columns).to_pylist())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [100_000, 3], ids=["at the driver", "on the executors"])
@pytest.mark.shows("delta", "old and new image of each row")
def test_a_change_data_feed_tells_each_row(tmp_path: Path, lake: Path, most: int) -> None:
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": most}) as tr:
        fill(tr, lake)
        tr.sql("INSERT INTO orders SELECT id, concat('r', id % 50), id FROM range(100)")
        tr.refresh_all()
        tr.sql("PUBLISH STREAM TABLE totals TO SOURCE lake OPTIONS (change_data_feed 'true')")
        for statement in (
            "UPDATE orders SET amount = amount + 5 WHERE id = 1",
            "DELETE FROM orders WHERE region IS NULL",
            "INSERT INTO orders VALUES (8, 'new', 1), (9, NULL, 2)",
            "UPDATE orders SET region = concat(region, '!') WHERE id % 2 = 0",
        ):
            version = DeltaTable(lake / "totals").version() + 1
            before = read_there(lake, "totals")
            tr.sql(statement)
            tr.refresh_all()
            check(tr, lake, "totals")
            after, told = read_there(lake, "totals"), read_feed(lake, "totals", version)
            came = Counter({r[:-1]: n for r, n in told.items() if r[-1] in ("insert", "update_postimage")})
            went = Counter({r[:-1]: n for r, n in told.items() if r[-1] in ("delete", "update_preimage")})
            assert (came, went) == (after - before, before - after), statement


def test_the_next_warehouse_follows_the_feed(tr: Trickle, lake: Path, tmp_path: Path) -> None:
    tr.sql("INSERT INTO orders SELECT id, concat('r', id % 500), id FROM range(1000)")
    tr.refresh_all()
    tr.publish("totals", "lake", change_data_feed="true")
    with spark_trickle.connect(tmp_path / "next") as following:
        following.attach_source("lake", "delta", path=str(lake))
        following.sql("CREATE TABLE totals FROM SOURCE lake.totals")
        following.sql("CREATE STREAM TABLE best AS SELECT max(total) AS most, count(*) AS n FROM totals")
        tr.sql("UPDATE orders SET amount = 10000 WHERE region = 'r1' AND id = 1")
        tr.refresh_all()
        report = following.sync("lake")
        assert (report.rows_inserted, report.rows_deleted) == (1, 1)
        assert following.refresh("best").action.value == "DIFFERENTIAL"
        assert following.table("best").collect()[0].most == 10501
        assert Counter(map(tuple, following.table("totals").collect())) == read_there(lake, "totals")


def test_a_feed_that_somebody_else_switched_on_is_kept(tr: Trickle, lake: Path) -> None:
    publish_all(tr)
    for name in QUERIES:
        DeltaTable(lake / name).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    for statement in CHANGES.values():
        versions = {name: DeltaTable(lake / name).version() + 1 for name in QUERIES}
        tr.sql(statement)
        tr.refresh_all()
        for name, version in versions.items():
            check(tr, lake, name)
            told = read_feed(lake, name, version) if DeltaTable(lake / name).version() >= version else {}
            assert len(told) <= 16 or statement == CHANGES["many"]


@pytest.mark.slow
def test_unpublish_and_publish_again(tr: Trickle, lake: Path) -> None:
    publish_all(tr)
    tr.sql("UNPUBLISH STREAM TABLE totals")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    tr.sql("PUBLISH STREAM TABLE totals TO SOURCE lake AS totals")
    check(tr, lake, "totals")
    tr.sql("UNPUBLISH STREAM TABLE totals DROP TABLE")
    assert not (lake / "totals").exists()


@pytest.mark.shows("delta", "wider types are followed")
def test_a_wider_type_is_followed(tr: Trickle, lake: Path) -> None:
    tr.sql("CREATE STREAM TABLE ids AS SELECT id FROM orders")
    tr.sql("PUBLISH STREAM TABLE ids TO SOURCE lake")
    tr.sql("SET trickle.block_source_ddl = false")
    tr.sql("ALTER TABLE orders ALTER COLUMN id TYPE BIGINT")
    tr.sql("INSERT INTO orders VALUES (10000000000, 'x', 1)")
    tr.refresh_all()
    check(tr, lake, "ids")


REFUSED = [
    ("PUBLISH STREAM TABLE totals TO SOURCE lake AS theirs", "did not create it"),
    ("PUBLISH STREAM TABLE totals TO SOURCE lake AS a.b", "too many parts"),
    ("PUBLISH STREAM TABLE spans TO SOURCE lake", "the type of column"),
    ("PUBLISH STREAM TABLE totals TO SOURCE one AS x", "single Delta table"),
    ("PUBLISH STREAM TABLE bag TO SOURCE lake OPTIONS (change_data_feed 'true')", "no key tells apart"),
    ("PUBLISH STREAM TABLE bag TO SOURCE lake OPTIONS (change_feed 'true')", "no option"),
]


def test_what_is_refused(tr: Trickle, lake: Path) -> None:
    tr.attach_source("one", "delta", path=str(lake / "theirs"))
    tr.sql("CREATE STREAM TABLE spans AS SELECT make_dt_interval(id) AS i FROM orders")
    for statement, words in REFUSED:
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in caught.value.message, statement
    with pytest.raises(TargetExistsError):
        tr.sql("PUBLISH STREAM TABLE bag TO SOURCE lake AS theirs")


@pytest.mark.slow
def test_a_copy_of_the_warehouse_does_not_write(tr: Trickle, lake: Path, tmp_path: Path) -> None:
    publish_all(tr)
    tr.close()
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    with spark_trickle.connect(tmp_path / "copy") as copy:
        copy.sql(CHANGES["insert"])
        with pytest.raises(TrickleError, match="is written by the copy of this warehouse"):
            copy.refresh_all()
        copy.push("lake", take_over=True)
        for name in QUERIES:
            check(copy, lake, name)


_REFRESH = """
import sys, spark_trickle
with spark_trickle.connect(sys.argv[1]) as tr:
    tr.refresh_all()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", ["before_target_commit", "after_target_commit"])
@pytest.mark.shows("delta", "a process killed while it publishes")
def test_a_killed_process_neither_loses_nor_doubles(
    tr: Trickle, lake: Path, tmp_path: Path, point: str
) -> None:
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    tr.sql(CHANGES["update"])
    tr.close()
    done = subprocess.run(
        [sys.executable, "-c", _REFRESH, str(tmp_path / "warehouse")],
        env={**os.environ, "SPARK_TRICKLE_CRASH_POINT": point},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -9
    with spark_trickle.connect(tmp_path / "warehouse") as again:
        again.push("lake")
        for name in QUERIES:
            check(again, lake, name)


_PUBLISH = """
import sys, spark_trickle
with spark_trickle.connect(sys.argv[1]) as tr:
    tr.sql("PUBLISH STREAM TABLE bag TO SOURCE lake")
"""


@pytest.mark.slow
@pytest.mark.parametrize("point", ["before_target_commit", "after_target_commit"])
def test_a_process_that_is_killed_while_it_publishes(
    tr: Trickle, lake: Path, tmp_path: Path, point: str
) -> None:
    subprocess.run(
        [sys.executable, "-c", _PUBLISH, str(tmp_path / "warehouse")],
        env={**os.environ, "SPARK_TRICKLE_CRASH_POINT": point},
        capture_output=True,
        timeout=120,
    )
    tr.sql("PUBLISH STREAM TABLE bag TO SOURCE lake")
    check(tr, lake, "bag")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check(tr, lake, "bag")


class Walk:
    """A random walk over what users, other writers and other machines do."""

    def __init__(self, lake: Path, place: Path, seed: int) -> None:
        self.lake, self.place, self.random = lake, place, random.Random(seed)
        self.tr = spark_trickle.connect(place, settings={"max_driver_rows": self.random.choice([5, 100_000])})
        fill(self.tr, lake)
        publish_all(self.tr)
        if self.random.random() < 0.5:
            self.publish_again("true")

    def change(self) -> None:
        self.tr.sql(self.random.choice(list(CHANGES.values())))

    def insert(self) -> None:
        self.tr.sql(
            f"INSERT INTO orders VALUES ({self.random.randrange(9)}, 'abc', {self.random.randrange(3)})"
        )

    def refresh(self) -> None:
        try:
            self.tr.refresh_all()
        except RepairNeededError:
            self.repair()

    def repair(self) -> None:
        for name in QUERIES:
            self.tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")

    def compact(self) -> None:
        DeltaTable(self.lake / "bag").optimize.compact()

    def disturb(self) -> None:
        DeltaTable(self.lake / "bag").delete("amount = 1")

    def vacuum_there(self) -> None:
        DeltaTable(self.lake / "bag").vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False
        )

    def vacuum_here(self) -> None:
        self.tr.sql("VACUUM RETAIN 0 HOURS")

    def checkpoint(self) -> None:
        DeltaTable(self.lake / "bag").create_checkpoint()

    def publish_again(self, feed: str = "false") -> None:
        self.tr.sql("UNPUBLISH STREAM TABLE totals")
        self.tr.sql(
            f"PUBLISH STREAM TABLE totals TO SOURCE lake AS totals OPTIONS (change_data_feed '{feed}')"
        )

    def reconnect(self) -> None:
        self.tr.close()
        self.tr = spark_trickle.connect(self.place)

    STEPS = (
        change,
        change,
        insert,
        refresh,
        refresh,
        refresh,
        repair,
        compact,
        disturb,
        vacuum_there,
        vacuum_here,
        checkpoint,
        publish_again,
        reconnect,
    )

    def run(self, steps: int) -> None:
        try:
            for _ in range(steps):
                self.random.choice(self.STEPS)(self)
            self.refresh()
            self.repair()
            for name in QUERIES:
                check(self.tr, self.lake, name)
        finally:
            self.tr.close()


@pytest.mark.parametrize("seed", [1])
def test_a_short_walk(lake: Path, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.shows("delta", "a random walk over published tables")
def test_a_walk(lake: Path, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(50)

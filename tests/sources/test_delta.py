"""Delta tables in place: written by the `deltalake` library, which also says what every version holds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import spark_trickle
from spark_trickle.errors import ChangesUnknownError, InUseError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import duckdb_client, rows
from tests.sources.lakes import (
    FIRST,
    KILLS,
    QUERIES,
    SCHEMA,
    LakeWalk,
    check_change,
    check_exact,
    check_killed_syncs,
    check_two_syncs,
    count_rows,
    define_streams,
    orders,
    shops,
)


@dataclass
class Lake:
    """A folder of Delta tables that an application writes."""

    path: Path

    def table(self, name: str = "orders") -> DeltaTable:
        return DeltaTable(self.path / name)

    def write(self, rows: pa.Table, name: str = "orders", mode: str = "append", **options: Any) -> None:
        write_deltalake(self.path / name, rows, mode=mode, **options)

    def record_changes(self) -> None:
        """From now on orders has a change data feed."""
        self.table().alter.set_table_properties({"delta.enableChangeDataFeed": "true"})

    def append(self, *values: tuple[Any, ...]) -> None:
        self.write(orders(list(values)))

    def merge(self, *values: tuple[Any, ...]) -> None:
        merging = self.table().merge(orders(list(values)), "t.id = s.id", source_alias="s", target_alias="t")
        merging.when_matched_update_all().when_not_matched_insert_all().execute()

    def read(self, name: str = "orders") -> pa.Table:
        return self.table(name).to_pyarrow_table()

    def rows(self, name: str = "orders") -> Counter[tuple[Any, ...]]:
        return count_rows(self.read(name))

    def attach(self, tr: Trickle) -> None:
        tr.sql(f"ATTACH SOURCE lake TYPE delta OPTIONS (path '{self.path}')")

    def follow(self, tr: Trickle) -> None:
        self.attach(tr)
        tr.sql("CREATE TABLE orders FROM SOURCE lake.orders")
        tr.sql("CREATE TABLE shops FROM SOURCE lake.shops")
        define_streams(tr)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.write(orders(FIRST))
    made.write(shops(("a", "Ann"), ("b", "Ben"), ("b", "Bo")), "shops")
    return made


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


def nothing(lake: Lake) -> None: ...


def overwrite(lake: Lake) -> None:
    lake.write(orders([(1, "a", 10), (8, "c", 5)]), mode="overwrite")


def compact(lake: Lake) -> None:
    lake.append((4, "b", 1))
    lake.table().optimize.compact()


def write_checkpoint(lake: Lake) -> None:
    lake.append((4, "b", 1))
    lake.table().create_checkpoint()


def restore(lake: Lake) -> None:
    lake.append((4, "b", 1))
    lake.table().delete("id = 1")
    lake.table().restore(0)


def change_several_times(lake: Lake) -> None:
    lake.append((4, "b", 1), (5, "c", 2))
    lake.table().update(updates={"amount": "amount + 1"}, predicate="id = 4")
    lake.table().delete("id IN (1, 5)")


Operation = Callable[[Lake], None]
# What an application did, and how many rows came and went by that.
OPERATIONS: dict[str, tuple[Operation, tuple[int, int]]] = {
    "append": (lambda lake: lake.append((4, "b", 1), (4, "b", 1)), (2, 0)),
    "update": (lambda lake: lake.table().update(updates={"amount": "5"}, predicate="id = 1"), (1, 1)),
    "delete": (lambda lake: lake.table().delete("id = 3"), (0, 2)),
    "delete everything": (lambda lake: lake.table().delete(), (0, 4)),
    "merge": (lambda lake: lake.merge((2, "a", 7), (9, "c", 1)), (2, 1)),
    "overwrite": (overwrite, (1, 3)),
    "no rows": (lambda lake: lake.write(SCHEMA.empty_table()), (0, 0)),
    "nothing": (nothing, (0, 0)),
    "compact": (lambda lake: lake.table().optimize.compact(), (0, 0)),
    "checkpoint": (write_checkpoint, (1, 0)),
    "restore": (restore, (0, 0)),
    "append and compact": (compact, (1, 0)),
    "texts with other ends of lines": (lambda lake: lake.append((4, "a\u2028b\x85c", 1)), (1, 0)),
    "append, update, delete": (change_several_times, (1, 1)),
}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("feed", [False, True], ids=["", "with a change data feed"])
@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.shows("delta", "inserted rows", "updated and deleted rows", "compaction costs nothing")
def test_an_operation_is_followed(tr: Trickle, lake: Lake, name: str, feed: bool) -> None:
    if feed:
        lake.record_changes()
    lake.follow(tr)
    operation, expected = OPERATIONS[name]
    operation(lake)
    check_change(tr, lake, "lake", expected)


@pytest.mark.shows("delta", "in place, without a copy")
def test_only_changed_rows_of_rewritten_files_are_stored(tr: Trickle, lake: Lake, tmp_path: Path) -> None:
    lake.append(*((n, "a", n) for n in range(10, 1_000)))
    lake.attach(tr)
    tr.sql("CREATE TABLE orders FROM SOURCE lake.orders")

    def stored() -> int:
        files = (tmp_path / "warehouse" / "data" / "tables").rglob("*.parquet")
        return sum(pq.read_metadata(f).num_rows for f in files)

    lake.append((4, "b", 1))
    lake.table().delete("id = 1")
    tr.sync("lake")
    assert stored() == 1  # the rest of the file was written again
    lake.table().optimize.compact()
    tr.sync("lake")
    assert stored() == 1
    assert Counter(map(tuple, tr.table("orders").collect())) == lake.rows()


@pytest.mark.shows("delta", "all tables in one snapshot")
def test_all_tables_change_in_one_snapshot(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    lake.append((4, "b", 1))
    lake.write(shops(("c", "Cleo")), "shops")
    before = tr.snapshot
    report = tr.sync("lake")
    assert (report.snapshot, tr.snapshot) == (before + 1, before + 1)
    assert report.tables == {"main.orders": (1, 0), "main.shops": (1, 0)}
    tr.sync("lake")
    assert tr.snapshot == before + 1  # nothing new, no snapshot


@pytest.mark.shows("delta", "partitions", "nested types, decimals, timestamps with and without time zone")
def test_partitions_and_types(tr: Trickle, lake: Lake) -> None:
    instant = datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
    values = pa.table(
        {
            "day": pa.array([date(2024, 1, 1), date(2024, 1, 2), None], pa.date32()),
            "kind": pa.array(["x y", "a=b/c", None]),
            "price": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
            "at": pa.array([instant, None, instant], pa.timestamp("us", tz="UTC")),
            "local": pa.array([instant.replace(tzinfo=None)] * 3, pa.timestamp("us")),
            "tags": pa.array([["a", None], [], None], pa.list_(pa.string())),
            "point": pa.array([{"x": 1, "y": "p"}, None, {"x": None, "y": None}]),
            "raw": pa.array([b"\x00\x01", b"", None]),
            "ratio": pa.array([float("nan"), -0.0, 1.5]),
            "ok": pa.array([True, False, None]),
        }
    )
    lake.write(values, "typed", partition_by=["day", "kind"])
    lake.attach(tr)
    tr.sql("CREATE TABLE typed FROM SOURCE lake.typed")
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM typed")
    lake.write(values.slice(0, 2), "typed", partition_by=["day", "kind"])
    lake.table("typed").delete("price = -0.01")
    tr.sync("lake")
    tr.refresh("kept")
    expected = rows(
        tr.spark.createDataFrame(pa.concat_tables([values, values.slice(0, 2)])).where(
            "price IS NULL OR price > 0"
        )
    )
    assert repr(rows(tr.table("typed"))) == repr(expected)  # NaN is not equal to itself
    assert repr(rows(tr.table("kept"))) == repr(expected)


@pytest.mark.slow
@pytest.mark.shows("delta", "new columns")
def test_new_columns_come_with_the_next_sync(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    wider = orders([(4, "b", 1)]).append_column("note", pa.array(["new"]))
    lake.write(wider, schema_mode="merge")
    tr.sync("lake")
    assert rows(tr.sql("SELECT id, note FROM orders WHERE id > 2")) == [(3, None), (3, None), (4, "new")]
    tr.refresh_all()
    assert tr.table("copied").count() == 5


def test_chosen_columns_are_widened_when_a_query_needs_more(tr: Trickle, lake: Lake) -> None:
    lake.write(orders(FIRST), "parted", partition_by=["region"])
    lake.attach(tr)
    tr.sql("CREATE TABLE parted FROM SOURCE lake.parted (id)")
    assert tr.table("parted").columns == ["id"]
    tr.sql("CREATE STREAM TABLE regions AS SELECT region, count(*) AS n FROM parted GROUP BY region")
    assert rows(tr.table("regions")) == [("a", 1), ("b", 1), (None, 2)]


@pytest.mark.slow
@pytest.mark.shows("delta", "a table that was made again is noticed")
def test_a_table_made_again_is_compared(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    shutil.move(lake.path / "orders", lake.path.parent / "old")
    lake.write(orders([(7, "z", 1)]))
    report = tr.sync("lake")
    assert "created again" in report.resynced["main.orders"]
    reports = tr.refresh_all()
    assert any("is gone" in r.reason for r in reports)
    check_exact(tr, lake)


@pytest.mark.shows("delta", "history that is gone is noticed, never guessed")
def test_old_versions_that_are_gone_are_not_guessed(tr: Trickle, lake: Lake) -> None:
    """VACUUM there deleted files that a rewrite replaced before we looked."""
    lake.follow(tr)
    before = tr.snapshot
    lake.table().update(updates={"amount": "amount * 2"})
    lake.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    report = tr.sync("lake")
    assert "is gone" in report.resynced["main.orders"]
    reports = {r.name: r for r in tr.refresh_all()}
    assert reports["main.grouped"].action.value == "REINITIALIZE"
    assert "is gone" in reports["main.grouped"].reason
    check_exact(tr, lake)
    with pytest.raises(ChangesUnknownError, match="are unknown"):
        tr.changes("orders", before)
    lake.append((4, "b", 1))
    tr.sync("lake")
    assert {r.action.value for r in tr.refresh_all()} <= {"DIFFERENTIAL", "FULL", "NO_DATA"}
    check_exact(tr, lake)


def test_a_refresh_that_comes_too_late_computes_everything(tr: Trickle, lake: Lake) -> None:
    """The change is known, but the files of the version before, which a join needs, are gone."""
    lake.follow(tr)
    lake.table().update(updates={"amount": "amount * 2"}, predicate="id = 1")
    tr.sync("lake")
    lake.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    tr.refresh_all()
    check_exact(tr, lake)


def test_an_old_snapshot_needs_the_old_files(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    before = tr.snapshot
    lake.table().delete("id = 1")
    tr.sync("lake")
    assert tr.table("orders", before).count() == 4
    lake.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(TrickleError, match="is gone"):
        tr.table("orders", before).collect()


def test_a_dropped_table_does_not_stop_the_others(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    shutil.rmtree(lake.path / "shops")
    lake.append((4, "b", 1))
    report = tr.sync("lake")
    assert report.problems == {"main.shops": "it was dropped in the source"}
    assert report.tables == {"main.orders": (1, 0)}
    status = {r["mirror"]: r for r in tr.answer("source_status").dicts()}
    assert status["main.shops"]["status"] == "SCHEMA_CHANGED"
    assert status["main.orders"]["capture"] == "IN PLACE"


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def leave_out_a_field(path: Path) -> None:
    path.write_text('{"add": {"size": 1}}\n')


def write_no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize("damage", [cut_off, leave_out_a_field, write_no_text])
def test_a_damaged_log_stops_one_table_until_it_is_mended(
    tr: Trickle, lake: Lake, damage: Callable[[Path], None]
) -> None:
    lake.follow(tr)
    (lake.path / "unborn" / "_delta_log").mkdir(parents=True)
    lake.append((4, "b", 1))
    lake.write(shops(("c", "Cleo")), "shops")
    commit = lake.path / "orders" / "_delta_log" / f"{lake.table().version():020}.json"
    whole = commit.read_bytes()
    damage(commit)
    report = tr.sync("lake")
    assert report.tables == {"main.shops": (1, 0)}
    assert 'the table "orders" of the source "lake" cannot be read' in report.problems["main.orders"]
    assert "cannot be read" in str(tr.answer("source_status").dicts())
    commit.write_bytes(whole)
    tr.sync("lake")
    tr.refresh_all()
    check_exact(tr, lake)


def test_one_table_is_a_source_too(tr: Trickle, lake: Lake) -> None:
    tr.attach_source("one", "delta", path=f"file://{lake.path}/orders")
    tr.sql("CREATE TABLE o FROM SOURCE one.orders")
    assert tr.table("o").count() == 4


@pytest.mark.slow
def test_many_tables_at_once(tr: Trickle, lake: Lake) -> None:
    lake.attach(tr)
    done = tr.add_tables("lake", "or*, shop?")
    assert done.rows_inserted == 7
    assert tr.add_tables("lake", "*").rows_inserted == 0


def edit_protocol(lake: Lake, **protocol: Any) -> None:
    path = lake.path / "orders" / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] |= protocol
    path.write_text("\n".join(json.dumps(line) for line in lines))


@pytest.mark.parametrize(
    ("protocol", "words"),
    [
        (
            {"minReaderVersion": 3, "readerFeatures": ["variantType", "deletionVectors"]},
            "the feature variantType",
        ),
        ({"minReaderVersion": 9}, "version 9 of the reader protocol"),
    ],
)
@pytest.mark.shows("delta", "what cannot be read exactly is refused by name")
def test_what_we_do_not_know_is_refused_by_name(
    tr: Trickle, lake: Lake, protocol: dict[str, Any], words: str
) -> None:
    edit_protocol(lake, **protocol)
    lake.attach(tr)
    with pytest.raises(TrickleError, match=words):
        tr.sql("CREATE TABLE orders FROM SOURCE lake.orders")


REFUSED = [
    ("INSERT INTO orders VALUES (1, 'a', 2)", "mirror"),
    ("OPTIMIZE orders", "belong to a source"),
    ("DETACH SOURCE lake", "read in place"),
    ("CREATE TABLE twice FROM SOURCE lake.orders", "already exists"),
    ("CREATE TABLE x FROM SOURCE lake.nothing", "nothing"),
    ("CREATE TABLE x FROM SOURCE lake", "does not name a table"),
    ("CREATE TABLE x FROM SOURCE lake.spare (nothing)", "nothing"),
    ("CREATE TABLE x FROM SOURCE lake.spare OPTIONS (as_text 'name')", "as_text"),
    ("ATTACH SOURCE b TYPE delta", "needs the path"),
    ("ATTACH SOURCE b TYPE delta OPTIONS (pfad '/x')", 'no option "pfad"'),
    ("ATTACH SOURCE b TYPE delta OPTIONS (path '/not/there')", "cannot be read"),
    ("ATTACH SOURCE b TYPE delta OPTIONS (path 'ftp://host/x')", 'addresses that begin with "ftp://"'),
    ("ATTACH SOURCE b TYPE detla OPTIONS (path '/x')", "The types are postgres, delta"),
    ("ATTACH SOURCE lake TYPE delta OPTIONS (path '/x')", "already exists"),
    ("PUBLISH STREAM TABLE copied TO SOURCE lake AS x.y", "too many parts"),
]


def test_what_is_refused(tr: Trickle, lake: Lake) -> None:
    lake.write(shops(("a", "Ann")), "spare")
    lake.follow(tr)
    for statement, words in REFUSED:
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in f"{caught.value.message} {caught.value.hint}", statement


@pytest.mark.shows("delta", "a change data feed")
def test_a_change_data_feed_spares_reading_files(tr: Trickle, lake: Lake) -> None:
    lake.append(*((n, "a", n) for n in range(10, 1_000)))
    lake.record_changes()
    lake.follow(tr)
    lake.table().update(updates={"amount": "amount + 1"}, predicate="id = 500")
    for file in lake.table().file_uris():
        Path(file).rename(f"{file}.hidden")
    report = tr.sync("lake")
    assert (report.rows_inserted, report.rows_deleted, report.resynced) == (1, 1, {})
    assert [r.amount for r in tr.changes("orders", report.snapshot - 1).orderBy("amount").collect()] == [
        500,
        501,
    ]


@pytest.mark.slow
def test_a_type_we_lack_can_be_skipped(tr: Trickle, lake: Lake) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    lake.write(pa.table({"id": [1], "extra": pa.array([[("a", 1)]], kind)}), "mapped")
    lake.attach(tr)
    with pytest.raises(TrickleError, match="MAP"):
        tr.sql("CREATE TABLE mapped FROM SOURCE lake.mapped")
    tr.sql("CREATE TABLE mapped FROM SOURCE lake.mapped OPTIONS (skip 'extra')")
    assert rows(tr.table("mapped")) == [(1,)]


def test_duckdb_is_told_to_read_it_there(tr_sqlite: Trickle, lake: Lake, tmp_path: Path) -> None:
    lake.attach(tr_sqlite)
    tr_sqlite.sql("CREATE TABLE orders FROM SOURCE lake.orders")
    with duckdb_client() as client:
        client.execute(f"ATTACH 'ducklake:sqlite:{tmp_path}/warehouse/catalog.sqlite' AS lake (READ_ONLY)")
        for query in (
            "SELECT * FROM lake.orders",
            "SELECT count(*) FROM lake.orders",
            "SELECT 1 FROM lake.orders",
        ):
            with pytest.raises(duckdb.Error, match="read in place from a source; read it there"):
                client.execute(query).fetchall()


def test_detach_and_attach_again(tr: Trickle, lake: Lake) -> None:
    lake.follow(tr)
    with pytest.raises(InUseError):
        tr.detach_source("lake", cascade=True)
    for name in QUERIES:
        tr.sql(f"DROP STREAM TABLE {name}")
    tr.detach_source("lake", cascade=True)
    assert lake.rows()  # nothing of the source was touched
    lake.follow(tr)
    check_exact(tr, lake)


class Walk(LakeWalk):
    def append(self) -> None:
        self.lake.append(self.row())

    def append_many(self) -> None:
        self.lake.append(*(self.row() for _ in range(self.random.choice([50, 3_000]))))

    def update(self) -> None:
        self.lake.table().update(updates={"amount": "id * 3"}, predicate=f"id = {self.random.randrange(8)}")

    def delete(self) -> None:
        self.lake.table().delete(f"id = {self.random.randrange(8)}")

    def merge(self) -> None:
        found = {r[0]: r for r in (self.row() for _ in range(3))}
        self.lake.merge(*found.values())

    def overwrite(self) -> None:
        self.lake.write(orders([self.row() for _ in range(5)]), mode="overwrite")

    def compact(self) -> None:
        self.lake.table().optimize.compact()

    def restore(self) -> None:
        version = max(0, self.lake.table().version() - 2)
        with suppress(DeltaError, OSError):  # its files or its log may be gone
            self.lake.table().restore(version)

    def checkpoint(self) -> None:
        self.lake.table().create_checkpoint()

    def clean_log(self) -> None:
        self.lake.table().alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
        self.lake.table().create_checkpoint()
        self.lake.table().cleanup_metadata()

    def vacuum(self) -> None:
        self.lake.table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def make_again(self) -> None:
        shutil.rmtree(self.lake.path / "orders")
        self.lake.append(*(self.row() for _ in range(4)))

    def change_shops(self) -> None:
        self.lake.write(shops((self.random.choice("abc"), f"N{self.random.randrange(9)}")), "shops")

    steps = (
        *(append, append, append_many, update, update, delete, delete, merge, merge, overwrite),
        *(compact, compact, restore, checkpoint, clean_log, vacuum, make_again, change_shops),
    )

    def run(self, count: int) -> None:
        if self.random.random() < 0.5:
            self.lake.record_changes()
        super().run(count)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("point", KILLS)
@pytest.mark.shows("delta", "a process killed at every step of a sync")
def test_a_process_killed_in_the_middle_of_a_sync(
    tr: Trickle, lake: Lake, tmp_path: Path, point: str
) -> None:
    lake.follow(tr)

    def change() -> None:
        number = lake.table().version()
        lake.append((number + 10, "b", number), (2, "b", 20))
        lake.merge((1, "a", number), (number + 20, "c", 1))

    check_killed_syncs(tr, change, lake, "lake", point, tmp_path / "warehouse")


@pytest.mark.shows("delta", "two processes at once")
def test_two_that_sync_at_once_land_a_change_once(tr: Trickle, lake: Lake, tmp_path: Path) -> None:
    lake.follow(tr)

    def change() -> None:
        number = lake.table().version()
        lake.append((number + 10, "b", number), (number + 11, "b", 20))
        lake.merge((1, "a", number), (number + 20, "c", 1))

    check_two_syncs(tr, change, lake, "lake", tmp_path / "warehouse")


@pytest.mark.parametrize("seed", [1])
def test_a_short_walk(lake: Lake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.shows("delta", "a random walk over operations")
def test_a_walk(lake: Lake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(60)

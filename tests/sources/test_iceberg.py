"""Iceberg tables in place: written with `pyiceberg`, which also says what every snapshot holds."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform
from pyiceberg.types import (
    DoubleType,
    IcebergType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimeType,
    UUIDType,
)

import spark_trickle
from spark_trickle.errors import ChangesUnknownError, SourceLostError, TrickleError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.sources.iceberg_tables import (
    Commit,
    IcebergLake,
    compact,
    describe_file,
    list_data_files,
    write_data_file,
    write_position_deletes,
    write_vector,
)
from tests.sources.lakes import (
    FIRST,
    KILLS,
    LakeWalk,
    check_change,
    check_exact,
    check_killed_syncs,
    check_two_syncs,
    orders,
    shops,
)


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    made = IcebergLake(tmp_path / "lake")
    made.create(orders(FIRST))
    made.create(shops(("a", "Ann"), ("b", "Ben"), ("b", "Bo")), "shops")
    return made


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


def nothing(lake: IcebergLake) -> None: ...


def compact_two(lake: IcebergLake) -> None:
    lake.append((4, "b", 1))
    compact(lake.table())


def change_several_times(lake: IcebergLake) -> None:
    lake.append((4, "b", 1), (5, "c", 2))
    lake.table().delete(EqualTo("id", 4))
    lake.upsert((1, "a", 11), (6, "c", 1))


Change = Callable[[IcebergLake], None]
# What an application did, and how many rows came and went by that.
OPERATIONS: dict[str, tuple[Change, tuple[int, int]]] = {
    "append": (lambda lake: lake.append((4, "b", 1), (4, "b", 1)), (2, 0)),
    "delete some rows": (lambda lake: lake.table().delete(EqualTo("id", 3)), (0, 2)),
    "delete everything": (lambda lake: lake.table().delete(), (0, 4)),
    "overwrite": (
        lambda lake: lake.table().overwrite(lake.align(orders([(1, "a", 10), (8, "c", 5)]))),
        (2, 4),
    ),
    "overwrite some rows": (
        lambda lake: lake.table().overwrite(lake.align(orders([(1, "a", 7)])), EqualTo("id", 1)),
        (1, 1),
    ),
    "upsert": (lambda lake: lake.upsert((2, "a", 7), (9, "c", 1)), (2, 1)),
    "no rows": (lambda lake: lake.table().append(orders(FIRST).slice(0, 0)), (0, 0)),
    "nothing": (nothing, (0, 0)),
    "compact": (lambda lake: compact(lake.table()), (0, 0)),
    "append and compact": (compact_two, (1, 0)),
    "append, delete, upsert": (change_several_times, (3, 1)),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", list(OPERATIONS))
@pytest.mark.shows(
    "iceberg",
    "in place, without a copy",
    "inserted rows",
    "updated and deleted rows",
    "compaction costs nothing",
)
def test_an_operation_is_followed(tr: Trickle, lake: IcebergLake, name: str) -> None:
    lake.follow(tr)
    check_exact(tr, lake)
    operation, expected = OPERATIONS[name]
    operation(lake)
    check_change(tr, lake, "ice", expected)


def follow_one(tr: Trickle, lake: IcebergLake, name: str) -> None:
    lake.attach(tr)
    tr.sql(f"CREATE TABLE {name} FROM SOURCE ice.shop.{name}")
    tr.sql(f"CREATE STREAM TABLE kept AS SELECT * FROM {name}")


def check_table(tr: Trickle, lake: IcebergLake, name: str) -> None:
    expected = Counter(repr(plain(row)) for row in lake.read(name).to_pylist())
    tr.refresh_all()
    for mine in (name, "kept"):
        found = tr.table(mine)
        # NaN is not equal to itself, but its text is.
        assert Counter(repr(plain(r.asDict(recursive=True))) for r in found.collect()) == expected, mine


def plain(value: Any) -> Any:
    """A value in one form, whether pyarrow gives it or Spark."""
    match value:
        case dict():
            return {k: plain(v) for k, v in value.items()}
        case list():
            return [plain(v) for v in value]
        case bytearray():
            return bytes(value)
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone().replace(tzinfo=None)  # Spark gives the time of this machine
    return value


@pytest.mark.shows("iceberg", "new columns", "renamed and dropped columns", "widened types")
def test_columns_are_found_by_their_ids(tr: Trickle, lake: IcebergLake) -> None:
    lake.attach(tr)
    tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")
    tr.sql("CREATE STREAM TABLE regions AS SELECT region, count(*) AS n FROM orders GROUP BY region")
    with lake.table().update_schema() as change:
        change.rename_column("region", "area")
    with lake.table().update_schema() as change:
        change.add_column("region", LongType())  # another column of the old name
    tr.sync("ice")
    assert tr.table("orders").columns == ["id", "area", "amount", "region"]
    with lake.table().update_schema() as change:
        change.delete_column("amount")
    with lake.table().update_schema() as change:
        change.add_column("amount", StringType())
    lake.table().append(pa.table({"id": [4], "area": ["b"], "region": [7], "amount": ["new"]}))
    assert tr.sync("ice").tables == {"main.orders": (1, 0)}
    assert Counter(map(tuple, tr.table("orders").collect())) == lake.rows()
    # What old files have under these names is not asked.
    assert rows(tr.sql("SELECT id FROM orders WHERE region = 7 AND amount = 'new'")) == [(4,)]
    assert rows(tr.sql("SELECT id FROM orders WHERE region IS NULL AND area = 'a'")) == [(1,)]
    tr.refresh("regions")
    assert rows(tr.table("regions")) == [("a", 1), ("b", 2), (None, 2)]


@pytest.mark.slow
def test_a_filter_does_not_judge_old_files_by_names(tr: Trickle, lake: IcebergLake) -> None:
    """The first file has a column of this name without nulls: another one."""
    lake.attach(tr)
    tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")
    with lake.table().update_schema() as change:
        change.rename_column("id", "key")
    with lake.table().update_schema() as change:
        change.add_column("id", LongType())
    lake.table().append(pa.table({"key": [4], "region": ["b"], "amount": [7], "id": [1]}))
    tr.sync("ice")
    assert tr.sql("SELECT * FROM orders WHERE id IS NULL").count() == 4
    assert rows(tr.sql("SELECT key FROM orders WHERE id = 1")) == [(4,)]


POINT = pa.struct(
    [("x", pa.int32()), ("tags", pa.list_(pa.struct([("k", pa.string()), ("v", pa.float32())])))]
)


def test_parts_of_nested_columns_are_found_by_their_ids(tr: Trickle, lake: IcebergLake) -> None:
    points = [{"x": 1, "tags": [{"k": "a", "v": 0.5}, None]}, None, {"x": None, "tags": []}]
    lake.create(pa.table({"id": [1, 2, 3], "point": pa.array(points, POINT)}), "nested")
    follow_one(tr, lake, "nested")
    check_table(tr, lake, "nested")
    with lake.table("nested").update_schema() as change:
        change.rename_column("point.x", "y")
        change.rename_column("point.tags.element.k", "key")
        change.update_column("point.x", LongType())
        change.update_column("point.tags.element.v", DoubleType())
        change.add_column(("point", "z"), StringType())
    tr.sync("ice")
    tr.sql("DROP STREAM TABLE kept")
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM nested")
    check_table(tr, lake, "nested")
    lake.table("nested").delete(EqualTo("id", 3))  # the file is written again, with other names
    assert tr.sync("ice").tables == {"main.nested": (0, 1)}
    check_table(tr, lake, "nested")
    with lake.table("nested").update_schema() as change:
        change.delete_column("point.y")
    with lake.table("nested").update_schema() as change:
        change.add_column(("point", "y"), LongType())  # no value of the one before
    with lake.table("nested").update_schema() as change:
        change.move_first("point.y")
    tr.sync("ice")
    with pytest.raises(SourceLostError, match="another column"):
        tr.refresh("kept")
    tr.sql("DROP STREAM TABLE kept")
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM nested")
    assert all(r.point is None or r.point.y is None for r in tr.table("nested").collect())
    check_table(tr, lake, "nested")


INSTANT = dt.datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=dt.UTC)
TYPED = pa.table(
    {
        "day": pa.array([dt.date(2024, 1, 1), dt.date(1969, 12, 31), None], pa.date32()),
        "kind": pa.array(["x y", "a=b/c%20 a long text with more letters", None]),
        "price": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
        "exact": pa.array([Decimal(-(10**37)), Decimal(10**37 + 1), None], pa.decimal128(38, 0)),
        "at": pa.array([INSTANT, None, INSTANT], pa.timestamp("us", tz="UTC")),
        "local": pa.array([INSTANT.replace(tzinfo=None)] * 3, pa.timestamp("us")),
        "small": pa.array([1, -(2**31), None], pa.int32()),
        "raw": pa.array([b"\x00\x01", b"", None]),
        "fixed": pa.array([b"abcd", None, b"\x00\x00\x00\x00"], pa.binary(4)),
        "ratio": pa.array([float("nan"), -0.0, 1.5]),
        "ok": pa.array([True, False, None]),
    }
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("transform", ["identity", "others", "none"])
@pytest.mark.shows("iceberg", "partitions", "nested types, decimals, timestamps with and without time zone")
def test_partitions_and_types(tr: Trickle, lake: IcebergLake, transform: str) -> None:
    made = lake.catalog.create_table("shop.typed", schema=TYPED.schema, properties=lake.formats)
    with made.update_spec() as change:
        if transform == "identity":
            for name in ("day", "kind", "price", "ok"):
                change.add_field(name, IdentityTransform())
        elif transform == "others":
            change.add_field("kind", BucketTransform(4))
            change.add_field("at", DayTransform())
            change.add_field("small", TruncateTransform(10))
    made.append(TYPED)
    follow_one(tr, lake, "typed")
    check_table(tr, lake, "typed")
    with lake.table("typed").update_spec() as change:  # new files are partitioned in another way
        change.add_field("local", DayTransform())
    made = lake.table("typed")
    made.append(TYPED.slice(0, 2))
    assert tr.sync("ice").tables == {"main.typed": (2, 0)}
    check_table(tr, lake, "typed")
    lake.table("typed").delete(EqualTo("price", Decimal("-0.01")))
    assert tr.sync("ice").tables == {"main.typed": (0, 1)}
    check_table(tr, lake, "typed")
    for test in (
        "day < DATE'2000-01-01'",
        "kind = 'a=b/c%20 a long text with more letters'",
        "exact > 5",
        "small < 0",
    ):
        assert tr.sql(f"SELECT * FROM typed WHERE {test}").count() == 2, test


def test_rows_deleted_by_their_numbers(tr: Trickle, lake: IcebergLake) -> None:
    lake.table().append(orders([(n, "a", n) for n in range(10, 200)]))
    lake.follow(tr)
    table = lake.table()
    big, small = sorted(list_data_files(table), key=lambda f: -f.record_count)
    deletes = write_position_deletes(table, [(big.file_path, 0), (big.file_path, 7), (small.file_path, 3)])
    Commit(table, Operation.DELETE, [deletes]).write()
    check_change(tr, lake, "ice", (0, 3))
    more = write_position_deletes(table, [(big.file_path, 7), (big.file_path, 8)])  # one of them again
    rows_of = write_data_file(table, orders([(4, "b", 1), (10, "c", 1)]))
    Commit(lake.table(), Operation.OVERWRITE, [more, rows_of]).write()
    check_change(tr, lake, "ice", (2, 1))
    lake.append((5, "b", 1))
    check_change(tr, lake, "ice", (1, 0))
    compact(lake.table())
    check_change(tr, lake, "ice", (0, 0))
    assert tr.table("orders").count() == 193


@pytest.mark.slow
@pytest.mark.slow
def test_delete_files_that_are_compacted_change_nothing(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    table = lake.table()
    (file,) = list_data_files(table)
    first = write_position_deletes(table, [(file.file_path, 0)])
    Commit(table, Operation.DELETE, [first]).write()
    tr.sync("ice")
    second = write_position_deletes(table, [(file.file_path, 0), (file.file_path, 1)])
    Commit(lake.table(), Operation.REPLACE, [second], [first.file_path]).write()
    check_change(tr, lake, "ice", (0, 1))


def test_deletes_do_not_touch_files_that_are_newer(tr: Trickle, lake: IcebergLake) -> None:
    """A file that is added later under the same path as a deleted one has no rows deleted."""
    lake.follow(tr)
    table = lake.table()
    (file,) = list_data_files(table)
    Commit(table, Operation.DELETE, [write_position_deletes(table, [(file.file_path, 0)])]).write()
    Commit(lake.table(), Operation.DELETE, [], [file.file_path]).write()
    tr.sync("ice")
    assert tr.table("orders").count() == 0
    back = describe_file(file.file_path, DataFileContent.DATA, FileFormat.PARQUET, 4, None)
    Commit(lake.table(), Operation.APPEND, [back]).write()
    check_change(tr, lake, "ice", (4, 0))


@pytest.mark.shows("iceberg", "rows deleted by masks (deletion vectors, position deletes)")
def test_deletion_vectors(tr: Trickle, lake: IcebergLake) -> None:
    """pyiceberg does not write tables of version 3, so what is expected is written down."""
    lake.table().append(orders([(n, "a", n) for n in range(10, 200)]))
    lake.follow(tr)
    table = lake.table()
    big = max(list_data_files(table), key=lambda f: f.record_count)
    first = write_vector(table, big.file_path, range(100))
    Commit(table, Operation.DELETE, [first]).write()
    assert tr.sync("ice").tables == {"main.orders": (0, 100)}
    second = write_vector(table, big.file_path, [*range(100), 150])
    Commit(lake.table(), Operation.DELETE, [second], [first.file_path]).write()
    assert tr.sync("ice").tables == {"main.orders": (0, 1)}
    tr.refresh_all()
    ids = [1, 2, 3, 3, *range(110, 160), *range(161, 200)]
    for name in ("orders", "copied"):
        assert sorted(r.id for r in tr.table(name).collect()) == ids


def test_a_rollback_is_compared(tr: Trickle, lake: IcebergLake) -> None:
    before = lake.table().current_snapshot()
    assert before is not None
    lake.append((4, "b", 1))
    lake.follow(tr)
    lake.table().manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    report = tr.sync("ice")
    assert "rolled back" in report.resynced["main.orders"]
    assert (report.rows_inserted, report.rows_deleted) == (0, 1)
    tr.refresh_all()
    check_exact(tr, lake)


@pytest.mark.slow
def test_other_branches_are_not_seen(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    now = lake.table().current_snapshot()
    assert now is not None
    lake.table().manage_snapshots().create_branch(now.snapshot_id, "dev").commit()
    lake.table().append(orders([(4, "b", 1)]), branch="dev")
    check_change(tr, lake, "ice", (0, 0))


def expire_old(lake: IcebergLake, name: str = "orders") -> None:
    now = lake.table(name).current_snapshot()
    old = [s.snapshot_id for s in lake.table(name).snapshots() if now and s.snapshot_id != now.snapshot_id]
    if old:
        lake.table(name).maintenance.expire_snapshots().by_ids(old).commit()


@pytest.mark.slow
def test_snapshots_that_expired_are_not_guessed(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    lake.append((4, "b", 1))
    lake.table().delete(EqualTo("id", 1))
    lake.append((5, "b", 1))
    expire_old(lake)
    report = tr.sync("ice")
    assert "expired" in report.resynced["main.orders"]
    tr.refresh_all()
    check_exact(tr, lake)
    assert (report.rows_inserted, report.rows_deleted) == (2, 1)  # the files are there: they were compared


@pytest.mark.shows("iceberg", "history that is gone is noticed, never guessed")
def test_old_files_that_are_gone_are_not_guessed(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    before = tr.snapshot
    old = [f.file_path for f in list_data_files(lake.table())]
    lake.table().delete(EqualTo("id", 1))
    for path in old:
        Path(path.removeprefix("file://")).unlink()
    report = tr.sync("ice")
    assert "is gone" in report.resynced["main.orders"]
    reports = {r.name: r for r in tr.refresh_all()}
    assert reports["main.grouped"].action.value == "REINITIALIZE"
    assert "is gone" in reports["main.grouped"].reason
    check_exact(tr, lake)
    with pytest.raises(ChangesUnknownError, match="are unknown"):
        tr.changes("orders", before)
    lake.append((4, "b", 1))
    tr.sync("ice")
    assert {r.action.value for r in tr.refresh_all()} <= {"DIFFERENTIAL", "FULL", "NO_DATA"}
    check_exact(tr, lake)


@pytest.mark.slow
def test_a_table_that_was_empty_has_no_history(tr: Trickle, lake: IcebergLake) -> None:
    lake.catalog.create_table("shop.late", schema=Schema(NestedField(1, "id", LongType())))
    lake.attach(tr)
    tr.sql("CREATE TABLE late FROM SOURCE ice.shop.late")
    for n in range(2):
        lake.table("late").append(pa.table({"id": [n]}))
    expire_old(lake, "late")
    assert tr.sync("ice").tables == {"main.late": (2, 0)}


def make_again(lake: IcebergLake, *values: tuple[Any, ...]) -> None:
    lake.catalog.drop_table("shop.orders")
    lake.create(orders(values))


@pytest.mark.shows("iceberg", "a table that was made again is noticed")
def test_a_table_made_again_is_compared(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    make_again(lake, (7, "z", 1), (1, "a", 10))
    report = tr.sync("ice")
    assert "created again" in report.resynced["main.orders"]
    assert (report.rows_inserted, report.rows_deleted) == (1, 3)
    tr.refresh_all()
    check_exact(tr, lake)


@pytest.mark.slow
def test_columns_of_a_table_made_again_are_known_by_their_names(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    lake.catalog.drop_table("shop.orders")
    lake.create(orders([(7, "z", 1), (1, "a", 10)]).select(["amount", "region", "id"]))
    before = tr.snapshot
    assert "created again" in tr.sync("ice").resynced["main.orders"]
    assert tr.table("orders").columns == ["amount", "region", "id"]
    # Its files have other numbers for the columns: no file of before is read by them.
    actions = {r.name: r.action.value for r in tr.refresh_all()}
    assert actions["main.copied"] == "REINITIALIZE"
    check_exact(tr, lake)
    assert Counter(map(tuple, tr.table("orders", before).collect())) == Counter(FIRST)


@pytest.mark.slow
@pytest.mark.slow
def test_tables_of_version_1(tr: Trickle, lake: IcebergLake) -> None:
    lake.catalog.drop_table("shop.orders")
    lake.formats = {"format-version": "1"}
    lake.create(orders(FIRST))
    lake.follow(tr)
    lake.append((4, "b", 1))
    lake.table().delete(EqualTo("id", 3))
    check_change(tr, lake, "ice", (1, 2))


def test_a_dropped_table_does_not_stop_the_others(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    lake.catalog.drop_table("shop.shops")
    lake.append((4, "b", 1))
    report = tr.sync("ice")
    assert report.problems == {"main.shops": "it was dropped in the source"}
    assert report.tables == {"main.orders": (1, 0)}


def test_tables_of_all_namespaces(tr: Trickle, lake: IcebergLake) -> None:
    lake.catalog.create_namespace(("far", "away"))
    lake.catalog.create_table("far.away.empty", schema=Schema(NestedField(1, "id", LongType())))
    lake.attach(tr)
    assert tr.add_tables("ice", "*").rows_inserted == 7
    assert tr.table("empty").count() == 0
    lake.catalog.load_table("far.away.empty").append(pa.table({"id": [1]}))
    assert tr.sync("ice").tables == {"main.empty": (1, 0)}
    assert {r["mirror"]: r["capture"] for r in tr.answer("source_status").dicts()} == {
        f"main.{name}": "IN PLACE" for name in ("empty", "orders", "shops")
    }


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (UUIDType(), "UUID"),
        (TimeType(), "TIME"),
        (MapType(10, StringType(), 11, LongType()), "MAP"),
    ],
    ids=["uuid", "time", "map"],
)
def test_a_type_we_lack_can_be_skipped(tr: Trickle, lake: IcebergLake, kind: IcebergType, word: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "extra", kind))
    lake.catalog.create_table("shop.odd", schema=schema)
    lake.attach(tr)
    with pytest.raises(TrickleError, match=f'column "extra" has type {word}'):
        tr.sql("CREATE TABLE odd FROM SOURCE ice.shop.odd")
    tr.sql("CREATE TABLE odd FROM SOURCE ice.shop.odd OPTIONS (skip 'extra')")
    assert tr.table("odd").columns == ["id"]


def write_text(lake: IcebergLake, content: DataFileContent, kind: FileFormat, **more: Any) -> DataFile:
    path = lake.path / "odd.file"
    path.write_text("not read")
    return describe_file(f"file://{path}", content, kind, 1, None, **more)


def equality_deletes(lake: IcebergLake) -> DataFile:
    return write_text(lake, DataFileContent.EQUALITY_DELETES, FileFormat.PARQUET, equality_ids=[1])


UNREADABLE: dict[str, tuple[Callable[[IcebergLake], DataFile], str]] = {
    "equality deletes": (equality_deletes, "an equality delete file"),
    "ORC": (lambda lake: write_text(lake, DataFileContent.DATA, FileFormat.ORC), "of format ORC"),
    "Avro": (lambda lake: write_text(lake, DataFileContent.DATA, FileFormat.AVRO), "of format AVRO"),
    "deletes in ORC": (
        lambda lake: write_text(lake, DataFileContent.POSITION_DELETES, FileFormat.ORC),
        "of format ORC",
    ),
    "encrypted": (
        lambda lake: write_text(lake, DataFileContent.DATA, FileFormat.PARQUET, key_metadata=b"key"),
        "the encrypted file",
    ),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(UNREADABLE))
def test_files_that_cannot_be_read_are_named(tr: Trickle, lake: IcebergLake, name: str) -> None:
    """A sync keeps the last exact rows, and goes on as soon as the files are gone."""
    lake.attach(tr)
    tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")
    make, words = UNREADABLE[name]
    file = make(lake)
    Commit(lake.table(), Operation.OVERWRITE, [file]).write()
    assert words in tr.sync("ice").problems["main.orders"]
    assert tr.table("orders").count() == 4
    with pytest.raises(TrickleError, match=words):
        tr.sql("RESYNC TABLE orders")
    Commit(lake.table(), Operation.OVERWRITE, [], [file.file_path]).write()
    lake.append((4, "b", 1))
    assert not tr.sync("ice").problems
    assert Counter(map(tuple, tr.table("orders").collect())) == lake.rows()


def test_equality_deletes_that_compaction_left_behind_count_for_nothing(
    tr: Trickle, lake: IcebergLake
) -> None:
    """They are still listed, but each row is newer than they are."""
    lake.follow(tr)
    old = [f.file_path for f in list_data_files(lake.table())]
    Commit(lake.table(), Operation.DELETE, [equality_deletes(lake)]).write()  # of one row
    assert "an equality delete file" in tr.sync("ice").problems["main.orders"]
    rest = write_data_file(lake.table(), orders(FIRST[1:]))
    Commit(lake.table(), Operation.REPLACE, [rest], old).write()
    report = tr.sync("ice")
    assert not report.problems
    assert (report.rows_inserted, report.rows_deleted) == (0, 1)
    tr.refresh_all()
    assert rows(tr.table("copied")) == rows(tr.table("orders"))
    assert [r.id for r in tr.table("copied").collect()] == [2, 3, 3]
    Commit(lake.table(), Operation.DELETE, [equality_deletes(lake)]).write()
    assert "an equality delete file" in tr.sync("ice").problems["main.orders"]


def test_imported_files_without_field_ids_are_refused(tr: Trickle, lake: IcebergLake) -> None:
    path = lake.path / "imported.parquet"
    pq.write_table(orders([(4, "b", 1)]), path)
    lake.table().add_files([f"file://{path}"])
    lake.attach(tr)
    with pytest.raises(TrickleError, match="has no field ids"):
        tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")


def use_version_3(table: dict[str, Any]) -> None:
    table |= {"format-version": 3, "next-row-id": 0}


def store_nanoseconds(table: dict[str, Any]) -> None:
    use_version_3(table)
    table["schemas"][0]["fields"][2]["type"] = "timestamp_ns"


def add_default(table: dict[str, Any]) -> None:
    use_version_3(table)
    table["schemas"][0]["fields"][2]["initial-default"] = 7


def store_variants(table: dict[str, Any]) -> None:
    use_version_3(table)
    table["schemas"][0]["fields"][2]["type"] = "variant"


METADATA: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "version 9": (lambda table: table.update({"format-version": 9}), "the metadata of the table"),
    "nanoseconds": (store_nanoseconds, 'column "amount" has type TIMESTAMP_NS'),
    "defaults": (add_default, "an initial default"),
    "variants": (store_variants, "Unsupported field type: 'variant'"),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(METADATA))
@pytest.mark.shows("iceberg", "what cannot be read exactly is refused by name")
def test_metadata_that_we_do_not_know_are_refused(tr: Trickle, lake: IcebergLake, name: str) -> None:
    """Of one table; the others go on."""
    lake.attach(tr)
    tr.add_tables("ice", "*")
    edit, words = METADATA[name]
    path = Path(lake.table().metadata_location.removeprefix("file://"))
    before = path.read_text()
    metadata = json.loads(before)
    edit(metadata)
    path.write_text(json.dumps(metadata))
    lake.add_shops(("c", "Cleo"))
    with pytest.raises(TrickleError, match=words):
        tr.sql("RESYNC TABLE orders")
    if name == "version 9":
        report = tr.sync("ice")
        assert words in report.problems["main.orders"]
        assert report.tables == {"main.shops": (1, 0)}
        path.write_text(before)
        assert not tr.sync("ice").problems


REFUSED = [
    ("INSERT INTO orders VALUES (1, 'a', 2)", "mirror"),
    ("DETACH SOURCE ice", "read in place"),
    ("CREATE TABLE x FROM SOURCE ice.shop.nothing", "nothing"),
    ("CREATE TABLE x FROM SOURCE ice.nothing", "nothing"),
    ("ATTACH SOURCE b TYPE iceberg", "needs the kind of its catalog"),
    ("ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'nessie')", '"nessie" is not a value'),
    ("ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'rest', uri 'http://127.0.0.1:1')", "does not show"),
    ("ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'rest', token 'abc')", "contains a secret"),
    (
        "ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'rest', token 'env:NOT_THERE')",
        '"NOT_THERE" is not set',
    ),
    (
        "ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'sql', uri 'sqlite:////not/there/c.db')",
        "does not show",
    ),
]


def test_what_is_refused(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    for statement, words in REFUSED:
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in f"{caught.value.message} {caught.value.hint}", statement


def test_secrets_stay_out_of_messages(
    tr: Trickle, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ICE_URI", "postgresql+psycopg://joe:s3cr3t@127.0.0.1:1/none")
    with pytest.raises(TrickleError, match="does not show") as caught:
        tr.sql("ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'sql', uri 'env:ICE_URI')")
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__context__ is None
    monkeypatch.setenv("ICE_URI", lake.uri)
    tr.attach_source("ice", "iceberg", catalog="sql", catalog_name="writer", uri="env:ICE_URI")
    tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")
    assert tr.table("orders").count() == 4


def test_without_the_library_the_way_out_is_named(tr: Trickle, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.partition(".")[0] == "pyiceberg" or "sources.iceberg." in n]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(TrickleError) as caught:
        tr.sql("ATTACH SOURCE b TYPE iceberg OPTIONS (catalog 'sql', uri 'sqlite:////tmp/c.db')")
    assert "pip install 'spark-trickle[iceberg]'" in caught.value.hint


class Walk(LakeWalk):
    source = "ice"

    def append(self) -> None:
        self.lake.append(self.row())

    def append_many(self) -> None:
        self.lake.append(*(self.row() for _ in range(self.random.choice([50, 3_000]))))

    def delete(self) -> None:
        self.lake.table().delete(EqualTo("id", self.random.randrange(8)))

    def delete_everything(self) -> None:
        self.lake.table().delete()

    def overwrite(self) -> None:
        rows_now = self.lake.align(orders([self.row() for _ in range(5)]))
        self.lake.table().overwrite(rows_now)

    def replace(self) -> None:
        id = self.random.randrange(8)
        self.lake.table().overwrite(self.lake.align(orders([(id, "a", 5)])), EqualTo("id", id))

    def upsert(self) -> None:
        found = {r[0]: r for r in (self.row() for _ in range(3))}
        with suppress(ValueError):  # an id that is there several times
            self.lake.upsert(*found.values())

    def delete_by_number(self) -> None:
        table = self.lake.table()
        chosen = [f for f in list_data_files(table) if self.random.random() < 0.5]
        pairs = [(f.file_path, self.random.randrange(f.record_count)) for f in chosen]
        if pairs:
            Commit(table, Operation.DELETE, [write_position_deletes(table, pairs)]).write()

    def compact(self) -> None:
        if self.lake.rows():
            compact(self.lake.table())

    def change_columns(self) -> None:
        schema = self.lake.table().schema()
        names = [f.name for f in schema.fields[3:]]
        with self.lake.table().update_schema() as change:
            if not names:
                change.add_column("note", StringType())
            elif self.random.random() < 0.5:
                change.rename_column(names[0], "memo" if names[0] == "note" else "note")
            else:
                change.delete_column(names[0])

    def roll_back(self) -> None:
        now = self.lake.table().current_snapshot()
        if now.parent_snapshot_id and self.lake.table().snapshot_by_id(now.parent_snapshot_id):
            self.lake.table().manage_snapshots().rollback_to_snapshot(now.parent_snapshot_id).commit()

    def expire(self) -> None:
        expire_old(self.lake)

    def remove_orphans(self) -> None:
        """Files of snapshots that have expired."""
        expire_old(self.lake)
        table = self.lake.table()
        live = {f.file_path for f in list_data_files(table)}
        live |= {d.file_path for t in table.scan().plan_files() for d in t.delete_files}
        folder = Path(f"{table.location().removeprefix('file://')}/data")
        for path in folder.rglob("*.parquet"):
            if f"file://{path}" not in live:
                path.unlink()

    def make_again(self) -> None:
        make_again(self.lake, *(self.row() for _ in range(4)))

    def add_shop(self) -> None:
        self.lake.add_shops((self.random.choice("abc"), f"N{self.random.randrange(9)}"))

    steps = (
        *(append, append, append_many, delete, delete, replace, upsert, upsert, overwrite),
        *(delete_by_number, delete_by_number, compact, compact, change_columns, change_columns),
        *(delete_everything, roll_back, expire, remove_orphans, make_again, add_shop),
    )


@pytest.mark.one_in(9)
@pytest.mark.parametrize("point", KILLS)
@pytest.mark.shows("iceberg", "a process killed at every step of a sync")
def test_a_process_killed_in_the_middle_of_a_sync(
    tr: Trickle, lake: IcebergLake, tmp_path: Path, point: str
) -> None:
    lake.append(*((n, "a", n) for n in range(100, 110)))  # a file of which a part is written again
    lake.follow(tr)

    def change() -> None:
        number = len(lake.table().metadata.snapshots)
        lake.append((number + 10, "b", number), (number + 11, "b", 20))
        lake.upsert((100 + number % 10, "a", -number), (number + 20, "c", 1))

    check_killed_syncs(tr, change, lake, "ice", point, tmp_path / "warehouse")


@pytest.mark.shows("iceberg", "all tables in one snapshot")
def test_all_tables_change_in_one_snapshot(tr: Trickle, lake: IcebergLake) -> None:
    lake.follow(tr)
    lake.append((4, "b", 1))
    lake.add_shops(("c", "Cleo"))
    before = tr.snapshot
    report = tr.sync("ice")
    assert (report.snapshot, tr.snapshot) == (before + 1, before + 1)
    assert report.tables == {"main.orders": (1, 0), "main.shops": (1, 0)}


@pytest.mark.shows("iceberg", "two processes at once")
def test_two_that_sync_at_once_land_a_change_once(tr: Trickle, lake: IcebergLake, tmp_path: Path) -> None:
    lake.append(*((n, "a", n) for n in range(100, 110)))
    lake.follow(tr)

    def change() -> None:
        number = len(lake.table().metadata.snapshots)
        lake.append((number + 10, "b", number), (number + 11, "b", 20))
        lake.upsert((100 + number % 10, "a", -number), (number + 20, "c", 1))

    check_two_syncs(tr, change, lake, "ice", tmp_path / "warehouse")


@pytest.mark.parametrize("seed", [1])
def test_a_short_walk(lake: IcebergLake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.shows("iceberg", "a random walk over operations")
def test_a_walk(lake: IcebergLake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(60)

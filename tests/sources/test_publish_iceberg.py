"""Stream tables published as Iceberg tables: one whole snapshot for each refresh, read by pyiceberg and by DuckDB."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

import spark_trickle
from spark_trickle.errors import RepairNeededError, SourceBusyError, TargetExistsError, TrickleError
from spark_trickle.session import Trickle
from spark_trickle.targets.iceberg import table as target_module
from tests.conftest import duckdb_client
from tests.sources.iceberg_tables import Commit, IcebergLake, compact, list_data_files, write_position_deletes

QUERIES = {
    "totals": "SELECT region, count(*) AS n, sum(amount) AS total FROM orders GROUP BY region",
    "bag": "SELECT region, amount FROM orders",
}
SPACE = "live.daily"  # a namespace of two levels, which is not there


@pytest.fixture
def lake(tmp_path: Path) -> IcebergLake:
    """A catalog with one table of somebody else."""
    made = IcebergLake(tmp_path / "lake")
    made.create(pa.table({"a": [1]}), "theirs")
    return made


@pytest.fixture
def tr(tmp_path: Path, lake: IcebergLake) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        fill(connection, lake)
        yield connection


def fill(tr: Trickle, lake: IcebergLake) -> None:
    tr.sql("CREATE TABLE orders (id INT, region STRING, amount BIGINT)")
    tr.sql("INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'b', 20), (4, NULL, NULL), (5, 'a', 1)")
    for name, query in QUERIES.items():
        tr.sql(f"CREATE STREAM TABLE {name} AS {query}")
    place = f"file://{lake.path}/tables"
    tr.attach_source("ice", "iceberg", catalog="sql", catalog_name="writer", uri=lake.uri, warehouse=place)


def publish_all(tr: Trickle) -> None:
    for name in QUERIES:
        tr.sql(f"PUBLISH STREAM TABLE {name} TO SOURCE ice AS {SPACE}.{name}")


def find_there(lake: IcebergLake, name: str) -> Table:
    return lake.catalog.load_table(f"{SPACE}.{name}")


def count_there(table: Table) -> Counter[tuple[Any, ...]]:
    """The rows as pyiceberg reads them; DuckDB reads the same."""
    found = table.scan().to_arrow()
    rows = Counter(tuple(row[c] for c in found.column_names) for row in found.to_pylist())
    if table.current_snapshot() is not None:
        assert Counter(ask_duckdb(table)) == rows
    return rows


@cache
def find_duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb_client()


def ask_duckdb(table: Table) -> list[tuple[Any, ...]]:
    cursor = find_duckdb().cursor()
    return cursor.execute(f"SELECT * FROM iceberg_scan('{table.metadata_location}')").fetchall()


def check(tr: Trickle, lake: IcebergLake, name: str) -> None:
    assert count_there(find_there(lake, name)) == Counter(map(tuple, tr.table(name).collect())), name
    row = next(r for r in tr.answer("published_status").dicts() if r["published_as"] == f"{SPACE}.{name}")
    assert row["problem"] == ""
    assert row["rows"] == tr.table(name).count()


def check_all(tr: Trickle, lake: IcebergLake) -> None:
    for name in QUERIES:
        check(tr, lake, name)


CHANGES = {
    "insert": "INSERT INTO orders VALUES (6, 'c', 1), (7, 'c', 1)",
    "update": "UPDATE orders SET amount = amount + 1 WHERE id = 1",
    "delete one of two equal rows": "DELETE FROM orders WHERE id = 2",
    "delete a row of nulls": "DELETE FROM orders WHERE id = 4",
    "delete everything": "DELETE FROM orders",
    "many": "INSERT INTO orders SELECT id, concat('r', id % 7), id FROM range(5000)",
}


@pytest.mark.shows("iceberg", "each refresh once, in one commit")
def test_changes_follow(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    check_all(tr, lake)
    for statement in CHANGES.values():
        tr.sql(statement)
        before = {name: len(find_there(lake, name).snapshots()) for name in QUERIES}
        tr.refresh_all()
        check_all(tr, lake)
        for name, count in before.items():
            assert len(find_there(lake, name).snapshots()) == count + 1
    tr.push("ice")
    tr.sql("INSERT INTO orders VALUES (-9, 'gone', 1)")
    tr.sql("DELETE FROM orders WHERE id = -9")
    tr.refresh_all()
    check_all(tr, lake)
    assert {len(find_there(lake, name).snapshots()) for name in QUERIES} == {len(CHANGES) + 1}


@pytest.mark.slow
def test_only_touched_files_are_written_again(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    tr.sql("INSERT INTO orders SELECT id, 'z', id FROM range(1000, 2000)")
    tr.refresh_all()
    files = {f.file_path for f in list_data_files(find_there(lake, "bag"))}
    assert len(files) == 2
    tr.sql("UPDATE orders SET amount = -1 WHERE id = 1")
    tr.refresh_all()
    there = find_there(lake, "bag")
    assert len(files & {f.file_path for f in list_data_files(there)}) == 1
    last = there.current_snapshot()
    assert last is not None
    assert last.summary is not None
    assert (last.summary["added-records"], last.summary["deleted-records"]) == ("5", "5")
    assert last.summary["total-records"] == "1005"
    check(tr, lake, "bag")


def test_files_say_what_they_hold(tr: Trickle, lake: IcebergLake) -> None:
    """Ids, counts and bounds, by which other engines find columns and skip files."""
    tr.sql("INSERT INTO orders VALUES (8, 'a text of more than sixteen letters', 7)")
    tr.refresh_all()
    publish_all(tr)
    (file,) = list_data_files(find_there(lake, "bag"))
    assert file.value_counts == {1: 6, 2: 6}
    assert file.null_value_counts == {1: 1, 2: 1}
    assert (file.lower_bounds[2], file.upper_bounds[2]) == (
        (1).to_bytes(8, "little"),
        (20).to_bytes(8, "little"),
    )
    assert (file.lower_bounds[1], file.upper_bounds[1]) == (b"a", b"b")
    parquet = pq.ParquetFile(file.file_path.removeprefix("file://"))
    assert [f.metadata[b"PARQUET:field_id"] for f in parquet.schema_arrow] == [b"1", b"2"]
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.slow
def test_many_rows_go_through_the_executors(tmp_path: Path, lake: IcebergLake) -> None:
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
            check_all(tr, lake)


TYPED = (
    "d DATE, m DECIMAL(10, 2), wide DECIMAL(38, 10), at TIMESTAMP, local TIMESTAMP_NTZ, f DOUBLE, g FLOAT, b BINARY, "
    "tags ARRAY<STRUCT<k: STRING, v: TINYINT>>, s STRUCT<x: TINYINT, `y.z`: ARRAY<INT>>, ok BOOLEAN, v VARCHAR(3), "
    "small SMALLINT, `a.b` INT"
)
VALUES = (
    "DATE'2024-01-01', 1.50, 12345678901234567890.5, TIMESTAMP'2024-05-01 12:30:15.123456Z', "
    "TIMESTAMP_NTZ'2024-05-01 12:30:15.123456', -0.0D, 1.5F, X'00FF', array(named_struct('k', 'a', 'v', 1Y)), "
    "named_struct('x', 1Y, 'y.z', array(1, NULL)), true, 'abc', 7S, 3"
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("most", [100_000, 1], ids=["driver", "executors"])
def test_types(tmp_path: Path, lake: IcebergLake, most: int) -> None:
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": most}) as tr:
        fill(tr, lake)
        instant = datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
        tr.sql(f"CREATE TABLE typed ({TYPED})")
        tr.sql(f"INSERT INTO typed VALUES ({VALUES}), ({', '.join(['NULL'] * 14)})")
        tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM typed")
        tr.sql("PUBLISH STREAM TABLE kept TO SOURCE ice AS shop.kept")
        there = lake.table("kept")
        found = there.scan().to_arrow().sort_by([("d", "ascending")]).to_pylist()
        expected = {
            "d": date(2024, 1, 1),
            "m": Decimal("1.50"),
            "wide": Decimal("12345678901234567890.5000000000"),
            "at": instant,
            "local": instant.replace(tzinfo=None),
            "f": -0.0,
            "g": 1.5,
            "b": b"\x00\xff",
            "tags": [{"k": "a", "v": 1}],
            "s": {"x": 1, "y.z": [1, None]},
            "ok": True,
            "v": "abc",
            "small": 7,
            "a.b": 3,
        }
        # pyiceberg reads a list of structs that is null as an empty one; DuckDB, below, reads it as it is.
        assert found == [expected, {**dict.fromkeys(expected), "tags": []}]
        assert str(found[0]["f"]) == "-0.0"
        names = [name for name in expected if name != "g"]
        columns = ", ".join(f'"{name}"' for name in names)
        text = f"SELECT {columns} FROM iceberg_scan('{there.metadata_location}') ORDER BY d"
        rows = find_duckdb().cursor().execute(text).fetchall()
        assert rows == [tuple(expected[name] for name in names), (None,) * len(names)]
        tr.sql(f"INSERT INTO typed VALUES ({VALUES})")
        tr.sql("DELETE FROM typed WHERE d IS NULL")
        tr.refresh_all()
        assert lake.table("kept").scan().to_arrow().to_pylist() == [expected, expected]
        tr.sql("INSERT INTO typed (d, f, g) VALUES (DATE'0001-01-01', double('NaN'), float('inf'))")
        tr.sql("INSERT INTO typed (d) VALUES (NULL)")
        tr.refresh_all()
        tr.sql("PUBLISH STREAM TABLE kept REPAIR")  # NaN is equal to itself here
        assert lake.table("kept").scan().to_arrow().num_rows == 4


def test_our_own_source_reads_it_back(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    for name in QUERIES:
        tr.sql(f"CREATE TABLE {name}_back FROM SOURCE ice.{SPACE}.{name}")
        tr.sql(f"CREATE STREAM TABLE {name}_again AS SELECT * FROM {name}_back")
    for statement in (CHANGES["update"], CHANGES["delete one of two equal rows"], CHANGES["many"]):
        tr.sql(statement)
        tr.refresh_all()
        tr.sync("ice")
        tr.refresh_all()
        for name in QUERIES:
            expected = Counter(map(tuple, tr.table(name).collect()))
            for back in (f"{name}_back", f"{name}_again"):
                assert Counter(map(tuple, tr.table(back).collect())) == expected


# --- what others do with it --------------------------------------------------------------------------


def expire(table: Table) -> None:
    """All snapshots but the newest, as expire_snapshots does."""
    newest = table.current_snapshot()
    assert newest is not None
    old = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != newest.snapshot_id]
    if old:
        table.maintenance.expire_snapshots().by_ids(old).commit()


def compact_and_expire(table: Table) -> None:
    compact(table)
    expire(table.refresh())


HARMLESS: dict[str, Callable[[Table], object]] = {
    "compaction and expiry": compact_and_expire,
    "compaction": compact,
    "expiry": expire,
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", list(HARMLESS))
def test_upkeep_by_others_does_no_harm(tr: Trickle, lake: IcebergLake, name: str) -> None:
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    tr.refresh_all()
    HARMLESS[name](find_there(lake, "bag"))
    tr.push("ice")
    check(tr, lake, "bag")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check(tr, lake, "bag")


def delete_by_position(table: Table) -> None:
    (file, *_) = list_data_files(table)
    Commit(table, Operation.DELETE, [write_position_deletes(table, [(file.file_path, 0)])]).write()


def lose_the_thread(table: Table) -> None:
    compact(table)
    compact_and_expire(table.refresh())


DRIFTS: dict[str, tuple[Callable[[Table], object], str]] = {
    "delete": (lambda t: t.delete(EqualTo("region", "a")), "another writer changed its rows in snapshot"),
    "append": (lambda t: t.append(t.scan().to_arrow()), "another writer changed its rows in snapshot"),
    "overwrite": (lambda t: t.overwrite(t.scan().to_arrow().slice(1)), "another writer changed its rows"),
    "delete by position": (delete_by_position, "another writer changed its rows in snapshot"),
    "snapshots that nobody knows": (lose_the_thread, "have expired, so nobody knows"),
}


@pytest.mark.shows("iceberg", "changes by others are noticed", "repaired by comparison")
@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", list(DRIFTS))
def test_what_others_change_is_repaired(tr: Trickle, lake: IcebergLake, name: str) -> None:
    publish_all(tr)
    drift, words = DRIFTS[name]
    drift(find_there(lake, "bag"))
    tr.sql(CHANGES["delete one of two equal rows"])
    with pytest.raises(RepairNeededError, match=words):
        tr.refresh_all()
    assert words in str(tr.answer("published_status").dicts())
    tr.sql("PUBLISH STREAM TABLE bag REPAIR")
    check(tr, lake, "bag")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check_all(tr, lake)


@pytest.mark.slow
def test_a_repair_writes_only_what_differs(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    before = find_there(lake, "bag").metadata.current_snapshot_id
    tr.sql("PUBLISH STREAM TABLE bag REPAIR")
    assert find_there(lake, "bag").metadata.current_snapshot_id == before


def test_after_a_rollback_it_goes_on_from_there(tr: Trickle, lake: IcebergLake) -> None:
    """The snapshot says how far it is, so the changes since are made once more."""
    publish_all(tr)
    first = find_there(lake, "bag").metadata.current_snapshot_id
    assert first is not None
    tr.sql(CHANGES["insert"])
    tr.refresh_all()
    find_there(lake, "bag").manage_snapshots().rollback_to_snapshot(first).commit()
    row = next(r for r in tr.answer("published_status").dicts() if r["stream_table"] == "main.bag")
    assert row["snapshot"] < row["newest_snapshot"]
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    check_all(tr, lake)


def test_columns_that_others_change_come_back(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    there = find_there(lake, "bag")
    with there.update_schema() as change:
        change.rename_column("amount", "price")
        change.add_column("more", StringType())
    tr.push("ice")
    check(tr, lake, "bag")
    assert find_there(lake, "bag").schema().column_names == ["region", "amount"]


# --- columns -----------------------------------------------------------------------------------------


@pytest.mark.shows("iceberg", "wider types are followed")
def test_a_wider_type_keeps_its_column(tr: Trickle, lake: IcebergLake) -> None:
    tr.sql("CREATE STREAM TABLE ids AS SELECT id FROM orders")
    tr.sql(f"PUBLISH STREAM TABLE ids TO SOURCE ice AS {SPACE}.ids")
    before = find_there(lake, "ids").schema().find_field("id").field_id
    tr.sql("SET trickle.block_source_ddl = false")
    tr.sql("ALTER TABLE orders ALTER COLUMN id TYPE BIGINT")
    tr.sql("INSERT INTO orders VALUES (10000000000, 'x', 1)")
    tr.refresh_all()
    check(tr, lake, "ids")
    assert find_there(lake, "ids").schema().find_field("id").field_id == before
    assert len(find_there(lake, "ids").snapshots()) == 2


REDEFINED = [
    "SELECT region, cast(amount AS STRING) AS amount FROM orders",
    "SELECT amount, region FROM orders",
    "SELECT region, amount, id, array(id) AS ids FROM orders",
    "SELECT region AS area, amount FROM orders",
    "SELECT region, amount FROM orders WHERE id > 1",
]


def redefine(tr: Trickle, query: str) -> None:
    """Readers keep the published table meanwhile."""
    tr.sql("UNPUBLISH STREAM TABLE bag")
    tr.sql(f"ALTER STREAM TABLE bag AS {query}")
    tr.sql(f"PUBLISH STREAM TABLE bag TO SOURCE ice AS {SPACE}.bag")


@pytest.mark.one_in(5)
@pytest.mark.parametrize("query", REDEFINED)
def test_another_query(tr: Trickle, lake: IcebergLake, query: str) -> None:
    publish_all(tr)
    before = find_there(lake, "bag")
    old = before.scan().to_arrow()
    for text in (query, QUERIES["bag"]):
        redefine(tr, text)
        there = find_there(lake, "bag")
        assert [f.name for f in there.schema().fields] == list(tr.table("bag").columns)
        found = there.scan().to_arrow().to_pylist()
        assert Counter(map(repr, found)) == Counter(
            repr(r.asDict(recursive=True)) for r in tr.table("bag").collect()
        )
        tr.sql(CHANGES["update"])
        tr.refresh_all()
    check(tr, lake, "bag")
    assert before.current_snapshot() is not None
    then = find_there(lake, "bag").scan(snapshot_id=before.metadata.current_snapshot_id).to_arrow()
    assert Counter(map(repr, then.to_pylist())) == Counter(map(repr, old.to_pylist()))


# --- one writer --------------------------------------------------------------------------------------


@pytest.mark.shows("iceberg", "two processes that publish at once")
def test_two_processes_at_once(tr: Trickle, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one commits, the other does not commit again, and leaves no file behind."""
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    commit = target_module.WritableCatalog.commit

    def overtake(self: Any, table: Table, prepared: Any) -> None:
        monkeypatch.setattr(target_module.WritableCatalog, "commit", commit)
        with spark_trickle.connect(
            tr.catalog_url.removeprefix("sqlite:///").removesuffix("/catalog.sqlite")
        ) as other:
            other.push("ice")
        commit(self, table, prepared)

    monkeypatch.setattr(target_module.WritableCatalog, "commit", overtake)
    with pytest.raises(SourceBusyError, match="refuses the commit"):
        tr.refresh_all()
    tr.push("ice")
    check_all(tr, lake)
    for name in QUERIES:
        there = find_there(lake, name)
        assert len(there.snapshots()) == 2
        folder = Path(there.location().removeprefix("file://"))
        known = {Path(f["file_path"]).name for f in there.inspect.all_files().to_pylist()}
        assert {p.name for p in (folder / "data").rglob("*.parquet")} == known
        assert len(list((folder / "metadata").glob("snap-*"))) == 2


@pytest.mark.slow
def test_unpublish_and_publish_again(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    tr.sql("UNPUBLISH STREAM TABLE totals")
    tr.sql(CHANGES["update"])
    tr.refresh_all()
    tr.sql(f"PUBLISH STREAM TABLE totals TO SOURCE ice AS {SPACE}.totals")
    check(tr, lake, "totals")
    tr.sql("UNPUBLISH STREAM TABLE totals KEEP TABLE")
    tr.sql("DROP STREAM TABLE totals")
    tr.sql(f"CREATE STREAM TABLE totals AS {QUERIES['totals']}")
    tr.sql(f"PUBLISH STREAM TABLE totals TO SOURCE ice AS {SPACE}.totals")
    check(tr, lake, "totals")
    tr.sql("UNPUBLISH STREAM TABLE totals DROP TABLE")
    assert not lake.catalog.table_exists(f"{SPACE}.totals")


@pytest.mark.slow
def test_a_table_that_somebody_dropped(tr: Trickle, lake: IcebergLake) -> None:
    publish_all(tr)
    lake.catalog.drop_table(f"{SPACE}.bag")
    tr.sql(CHANGES["update"])
    with pytest.raises(TrickleError, match="is not published"):
        tr.refresh_all()
    tr.sql("UNPUBLISH STREAM TABLE bag")
    tr.sql(f"PUBLISH STREAM TABLE bag TO SOURCE ice AS {SPACE}.bag")
    check_all(tr, lake)


@pytest.mark.slow
def test_an_empty_stream_table(tr: Trickle, lake: IcebergLake) -> None:
    tr.sql(CHANGES["delete everything"])
    tr.refresh_all()
    publish_all(tr)
    check_all(tr, lake)
    tr.sql(CHANGES["insert"])
    tr.refresh_all()
    check_all(tr, lake)


REFUSED = [
    ("PUBLISH STREAM TABLE totals TO SOURCE near AS shop.totals", "is a relative path"),
    ("PUBLISH STREAM TABLE totals TO SOURCE ice AS shop.theirs", "did not create it"),
    ("PUBLISH STREAM TABLE totals TO SOURCE ice", "names no namespace"),
    ("PUBLISH STREAM TABLE spans TO SOURCE ice AS shop.spans", "the type of column"),
    ("PUBLISH STREAM TABLE totals TO SOURCE ice AS live.daily.bag", "is not published"),
    ("PUBLISH STREAM TABLE totals TO SOURCE bare AS shop.totals", "does not create the table"),
    (
        "ATTACH SOURCE none TYPE iceberg OPTIONS (catalog 'sql', uri 'sqlite:///{path}/catalog.db')",
        "has no namespace",
    ),
]


def test_what_is_refused(tr: Trickle, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_all(tr)
    tr.sql("UNPUBLISH STREAM TABLE totals")
    monkeypatch.setenv("ICE_URI", lake.uri)
    tr.attach_source("bare", "iceberg", catalog="sql", catalog_name="writer", uri="env:ICE_URI")
    tr.attach_source(
        "near", "iceberg", catalog="sql", catalog_name="writer", uri=lake.uri, warehouse="tables"
    )
    tr.sql("CREATE STREAM TABLE spans AS SELECT make_dt_interval(id) AS i FROM orders")
    for statement, words in REFUSED:
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement.format(path=lake.path))
        assert words in caught.value.message, statement
        assert caught.value.hint
    with pytest.raises(TargetExistsError):
        tr.sql("PUBLISH STREAM TABLE totals TO SOURCE ice AS shop.theirs")


def test_secrets_stay_out_of_messages(
    tr: Trickle, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address of a catalog may hold a password."""
    publish_all(tr)
    tr.close()
    place = Path(tr.catalog_url.removeprefix("sqlite:///")).parent
    shutil.move(lake.path / "catalog.db", lake.path / "s3cr3t.db")
    monkeypatch.setenv("ICE_URI", f"sqlite:///{lake.path}/s3cr3t.db")
    with spark_trickle.connect(place) as again:
        again.attach_source("hidden", "iceberg", catalog="sql", catalog_name="writer", uri="env:ICE_URI")
        (lake.path / "s3cr3t.db").write_bytes(b"no database" * 200)
        again.sql("CREATE STREAM TABLE other AS SELECT id FROM orders")
        with pytest.raises(TrickleError) as caught:
            again.sql("PUBLISH STREAM TABLE other TO SOURCE hidden AS shop.other")
        assert "s3cr3t" not in str(caught.value)


@pytest.mark.slow
def test_a_copy_of_the_warehouse_does_not_write(tr: Trickle, lake: IcebergLake, tmp_path: Path) -> None:
    publish_all(tr)
    tr.close()
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    with spark_trickle.connect(tmp_path / "copy") as copy:
        copy.sql(CHANGES["insert"])
        with pytest.raises(TrickleError, match="is written by the copy of this warehouse"):
            copy.refresh_all()
        copy.push("ice", take_over=True)
        check_all(copy, lake)


@pytest.mark.slow
def test_a_restored_warehouse(tr: Trickle, lake: IcebergLake, tmp_path: Path) -> None:
    """The published table is ahead of it, on another history."""
    publish_all(tr)
    tr.close()
    shutil.copytree(tmp_path / "warehouse", tmp_path / "backup")
    with spark_trickle.connect(tmp_path / "warehouse") as later:
        later.sql(CHANGES["many"])
        later.refresh_all()
        check_all(later, lake)
    shutil.rmtree(tmp_path / "warehouse")
    shutil.copytree(tmp_path / "backup", tmp_path / "warehouse")
    with spark_trickle.connect(tmp_path / "warehouse") as restored:
        restored.sql(CHANGES["update"])
        restored.refresh_all()
        check_all(restored, lake)


_REFRESH = """
import sys, spark_trickle
with spark_trickle.connect(sys.argv[1], settings={"max_driver_rows": int(sys.argv[2])}) as tr:
    tr.refresh_all()
"""


@pytest.mark.shows("iceberg", "a process killed while it publishes")
@pytest.mark.one_in(4)
@pytest.mark.parametrize("most", [100_000, 1])
@pytest.mark.parametrize("point", ["before_target_commit", "after_target_commit"])
def test_a_killed_process_neither_loses_nor_doubles(
    tr: Trickle, lake: IcebergLake, tmp_path: Path, point: str, most: int
) -> None:
    publish_all(tr)
    tr.sql(CHANGES["insert"])
    tr.sql(CHANGES["update"])
    tr.close()
    done = subprocess.run(
        [sys.executable, "-c", _REFRESH, str(tmp_path / "warehouse"), str(most)],
        env={**os.environ, "SPARK_TRICKLE_CRASH_POINT": point},
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == -9
    with spark_trickle.connect(tmp_path / "warehouse") as again:
        again.push("ice")
        check_all(again, lake)
        assert {len(find_there(lake, name).snapshots()) for name in QUERIES} == {2}


_PUSH = """
import sys, spark_trickle
from spark_trickle.errors import TrickleError
with spark_trickle.connect(sys.argv[1]) as tr:
    for n in range(6):
        tr.sql(f"INSERT INTO orders VALUES ({n}, '{sys.argv[2]}', {n})")
        try:
            tr.refresh_all()
        except (TrickleError, ExceptionGroup) as error:
            print(error)
"""


@pytest.mark.slow
def test_two_processes_push(tr: Trickle, lake: IcebergLake, tmp_path: Path) -> None:
    publish_all(tr)
    tr.close()
    both = [
        subprocess.Popen([sys.executable, "-c", _PUSH, str(tmp_path / "warehouse"), name]) for name in "xy"
    ]
    assert [process.wait(240) for process in both] == [0, 0]
    with spark_trickle.connect(tmp_path / "warehouse") as again:
        again.refresh_all()
        again.push("ice")
        assert again.table("bag").count() == 17
        check_all(again, lake)


@pytest.mark.slow
def test_manifests_stay_few(tr: Trickle, lake: IcebergLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_trickle.targets.iceberg.manifests._MOST", 5)
    publish_all(tr)
    for n in range(20):
        tr.sql(f"INSERT INTO orders VALUES ({n + 10}, 'r{n % 3}', {n})")
        tr.refresh_all()
        for name in QUERIES:
            there = find_there(lake, name)
            last = there.current_snapshot()
            assert last is not None
            assert len(last.manifests(there.io)) <= 7
    check_all(tr, lake)


class Walk:
    """A random walk over what users, other writers and other machines do."""

    def __init__(self, lake: IcebergLake, place: Path, seed: int) -> None:
        self.lake, self.place, self.random = lake, place, random.Random(seed)
        self.tr = spark_trickle.connect(place, settings={"max_driver_rows": self.random.choice([5, 100_000])})
        fill(self.tr, lake)
        publish_all(self.tr)
        self.backup()

    @property
    def bag(self) -> Table:
        return find_there(self.lake, "bag")

    def change(self) -> None:
        self.tr.sql(self.random.choice(list(CHANGES.values())))

    def insert(self) -> None:
        self.tr.sql(
            f"INSERT INTO orders VALUES ({self.random.randrange(9)}, 'abc', {self.random.randrange(3)})"
        )

    def refresh(self) -> None:
        try:
            self.tr.refresh_all()
            self.tr.push("ice")
        except RepairNeededError:
            self.repair()
        if any(row["problem"] for row in self.tr.answer("published_status").dicts()):
            self.repair()  # nothing changed here, so nothing was pushed
        check_all(self.tr, self.lake)

    def repair(self) -> None:
        for name in QUERIES:
            self.tr.sql(f"PUBLISH STREAM TABLE {name} REPAIR")

    def compact(self) -> None:
        if list_data_files(self.bag):
            compact(self.bag)

    def expire(self) -> None:
        if self.bag.current_snapshot() is not None:
            expire(self.bag)

    def disturb(self) -> None:
        DRIFTS["overwrite"][0](self.bag)

    def disturb_by_position(self) -> None:
        if list_data_files(self.bag):
            delete_by_position(self.bag)

    def rename_there(self) -> None:
        with self.bag.update_schema() as change:
            change.rename_column(self.bag.schema().column_names[-1], f"c{time.time_ns()}")

    def roll_back(self) -> None:
        parent = self.bag.current_snapshot()
        ids = {s.snapshot_id for s in self.bag.snapshots()}
        if parent is not None and parent.parent_snapshot_id in ids:
            self.bag.manage_snapshots().rollback_to_snapshot(parent.parent_snapshot_id).commit()

    def redefine(self) -> None:
        query = self.random.choice([QUERIES["bag"], REDEFINED[0], REDEFINED[1], REDEFINED[4]])
        redefine(self.tr, query)

    def vacuum_here(self) -> None:
        self.tr.sql("VACUUM RETAIN 0 HOURS")

    def publish_again(self) -> None:
        self.tr.sql("UNPUBLISH STREAM TABLE totals")
        self.tr.sql(f"PUBLISH STREAM TABLE totals TO SOURCE ice AS {SPACE}.totals")

    def reconnect(self) -> None:
        self.tr.close()
        self.tr = spark_trickle.connect(self.place)

    def backup(self) -> None:
        self.tr.close()
        shutil.rmtree(self.place.with_name("backup"), ignore_errors=True)
        shutil.copytree(self.place, self.place.with_name("backup"))
        self.tr = spark_trickle.connect(self.place)

    def restore(self) -> None:
        self.tr.close()
        shutil.rmtree(self.place)
        shutil.copytree(self.place.with_name("backup"), self.place)
        self.tr = spark_trickle.connect(self.place)

    STEPS = (
        change,
        change,
        insert,
        insert,
        refresh,
        refresh,
        refresh,
        repair,
        compact,
        expire,
        disturb,
        disturb_by_position,
        rename_there,
        roll_back,
        redefine,
        vacuum_here,
        publish_again,
        reconnect,
        backup,
        restore,
    )

    def run(self, steps: int) -> None:
        done = []
        try:
            for _ in range(steps):
                step = self.random.choice(self.STEPS)
                done.append(step.__name__)
                step(self)
            self.refresh()
            self.repair()
            check_all(self.tr, self.lake)
        except BaseException as error:
            error.add_note(f"steps: {', '.join(done)}")
            raise
        finally:
            self.tr.close()


@pytest.mark.shows("iceberg", "a random walk over published tables")
@pytest.mark.parametrize("seed", [1])
def test_a_short_walk(lake: IcebergLake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_a_walk(lake: IcebergLake, tmp_path: Path, seed: int) -> None:
    Walk(lake, tmp_path / "warehouse", seed).run(50)

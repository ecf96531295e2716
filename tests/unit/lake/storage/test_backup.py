"""Backups are whole and small, restores are exact or refused, and verify finds every kind of damage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from spark_trickle.errors import BackupError, DamagedFileError, WarehouseMismatchError
from spark_trickle.lake.catalog import lease
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.catalog.lease import SessionLease
from spark_trickle.lake.storage.backup import BackupReport, back_up, list_backups
from spark_trickle.lake.storage.restore import restore
from spark_trickle.lake.storage.vacuum import Retention, vacuum
from spark_trickle.lake.storage.verify import verify_files
from spark_trickle.lake.warehouse import CATALOG_FILE, Warehouse, open_warehouse
from spark_trickle.model.arrow import to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import Role
from spark_trickle.model.table import Table
from tests.unit.lake.lakes import Lake

_moments = count()


@contextmanager
def opened(where: Path | str, data_path: Path | None = None) -> Iterator[Warehouse]:
    warehouse = open_warehouse(where, None if data_path is None else str(data_path), 5.0)
    try:
        yield warehouse
    finally:
        warehouse.engine.dispose()


def table_of(warehouse: Warehouse) -> Table:
    found = Lake(warehouse).catalog().find(("t",), "main")
    return found if isinstance(found, Table) else Lake(warehouse).create("t")


def insert(warehouse: Warehouse, *ids: int) -> None:
    """Commit rows in a real file."""
    table, storage = table_of(warehouse), warehouse.storage
    name = f"{storage.new_name()}.parquet"
    rows = pa.table({"id": ids, "v": [f"row {n}" for n in ids], "_w": pa.array([1] * len(ids), pa.int32())})
    storage.write(table, name, to_storage(table, rows), "zstd")
    change = TableChange(table, added=(storage.describe(table, name, Role.CHANGE, 0, rows.nbytes),))
    Lake(warehouse).commit(change)


def content(warehouse: Warehouse) -> list[int]:
    table, lake = table_of(warehouse), Lake(warehouse)
    files = [warehouse.storage.read(table, f) for f in lake.files(table)]
    return sorted(pa.concat_tables(files).column("id").to_pylist()) if files else []


def backup(warehouse: Warehouse, folder: Path, link: bool = False, keep: int | None = None) -> BackupReport:
    held = SessionLease(warehouse.engine, warehouse.storage.session_id, timedelta(minutes=5))
    moment = datetime(2026, 5, 1, tzinfo=UTC) + timedelta(seconds=next(_moments))
    try:
        return back_up(warehouse, held, str(folder), moment, link, keep)
    finally:
        held.end()


def problems(warehouse: Warehouse) -> list[str]:
    return [
        f"{f.severity}: {f.detail}" for f in verify_files(warehouse, datetime.now(UTC)) if f.severity != "ok"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with opened(tmp_path / "w") as warehouse:
        insert(warehouse, 1, 2)
        insert(warehouse, 3)
    return tmp_path / "w"


def test_a_drill(folder: Path, tmp_path: Path) -> None:
    """Back up, go on, lose everything, restore: what was backed up is there, and work goes on."""
    store = tmp_path / "store"
    with opened(folder) as warehouse:
        first = backup(warehouse, store)
        insert(warehouse, 4)
        second = backup(warehouse, store)
        insert(warehouse, 5)
    assert (first.files, first.copied_files, second.files, second.copied_files) == (2, 2, 3, 1)
    shutil.rmtree(folder)
    for name, expected in ((None, [1, 2, 3, 4]), (first.name, [1, 2, 3])):
        restored = tmp_path / f"restored {name}"
        restore(store, restored, name=name)
        with opened(restored) as warehouse:
            assert content(warehouse) == expected
            assert problems(warehouse) == []
            insert(warehouse, 9)
            assert content(warehouse) == [*expected, 9]
        with opened(restored) as warehouse:
            assert content(warehouse) == [*expected, 9]


def test_in_place_after_the_catalog_was_lost(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store")
        insert(warehouse, 4)
    for path in folder.glob(f"{CATALOG_FILE}*"):
        path.unlink()
    with pytest.raises(WarehouseMismatchError), opened(folder):
        pass
    with pytest.raises(BackupError, match="holds a warehouse, or the files of one"):
        restore(tmp_path / "store", folder)
    restore(tmp_path / "store", folder, replace=True)
    with opened(folder) as warehouse:
        assert content(warehouse) == [1, 2, 3]
        assert problems(warehouse) == [
            "warning: no snapshot contains this file; it is neither read nor deleted"
        ]
        insert(warehouse, 5)
        assert content(warehouse) == [1, 2, 3, 5]


def test_in_place_of_a_newer_catalog(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store")
        insert(warehouse, 4)
        with open_writer(warehouse.engine) as connection:
            lease.renew_lease(connection, "user", 0, datetime.now(UTC), timedelta(hours=1))
        with pytest.raises(BackupError, match="1 sessions use this warehouse"):
            restore(tmp_path / "store", folder, replace=True)
        with open_writer(warehouse.engine) as connection:
            lease.release_lease(connection, "user", datetime.now(UTC))
    restore(tmp_path / "store", folder, replace=True)
    with opened(folder) as warehouse:
        assert content(warehouse) == [1, 2, 3]
    (kept,) = folder.glob(f"{CATALOG_FILE}.before-restore-*")
    restored = tmp_path / "looked at"
    shutil.copytree(folder / "data", restored / "data")
    shutil.copy(kept, restored / CATALOG_FILE)
    with opened_adopting(restored) as warehouse:
        assert content(warehouse) == [1, 2, 3, 4]


@contextmanager
def opened_adopting(where: Path) -> Iterator[Warehouse]:
    warehouse = open_warehouse(where, None, 5.0, adopt=True)
    yield warehouse
    warehouse.engine.dispose()


def test_a_restore_that_was_cut_off_can_be_run_again(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store")
    store, target = list_backups(tmp_path / "store")[0], tmp_path / "target"
    location = next(iter(store.files))
    (target / "data" / "tables" / location).parent.mkdir(parents=True)
    shutil.copy(store.tables / location, target / "data" / "tables" / location)
    with pytest.raises(WarehouseMismatchError), opened(target):
        pass
    restore(tmp_path / "store", target)
    with opened(target) as warehouse:
        assert content(warehouse) == [1, 2, 3]


def test_writers_and_vacuum_go_on_meanwhile(folder: Path, tmp_path: Path) -> None:
    """Between the copy of the catalog and that of a file, others commit and delete what they may."""
    with opened(folder) as warehouse, opened(folder) as other:
        steps = []

        def interfere(done: int, total: int) -> None:
            steps.append((done, total))
            insert(other, 10 + len(steps))
            vacuum(other, datetime(2099, 1, 1, tzinfo=UTC), Retention(0, 0), None)

        held = SessionLease(warehouse.engine, warehouse.storage.session_id, timedelta(minutes=5))
        back_up(warehouse, held, str(tmp_path / "store"), datetime.now(UTC), listen=interfere)
        held.end()
        assert len(steps) == 2
    restore(tmp_path / "store", tmp_path / "restored")
    with opened(tmp_path / "restored") as warehouse:
        assert (content(warehouse), problems(warehouse)) == ([1, 2, 3], [])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("point", ["backup_catalog", "backup_files"])
def test_a_backup_that_was_killed_is_none(folder: Path, tmp_path: Path, point: str) -> None:
    command = [sys.executable, "-m", "spark_trickle.cli.main", "backup", str(folder), str(tmp_path / "store")]
    killed = subprocess.run(command, env={**os.environ, "SPARK_TRICKLE_CRASH_POINT": point}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert list_backups(tmp_path / "store") == []
    subprocess.run(command, check=True, capture_output=True)
    restore(tmp_path / "store", tmp_path / "restored")
    with opened(tmp_path / "restored") as warehouse:
        assert (content(warehouse), problems(warehouse)) == ([1, 2, 3], [])


def test_links_share_the_disk(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store", link=True)
    originals = {p.name: p.stat().st_ino for p in (folder / "data").rglob("*.parquet")}
    assert {p.name: p.stat().st_ino for p in (tmp_path / "store").rglob("*.parquet")} == originals
    shutil.rmtree(folder)
    restore(tmp_path / "store", folder)
    with opened(folder) as warehouse:
        assert content(warehouse) == [1, 2, 3]


def test_only_the_newest_backups_are_kept(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with opened(folder) as warehouse:
        for n in (4, 5, 6):
            backup(warehouse, store)
            insert(warehouse, n)
        table = table_of(warehouse)
        Lake(warehouse).commit(TableChange(table, ended=Lake(warehouse).files(table)[:1]))
        vacuum(warehouse, datetime(2099, 1, 1, tzinfo=UTC), Retention(0, 0), None)
        backup(warehouse, store, keep=2)
    assert [len(b.files) for b in list_backups(store)] == [4, 4]
    restore(store, tmp_path / "old", name=list_backups(store)[0].name)
    with opened(tmp_path / "old") as warehouse:
        assert (content(warehouse), problems(warehouse)) == ([1, 2, 3, 4, 5], [])


def test_to_another_kind_of_catalog_and_back(folder: Path, tmp_path: Path, postgres_server: str) -> None:
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    address = postgres_server.replace("/postgres?", "/restored?")
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "one")
    restore(tmp_path / "one", address, data_path=str(tmp_path / "data"))
    with pytest.raises(BackupError, match="holds a catalog"):
        restore(tmp_path / "one", address, data_path=str(tmp_path / "data"))
    with opened(address, tmp_path / "data") as warehouse:
        insert(warehouse, 4)
        assert (content(warehouse), problems(warehouse)) == ([1, 2, 3, 4], [])
        backup(warehouse, tmp_path / "two")
    restore(tmp_path / "two", tmp_path / "back")
    with opened(tmp_path / "back") as warehouse:
        insert(warehouse, 5)
        assert (content(warehouse), problems(warehouse)) == ([1, 2, 3, 4, 5], [])


# --- what is refused -------------------------------------------------------------------------------


def spoil(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def spoil_file(store: Path) -> None:
    spoil(next(store.rglob("*.parquet")))


def spoil_catalog(store: Path) -> None:
    spoil(next(store.rglob("catalog.sqlite")))


def spoil_manifest(store: Path) -> None:
    next(store.rglob("manifest.json")).write_text("{}")


def lose_file(store: Path) -> None:
    next(store.rglob("*.parquet")).unlink()


def lose_everything(store: Path) -> None:
    shutil.rmtree(store)


@pytest.mark.parametrize("damage", [spoil_file, spoil_catalog, spoil_manifest, lose_file, lose_everything])
def test_a_damaged_backup_is_refused(folder: Path, tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store")
    damage(tmp_path / "store")
    with pytest.raises((BackupError, DamagedFileError)) as caught:
        restore(tmp_path / "store", tmp_path / "restored")
    assert caught.value.hint.endswith(".")
    assert not (tmp_path / "restored" / CATALOG_FILE).exists()


def test_folders_that_are_no_place_for_a_backup(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with opened(tmp_path / "other") as other:
        insert(other, 1)
        backup(other, tmp_path / "of other")
    with opened(folder) as warehouse:
        for place in ("file", "full", "of other", "w/data/deep", "."):
            with pytest.raises(BackupError) as caught:
                backup(warehouse, (tmp_path / place).resolve())
            assert caught.value.hint.endswith(".")
    assert (tmp_path / "full" / "letter.txt").read_text() == "x"
    with pytest.raises(BackupError, match="belongs to warehouse"):
        restore(tmp_path / "of other", folder, replace=True)


# --- what verify finds -------------------------------------------------------------------------------


def one_file(folder: Path) -> Path:
    return min((folder / "data").rglob("*.parquet"), key=lambda p: p.stat().st_mtime_ns)


def in_catalog(statement: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        import sqlite3

        with sqlite3.connect(folder / CATALOG_FILE) as connection:
            connection.execute(statement)

    return change


FOUND: list[tuple[Callable[[Path], None], str]] = [
    (lambda folder: one_file(folder).unlink(), "the file is missing"),
    (lambda folder: one_file(folder).write_bytes(b"PAR1"), "the file has 4 bytes instead of"),
    (lambda folder: one_file(folder).write_bytes(b"x" * one_file(folder).stat().st_size), "cannot be read"),
    (
        lambda folder: shutil.copy(one_file(folder), one_file(folder).parent / "x.parquet"),
        "no snapshot contains",
    ),
    (
        in_catalog("UPDATE ducklake_data_file SET record_count = 7 WHERE data_file_id = 0"),
        "rows instead of 7",
    ),
    (
        in_catalog("UPDATE trickle_file SET deletes = 1 WHERE data_file_id = 0"),
        "weights of its rows add up to 2",
    ),
    (
        in_catalog("UPDATE ducklake_file_column_stats SET min_value = '-5' WHERE column_id = 2"),
        "statistics of column 2",
    ),
]


@pytest.mark.parametrize(("damage", "message"), FOUND, ids=[m for _, m in FOUND])
def test_verify_finds(folder: Path, damage: Callable[[Path], None], message: str) -> None:
    with opened(folder) as warehouse:
        assert problems(warehouse) == []
    damage(folder)
    with opened(folder) as warehouse:
        assert any(message in p for p in problems(warehouse)), problems(warehouse)


def test_nothing_of_a_session_is_kept_in_a_backup(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        backup(warehouse, tmp_path / "store")
    restore(tmp_path / "store", tmp_path / "r")
    with opened(tmp_path / "r") as warehouse:
        for table in (s.trickle_lease, s.trickle_ended_session, s.trickle_running, s.scheduled):
            assert Lake(warehouse).rows(table) == []

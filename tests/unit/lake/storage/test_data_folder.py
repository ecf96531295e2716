"""A catalog and a data folder that do not belong together are refused, and nothing is touched."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert as insert_into

from spark_trickle.errors import WarehouseError, WarehouseMismatchError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.storage.vacuum import Retention, vacuum
from spark_trickle.lake.warehouse import CATALOG_FILE, Warehouse, open_warehouse
from spark_trickle.model.commit import TableChange
from spark_trickle.model.table import Table
from tests.unit.lake.lakes import Lake, data_file


@contextmanager
def opened(
    where: Path | str, data_path: Path | str | None = None, adopt: bool = False
) -> Iterator[Warehouse]:
    warehouse = open_warehouse(where, None if data_path is None else str(data_path), 5.0, adopt)
    try:
        yield warehouse
    finally:
        warehouse.engine.dispose()


def insert(warehouse: Warehouse) -> None:
    """Commit a file that is really there."""
    lake = Lake(warehouse)
    found = lake.catalog().find(("t",), "main")
    table = found if isinstance(found, Table) else lake.create("t")
    file = data_file()
    path = Path(warehouse.storage.path(table, file.path))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("rows")
    lake.commit(TableChange(table, added=(file,)))


def delete_everything_old(warehouse: Warehouse) -> None:
    vacuum(warehouse, datetime(2099, 1, 1, tzinfo=UTC), Retention(0, 0), None)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.parquet")}


def remove_catalog(folder: Path) -> None:
    for path in folder.glob(f"{CATALOG_FILE}*"):
        path.unlink()


def copy_catalog(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    remove_catalog(target)
    for path in source.glob(f"{CATALOG_FILE}*"):
        shutil.copy(path, target)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A warehouse with one table of two files."""
    with opened(tmp_path / "w") as warehouse:
        insert(warehouse)
        insert(warehouse)
    return tmp_path / "w"


# --- what is refused -------------------------------------------------------------------------------


def without_catalog(folder: Path) -> Path:
    remove_catalog(folder)
    return folder


def empty_catalog(folder: Path) -> Path:
    """As SQLite sees a catalog whose -wal file was removed before it was first merged."""
    remove_catalog(folder)
    with closing(sqlite3.connect(folder / CATALOG_FILE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    return folder


def older_catalog(folder: Path) -> Path:
    copy_catalog(folder, folder.parent / "kept")
    with opened(folder) as warehouse:
        insert(warehouse)
    copy_catalog(folder.parent / "kept", folder)
    return folder


def without_wal(folder: Path) -> Path:
    with opened(folder) as warehouse:
        insert(warehouse)
        copy_catalog(folder, folder.parent / "kept")  # as it is while somebody works
    copy_catalog(folder.parent / "kept", folder)
    for path in folder.glob(f"{CATALOG_FILE}-*"):
        path.unlink()
    return folder


def newer_copy_elsewhere(folder: Path) -> Path:
    """Two copies of one catalog went on with one data folder."""
    copy_catalog(folder, folder.parent / "other")
    with opened(folder.parent / "other", folder / "data") as other:
        insert(other)
    return folder


def catalog_of_a_copy(folder: Path) -> Path:
    """Both went on for as long, by clocks that went back: their snapshots have the same numbers and times."""
    shutil.copytree(folder, folder.parent / "copy")
    for each in (folder, folder.parent / "copy"):
        with opened(each) as warehouse:
            insert(warehouse)
    copy_catalog(folder.parent / "copy", folder)
    return folder


def older_data(folder: Path) -> Path:
    shutil.copytree(folder / "data", folder.parent / "kept")
    with opened(folder) as warehouse:
        insert(warehouse)
    shutil.rmtree(folder / "data")
    shutil.copytree(folder.parent / "kept", folder / "data")
    return folder


def other_warehouse(folder: Path) -> Path:
    with opened(folder.parent / "other") as other:
        insert(other)
        insert(other)
    copy_catalog(folder.parent / "other", folder)
    return folder


def data_is_gone(folder: Path) -> Path:
    shutil.move(folder / "data", folder.parent / "elsewhere")
    (folder / "data").mkdir()
    return folder


def only_the_catalog_was_copied(folder: Path) -> Path:
    copy_catalog(folder, folder.parent / "copy")
    return folder.parent / "copy"


def files_without_marker(folder: Path) -> Path:
    remove_catalog(folder)
    shutil.rmtree(folder / "data" / "_trickle")
    return folder


def damaged_marker(folder: Path) -> Path:
    (folder / "data" / "_trickle" / "warehouse.json").write_text("{")
    return folder


REFUSED: list[tuple[Callable[[Path], Path], str]] = [
    (without_catalog, "the catalog is missing or empty"),
    (empty_catalog, "the catalog is missing or empty"),
    (older_catalog, "holds snapshot 4, but the catalog ends with snapshot 3"),
    (without_wal, "the catalog is an older copy, or its -wal file is missing|is missing or empty"),
    (newer_copy_elsewhere, "holds snapshot 4, but the catalog ends with snapshot 3"),
    (catalog_of_a_copy, "another copy of the catalog committed snapshot 4 to it"),
    (older_data, "it ends with snapshot 3, but the catalog with snapshot 4, and .* is not in it"),
    (other_warehouse, "it belongs to warehouse .*, but the catalog belongs to warehouse"),
    (data_is_gone, "has no marker of this warehouse"),
    (only_the_catalog_was_copied, "has no marker of this warehouse"),
    (files_without_marker, "the catalog is new, but the folder already has data files"),
    (damaged_marker, "cannot be read"),
]


@pytest.mark.parametrize(("prepare", "message"), REFUSED, ids=lambda x: getattr(x, "__name__", None))
def test_what_does_not_belong_together_is_refused(
    folder: Path, prepare: Callable[[Path], Path], message: str
) -> None:
    where = prepare(folder)
    before = files(folder.parent)
    existing = (where / CATALOG_FILE).exists()
    with pytest.raises((WarehouseMismatchError, WarehouseError), match=message) as caught, opened(where):
        pass
    assert caught.value.hint.endswith(".")
    assert files(folder.parent) == before
    assert (where / CATALOG_FILE).exists() == existing


def test_two_warehouses_do_not_share_a_folder(folder: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(WarehouseMismatchError, match="holds the files of warehouse"),
        opened(tmp_path / "second", folder / "data"),
    ):
        pass
    with opened(tmp_path / "third") as third:
        insert(third)
    with (
        pytest.raises(WarehouseMismatchError, match="it belongs to warehouse"),
        opened(tmp_path / "third", folder / "data"),
    ):
        pass
    with opened(tmp_path / "third") as third:  # nothing of it was stored
        assert third.storage.root == str(tmp_path / "third" / "data")


def test_copies_of_a_catalog_that_work_at_the_same_time(folder: Path, tmp_path: Path) -> None:
    """Also without opening anew: whoever commits second is refused, and may delete nothing."""
    copy_catalog(folder, tmp_path / "other")
    with opened(folder) as one, opened(tmp_path / "other", folder / "data") as other:
        insert(one)
        before = files(folder)
        for action in (insert, delete_everything_old):
            with pytest.raises(WarehouseMismatchError, match="holds snapshot 4"):
                action(other)
        assert {k: v for k, v in files(folder).items() if k in before} == before
        insert(one)


# --- what is allowed -------------------------------------------------------------------------------


def test_another_path_to_the_same_folder_belongs_to_the_connection(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(folder / "data")
    with opened(folder, tmp_path / "mounted") as reader:
        assert reader.storage.root == str(tmp_path / "mounted")
        insert(reader)
    with opened(folder) as warehouse:
        assert warehouse.storage.root == str(folder / "data")
        insert(warehouse)


def test_a_copy_that_looks_at_the_files_of_the_original_leaves_no_trace(folder: Path, tmp_path: Path) -> None:
    copy_catalog(folder, tmp_path / "copy")
    with opened(tmp_path / "copy", folder / "data") as copy:
        Lake(copy).newest()
    shutil.copytree(folder, tmp_path / "ahead")
    with opened(tmp_path / "ahead") as ahead:
        Lake(ahead).create("u")
    with opened(tmp_path / "ahead", folder / "data"):
        pass
    with opened(folder) as warehouse:
        insert(warehouse)


def test_a_mistyped_path_is_not_stored(folder: Path, tmp_path: Path) -> None:
    with (
        pytest.raises(WarehouseMismatchError, match=f"the catalog has its files in {folder}/data"),
        opened(folder, tmp_path / "dta"),
    ):
        pass
    assert not (tmp_path / "dta").exists()
    with opened(folder) as warehouse:
        assert warehouse.storage.root == str(folder / "data")


def test_files_move_when_adopting_them_is_asked_for(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "far"
    with (
        pytest.raises(WarehouseMismatchError, match="2 of 2 data files are not in it"),
        opened(folder, moved, adopt=True),
    ):
        pass
    (folder / "data").rename(moved)
    with opened(folder, moved, adopt=True) as warehouse:
        insert(warehouse)
    with opened(folder) as warehouse:
        assert warehouse.storage.root == str(moved)
        insert(warehouse)


def test_a_commit_that_was_not_noted_is_made_up_for(folder: Path) -> None:
    note = folder / "data" / "_trickle" / "newest.json"
    old = note.read_bytes()
    for kept in (old, b"", None):
        with opened(folder) as warehouse:
            insert(warehouse)
        note.unlink()
        if kept is not None:
            note.write_bytes(kept)
        with opened(folder):
            assert note.read_bytes() not in (old, b"")


def test_threads_of_one_connection_note_their_own_commits(folder: Path) -> None:
    """A commit that fails after another began must not show what never was."""
    with opened(folder) as warehouse:
        newest = Lake(warehouse).newest()
        ahead = replace(newest, id=newest.id + 1)

        def fail_while_another_commits() -> None:
            with warehouse.folder.note_commit() as failing:
                failing.prepare(ahead)
                insert(warehouse)
                raise KeyError

        with pytest.raises(KeyError):
            fail_while_another_commits()
        insert(warehouse)
        assert not list((folder / "data" / "_trickle").glob("*.draft"))
    with opened(folder) as warehouse:
        assert Lake(warehouse).newest().id == newest.id + 2


@pytest.mark.parametrize("prepare", [without_catalog, empty_catalog, files_without_marker])
def test_a_new_warehouse_may_begin_in_a_used_folder_and_deletes_nothing(
    folder: Path, prepare: Callable[[Path], Path]
) -> None:
    where, before = prepare(folder), files(folder)
    with opened(where, adopt=True) as warehouse:
        assert Lake(warehouse).newest().id == 0
        delete_everything_old(warehouse)
    assert files(folder) == before
    with opened(where) as warehouse:
        insert(warehouse)


def test_an_older_catalog_may_go_on_and_deletes_nothing_that_it_does_not_know(folder: Path) -> None:
    older_catalog(folder)
    with opened(folder, adopt=True) as warehouse:
        delete_everything_old(warehouse)
        assert len(files(folder)) == 3
        insert(warehouse)
        assert Lake(warehouse).rows(s.trickle_ended_session) == []
    with opened(folder) as warehouse:
        assert Lake(warehouse).newest().id == 4


def test_an_older_catalog_forgets_what_it_meant_to_delete(folder: Path) -> None:
    """Another catalog may have brought these files back, and need them."""
    with opened(folder) as warehouse, open_writer(warehouse.engine) as connection:
        location = next(p for p in (folder / "data").rglob("*.parquet")).relative_to(folder / "data")
        connection.execute(insert_into(s.scheduled).values(data_file_id=99, path=str(location)))
    older_catalog(folder)
    before = files(folder)
    with opened(folder, adopt=True) as warehouse:
        delete_everything_old(warehouse)
    assert files(folder) == before


def test_an_older_catalog_whose_files_are_gone_cannot_be_adopted(folder: Path) -> None:
    known = next(iter(files(folder)))
    older_catalog(folder)
    (folder / known).unlink()
    with pytest.raises(WarehouseMismatchError, match="1 of 2 data files"), opened(folder, adopt=True):
        pass


def test_a_folder_that_was_made_before_there_were_markers(folder: Path) -> None:
    shutil.rmtree(folder / "data" / "_trickle")
    with closing(sqlite3.connect(folder / CATALOG_FILE)) as connection:
        connection.execute("DELETE FROM trickle_info WHERE key = 'data_folder_marked'")
        connection.commit()
    with opened(folder) as warehouse:
        insert(warehouse)
    shutil.rmtree(folder / "data" / "_trickle")
    with pytest.raises(WarehouseMismatchError, match="has no marker"), opened(folder):
        pass


# --- the ways to write a path ------------------------------------------------------------------------

PATHS = [
    ("file:{0}/a%20b", "a b"),
    ("file://{0}/a b", "a b"),
    ("file://localhost{0}/x", "x"),
    ("{0}/a%20b", "a%20b"),
    ("FILE://{0}/x", "x"),
]


@pytest.mark.parametrize(("written", "meant"), PATHS)
def test_ways_to_write_a_path(
    tmp_path: Path, written: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(tmp_path / "w", written.format(tmp_path)) as warehouse:
        assert warehouse.storage.root == str(tmp_path / meant)
    with opened(written.format(tmp_path / "whole")) as warehouse:
        assert warehouse.storage.root == str(tmp_path / "whole" / meant / "data")
    assert {p.name for p in tmp_path.iterdir()} == {"w", meant, "whole"}


@pytest.mark.parametrize("path", ["s3://b/x", "s3a://b/x", "hdfs://n/x", "gs:/b", "file://host/x", "file:x"])
def test_paths_that_cannot_be_used_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(WarehouseError) as caught, opened(tmp_path / "w", path):
        pass
    assert caught.value.hint.endswith(".")
    assert not (tmp_path / "w").exists()


# --- without the right to write ----------------------------------------------------------------------


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def show_to_all(path: Path) -> None:
    """pytest's temporary folders, of which a worker has one more, are closed to others."""
    temporary = Path(tempfile.gettempdir())
    for parent in path.parents:
        if temporary in parent.parents:
            parent.chmod(0o755)


@pytest.fixture
def protected(folder: Path) -> Iterator[Path]:
    """A warehouse in which nobody may write."""
    paths = [folder, *folder.rglob("*")]
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    show_to_all(folder)
    yield folder
    for path in paths:
        path.chmod(0o755)


def test_a_warehouse_that_can_only_be_read(protected: Path) -> None:
    with as_somebody_else(), opened(protected) as warehouse:
        assert warehouse.read_only
        assert Lake(warehouse).newest().id == 3
        with pytest.raises(WarehouseError, match="is read-only for this user; nothing was written"):
            Lake(warehouse).create("u")


def test_commits_that_are_only_in_the_log_need_a_writer(folder: Path, tmp_path: Path) -> None:
    with opened(folder) as warehouse:
        insert(warehouse)
        shutil.copytree(folder, tmp_path / "copy")
    copy = tmp_path / "copy"
    (copy / f"{CATALOG_FILE}-shm").unlink()
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    show_to_all(copy)
    with as_somebody_else(), pytest.raises(WarehouseError, match="has commits in"), opened(copy):
        pass
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755)

"""Opening a warehouse: new, again, moved, or something that is none; nothing foreign is touched."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from spark_trickle.errors import CatalogBusyError, VersionError, WarehouseError
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.migrations import HEAD
from spark_trickle.lake.catalog.read import read_newest
from spark_trickle.lake.warehouse import CATALOG_FILE, Warehouse, open_warehouse
from tests.unit.lake.lakes import Lake
from tests.unit.sql.marked import bug


@contextmanager
def opened(where: Path | str, data_path: str | None = None, timeout: float = 5.0) -> Iterator[Warehouse]:
    warehouse = open_warehouse(where, data_path, timeout)
    try:
        yield warehouse
    finally:
        warehouse.engine.dispose()


def change_catalog(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / CATALOG_FILE)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with one table and a data folder, closed; tests work on copies of it."""
    folder = tmp_path_factory.mktemp("template") / "warehouse"
    with opened(folder) as warehouse:
        Lake(warehouse).insert(Lake(warehouse).create("t"))
    (folder / "data" / "tables").mkdir(parents=True)
    return folder


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    """The template, as if it had been made here."""
    made = tmp_path / "warehouse"
    shutil.copytree(template, made)
    change_catalog(made, f"UPDATE ducklake_metadata SET value = '{made}/data/' WHERE key = 'data_path'")
    return made


def test_a_new_warehouse_is_an_empty_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path / "deep" / "down") as warehouse:
        lake = Lake(warehouse)
        assert lake.newest().id == 0
        assert set(lake.catalog().schemas) == {"main", "_trickle"}
        assert lake.catalog().relations == {}
        assert warehouse.storage.root == str(tmp_path / "deep" / "down" / "data")


def test_opening_again_finds_everything(folder: Path) -> None:
    with opened(folder) as first, opened(str(folder)) as second:
        assert Lake(second).newest() == Lake(first).newest()
        assert Lake(second).newest().id == 2
        table = Lake(second).catalog().table(("T",), "main")
        assert len(Lake(second).files(table)) == 1
        assert first.storage.session_id != second.storage.session_id


def test_an_address_opens_the_same_catalog(folder: Path) -> None:
    with opened(f"sqlite:///{folder}/{CATALOG_FILE}") as warehouse:
        assert Lake(warehouse).newest().id == 2
        assert warehouse.storage.root == f"{folder}/data"


def test_data_may_lie_elsewhere(tmp_path: Path) -> None:
    with opened(tmp_path / "w", data_path=str(tmp_path / "far")) as warehouse:
        assert warehouse.storage.root == str(tmp_path / "far")
    with opened(tmp_path / "w") as warehouse:
        assert warehouse.storage.root == str(tmp_path / "far")


def test_a_moved_folder_takes_its_data_along(folder: Path, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    folder.rename(moved)
    for _ in range(2):
        with opened(moved) as warehouse:
            assert warehouse.storage.root == str(moved / "data")
            assert Lake(warehouse).newest().id == 2
    assert not folder.exists()


def test_an_empty_warehouse_can_be_moved_too(tmp_path: Path) -> None:
    with opened(tmp_path / "old"):
        pass
    (tmp_path / "old").rename(tmp_path / "new")
    with opened(tmp_path / "new") as warehouse:
        assert warehouse.storage.root == str(tmp_path / "new" / "data")


def test_a_copied_folder_has_data_of_its_own(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    with opened(tmp_path / "copy") as copy:
        assert copy.storage.root == str(tmp_path / "copy" / "data")


NOT_ESCAPED = "the folder is put into the address of the catalog as it is"
ODD_NAMES = ["a b", "ünï 😀", "100%", "a#b", "x'y\"z", "a;b&c", "[x]{y}", "-x", "~x",
             bug("a?b=c", reason=NOT_ESCAPED), bug("a%20b", reason=NOT_ESCAPED)]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.filterwarnings("ignore:Query string argument")
def test_folders_with_odd_names(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / name) as warehouse:
        assert warehouse.storage.root == str(tmp_path / name / "data")
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / CATALOG_FILE).is_file()


def a_file(folder: Path) -> Path:
    folder.write_text("hello")
    return folder


def below_a_file(folder: Path) -> Path:
    return a_file(folder) / "sub"


def no_database(folder: Path) -> Path:
    folder.mkdir()
    (folder / CATALOG_FILE).write_bytes(b"hello world" * 1000)
    return folder


def catalog_is_a_folder(folder: Path) -> Path:
    (folder / CATALOG_FILE).mkdir(parents=True)
    return folder


def foreign_ducklake(folder: Path) -> Path:
    folder.mkdir()
    change_catalog(folder, "CREATE TABLE ducklake_metadata (key, value)")
    return folder


def contents(folder: Path) -> dict[Path, object]:
    """Each file's bytes, or the tables and rows of a database: it may be written in another mode."""
    found: dict[Path, object] = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.read_bytes().startswith(b"SQLite"):
            with closing(sqlite3.connect(path)) as connection:
                found[path] = list(connection.iterdump())
        elif path.is_file():
            found[path] = path.read_bytes()
    return found


REFUSED: list[tuple[Callable[[Path], Path], str]] = [
    (a_file, "is a file, not a folder"),
    (below_a_file, "cannot be created"),
    (no_database, "is not a database"),
    (catalog_is_a_folder, "unable to open database file"),
    (foreign_ducklake, "a DuckLake that spark-trickle did not create"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=lambda x: getattr(x, "__name__", None))
def test_what_is_no_warehouse_is_refused(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    where = make(tmp_path / "w")
    before = contents(tmp_path)
    with pytest.raises(WarehouseError, match=message) as caught:
        open_warehouse(where, None, 5.0)
    assert caught.value.hint.endswith(".")
    after = contents(tmp_path)
    assert {p: after.get(p) for p in before} == before


@pytest.mark.parametrize(
    "address", ["mysql://a/b", "s3://bucket/x", "s3a:/bucket", "://", "postgresql://nobody@127.0.0.1:1/none"]
)
def test_addresses_that_lead_nowhere(address: str) -> None:
    with pytest.raises(WarehouseError) as caught:
        open_warehouse(address, None, 5.0)
    assert caught.value.hint.endswith(".")


@pytest.mark.parametrize("address", ["sqlite://", "sqlite:///:memory:"])
def test_a_catalog_in_memory_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WarehouseError):
        open_warehouse(address, None, 5.0)


TOO_NEW = [
    (
        "UPDATE trickle_version SET version_num = '9999'",
        f"catalog version 9999, but this release supports {HEAD}",
    ),
    ("UPDATE ducklake_metadata SET value = '2.0' WHERE key = 'version'", "catalog version DuckLake 2.0"),
]


@pytest.mark.parametrize(("statement", "message"), TOO_NEW)
def test_a_newer_warehouse_is_refused_and_left_alone(folder: Path, statement: str, message: str) -> None:
    change_catalog(folder, statement)
    before = (folder / CATALOG_FILE).read_bytes()
    with pytest.raises(VersionError, match=message):
        open_warehouse(folder, None, 5.0)
    assert (folder / CATALOG_FILE).read_bytes() == before


def test_a_locked_catalog_is_waited_for_and_then_reported(folder: Path) -> None:
    with opened(folder, timeout=0.02) as warehouse, closing(sqlite3.connect(folder / CATALOG_FILE)) as other:
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        with open_reader(warehouse.engine) as connection:
            assert read_newest(connection).id == 2
        with (
            pytest.raises(CatalogBusyError, match=r"for 0\.02 seconds") as caught,
            open_writer(warehouse.engine),
        ):
            pass
        assert caught.value.retryable
        other.execute("ROLLBACK")
        with open_writer(warehouse.engine) as connection:
            assert read_newest(connection).id == 2


def test_a_reader_keeps_its_view_while_others_commit(folder: Path) -> None:
    with opened(folder) as warehouse:
        lake = Lake(warehouse)
        table = lake.catalog().table(("t",), "main")
        with open_reader(warehouse.engine) as connection:
            before = read_newest(connection)
            lake.insert(table)
            assert read_newest(connection) == before
        assert lake.newest().id == before.id + 1


def test_a_failed_writer_leaves_nothing(folder: Path) -> None:
    with opened(folder) as warehouse:

        def fail_half_way() -> None:
            with open_writer(warehouse.engine) as connection:
                connection.exec_driver_sql("DELETE FROM ducklake_snapshot")
                raise KeyError

        with pytest.raises(KeyError):
            fail_half_way()
        assert Lake(warehouse).newest().id == 2

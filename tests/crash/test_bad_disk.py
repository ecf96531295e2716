"""A disk that is full or read-only gives a clear error, keeps no leftovers, and loses nothing."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import errors as e
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.crash.refusal import check_refused, check_text
from tests.crash.witness import files_of_tables, files_on_disk, without_checksums

# Some six megabytes of random text, written by one task: what another task leaves is another question.
BIG = "SELECT id, concat_ws('', transform(sequence(1, 64), x -> uuid())) FROM range(10, 5000, 1, 1)"
ROWS = [(1, "a"), (2, "b")]
EXECUTORS = "SET trickle.max_driver_rows = 1"


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Callable[[str], None]]:
    """A small disk of its own below a folder, and a function that mounts it anew with other options."""
    folder.mkdir(exist_ok=True)

    def mount(options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"mounting a disk is not permitted here: {made.stderr.strip()}")

    mount(f"size={size}")
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def longest_file(size: int) -> Iterator[None]:
    """This process can write no file beyond a size; to a program that looks like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def occupy(folder: Path) -> Path:
    """Take all the space that is left."""
    path = folder / "occupied"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    for size in (65536, 4096, 512, 1):
        try:
            while os.write(handle, b"x" * size):
                pass
        except OSError:
            continue
    os.close(handle)
    return path


def fill(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    tr.sql("CREATE TABLE bag (id BIGINT, name STRING)")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    tr.sql("INSERT INTO bag VALUES (1, 'a')")


def several(tr: Trickle) -> None:
    with tr.transaction():
        tr.sql("INSERT INTO t VALUES (3, 'c')")
        tr.sql("CREATE TABLE fresh (id BIGINT)")
        tr.sql(f"INSERT INTO bag {BIG}")


def goes_on(tr: Trickle) -> None:
    tr.sql("INSERT INTO t VALUES (3, 'c')")
    tr.sql("OPTIMIZE t")
    assert rows(tr.table("t")) == [*ROWS, (3, "c")]


def test_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "5m") as remount:
        location = Location(str(tmp_path / "disk"), None)
        with location.connect() as tr:
            fill(tr)
            for way in ("SET trickle.max_driver_rows = 100000", EXECUTORS):
                tr.sql(way)
                for action in (lambda: tr.sql(f"INSERT INTO bag {BIG}"), lambda: several(tr)):
                    check_refused(tr, location, action, e.WarehouseError, "space")
            assert rows(tr.table("t")) == ROWS
            remount("size=20m")  # Spark keeps its half-written file open, so its space is not free yet
            goes_on(tr)


def test_a_transaction_whose_sum_finds_no_space(tmp_path: Path) -> None:
    """Its statements fit, but what they add up to is written beside them before the commit."""
    half = BIG.replace("5000", "1500")
    with mounted(tmp_path / "disk", "8m"):
        location = Location(str(tmp_path / "disk"), None)
        with location.connect() as tr:
            fill(tr)

            def grow() -> None:
                with tr.transaction():
                    tr.sql(f"INSERT INTO bag {half}")
                    tr.sql("DELETE FROM bag WHERE id = 1")
                    room.append(occupy(tmp_path / "disk"))

            room: list[Path] = []
            before = tr.snapshot
            with pytest.raises(e.TrickleError) as caught:
                grow()
            check_text(caught.value, e.WarehouseError, "space")
            room[0].unlink()
            check_refused(tr, location, lambda: tr.sql("COMMIT"), e.TransactionStateError)
            assert (tr.snapshot, rows(tr.table("bag"))) == (before, [(1, "a")])
            assert len(list((tmp_path / "disk" / "data").rglob("*.parquet"))) == 2


def test_a_full_disk_under_the_catalog(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "2m"):
        location = Location(f"sqlite:///{tmp_path}/disk/catalog.sqlite", str(tmp_path / "data"))
        with location.connect() as tr:
            fill(tr)
            occupied = occupy(tmp_path / "disk")
            for statement in (
                "INSERT INTO t VALUES (3, 'c')",
                "CREATE TABLE x AS SELECT * FROM t",
                "DROP TABLE t",
            ):
                refused_by_the_catalog(tr, lambda sql=statement: tr.sql(sql))
            occupied.unlink()
        check_recovered(location)


def test_a_write_that_fails_halfway(tmp_path: Path) -> None:
    location = Location(str(tmp_path / "warehouse"), None)
    with location.connect() as tr:
        fill(tr)

        def limited(size: int, statement: str) -> None:
            with longest_file(size):
                tr.sql(statement)

        large, small = f"INSERT INTO bag {BIG}", "INSERT INTO t VALUES (3, 'c')"
        check_refused(tr, location, lambda: limited(2_000_000, large), e.WarehouseError, "data")
        refused_by_the_catalog(tr, lambda: limited(3_000, small))
    check_recovered(location)


def refused_by_the_catalog(tr: Trickle, action: Callable[[], object]) -> None:
    """The data was written before; whether the commit failed for good may be unclear, so it may stay."""
    before = tr.snapshot
    with pytest.raises(e.TrickleError) as caught:
        action()
    check_text(caught.value, e.WarehouseError, "catalog")
    assert (tr.snapshot, rows(tr.table("t"))) == (before, ROWS)


def check_recovered(location: Location) -> None:
    """With space again all goes on, and VACUUM removes what failed writers left."""
    with location.connect() as tr:
        goes_on(tr)
        tr.sql("SET trickle.orphan_hours = 0")
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert without_checksums(set(files_on_disk(location))) == files_of_tables(tr, location)


CHANGE_DATA = (
    "INSERT INTO t VALUES (3, 'c')",
    "UPDATE t SET name = 'x'",
    "DELETE FROM t WHERE id = 1",
    "CREATE TABLE x AS SELECT * FROM t",
)


def test_read_only_data(tmp_path: Path) -> None:
    """Under a session that is open; the catalog lies elsewhere."""
    with mounted(tmp_path / "disk", "8m") as remount:
        location = Location(f"sqlite:///{tmp_path}/catalog.sqlite", str(tmp_path / "disk"))
        with location.connect() as tr:
            fill(tr)
            remount("ro")
            for statement in CHANGE_DATA:
                check_refused(tr, location, lambda sql=statement: tr.sql(sql), e.WarehouseError, "Read-only")
            tr.sql(EXECUTORS)
            by_executors = "INSERT INTO bag SELECT * FROM t"
            check_refused(tr, location, lambda: tr.sql(by_executors), e.WarehouseError, "Read-only")
            assert rows(tr.table("t")) == ROWS
            remount("rw")
            goes_on(tr)


def test_a_read_only_warehouse(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "8m") as remount:
        location = Location(str(tmp_path / "disk"), None)
        with location.connect() as tr:
            fill(tr)
        remount("ro")
        with location.connect() as tr:
            assert rows(tr.table("t")) == ROWS
            merge = "MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN DELETE"
            for statement in (*CHANGE_DATA, merge, "CREATE TABLE x (id INT)", "OPTIMIZE t", "VACUUM"):
                with pytest.raises(e.TrickleError) as caught:
                    tr.sql(statement)
                check_text(caught.value, e.WarehouseError, "catalog.sqlite read-only")
            assert rows(tr.sql("SELECT * FROM t VERSION AS OF 2")) is not None
        with pytest.raises(e.TrickleError) as caught:
            spark_trickle.connect(tmp_path / "disk" / "new")
        check_text(caught.value, e.WarehouseError, "new Read-only")
        remount("rw")
        check_recovered(location)


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not count for root")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    location = Location(str(tmp_path / "warehouse"), None)
    with location.connect() as tr:
        fill(tr)
        folders = [p for p in (tmp_path / "warehouse").rglob("*") if p.is_dir()] + [tmp_path / "warehouse"]
        for folder in folders:
            folder.chmod(0o555)
        try:
            check_refused(tr, location, lambda: tr.sql("UPDATE t SET name = 'x'"), e.WarehouseError)
        finally:
            for folder in folders:
                folder.chmod(0o755)
        goes_on(tr)

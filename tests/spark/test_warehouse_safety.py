"""Catalogs that are lost, older or elsewhere, and backups, through the public API."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import spark_trickle
from spark_trickle import errors as e
from tests.conftest import rows

FILL = (
    "CREATE TABLE t (id INT PRIMARY KEY, v STRING)",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "CREATE STREAM TABLE s AS SELECT count(*) AS n FROM t",
    "UPDATE t SET v = 'c' WHERE id = 2",
    "REFRESH STREAM TABLE s",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with spark_trickle.connect(tmp_path / "w") as tr:
        for statement in FILL:
            tr.sql(statement)
    return tmp_path / "w"


def files(folder: Path) -> set[str]:
    return {p.name for p in folder.rglob("*.parquet")}


def test_vacuum_without_the_catalog_deletes_nothing(folder: Path) -> None:
    before = files(folder)
    for path in folder.glob("catalog.sqlite*"):
        path.unlink()
    with pytest.raises(e.WarehouseMismatchError, match="the catalog is missing or empty"):
        spark_trickle.connect(folder)
    with spark_trickle.connect(folder, adopt=True) as tr:
        tr.sql("SET trickle.orphan_hours = 0")
        assert rows(tr.sql("VACUUM RETAIN 0 HOURS DRY RUN")) == []
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert rows(tr.sql("SHOW TABLES")) == []
    assert files(folder) == before


def test_a_dry_run_tells_what_vacuum_deletes(folder: Path) -> None:
    with spark_trickle.connect(folder) as tr:
        tr.sql("DROP STREAM TABLE s")
        tr.sql("OPTIMIZE t")
        before = files(folder)
        planned = tr.sql("VACUUM RETAIN 0 HOURS DRY RUN").collect()
        assert files(folder) == before
        assert {r.reason for r in planned} == {"no remaining snapshot needs it"}
        assert all(r.bytes > 0 for r in planned)
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert before - files(folder) == {Path(r.path).name for r in planned} != set()


def test_backup_loss_and_restore(folder: Path, tmp_path: Path) -> None:
    """The drill of the guide: what was backed up is back, stream tables go on from there."""
    with spark_trickle.connect(folder) as tr:
        tr.sql(f"BACKUP WAREHOUSE TO '{tmp_path}/store'")
        tr.sql("INSERT INTO t VALUES (3, 'x')")
        with tr.transaction(), pytest.raises(e.UnsupportedError):
            tr.backup(f"{tmp_path}/store")
        assert tr.backup(f"{tmp_path}/store").copied_files == 1
    shutil.rmtree(folder)
    spark_trickle.restore(tmp_path / "store", folder)
    with spark_trickle.connect(folder) as tr:
        assert rows(tr.table("t")) == [(1, "a"), (2, "c"), (3, "x")]
        assert rows(tr.table("s")) == [(2,)]
        tr.sql("DELETE FROM t WHERE id = 1")
        assert tr.refresh("s").action == "DIFFERENTIAL"
        assert rows(tr.table("s")) == [(2,)]
        found = rows(tr.sql("SELECT severity, table_name FROM trickle.verify() WHERE path IS NULL"))
        assert {("ok", "main.t"), ("ok", "main.s")} <= set(found)
        assert rows(tr.sql("SELECT * FROM trickle.verify('t') WHERE severity <> 'ok'")) == []


def test_a_copy_becomes_a_warehouse_of_its_own(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    with spark_trickle.connect(tmp_path / "copy") as copy:
        copy.sql("ALTER WAREHOUSE RENEW IDENTITY")
        copy.sql("INSERT INTO t VALUES (9, 'copy')")
    with spark_trickle.connect(tmp_path / "copy") as copy, spark_trickle.connect(folder) as tr:
        assert (rows(copy.table("t"))[-1], len(rows(tr.table("t")))) == ((9, "copy"), 2)
    shutil.copy(folder / "catalog.sqlite", tmp_path / "copy" / "catalog.sqlite")
    with pytest.raises(e.WarehouseMismatchError, match="it belongs to warehouse"):
        spark_trickle.connect(tmp_path / "copy")


def test_a_folder_that_vanishes_under_a_connection(folder: Path, tmp_path: Path) -> None:
    """An unmounted share is told of as such, and nothing is committed into the empty place."""
    with spark_trickle.connect(folder) as tr:
        before = tr.snapshot
        (folder / "data").rename(tmp_path / "away")
        for statement in ("INSERT INTO t VALUES (5, 'e')", "CREATE TABLE u (a INT)", "VACUUM"):
            with pytest.raises(e.WarehouseMismatchError, match="has no marker"):
                tr.sql(statement)
        with pytest.raises(e.WarehouseMismatchError, match="has no marker"):
            tr.table("t").collect()
        shutil.rmtree(folder / "data", ignore_errors=True)
        (tmp_path / "away").rename(folder / "data")
        assert (tr.snapshot, len(rows(tr.table("t")))) == (before, 2)
        tr.sql("INSERT INTO t VALUES (5, 'e')")

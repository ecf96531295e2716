"""VACUUM forgets what nobody can read any more, and deletes the files that only that needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from spark_trickle.errors import SnapshotNotFoundError
from spark_trickle.lake.catalog import lease
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.catalog.lease import Lease, this_host
from spark_trickle.lake.storage.vacuum import Retention, Vacuumed, plan_vacuum, vacuum
from spark_trickle.lake.warehouse import open_warehouse
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.table import Table
from tests.unit.lake.lakes import NOW, Lake, data_file


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    warehouse = open_warehouse(tmp_path / "warehouse", None, 5.0)
    yield Lake(warehouse)
    warehouse.engine.dispose()


def on_disk(lake: Lake, table: Table, *files: DataFile) -> None:
    folder = Path(lake.warehouse.storage.folder(table))
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        (folder / file.path).write_text("rows")


def present(lake: Lake) -> set[str]:
    return {p.name for p in (Path(lake.warehouse.storage.root) / "tables").rglob("*") if p.is_file()}


def later(lake: Lake) -> datetime:
    return lake.newest().time + timedelta(days=100)


def run(lake: Lake, hours: float, orphan_hours: float = 0) -> Vacuumed:
    planned = plan_vacuum(lake.warehouse, later(lake), Retention(hours, orphan_hours), None)
    before = present(lake)
    done = vacuum(lake.warehouse, later(lake), Retention(hours, orphan_hours), None)
    # What a dry run shows is what is done.
    assert {d.location.split("/")[-1] for d in planned.deletions} == before - present(lake)
    assert planned.snapshots == done.snapshots
    return done


def three_commits(lake: Lake) -> tuple[Table, list[DataFile]]:
    """An insert, another one, and the compaction that replaces both."""
    table = lake.create("t")
    one, two, base = data_file(), data_file(), data_file(role=Role.BASE)
    on_disk(lake, table, one, two, base)
    lake.commit(TableChange(table, added=(one,)))
    lake.commit(TableChange(table, added=(two,)))
    lake.commit(TableChange(table, added=(base,), ended=lake.files(table)))
    return table, [one, two, base]


def test_what_is_old_enough_goes(lake: Lake) -> None:
    table, (_, _, base) = three_commits(lake)
    newest = lake.newest()
    assert run(lake, 0) == Vacuumed(snapshots=4, files=2, orphans=0)
    assert lake.newest() == newest
    assert [f.path for f in lake.files(table)] == [base.path]
    assert present(lake) == {base.path}
    assert run(lake, 0) == Vacuumed(0, 0, 0)


def test_what_was_forgotten_is_not_an_empty_table(lake: Lake) -> None:
    table, _ = three_commits(lake)
    read_at = lake.newest().id - 1
    assert len(lake.files(table, read_at)) == 2
    run(lake, 0)
    with pytest.raises(SnapshotNotFoundError):
        lake.files(table, read_at)


def test_what_is_young_stays(lake: Lake) -> None:
    _, files = three_commits(lake)
    assert run(lake, 24 * 365) == Vacuumed(0, 0, 0)
    assert present(lake) == {f.path for f in files}


@pytest.mark.parametrize("hours", [1e8, 1e12, float("inf")])
def test_keeping_everything_for_ever_is_allowed(lake: Lake, hours: float) -> None:
    three_commits(lake)
    assert run(lake, hours) == Vacuumed(0, 0, 0)


def test_a_reader_elsewhere_keeps_its_snapshot(lake: Lake) -> None:
    table, files = three_commits(lake)
    reads_since = lake.newest().id - 1
    reader = Lease("reader", "other/boot", 1, reads_since, later(lake) + timedelta(minutes=1))
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(insert(s.trickle_lease), [vars(reader)])
    assert run(lake, 0) == Vacuumed(snapshots=3, files=0, orphans=0)
    assert present(lake) == {f.path for f in files}
    assert len(lake.files(table, reads_since)) == 2


def write(file: Path) -> None:
    """A file as old as the commits of these tests."""
    file.write_text("rows")
    os.utime(file, (NOW.timestamp(), NOW.timestamp()))


def known(lake: Lake, session: str, alive: bool, process: int) -> None:
    """Tell the catalog of a session."""
    writer = Lease(session, this_host(), os.getpid() if alive else process, 0, NOW)
    with open_writer(lake.warehouse.engine) as connection:
        connection.execute(insert(s.trickle_lease), [vars(writer)])


def test_files_nobody_knows_go_only_if_their_writer_is_known_to_have_ended(
    lake: Lake, dead_process: int
) -> None:
    table, (_, _, base) = three_commits(lake)
    folder = Path(lake.warehouse.storage.folder(table))
    mine = lake.warehouse.storage.new_name()
    names = ("gone-1.parquet", ".gone-1.parquet.crc", "alive-2.parquet", "nobody-3.parquet")
    for name in (*names, "notes.txt", f"{mine}.parquet"):
        write(folder / name)
    (folder / "gone-3").mkdir()
    write(folder / "gone-3" / "part-0.parquet")
    write(folder.parent / "stray.parquet")
    known(lake, "alive", True, dead_process)
    known(lake, "gone", False, dead_process)
    assert run(lake, 0, orphan_hours=1e6).orphans == 0  # they are too young
    assert run(lake, 0).orphans == 3
    kept = {"alive-2.parquet", "nobody-3.parquet", "notes.txt", "stray.parquet", f"{mine}.parquet"}
    assert present(lake) == {base.path, *kept}
    assert not (folder / "gone-3").exists()


def test_a_session_that_ended_is_remembered_until_its_files_were_looked_at(
    lake: Lake, dead_process: int
) -> None:
    table, _ = three_commits(lake)
    known(lake, "gone", False, dead_process)
    run(lake, 0, orphan_hours=1e6)
    write(Path(lake.warehouse.storage.folder(table)) / "gone-1.parquet")
    assert [row["session_id"] for row in lake.rows(s.trickle_ended_session)] == ["gone"]
    assert run(lake, 0).orphans == 1
    run(lake, 0)
    with open_writer(lake.warehouse.engine) as connection:
        lease.forget_ended(connection, later(lake) + timedelta(hours=1))
    assert lake.rows(s.trickle_ended_session) == []


def test_a_session_that_lives_after_all_keeps_its_files(lake: Lake, dead_process: int) -> None:
    """The clock of another machine may have said that it had ended."""
    table, _ = three_commits(lake)
    write(Path(lake.warehouse.storage.folder(table)) / "far-1.parquet")
    with open_writer(lake.warehouse.engine) as connection:
        lease.release_lease(connection, "far", NOW)
        lease.renew_lease(connection, "far", 0, NOW, timedelta(days=1))
    assert run(lake, 0).orphans == 0
    assert "far-1.parquet" in present(lake)

"""Delete old snapshots with the files that only they need, and files of crashed writers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, Select, delete, func, insert, select

from spark_trickle.lake.catalog import lease, read, sources, states
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.lake.storage.files import TABLES_FOLDER, Storage
from spark_trickle.lake.warehouse import Warehouse

LONGEST_RETENTION_HOURS = 1_000 * 365 * 24  # longer than any warehouse, and still a date


@dataclass(frozen=True)
class Retention:
    """How long what nobody needs is kept: snapshots, and files that were never committed."""

    snapshot_hours: float
    orphan_hours: float


@dataclass(frozen=True)
class Deletion:
    """A file that VACUUM deletes, and why."""

    location: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class VacuumPlan:
    """What VACUUM would do: snapshots before `keep` are forgotten, and these files deleted."""

    keep: int
    snapshots: int
    deletions: tuple[Deletion, ...]


@dataclass(frozen=True)
class Vacuumed:
    snapshots: int
    files: int
    orphans: int


_UNNEEDED = "no remaining snapshot needs it"
_SCHEDULED = "an earlier VACUUM ended before it deleted this"
_ABANDONED = "a session wrote it and ended without a commit"


def vacuum(warehouse: Warehouse, now: datetime, retention: Retention, folder: str | None) -> Vacuumed:
    """Forget snapshots, then delete files, of one table's folder or of all.

    Snapshots are global, so they are forgotten for the whole warehouse. Forget first, delete after:
    a crash between leaves files that the next run finds scheduled.
    """
    engine, storage = warehouse.engine, warehouse.storage
    with open_writer(engine) as connection:
        warehouse.folder.require(read.read_newest(connection), partial(read.find_snapshot, connection))
        lease.forget_dead(connection, now)
        keep = _oldest_needed(connection, storage.session_id, now, retention.snapshot_hours)
        snapshots = _forget_snapshots(connection, keep)
        _schedule_files(connection, keep, now)
    crash_point("vacuum_after_forget")
    orphans = _find_orphans(engine, storage, now, retention.orphan_hours, folder)
    for orphan in orphans:
        _delete_location(storage, orphan.location)
    files = _delete_scheduled(engine, storage, folder)
    storage.delete_empty_folders(folder)
    if folder is None:
        with open_writer(engine) as connection:
            warehouse.folder.marker.remove_drafts(lease.read_ended_sessions(connection))
            lease.forget_ended(connection, _hours_before(now, retention.orphan_hours))
    return Vacuumed(snapshots, files, len(orphans))


def plan_vacuum(
    warehouse: Warehouse,
    now: datetime,
    retention: Retention,
    folder: str | None,
    resting: Iterable[int] = (),
) -> VacuumPlan:
    """What VACUUM would do now; nothing is changed. `resting` stream tables would be moved on first."""
    engine, storage = warehouse.engine, warehouse.storage
    with open_reader(engine) as connection:
        warehouse.folder.require(read.read_newest(connection), partial(read.find_snapshot, connection))
        keep = _oldest_needed(connection, storage.session_id, now, retention.snapshot_hours, resting)
        older = select(func.count()).where(s.snapshot.c.snapshot_id < keep)
        snapshots = int(connection.execute(older).scalar_one())
        rows = connection.execute(_select_unneeded(keep)).all()
        unneeded = {row.location: _UNNEEDED for row in rows if row.location is not None}
        paths = connection.execute(select(s.scheduled.c.path))
        unneeded |= {row.path.removeprefix(TABLES_FOLDER): _SCHEDULED for row in paths}
    sizes = {file.location: file.bytes for file in storage.all_files(folder)}
    known = [Deletion(name, sizes[name], reason) for name, reason in unneeded.items() if name in sizes]
    orphans = _find_orphans(engine, storage, now, retention.orphan_hours, folder)
    return VacuumPlan(keep, snapshots, tuple(sorted((*known, *orphans), key=lambda d: d.location)))


def _oldest_needed(
    connection: Connection,
    own_session: str,
    now: datetime,
    retain_hours: float,
    resting: Iterable[int] = (),
) -> int:
    """The oldest snapshot somebody may still read: the one in force at the horizon, or a live reader's."""
    horizon = _hours_before(now, retain_hours)
    in_force = connection.execute(
        select(func.max(s.snapshot.c.snapshot_id)).where(s.snapshot.c.snapshot_time <= horizon)
    ).scalar()
    needed = read.read_oldest_id(connection) if in_force is None else int(in_force)
    # The session that runs VACUUM knows what it still reads; the others are protected by their leases.
    others = [x for x in lease.read_active_leases(connection, now) if x.session_id != own_session]
    # What stream tables have not seen yet, and what has not been published yet.
    waits = (states.oldest_frontier(connection, resting), sources.oldest_published(connection))
    waiting = [snapshot for snapshot in waits if snapshot is not None]
    return min([needed, *waiting, *(x.reads_since for x in others if x.may_read(now))])


def _forget_snapshots(connection: Connection, keep: int) -> int:
    gone = connection.execute(delete(s.snapshot).where(s.snapshot.c.snapshot_id < keep)).rowcount
    for table in (s.snapshot_changes, s.trickle_change):
        connection.execute(delete(table).where(table.c.snapshot_id < keep))
    for table in (s.namespace, s.table, s.view, s.column, s.trickle_table, s.trickle_view):
        connection.execute(delete(table).where(table.c.end_snapshot <= keep))
    return int(gone)


def _select_unneeded(keep: int) -> Select[Any]:
    joined = s.trickle_file.join(s.data_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    columns = select(s.trickle_file.c.data_file_id, s.trickle_file.c.location)
    return columns.select_from(joined).where(s.data_file.c.end_snapshot <= keep)


def _schedule_files(connection: Connection, keep: int, now: datetime) -> None:
    """Move every file that no remaining snapshot sees to the list of files to delete."""
    rows = connection.execute(_select_unneeded(keep)).all()
    if not rows:
        return
    scheduled = [
        {
            "data_file_id": file_id,
            "path": f"{TABLES_FOLDER}{location}",
            "path_is_relative": True,
            "schedule_start": now,
        }
        # A file whose rows went as a whole is also the record of that: both end together.
        for location, file_id in {row.location: row.data_file_id for row in rows}.items()
        if location is not None  # files outside are not ours to delete
    ]
    if scheduled:
        connection.execute(insert(s.scheduled), scheduled)
    ids = [row.data_file_id for row in rows]
    for table in (s.data_file, s.trickle_file, s.file_stats):
        for start in range(0, len(ids), 500):
            connection.execute(delete(table).where(table.c.data_file_id.in_(ids[start : start + 500])))


def _delete_scheduled(engine: Engine, storage: Storage, folder: str | None) -> int:
    with open_reader(engine) as connection:
        rows = connection.execute(select(s.scheduled.c.data_file_id, s.scheduled.c.path)).all()
    chosen = [
        (row.data_file_id, row.path.removeprefix(TABLES_FOLDER))
        for row in rows
        if folder is None or row.path.startswith(f"{TABLES_FOLDER}{folder}")
    ]
    for number, (_, location) in enumerate(chosen):
        if number == len(chosen) // 2:
            crash_point("vacuum_half_deleted")
        _delete_location(storage, location)
    with open_writer(engine) as connection:
        for file_id, _ in chosen:
            connection.execute(delete(s.scheduled).where(s.scheduled.c.data_file_id == file_id))
    return len(chosen)


def _find_orphans(
    engine: Engine, storage: Storage, now: datetime, hours: float, folder: str | None
) -> list[Deletion]:
    """Files that no snapshot knows, of sessions that have ended, and that are old enough.

    The disk is listed before the catalog is read: a file that is committed meanwhile is then known.
    What no session of this warehouse wrote is not ours to delete, whatever its age.
    """
    present = list(storage.all_files(folder))
    with open_reader(engine) as connection:
        known = read_known_locations(connection)
        living = {x.session_id for x in lease.read_active_leases(connection, now)} | {storage.session_id}
        expired = {x.session_id for x in lease.read_leases(connection)}
        ended = (lease.read_ended_sessions(connection) | expired) - living
    youngest = _hours_before(now, hours)
    return [
        Deletion(file.location, file.bytes, _ABANDONED)
        for file in present
        if without_checksum(file.location) not in known
        and parse_writer(file.location) in ended
        and file.modified <= youngest
    ]


def read_known_locations(connection: Connection) -> set[str]:
    """Where the files are that the catalog knows, or means to delete."""
    locations = select(s.trickle_file.c.location).where(s.trickle_file.c.location.is_not(None))
    known = {row[0] for row in connection.execute(locations)}
    paths = connection.execute(select(s.scheduled.c.path))
    return known | {row[0].removeprefix(TABLES_FOLDER) for row in paths}


def _hours_before(now: datetime, hours: float) -> datetime:
    return now - timedelta(hours=min(hours, LONGEST_RETENTION_HOURS))


def _delete_location(storage: Storage, location: str) -> None:
    folder, _, name = location.partition("/")
    storage.delete(f"{folder}/", name)


def without_checksum(location: str) -> str:
    parent, slash, leaf = location.rpartition("/")
    if leaf.startswith(".") and leaf.endswith(".crc"):
        leaf = leaf[1:-4]
    return f"{parent}{slash}{leaf}"


def parse_writer(location: str) -> str:
    """The session that wrote a file: the first part of its name, or of the folder Spark wrote into."""
    _, _, name = location.partition("/")
    return name.lstrip(".").split("/")[0].split("-")[0]

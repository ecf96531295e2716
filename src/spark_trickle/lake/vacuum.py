"""Old snapshots and the files only they need -> gone; files of crashed writers too."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Engine, delete, func, insert, select

from spark_trickle.lake import lease, read, sources, stream
from spark_trickle.lake import schema as s
from spark_trickle.lake.crashpoint import crash_point
from spark_trickle.lake.engine import reading, writing
from spark_trickle.lake.files import TABLES_FOLDER, Storage

LONGEST_RETENTION_HOURS = 1_000 * 365 * 24  # longer than any warehouse, and still a date


@dataclass(frozen=True)
class Vacuumed:
    snapshots: int
    files: int
    orphans: int


def vacuum(
    engine: Engine, storage: Storage, now: datetime, retain_hours: float, folder: str | None
) -> Vacuumed:
    """Forget snapshots, then delete files, of one table's folder or of all.

    Snapshots are global, so they are forgotten for the whole warehouse. Forget first, delete after:
    a crash between leaves files that the next run finds scheduled.
    """
    with writing(engine) as connection:
        lease.forget_dead(connection, now)
        keep = _oldest_needed(connection, storage.session_id, now, retain_hours)
        snapshots = _forget_snapshots(connection, keep)
        _schedule_files(connection, keep, now)
    crash_point("vacuum_after_forget")
    orphans = _orphans(engine, storage, now, folder)
    for location in orphans:
        _delete(storage, location)
    files = _delete_scheduled(engine, storage, folder)
    storage.delete_empty_folders(folder)
    return Vacuumed(snapshots, files, len(orphans))


def _oldest_needed(connection: Connection, own_session: str, now: datetime, retain_hours: float) -> int:
    """The oldest snapshot somebody may still read: the one in force at the horizon, or a live reader's."""
    horizon = now - timedelta(hours=min(retain_hours, LONGEST_RETENTION_HOURS))
    in_force = connection.execute(
        select(func.max(s.snapshot.c.snapshot_id)).where(s.snapshot.c.snapshot_time <= horizon)
    ).scalar()
    needed = read.oldest_id(connection) if in_force is None else int(in_force)
    # The session that runs VACUUM knows what it still reads; the others are protected by their leases.
    others = [x for x in lease.active(connection, now) if x.session_id != own_session]
    # What stream tables have not seen yet, and what has not been published yet.
    waits = (stream.oldest_frontier(connection), sources.oldest_published(connection))
    waiting = [snapshot for snapshot in waits if snapshot is not None]
    return min([needed, *waiting, *(x.reads_since for x in others if x.reads(now))])


def _forget_snapshots(connection: Connection, keep: int) -> int:
    gone = connection.execute(delete(s.snapshot).where(s.snapshot.c.snapshot_id < keep)).rowcount
    for table in (s.snapshot_changes, s.trickle_change):
        connection.execute(delete(table).where(table.c.snapshot_id < keep))
    for table in (s.namespace, s.table, s.view, s.column, s.trickle_table, s.trickle_view):
        connection.execute(delete(table).where(table.c.end_snapshot <= keep))
    return int(gone)


def _schedule_files(connection: Connection, keep: int, now: datetime) -> None:
    """Move every file that no remaining snapshot sees to the list of files to delete."""
    joined = s.trickle_file.join(s.data_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    rows = connection.execute(
        select(s.trickle_file.c.data_file_id, s.trickle_file.c.location)
        .select_from(joined)
        .where(s.data_file.c.end_snapshot <= keep)
    ).all()
    if not rows:
        return
    connection.execute(
        insert(s.scheduled),
        [
            {
                "data_file_id": file_id,
                "path": f"{TABLES_FOLDER}{location}",
                "path_is_relative": True,
                "schedule_start": now,
            }
            # A file whose rows went as a whole is also the record of that: both end together.
            for location, file_id in {row.location: row.data_file_id for row in rows}.items()
        ],
    )
    ids = [row.data_file_id for row in rows]
    for table in (s.data_file, s.trickle_file, s.file_stats):
        for start in range(0, len(ids), 500):
            connection.execute(delete(table).where(table.c.data_file_id.in_(ids[start : start + 500])))


def _delete_scheduled(engine: Engine, storage: Storage, folder: str | None) -> int:
    with reading(engine) as connection:
        rows = connection.execute(select(s.scheduled.c.data_file_id, s.scheduled.c.path)).all()
    chosen = [
        (row.data_file_id, row.path.removeprefix(TABLES_FOLDER))
        for row in rows
        if folder is None or row.path.startswith(f"{TABLES_FOLDER}{folder}")
    ]
    for number, (_, location) in enumerate(chosen):
        if number == len(chosen) // 2:
            crash_point("vacuum_half_deleted")
        _delete(storage, location)
    with writing(engine) as connection:
        for file_id, _ in chosen:
            connection.execute(delete(s.scheduled).where(s.scheduled.c.data_file_id == file_id))
    return len(chosen)


def _orphans(engine: Engine, storage: Storage, now: datetime, folder: str | None) -> list[str]:
    """Files no snapshot knows, whose writer is gone.

    The disk is listed before the catalog is read: a file that is committed meanwhile is then known.
    """
    present = [f"{top}{name}" for top, name in storage.all_files() if folder in (None, top)]
    with reading(engine) as connection:
        known = {row[0] for row in connection.execute(select(s.trickle_file.c.location))}
        paths = connection.execute(select(s.scheduled.c.path))
        known |= {row[0].removeprefix(TABLES_FOLDER) for row in paths}
        writers = {x.session_id for x in lease.active(connection, now)} | {storage.session_id}
    return [
        location
        for location in present
        if _without_checksum(location) not in known and _writer(location) not in writers
    ]


def _delete(storage: Storage, location: str) -> None:
    folder, _, name = location.partition("/")
    storage.delete(f"{folder}/", name)


def _without_checksum(location: str) -> str:
    parent, slash, leaf = location.rpartition("/")
    if leaf.startswith(".") and leaf.endswith(".crc"):
        leaf = leaf[1:-4]
    return f"{parent}{slash}{leaf}"


def _writer(location: str) -> str:
    """The session that wrote a file: the first part of its name, or of the folder Spark wrote into."""
    return location.split("/")[1].lstrip(".").split("-")[0]

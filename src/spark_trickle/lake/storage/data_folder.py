"""A catalog and what a connection asks for -> the data folder it works with, or a clear refusal.

Where the files are belongs to the connection: another machine may see the same folder under another path.
What the catalog stores, for everybody, changes only when the folder moved with the catalog, or when
a connection asks to adopt a folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, select, update

from spark_trickle.errors import WarehouseError, WarehouseMismatchError
from spark_trickle.lake.catalog import lease, read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.identity import read_identity
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.lake.storage.marker import DataFolder, Marker, MarkerFile, find_mismatch
from spark_trickle.model.catalog import Snapshot

BESIDE = "data_beside_catalog"  # whether the data folder moves with the catalog
_MARKED = "data_folder_marked"  # whether the data folder has had a marker


@dataclass(frozen=True)
class Request:
    """What a connection asks for; `folder` holds its catalog, if that is a file."""

    session_id: str
    asked: str | None
    folder: Path | None
    adopt: bool
    read_only: bool

    @property
    def default_root(self) -> str:
        """Where the files of a new warehouse go."""
        if self.asked is not None:
            return self.asked
        if self.folder is None:
            raise WarehouseError(
                "a catalog in PostgreSQL needs to know where the data files go",
                'Pass data_path="…" when you create the warehouse.',
            )
        return str(self.folder / "data")

    def marker(self, root: str) -> MarkerFile:
        return MarkerFile(root, self.session_id)


@dataclass(frozen=True)
class _Record:
    """What a catalog says of itself and of its files."""

    warehouse: str
    stored: str
    beside: bool
    marked: bool


def refuse_lost_catalog(request: Request, catalog: Path) -> None:
    """Data without its catalog is no new warehouse.

    The folder is looked at first: whoever makes a warehouse makes the catalog before it.
    """
    found = None if request.adopt else _find_earlier_user(request)
    if found is not None and not catalog.exists():
        raise found


def refuse_used_folder(request: Request) -> None:
    """A new catalog begins with a folder in which nobody keeps files."""
    found = None if request.adopt else _find_earlier_user(request)
    if found is not None:
        raise found


def _find_earlier_user(request: Request) -> WarehouseMismatchError | None:
    root = request.default_root
    marker = request.marker(root).read()
    if marker is not None:
        return _make_lost_error(root, marker)
    tables = Path(root) / TABLES_FOLDER
    if not tables.is_dir() or not any(path.is_file() for path in tables.rglob("*")):
        return None
    return WarehouseMismatchError(
        root,
        "the catalog is new, but the folder already has data files",
        "Restore the catalog they belong to, or choose another folder. With trickle adopt, or "
        "adopt=True, a new warehouse begins here and leaves them untouched.",
    )


def _make_lost_error(root: str, marker: Marker) -> WarehouseMismatchError:
    upto = "" if marker.snapshot is None else f" up to snapshot {marker.snapshot}"
    return WarehouseMismatchError(
        root,
        f"it holds the files of warehouse {marker.warehouse}{upto}, but the catalog is missing or empty",
        "Restore the catalog with its -wal file, for instance by trickle restore, or choose another folder. "
        "With trickle adopt, or adopt=True, a new warehouse begins here and leaves the files untouched.",
    )


def find_data_folder(engine: Engine, request: Request) -> DataFolder:
    with open_reader(engine) as connection:
        record = _read_record(connection)
    root = _choose_root(record, request)
    found = request.marker(root)
    marker = found.read()  # before the catalog, which is always ahead of it
    with open_reader(engine) as connection:
        newest = read.read_newest(connection)
        mismatch = find_mismatch(marker, record.warehouse, newest, partial(read.find_snapshot, connection))
        if mismatch is None and marker is not None and _is_behind(marker, newest):
            mismatch = _find_older_files(connection, root, marker, newest)
        if mismatch is not None:
            _require_consent(connection, record, request, _Mismatch(root, marker, newest, *mismatch))
    folder = DataFolder(found, record.warehouse)
    if not request.read_only:
        if mismatch is not None or root in (record.stored, _find_data_beside(record, request)):
            _catch_up(folder, marker, newest, claim=mismatch is not None)
        _store_place(engine, record, request, root, claimed=mismatch is not None)
    return folder


@dataclass(frozen=True)
class _Mismatch:
    root: str
    marker: Marker | None
    newest: Snapshot
    detail: str
    advice: str


def _require_consent(connection: Connection, record: _Record, request: Request, found: _Mismatch) -> None:
    """Go on with a folder that does not fit only if it never had a marker, or if adopting it is asked for."""
    own = (record.stored, _find_data_beside(record, request))
    unmarked = found.marker is None and not record.marked and found.root in own
    if not unmarked and not request.adopt:
        elsewhere = "" if found.root == record.stored else f"; the catalog has its files in {record.stored}"
        raise WarehouseMismatchError(found.root, f"{found.detail}{elsewhere}", found.advice)
    missing, files = _find_missing_files(connection, found.root, found.newest)
    # What was damaged before there were markers can still be opened; without any file it is a wrong folder.
    if missing and (request.adopt or len(missing) == files):
        raise WarehouseMismatchError(
            found.root,
            f"{len(missing)} of {files} data files are not in it, such as {missing[0]}",
            "Mount the right folder, or bring the files back with trickle restore.",
        )


def _is_behind(marker: Marker, newest: Snapshot) -> bool:
    return marker.snapshot is None or marker.snapshot < newest.id


def _find_older_files(
    connection: Connection, root: str, marker: Marker, newest: Snapshot
) -> tuple[str, str] | None:
    """A folder that is behind its catalog was not told of the last commit, or it is an older copy."""
    missing, _ = _find_missing_files(connection, root, newest)
    if not missing:
        return None
    return (
        f"it ends with snapshot {marker.snapshot}, but the catalog with snapshot {newest.id}, "
        f"and {missing[0]} is not in it",
        "Mount the newest data folder, or bring the files back with trickle restore.",
    )


def _catch_up(folder: DataFolder, marker: Marker | None, newest: Snapshot, claim: bool) -> None:
    """A process may have died between its commit and the note of it."""
    if claim:
        folder.marker.claim(folder.warehouse, newest)
    elif marker is not None and _is_behind(marker, newest):
        with folder.note_commit() as note:
            note.prepare(newest)


def _store_place(engine: Engine, record: _Record, request: Request, root: str, claimed: bool) -> None:
    """Store for everybody where the files are, if they moved."""
    moved = root != record.stored and (request.adopt or root == _find_data_beside(record, request))
    if record.marked and not claimed and not moved:
        return
    with open_writer(engine) as connection:
        _store_value(connection, _MARKED, "true")
        if moved:
            connection.execute(update(s.info).where(s.info.c.key == "data_path").values(value=f"{root}/"))
            _store_value(connection, BESIDE, str(request.asked is None).lower())
        if claimed and request.adopt:
            # What this catalog meant to delete may be what another needs, which went on with these files.
            lease.forget_writers(connection, datetime.now(UTC))
            connection.execute(delete(s.scheduled))


def _choose_root(record: _Record, request: Request) -> str:
    return request.asked or _find_data_beside(record, request) or record.stored


def _find_data_beside(record: _Record, request: Request) -> str | None:
    """A warehouse folder that was moved or copied has its data beside its catalog."""
    return str(request.folder / "data") if record.beside and request.folder is not None else None


def _read_record(connection: Connection) -> _Record:
    stored = connection.execute(select(s.info.c.value).where(s.info.c.key == "data_path")).scalar_one()
    own = {row.key: row.value for row in connection.execute(select(s.trickle_info))}
    return _Record(
        read_identity(connection),
        str(stored).rstrip("/"),
        own.get(BESIDE) == "true",
        own.get(_MARKED) == "true",
    )


def _store_value(connection: Connection, key: str, value: str) -> None:
    connection.execute(delete(s.trickle_info).where(s.trickle_info.c.key == key))
    connection.execute(insert(s.trickle_info).values(key=key, value=value))


def _find_missing_files(connection: Connection, root: str, newest: Snapshot) -> tuple[list[str], int]:
    """Which files of the newest snapshot are not in a folder, and how many there should be."""
    joined = s.data_file.join(s.trickle_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    visible = read.is_visible(s.data_file, newest.id) & s.trickle_file.c.location.is_not(None)
    rows = connection.execute(select(s.trickle_file.c.location).select_from(joined).where(visible)).all()
    tables = Path(root) / TABLES_FOLDER
    return [row.location for row in rows if not (tables / row.location).is_file()], len(rows)

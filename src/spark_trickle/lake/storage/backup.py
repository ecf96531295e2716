"""A warehouse in use -> a folder of backups; each has a catalog of its own, and all share the data files.

    folder/backup.json                       whose backups these are
    folder/data/tables/…                     the data files of all backups, each once
    folder/snapshots/<time>-<snapshot>/      catalog.sqlite and manifest.json: one backup

Data files never change, so a later backup copies only what is new. The manifest is written last: a backup
without one does not exist.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from spark_trickle.errors import BackupError, DamagedFileError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.catalog_copy import copy_catalog, read_data_locations, read_newest
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.lease import SessionLease
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.lake.storage.paths import local_folder
from spark_trickle.lake.warehouse import Warehouse

_FORMAT = 1
_BLOCK = 1 << 20
Listen = Callable[[int, int], None]  # bytes done, bytes in all


@dataclass(frozen=True)
class Stored:
    """A data file in a backup."""

    bytes: int
    checksum: str


@dataclass(frozen=True)
class Backup:
    """One backup: a moment of a warehouse."""

    folder: Path
    name: str
    warehouse: str
    snapshot: int
    catalog_checksum: str
    files: dict[str, Stored]

    @property
    def catalog(self) -> Path:
        return self.folder / "snapshots" / self.name / "catalog.sqlite"

    @property
    def tables(self) -> Path:
        return self.folder / "data" / TABLES_FOLDER


@dataclass(frozen=True)
class BackupReport:
    """What a backup holds, and how much of it was new."""

    name: str
    snapshot: int
    files: int
    bytes: int
    copied_files: int
    copied_bytes: int


def back_up(
    warehouse: Warehouse,
    lease: SessionLease,
    address: str,
    now: datetime,
    link: bool = False,
    keep: int | None = None,
    listen: Listen = lambda done, total: None,
) -> BackupReport:
    """Copy one moment of a warehouse to a folder of backups; with `link` the disk is shared where it can be.

    The lease keeps VACUUM elsewhere from deleting what is being copied.
    """
    folder = Path(local_folder(address))
    _refuse_folder(folder, warehouse)
    with open_reader(warehouse.engine) as connection:
        oldest = read.read_oldest_id(connection)
    with _explain_errors(folder), lease.keep_renewed(oldest):
        report = _make_backup(warehouse, folder, now, link, listen)
    if keep is not None:
        with _explain_errors(folder):
            prune_backups(folder, keep)
    return report


def _make_backup(
    warehouse: Warehouse, folder: Path, now: datetime, link: bool, listen: Listen
) -> BackupReport:
    earlier = {name: stored for backup in list_backups(folder) for name, stored in backup.files.items()}
    draft = folder / "snapshots" / f".{warehouse.storage.session_id}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        copy_catalog(warehouse.engine, draft / "catalog.sqlite")
        crash_point("backup_catalog")
        snapshot, identity = read_newest(draft / "catalog.sqlite")
        wanted = read_data_locations(draft / "catalog.sqlite")
        source = Path(warehouse.storage.root) / TABLES_FOLDER
        target = folder / "data" / TABLES_FOLDER
        done = {
            name: stored
            for name, stored in earlier.items()
            if wanted.get(name) == stored.bytes and _has_size(target / name, stored.bytes)
        }
        new, total = [name for name in wanted if name not in done], sum(wanted.values())
        there = sum(stored.bytes for stored in done.values())
        for name in new:
            listen(there, total)
            done[name] = Stored(wanted[name], copy_file(source / name, target / name, wanted[name], link))
            there += wanted[name]
        crash_point("backup_files")
        manifest = {
            "format": _FORMAT,
            "warehouse": identity,
            "snapshot": snapshot,
            "catalog": compute_checksum(draft / "catalog.sqlite"),
            "files": {name: [stored.bytes, stored.checksum] for name, stored in done.items()},
        }
        write_durably(draft / "manifest.json", json.dumps(manifest))
        name = f"{now:%Y%m%dT%H%M%S%f}-{snapshot}"
        draft.rename(folder / "snapshots" / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    copied = sum(wanted[n] for n in new)
    return BackupReport(name, snapshot, len(wanted), total, len(new), copied)


def _refuse_folder(folder: Path, warehouse: Warehouse) -> None:
    """A backup goes to an empty folder, or to the earlier backups of the same warehouse."""
    data = Path(warehouse.storage.root)
    if folder.is_relative_to(data) or data.is_relative_to(folder):
        raise BackupError(
            f"{folder} is inside the data folder of the warehouse, or contains it",
            "Choose another folder, preferably on another disk.",
        )
    marker = folder / "backup.json"
    if folder.exists() and not folder.is_dir():
        raise BackupError(f"{folder} is a file", "Give the folder for backups.")
    if not marker.exists() and folder.exists() and any(folder.iterdir()):
        raise BackupError(
            f"{folder} holds files that are not backups",
            "Choose an empty folder, or one with earlier backups.",
        )
    own = warehouse.folder.warehouse
    if marker.exists() and (found := read_json(marker).get("warehouse")) != own:
        raise BackupError(
            f"{folder} holds backups of warehouse {found}, but this is warehouse {own}",
            "Choose another folder.",
        )
    if not marker.exists():
        with _explain_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(marker, json.dumps({"format": _FORMAT, "warehouse": own}))


def list_backups(folder: Path) -> list[Backup]:
    """The backups in a folder, the oldest first."""
    names = sorted(path.parent.name for path in (folder / "snapshots").glob("*/manifest.json"))
    return [_read_backup(folder, name) for name in names if not name.startswith(".")]


def _read_backup(folder: Path, name: str) -> Backup:
    manifest = read_json(folder / "snapshots" / name / "manifest.json")
    try:
        files = {location: Stored(*stored) for location, stored in manifest["files"].items()}
        return Backup(folder, name, manifest["warehouse"], manifest["snapshot"], manifest["catalog"], files)
    except (KeyError, TypeError, AttributeError):
        raise BackupError(f"the manifest of backup {name} is damaged", "Use another backup.") from None


def prune_backups(folder: Path, keep: int) -> None:
    """Delete all but the newest backups, then the files that only they had."""
    backups = list_backups(folder)
    kept = backups[-keep:]
    needed = {name for backup in kept for name in backup.files}
    for backup in backups[:-keep]:
        (backup.folder / "snapshots" / backup.name / "manifest.json").unlink()
        shutil.rmtree(backup.folder / "snapshots" / backup.name)
    for backup in backups[:-keep]:
        for name in backup.files:
            if name not in needed:
                (backup.tables / name).unlink(missing_ok=True)


def copy_file(source: Path, target: Path, size: int, link: bool) -> str:
    """Copy a data file as a whole or not at all; the answer is its checksum."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        shared = link and _link_file(source, draft)
        checksum = compute_checksum(draft) if shared else _copy_bytes(source, draft)
    except FileNotFoundError:
        raise DamagedFileError("", str(source), "is missing") from None
    if not _has_size(draft, size):
        draft.unlink()
        raise DamagedFileError("", str(source), f"does not have {size} bytes")
    draft.replace(target)
    draft.unlink(missing_ok=True)  # two names of one file stay two
    return checksum


def _link_file(source: Path, target: Path) -> bool:
    """Whether both names now stand for the same bytes; not every disk can do that, and none across disks."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        return False
    return True


def _copy_bytes(source: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(_BLOCK):
            digest.update(block)
            writer.write(block)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()


def compute_checksum(file: Path) -> str:
    with file.open("rb") as reader:
        return hashlib.file_digest(reader, "sha256").hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackupError(f"{file} cannot be read: {error}", "Use another backup.") from None
    return found if isinstance(found, dict) else {}


def write_durably(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as writer:
        writer.write(text)
        writer.flush()
        os.fsync(writer.fileno())


def _has_size(file: Path, size: int) -> bool:
    return file.is_file() and file.stat().st_size == size


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(
            f"the folder {folder} cannot be written: {error.strerror or error}",
            "Check its permissions and the free space; earlier backups are untouched.",
        ) from error

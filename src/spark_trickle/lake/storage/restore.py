"""A backup -> a warehouse again: in a new place, or in the old one whose catalog or files were lost."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine, inspect

from spark_trickle.errors import BackupError, DamagedFileError, TrickleError
from spark_trickle.lake.catalog import lease, migrations
from spark_trickle.lake.catalog.catalog_copy import fill_catalog, place_catalog
from spark_trickle.lake.catalog.engine import open_engine, open_reader
from spark_trickle.lake.storage.backup import (
    Backup,
    Listen,
    Stored,
    compute_checksum,
    copy_file,
    list_backups,
)
from spark_trickle.lake.storage.files import TABLES_FOLDER
from spark_trickle.lake.storage.marker import MarkerFile
from spark_trickle.lake.storage.paths import is_local_address, local_folder
from spark_trickle.lake.warehouse import CATALOG_FILE, open_warehouse

_TIMEOUT = 60.0


def restore(
    backups: str | os.PathLike[str],
    where: str | os.PathLike[str],
    data_path: str | None = None,
    name: str | None = None,
    replace: bool = False,
    link: bool = False,
    listen: Listen = lambda done, total: None,
) -> Backup:
    """Create a warehouse from a backup, by default the newest; `replace` puts it in place of an existing one.

    Files come first and the catalog last, so an interrupted restore can be run again.
    Nothing is deleted: a catalog that is replaced is kept beside the new one.
    """
    backup = choose_backup(Path(local_folder(os.fspath(backups))), name)
    place = os.fspath(where)
    if not is_local_address(place):
        return _restore_to_database(backup, place, data_path, link, listen)
    folder = Path(local_folder(place))
    root = str(folder / "data") if data_path is None else local_folder(data_path)
    _refuse_target(backup, folder, root, replace)
    _copy_files(backup, root, link, listen)
    draft = folder / f".{CATALOG_FILE}.restored"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(backup.catalog, draft)
    place_catalog(draft, root, beside=data_path is None)
    _set_catalog_aside(folder)
    draft.replace(folder / CATALOG_FILE)
    open_warehouse(place, data_path, _TIMEOUT, adopt=True).engine.dispose()
    return backup


def choose_backup(folder: Path, name: str | None) -> Backup:
    found = {backup.name: backup for backup in list_backups(folder)}
    if not found:
        raise BackupError(f"{folder} holds no backup", "Give the folder that trickle backup wrote to.")
    if name is not None and name not in found:
        raise BackupError(f'there is no backup "{name}"', f"The backups are {', '.join(found)}.")
    backup = found[name or max(found)]
    if compute_checksum(backup.catalog) != backup.catalog_checksum:
        raise BackupError(f"the catalog of backup {backup.name} is damaged", "Use another backup.")
    return backup


def _refuse_target(backup: Backup, folder: Path, root: str, replace: bool) -> None:
    """Only what is empty, what a restore began, or what the user wants replaced."""
    catalog = folder / CATALOG_FILE
    marker = MarkerFile(root, "restore").read()
    if marker is not None and marker.warehouse != backup.warehouse:
        raise BackupError(
            f"{root} belongs to warehouse {marker.warehouse}, but the backup is of {backup.warehouse}",
            "Choose an empty folder.",
        )
    tables = Path(root) / TABLES_FOLDER
    others = [p for p in tables.rglob("*.parquet") if str(p.relative_to(tables)) not in backup.files]
    if not replace and (catalog.exists() or others or marker is not None):
        raise BackupError(
            f"{folder} holds a warehouse, or the files of one",
            "Choose an empty folder, or add --replace (replace=True): the present catalog is kept beside it.",
        )
    if catalog.exists():
        _refuse_users(catalog)


def _refuse_users(catalog: Path) -> None:
    """Whoever works on the catalog that is set aside would go on with it, and with the files of both."""
    engine = open_engine(f"sqlite:///{catalog}", _TIMEOUT)
    try:
        with open_reader(engine) as connection:
            users = (
                lease.read_active_leases(connection, datetime.now(UTC))
                if migrations.is_current(connection)
                else []
            )
    except TrickleError:  # it is damaged, which is why it is replaced
        return
    finally:
        engine.dispose()
    if users:
        raise BackupError(
            f"{len(users)} sessions use this warehouse, such as process {users[0].process_id}",
            "Close them, and run the restore again.",
        )


def _copy_files(backup: Backup, root: str, link: bool, listen: Listen) -> None:
    """Bring back every file that is not there as it was; checksums tell."""
    target, done = Path(root) / TABLES_FOLDER, 0
    total = sum(stored.bytes for stored in backup.files.values())
    for location, stored in backup.files.items():
        listen(done, total)
        file = target / location
        if not file.is_file() or compute_checksum(file) != stored.checksum:
            _copy_back(backup.tables / location, file, stored, link)
        done += stored.bytes


def _copy_back(source: Path, file: Path, stored: Stored, link: bool) -> None:
    if copy_file(source, file, stored.bytes, link) != stored.checksum:
        file.unlink()
        raise DamagedFileError("", str(source), "differs from its checksum")


def _set_catalog_aside(folder: Path) -> None:
    moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    for path in folder.glob(f"{CATALOG_FILE}*"):
        if ".before-restore-" not in path.name:
            rest = path.name.removeprefix(CATALOG_FILE)
            path.rename(folder / f"{CATALOG_FILE}.before-restore-{moment}{rest}")


def _restore_to_database(
    backup: Backup, where: str, data_path: str | None, link: bool, listen: Listen
) -> Backup:
    """The catalog goes to an empty database, whatever kind of catalog the backup was made from."""
    if data_path is None:
        raise BackupError(
            "a catalog in PostgreSQL needs to know where the data files go", "Give a data path."
        )
    root = local_folder(data_path)
    target = open_engine(where, _TIMEOUT)
    try:
        _refuse_filled(target)
        _refuse_target(backup, Path(root), root, replace=False)
        _copy_files(backup, root, link, listen)
        source = open_engine(f"sqlite:///{backup.catalog}", _TIMEOUT, read_only=True)
        with open_reader(source) as rows:
            fill_catalog(rows, target)
        source.dispose()
    finally:
        target.dispose()
    open_warehouse(where, data_path, _TIMEOUT, adopt=True).engine.dispose()
    return backup


def _refuse_filled(target: Engine) -> None:
    if inspect(target).has_table(migrations.VERSION_TABLE):
        raise BackupError("the database holds a catalog", "Create an empty database for the restored one.")

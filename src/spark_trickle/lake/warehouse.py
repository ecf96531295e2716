"""A folder or catalog address -> an open warehouse, created or upgraded when needed."""

from __future__ import annotations

import os
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition, Lock, RLock

from sqlalchemy import URL, Connection, Engine, insert, inspect, make_url, select, update
from sqlalchemy.exc import ArgumentError

from spark_trickle.errors import VersionError, WarehouseError
from spark_trickle.lake import migrations
from spark_trickle.lake import schema as s
from spark_trickle.lake.engine import open_engine, reading, shown_address, writing
from spark_trickle.lake.files import TABLES_FOLDER, Storage
from spark_trickle.model.table import DEFAULT_SCHEMA, HIDDEN_SCHEMA

CATALOG_FILE = "catalog.sqlite"
_BESIDE = "data_beside_catalog"  # whether the data folder moves with the catalog


class Bell:
    """Wakes whoever waits for something to happen; a ring that came just before is not missed."""

    def __init__(self) -> None:
        self._condition = Condition()
        self.heard = 0

    def ring(self) -> None:
        with self._condition:
            self.heard += 1
            self._condition.notify_all()

    def wait(self, heard: int, seconds: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self.heard != heard, seconds)


# Connections know nothing of each other, and yet some of their commits must wait in line.
_TURNS: dict[str, AbstractContextManager[object]] = {}
_BELLS: dict[str, Bell] = {}
_ONE = Lock()


@dataclass(frozen=True)
class Warehouse:
    engine: Engine = field(repr=False)  # its address may hold a password
    storage: Storage

    @property
    def changed(self) -> Bell:
        """Rings when a connection of this process commits."""
        with _ONE:
            return _BELLS.setdefault(str(self.engine.url), Bell())

    @property
    def turn(self) -> AbstractContextManager[object]:
        """One at a time among all connections of this process to this warehouse."""
        with _ONE:
            return _TURNS.setdefault(str(self.engine.url), RLock())

    @property
    def catalog_url(self) -> str:
        """The address of the catalog, without a password."""
        return shown_address(self.engine.url)


def open_warehouse(where: str | os.PathLike[str], data_path: str | None, timeout: float) -> Warehouse:
    session_id = uuid.uuid4().hex[:12]
    url, folder = _locate(os.fspath(where))
    if folder is not None:
        _make_folder(folder)
    engine = open_engine(url, timeout)
    try:
        root = _prepare(engine, data_path, folder)
        return Warehouse(engine, Storage.open(root, session_id))
    except BaseException:
        engine.dispose()
        raise


def _locate(where: str) -> tuple[URL, Path | None]:
    """The catalog's address, and the warehouse folder if the catalog is a file in it."""
    if "://" not in where:
        folder = Path(where).absolute()
        if folder.is_file():
            raise WarehouseError(f"{where} is a file, not a folder", "Give the folder of the warehouse.")
        return URL.create("sqlite", database=str(folder / CATALOG_FILE)), folder
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        raise WarehouseError(
            "the catalog address cannot be read", "Write it as postgresql://user@host/database."
        ) from None
    if url.get_backend_name() != "sqlite":
        return url, None
    if url.database in (None, "", ":memory:"):
        raise WarehouseError(
            "a catalog cannot live in memory", "Name a file: sqlite:///folder/catalog.sqlite."
        )
    return url, Path(url.database or "").absolute().parent


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WarehouseError(
            f"the folder {folder} cannot be created: {error.strerror}", "Choose a folder you may write to."
        ) from error


def _prepare(engine: Engine, data_path: str | None, folder: Path | None) -> str:
    """Bring the catalog to our version; the answer is the data folder."""
    with reading(engine) as connection:
        ready = migrations.is_current(connection)
    if not ready:
        with writing(engine) as connection:
            _upgrade(connection, data_path, folder)
    with reading(engine) as connection:
        _require_version(connection)
        stored = _stored_data_path(connection)
        query = select(s.trickle_info.c.value).where(s.trickle_info.c.key == _BESIDE)
        beside = connection.execute(query).scalar() == "true"
    return _settle_data_path(engine, stored, data_path, folder if beside else None)


def _upgrade(connection: Connection, data_path: str | None, folder: Path | None) -> None:
    if migrations.is_current(connection):  # another process was faster
        return
    if inspect(connection).has_table("ducklake_metadata") and not inspect(connection).has_table(
        migrations.VERSION_TABLE
    ):
        raise WarehouseError(
            "the catalog belongs to a DuckLake that spark-trickle did not create",
            "Choose an empty folder or database for the warehouse.",
        )
    fresh = not inspect(connection).has_table(migrations.VERSION_TABLE)
    migrations.upgrade(connection)
    if fresh:
        _fill(connection, _default_data_path(data_path, folder))
        beside = data_path is None
        connection.execute(insert(s.trickle_info).values(key=_BESIDE, value=str(beside).lower()))


def _default_data_path(data_path: str | None, folder: Path | None) -> str:
    if data_path is not None:
        return data_path if "://" in data_path else str(Path(data_path).absolute())
    if folder is None:
        raise WarehouseError(
            "a catalog in PostgreSQL needs to know where the data files go",
            'Pass data_path="…" when you create the warehouse.',
        )
    return str(folder / "data")


def _fill(connection: Connection, root: str) -> None:
    """The first snapshot of a new warehouse: an empty schema of the user's and our hidden one."""
    values = {
        "version": s.DUCKLAKE_VERSION,
        "created_by": "spark-trickle",
        "data_path": root.rstrip("/") + "/",
        "encrypted": "false",
    }
    connection.execute(insert(s.info), [{"key": k, "value": v} for k, v in values.items()])
    connection.execute(
        insert(s.snapshot).values(
            snapshot_id=0,
            snapshot_time=datetime.now(UTC),
            schema_version=0,
            next_catalog_id=2,
            next_file_id=0,
        )
    )
    made = f'created_schema:"{DEFAULT_SCHEMA}",created_schema:"{HIDDEN_SCHEMA}"'
    connection.execute(insert(s.snapshot_changes).values(snapshot_id=0, changes_made=made))
    paths = {DEFAULT_SCHEMA: "views/", HIDDEN_SCHEMA: TABLES_FOLDER}
    for number, (name, path) in enumerate(paths.items()):
        connection.execute(
            insert(s.namespace).values(
                schema_id=number,
                schema_uuid=str(uuid.uuid4()),
                begin_snapshot=0,
                schema_name=name,
                path=path,
                path_is_relative=True,
            )
        )


def _require_version(connection: Connection) -> None:
    found = connection.execute(select(s.info.c.value).where(s.info.c.key == "version")).scalar_one()
    if found != s.DUCKLAKE_VERSION:
        raise VersionError(f"DuckLake {found}", f"DuckLake {s.DUCKLAKE_VERSION}")


def _stored_data_path(connection: Connection) -> str:
    return str(connection.execute(select(s.info.c.value).where(s.info.c.key == "data_path")).scalar_one())


def _settle_data_path(engine: Engine, stored: str, data_path: str | None, folder: Path | None) -> str:
    """A warehouse folder that was moved or copied has its data beside its catalog."""
    root = stored
    if data_path is not None or folder is not None:
        root = _default_data_path(data_path, folder)
    if root.rstrip("/") != stored.rstrip("/"):
        with writing(engine) as connection:
            moved = update(s.info).where(s.info.c.key == "data_path").values(value=root.rstrip("/") + "/")
            connection.execute(moved)
    return root.rstrip("/")

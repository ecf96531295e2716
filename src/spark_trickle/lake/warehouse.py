"""A folder or catalog address -> an open warehouse, created or upgraded when needed."""

from __future__ import annotations

import os
import uuid
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Lock, RLock

from sqlalchemy import URL, Engine, make_url
from sqlalchemy.exc import ArgumentError

from spark_trickle.errors import WarehouseError
from spark_trickle.lake.catalog.engine import hide_secrets, is_read_only, open_engine
from spark_trickle.lake.catalog.new_catalog import prepare_catalog
from spark_trickle.lake.catalog.read_counts import ReadCounter
from spark_trickle.lake.catalog.tally import Tally
from spark_trickle.lake.storage.data_folder import Request, find_data_folder, refuse_lost_catalog
from spark_trickle.lake.storage.files import Storage
from spark_trickle.lake.storage.marker import DataFolder
from spark_trickle.lake.storage.paths import is_local_address, local_folder

CATALOG_FILE = "catalog.sqlite"


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
_TALLIES: dict[str, Tally] = {}
_READ_COUNTERS: dict[str, ReadCounter] = {}
_ONE = Lock()


@dataclass(frozen=True)
class Warehouse:
    engine: Engine = field(repr=False)  # its address may hold a password
    storage: Storage
    folder: DataFolder
    read_only: bool = False

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
    def tally(self) -> Tally:
        """What the connections of this process did."""
        with _ONE:
            return _TALLIES.setdefault(str(self.engine.url), Tally())

    @property
    def read_counter(self) -> ReadCounter:
        """How often the connections of this process read stream tables."""
        with _ONE:
            return _READ_COUNTERS.setdefault(str(self.engine.url), ReadCounter())

    @property
    def catalog_url(self) -> str:
        """The address of the catalog, without a password."""
        return hide_secrets(self.engine.url)


def open_warehouse(
    where: str | os.PathLike[str], data_path: str | None, timeout: float, adopt: bool = False
) -> Warehouse:
    """Open a warehouse; `adopt` makes its catalog and a data folder that does not fit belong together."""
    session_id = uuid.uuid4().hex[:12]
    url, folder = _locate_catalog(os.fspath(where))
    asked = None if data_path is None else local_folder(data_path)
    request = Request(session_id, asked, folder, adopt, is_read_only(url))
    if folder is not None:
        refuse_lost_catalog(request, Path(url.database or ""))
        if not request.read_only:
            _make_folder(folder)
    engine = open_engine(url, timeout, request.read_only)
    try:
        prepare_catalog(engine, request)
        data = find_data_folder(engine, request)
        return Warehouse(engine, Storage.open(data.marker.root, session_id), data, request.read_only)
    except BaseException:
        engine.dispose()
        raise


def _locate_catalog(where: str) -> tuple[URL, Path | None]:
    """The catalog's address, and the warehouse folder if the catalog is a file in it."""
    if is_local_address(where):
        folder = Path(local_folder(where))
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

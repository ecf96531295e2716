"""A catalog address -> a SQLAlchemy engine whose transactions behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, OperationalError

from spark_trickle.errors import CatalogBusyError, InternalError, WarehouseError

_EFFECTIVE = os.access in os.supports_effective_ids
_COMMIT_LOCK = 7_240_861_593  # PostgreSQL advisory lock that serialises commits to one catalog


def is_read_only(url: URL) -> bool:
    """Whether a catalog is a file that this user may read and not write, or lies in such a folder."""
    if url.get_backend_name() != "sqlite" or not url.database or not os.path.isfile(url.database):
        return False
    file = Path(url.database).absolute()
    # The log of a database that can be written is made beside it.
    return not all(os.access(path, os.W_OK, effective_ids=_EFFECTIVE) for path in (file, file.parent))


def open_engine(url: str | URL, timeout: float, read_only: bool = False) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_read_only(parsed, timeout) if read_only else _open_sqlite(parsed, timeout)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        # Commits queue on one lock; a waiting writer must see what the holder committed, so READ COMMITTED.
        # The driver reads times only as ISO writes them, whatever the server prefers.
        options = (
            f"-c lock_timeout={int(timeout * 1000)} -c datestyle=ISO "
            "-c application_name=spark-trickle-catalog"
        )
        return create_engine(
            parsed,
            pool_pre_ping=True,
            connect_args={"options": options},
            execution_options={"trickle_timeout": timeout},
        )
    raise WarehouseError(
        f'a catalog cannot live in "{parsed.get_backend_name()}"',
        "Use a folder, sqlite:///path/catalog.sqlite, or postgresql://user@host/database.",
    )


def _open_sqlite(url: URL, timeout: float) -> Engine:
    engine = create_engine(
        url,
        connect_args={"timeout": timeout, "check_same_thread": False},
        execution_options={"trickle_timeout": timeout},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        # A transaction that reads first and writes later could not be upgraded under WAL.
        write = connection.get_execution_options().get("trickle_write")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine


def _open_read_only(url: URL, timeout: float) -> Engine:
    file = Path(url.database or "").absolute()
    log = file.with_name(f"{file.name}-wal")
    if log.is_file() and log.stat().st_size and not log.with_name(f"{file.name}-shm").is_file():
        raise WarehouseError(
            f"the catalog {file} has commits in {log.name} that can only be read with write access",
            "Open it once with write access, which moves the commits into it, or copy the whole folder.",
        )
    # Without a log nobody writes to it, and SQLite need not make the files by which writers are seen.
    options = "mode=ro" if log.is_file() and log.stat().st_size else "mode=ro&immutable=1"
    address = f"{file.as_uri()}?{options}"
    return create_engine(
        url,
        creator=lambda: sqlite3.connect(address, uri=True, timeout=timeout, check_same_thread=False),
        execution_options={"trickle_timeout": timeout, "trickle_read_only": True},
    )


@contextmanager
def open_reader(engine: Engine) -> Iterator[Connection]:
    """One consistent view of the catalog."""
    with _translate_errors(engine), engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
        with connection.begin():
            yield connection


@contextmanager
def open_writer(engine: Engine) -> Iterator[Connection]:
    """The only writer of the catalog, until the block ends."""
    require_writable(engine)
    with _translate_errors(engine), engine.connect() as plain:
        connection = plain.execution_options(trickle_write=True)
        with connection.begin():
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _COMMIT_LOCK})
            yield connection


def require_writable(engine: Engine) -> None:
    if engine.get_execution_options().get("trickle_read_only"):
        raise WarehouseError(
            f"the catalog {hide_secrets(engine.url)} is read-only for this user; nothing was written",
            _permission_hint(engine),
        )


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise _explain_error(engine, error) from error


def _explain_error(engine: Engine, error: DBAPIError) -> Exception:
    where = hide_secrets(engine.url)
    detail = str(error.orig).strip().splitlines()[0] if str(error.orig) else type(error.orig).__name__
    if "locked" in detail or "busy" in detail or "lock timeout" in detail:
        return CatalogBusyError(where, _read_timeout(engine))
    if "readonly" in detail or "read-only" in detail:
        return WarehouseError(f"the catalog {where} cannot be written: {detail}", _permission_hint(engine))
    if "disk is full" in detail or "disk I/O" in detail or "No space" in detail:
        return WarehouseError(
            f"the catalog {where} could not be written: {detail}",
            "Free some space and run the statement again; the last snapshot is intact.",
        )
    if (
        isinstance(error, OperationalError)
        or "connection option" in detail
        or "not a database" in detail
        or "malformed" in detail
    ):
        return WarehouseError(
            f"the catalog {where} cannot be used: {detail}",
            "Check that the address is right, the server is running, and the file is a catalog.",
        )
    return InternalError(f"{type(error.orig).__name__}: {detail}")


def hide_secrets(url: URL) -> str:
    """An address without secrets, wherever they stand in it."""
    secret = [key for key in url.query if "password" in key.lower() or "passfile" in key.lower()]
    return url.difference_update_query(secret).render_as_string(hide_password=True)


def _permission_hint(engine: Engine) -> str:
    folder = Path(engine.url.database or ".").parent
    return f"Make the folder {folder} and the files in it writable for this user."


def _read_timeout(engine: Engine) -> float:
    return float(engine.get_execution_options()["trickle_timeout"])

"""Sessions that use the warehouse: which snapshots they may still read, and which files they write."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, delete, insert, select

from spark_trickle.errors import CatalogBusyError, WarehouseError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.catalog.renewal import renew_every


@dataclass(frozen=True)
class Lease:
    session_id: str
    host: str
    process_id: int
    reads_since: int
    expires: datetime

    def is_active(self, now: datetime) -> bool:
        """Whether the session may still write: on this machine its process tells, elsewhere the clock."""
        return _is_alive(self.process_id) if self.host == this_host() else now < self.expires

    def may_read(self, now: datetime) -> bool:
        """Whether DataFrames it handed out may still be in use."""
        return self.is_active(now) and now < self.expires


def this_host() -> str:
    """This machine since its last start; process ids mean nothing beyond that."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{socket.gethostname()}/{boot.read_text().strip() if boot.exists() else ''}"


def _is_alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def renew_lease(
    connection: Connection, session_id: str, reads_since: int, now: datetime, keep: timedelta
) -> None:
    _remove_lease(connection, session_id)
    lease = Lease(session_id, this_host(), os.getpid(), reads_since, now + keep)
    connection.execute(insert(s.trickle_lease), [lease.__dict__])


def release_lease(connection: Connection, session_id: str, now: datetime) -> None:
    """The session has ended: what it wrote and did not commit, nobody needs."""
    _remove_lease(connection, session_id)
    ended = s.trickle_ended_session
    connection.execute(delete(ended).where(ended.c.session_id == session_id))
    connection.execute(insert(ended).values(session_id=session_id, ended=now))


def _remove_lease(connection: Connection, session_id: str) -> None:
    connection.execute(delete(s.trickle_lease).where(s.trickle_lease.c.session_id == session_id))


def read_leases(connection: Connection) -> list[Lease]:
    return [Lease(*row) for row in connection.execute(select(s.trickle_lease))]


def read_active_leases(connection: Connection, now: datetime) -> list[Lease]:
    return [lease for lease in read_leases(connection) if lease.is_active(now)]


def forget_dead(connection: Connection, now: datetime) -> None:
    for lease in read_leases(connection):
        if not lease.is_active(now):
            release_lease(connection, lease.session_id, now)


def read_ended_sessions(connection: Connection) -> set[str]:
    return {row[0] for row in connection.execute(select(s.trickle_ended_session.c.session_id))}


def forget_ended(connection: Connection, before: datetime) -> None:
    """Sessions whose files were looked at after they ended."""
    connection.execute(delete(s.trickle_ended_session).where(s.trickle_ended_session.c.ended < before))


def forget_writers(connection: Connection, now: datetime) -> None:
    """What this catalog knows of sessions says nothing about the files of a folder it just took over."""
    connection.execute(delete(s.trickle_ended_session))
    for lease in read_leases(connection):
        if not lease.is_active(now):
            _remove_lease(connection, lease.session_id)


class SessionLease:
    """What this session tells the others: that it lives, and since which snapshot it may still read."""

    def __init__(self, engine: Engine, session_id: str, keep: timedelta, read_only: bool = False) -> None:
        self._engine = engine
        self._read_only = read_only  # then nobody is told, and VACUUM elsewhere keeps to retain_hours
        self._session_id = session_id
        self._keep = keep
        self._handed_out: dict[int, datetime] = {}
        self._covers: int | None = None
        self._lock = Lock()
        self._renewed = datetime.min.replace(tzinfo=UTC)

    def cover(self, snapshot_id: int, now: datetime) -> None:
        """Protect a snapshot from VACUUM elsewhere; costs a catalog write only now and then."""
        with self._lock:
            self._cover(snapshot_id, now)

    def _cover(self, snapshot_id: int, now: datetime) -> None:
        if self._read_only:
            return
        self._handed_out[snapshot_id] = now
        fresh = now - self._renewed < self._keep / 2
        if self._covers is not None and fresh and snapshot_id >= self._covers:
            return
        self._handed_out = {s: t for s, t in self._handed_out.items() if now - t < self._keep}
        oldest = min(self._handed_out)
        with open_writer(self._engine) as connection:
            # Renewed after half the time, so that whoever comes just before that is covered in full.
            renew_lease(connection, self._session_id, oldest, now, 1.5 * self._keep)
        self._covers, self._renewed = oldest, now

    @contextmanager
    def keep_renewed(self, snapshot_id: int) -> Iterator[None]:
        """Renewed while something runs that may take longer than a lease lasts."""

        def renew() -> None:
            self.cover(snapshot_id, datetime.now(UTC))

        renew()
        with renew_every(self._keep.total_seconds() / 2, renew):  # the lease lasts three times as long
            yield

    def end(self) -> None:
        if self._covers is None:
            return
        self._covers = None
        # A catalog that cannot be reached now does not keep a session from ending: its lease runs out.
        with suppress(CatalogBusyError, WarehouseError), open_writer(self._engine) as connection:
            release_lease(connection, self._session_id, datetime.now(UTC))

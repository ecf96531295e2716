"""Queries over stream tables -> how often each is read, counted here and written to the catalog at times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock

from sqlalchemy import Connection, Engine, insert, select, update

from spark_trickle.errors import CatalogBusyError, WarehouseError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_writer

_PAUSE = timedelta(minutes=1)


@dataclass(frozen=True)
class ReadCount:
    """How often a stream table was read, from the first time on to the last."""

    count: int
    first: datetime
    last: datetime


class ReadCounter:
    """Those of one process and warehouse; a query does not wait for the catalog because it is counted."""

    def __init__(self) -> None:
        self._new: Counter[int] = Counter()
        self._written: datetime | None = None
        self._lock = Lock()

    def note(self, engine: Engine, table_id: int, now: datetime) -> None:
        with self._lock:
            self._new[table_id] += 1
            self._written = self._written or now
            due = now - self._written >= _PAUSE
        if due:
            self.write(engine, now)

    def write(self, engine: Engine, now: datetime) -> None:
        """What cannot be written because the catalog is busy or read-only is kept for the next time."""
        with self._lock:
            new, self._new, self._written = self._new, Counter(), now
        if not new:
            return
        try:
            with open_writer(engine) as connection:
                for table_id, count in sorted(new.items()):
                    _add_reads(connection, table_id, count, now)
        except (CatalogBusyError, WarehouseError):
            with self._lock:
                self._new += new


def _add_reads(connection: Connection, table_id: int, count: int, now: datetime) -> None:
    c = s.trickle_read.c
    known = update(s.trickle_read).where(c.table_id == table_id)
    if not connection.execute(known.values(reads=c.reads + count, last_read=now)).rowcount:
        row = {"table_id": table_id, "reads": count, "first_read": now, "last_read": now}
        connection.execute(insert(s.trickle_read).values(row))


def all_reads(connection: Connection) -> dict[int, ReadCount]:
    rows = connection.execute(select(s.trickle_read))
    return {row.table_id: ReadCount(row.reads, row.first_read, row.last_read) for row in rows}

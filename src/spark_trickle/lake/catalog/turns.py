"""Writers that conflicted again and again -> a queue for each table, so that everyone gets through.

Nobody needs a ticket to commit. But while somebody holds one for a table, all others who would change
that table wait until it is their turn. A ticket is only about fairness: nothing becomes wrong when one is
lost, so a holder that died or fell silent is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, delete, exists, func, insert, select, update

from spark_trickle.errors import CatalogBusyError, WarehouseError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.lease import Lease, this_host
from spark_trickle.lake.catalog.renewal import renew_every
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.catalog import Snapshot

_KEEP = timedelta(seconds=20)  # a holder that is silent for so long is passed over
_LOOK_AGAIN = 0.05  # seconds; other processes cannot ring our bell


@dataclass(frozen=True)
class Blocked:
    """Somebody else has the turn to change one of the tables."""


def newest_snapshot(connection: Connection) -> tuple[Snapshot, bool]:
    """The newest snapshot, and whether anybody is in a queue: in one question, for every commit asks it."""
    query = read.select_snapshots().add_columns(exists(select(s.trickle_turn.c.ticket)).label("is_queue"))
    *snapshot, is_queue = connection.execute(query.order_by(s.snapshot.c.snapshot_id.desc()).limit(1)).one()
    return Snapshot(*snapshot), bool(is_queue)


def is_blocked(connection: Connection, table_ids: Iterable[int], ticket: int | None, now: datetime) -> bool:
    """Whether somebody comes first at one of the tables; without a ticket, everybody in the queue does."""
    c = s.trickle_turn.c
    query = select(s.trickle_turn).where(c.table_id.in_(sorted(table_ids)))
    rows = connection.execute(query if ticket is None else query.where(c.ticket < ticket))
    return any(_is_alive(row, now) for row in rows.all())


def _is_alive(row: Any, now: datetime) -> bool:
    return Lease(row.session_id, row.host, row.process_id, 0, row.expires).may_read(now)


@contextmanager
def hold_turn(warehouse: Warehouse, table_ids: Iterable[int]) -> Iterator[int]:
    """Queue up for some tables, wait, and keep the turn until the block ends; the value is the ticket."""
    ticket = _join_queue(warehouse.engine, warehouse.storage.session_id, sorted(table_ids))
    with renew_every(_KEEP.total_seconds() / 4, lambda: _renew_ticket(warehouse.engine, ticket)):
        try:
            _wait_for_turn(warehouse, ticket, frozenset(table_ids))
            yield ticket
        finally:
            # A catalog that cannot be reached now keeps nobody waiting for long: the ticket runs out.
            with suppress(CatalogBusyError, WarehouseError):
                _leave_queue(warehouse.engine, ticket)
            warehouse.changed.ring()


def _join_queue(engine: Engine, session_id: str, table_ids: list[int]) -> int:
    now = datetime.now(UTC)
    own = {"session_id": session_id, "host": this_host(), "process_id": os.getpid(), "expires": now + _KEEP}
    with open_writer(engine) as connection:
        forget_dead(connection, now)
        last = connection.execute(select(func.max(s.trickle_turn.c.ticket))).scalar()
        ticket = int(last or 0) + 1
        rows = [{"ticket": ticket, "table_id": i, **own} for i in table_ids]
        connection.execute(insert(s.trickle_turn), rows)
    return ticket


def forget_dead(connection: Connection, now: datetime) -> None:
    rows = connection.execute(select(s.trickle_turn)).all()
    for ticket in {row.ticket for row in rows if not _is_alive(row, now)}:
        connection.execute(delete(s.trickle_turn).where(s.trickle_turn.c.ticket == ticket))


def _leave_queue(engine: Engine, ticket: int) -> None:
    with open_writer(engine) as connection:
        connection.execute(delete(s.trickle_turn).where(s.trickle_turn.c.ticket == ticket))


def _wait_for_turn(warehouse: Warehouse, ticket: int, table_ids: frozenset[int]) -> None:
    while True:
        heard = warehouse.changed.heard
        with open_reader(warehouse.engine) as connection:
            if not is_blocked(connection, table_ids, ticket, datetime.now(UTC)):
                return
        warehouse.changed.wait(heard, _LOOK_AGAIN)


def _renew_ticket(engine: Engine, ticket: int) -> None:
    with open_writer(engine) as connection:
        mine = update(s.trickle_turn).where(s.trickle_turn.c.ticket == ticket)
        connection.execute(mine.values(expires=datetime.now(UTC) + _KEEP))

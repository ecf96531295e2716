"""A slot -> how far it is: it keeps the log until the mirror has it, and not longer."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from spark_trickle.cdc.postgres.connect import Connection
from spark_trickle.cdc.postgres.moment import parse_lsn, show_lsn
from spark_trickle.cdc.postgres.run import rows, run, transaction, value
from spark_trickle.errors import ResyncNeededError, SourceSetupError

_HEARTBEAT = "spark-trickle"
_LOG_PAGE, _LONGEST_HEADER = 8192, 40


@dataclass(frozen=True)
class SlotState:
    """A slot as the server sees it; `lost` says why it can no longer be read."""

    name: str
    confirmed: int
    lag_bytes: int
    active: bool
    lost: str | None


def create_slot(connection: Connection, slot: str) -> int:
    """A new slot; the position from which on it keeps the log. Transactions that write now are waited for."""
    _require_logical(connection)
    query = sql.SQL("SELECT lsn::text FROM pg_create_logical_replication_slot({}, 'pgoutput')")
    return parse_lsn(value(connection, query.format(sql.Literal(slot))))


def drop_slot(connection: Connection, slot: str) -> None:
    """A slot that nobody reads fills the disk of the server: never leave one behind."""
    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}"
    run(connection, sql.SQL(query).format(sql.Literal(slot)))


def slot_state(connection: Connection, slot: str) -> SlotState | None:
    found = rows(connection, _SLOT.format(sql.Literal(slot)))
    if not found:
        return None
    confirmed, lag, active, status = found[0]
    lost = "the server removed log that it still needed" if status == "lost" else None
    return SlotState(slot, parse_lsn(confirmed), int(lag), active, lost)


def require_slot(connection: Connection, slot: str, after: int) -> SlotState:
    """The slot, if it still holds everything after a position."""
    state = slot_state(connection, slot)
    if state is None:
        raise ResyncNeededError(slot, "the replication slot does not exist any more")
    if state.lost:
        raise ResyncNeededError(slot, state.lost)
    if state.confirmed > after:
        reason = f"the slot was moved to {show_lsn(state.confirmed)}, but the mirror is at {show_lsn(after)}"
        raise ResyncNeededError(slot, reason)
    return state


def advance(connection: Connection, slot: str, lsn: int) -> None:
    """Let go of the log before a position. Never call it before the mirror has committed that position."""
    state = require_slot(connection, slot, lsn)
    if state.confirmed < lsn:
        query = sql.SQL("SELECT pg_replication_slot_advance({}, {}::pg_lsn)")
        run(connection, query.format(sql.Literal(slot), sql.Literal(show_lsn(lsn))))


def heartbeat(connection: Connection) -> None:
    """An empty transaction that our slots see, so that they can advance while our tables rest."""
    with transaction(connection):
        run(
            connection,
            sql.SQL("SET LOCAL synchronous_commit = local"),  # on disk when this returns, but only here
            sql.SQL("SELECT pg_logical_emit_message(true, {}, '')").format(_HEARTBEAT),
        )


def readable_end(connection: Connection) -> int:
    """Where the log ends, once everything before it is on disk.

    Without it a reader of the log may come upon a record of an open transaction of which only a part is on
    disk yet, and wait for the rest: for seconds, on a quiet server.
    """
    inserted, flushed = (parse_lsn(lsn) for lsn in rows(connection, _ENDS)[0])
    if flushed < inserted:
        heartbeat(connection)
    # Just after the header of a page there is no record yet that ends there.
    beyond = inserted % _LOG_PAGE
    return inserted - beyond if beyond <= _LONGEST_HEADER else inserted


def caught_up(state: SlotState, max_lag_bytes: int = 65_536) -> bool:
    """Whether so little is left to read that the log can take over from the triggers."""
    return state.lag_bytes <= max_lag_bytes


def _require_logical(connection: Connection) -> None:
    level = value(connection, sql.SQL("SELECT current_setting('wal_level')"))
    if level != "logical":
        raise SourceSetupError(
            f'wal_level is "{level}", but the log shows changes only if it is "logical"',
            "Run ALTER SYSTEM SET wal_level = logical and restart the server, or capture with triggers.",
        )


_SLOT = sql.SQL("""
    SELECT confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn),
        active, coalesce(wal_status, 'lost')
    FROM pg_replication_slots WHERE slot_name = {} AND database = current_database()
""")

_ENDS = sql.SQL("SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text")

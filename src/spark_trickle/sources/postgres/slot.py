"""A slot -> how far it is: it keeps the log until the mirror has it, and not longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import sql

from spark_trickle.errors import ResyncNeededError, SourceSetupError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.moment import parse_lsn, show_lsn
from spark_trickle.sources.postgres.run import Statement, read_rows, read_value, rows_of_all, run_statements

_HEARTBEAT = "spark-trickle"
_LOG_PAGE, _LONGEST_HEADER = 8192, 40


@dataclass(frozen=True)
class Asked:
    """When a server answered, by its own clock, and which transactions had ended by then."""

    clock: datetime
    snapshot: str

    def seconds_since(self, clock: datetime | None, snapshot: str) -> float:
        """How long ago something was true; 0 if no transaction has ended there since."""
        if clock is None or snapshot == self.snapshot:
            return 0.0
        return max(0.0, (self.clock - clock).total_seconds())


@dataclass(frozen=True)
class SlotState:
    """A slot as the server sees it; `lost` says why it can no longer be read.

    `lag_bytes` were not read yet. `kept_bytes` are kept on disk: also what open transactions have begun.
    """

    name: str
    confirmed: int
    lag_bytes: int
    kept_bytes: int
    active: bool
    lost: str | None
    asked: Asked


def create_slot(connection: Connection, slot: str) -> int:
    """A new slot; the position from which on it keeps the log. Transactions that write now are waited for."""
    _require_logical(connection)
    query = sql.SQL("SELECT lsn::text FROM pg_create_logical_replication_slot({}, 'pgoutput')")
    return parse_lsn(read_value(connection, query.format(sql.Literal(slot))))


def drop_slot(connection: Connection, slot: str) -> None:
    """A slot that nobody reads fills the disk of the server: never leave one behind."""
    query = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = {}"
    run_statements(connection, sql.SQL(query).format(sql.Literal(slot)))


def slot_state(connection: Connection, slot: str) -> SlotState | None:
    return read_slot(slot, rows_of_all(connection, slot_query(slot))[0])


def slot_query(slot: str) -> Statement:
    return _SLOT.format(sql.Literal(slot))


def read_slot(slot: str, found: Sequence[tuple[Any, ...]]) -> SlotState | None:
    if not found:
        return None
    confirmed, lag, kept, active, status, clock, snapshot = found[0]
    lost = "the server removed write-ahead log that was still needed" if status == "lost" else None
    asked = Asked(datetime.fromisoformat(clock), snapshot)
    return SlotState(slot, parse_lsn(confirmed), int(lag), int(kept), active, lost, asked)


def require_slot(connection: Connection, slot: str, after: int) -> SlotState:
    """The slot, if it still holds everything after a position."""
    return check_slot(slot, slot_state(connection, slot), after)


def check_slot(slot: str, state: SlotState | None, after: int) -> SlotState:
    if state is None:
        raise ResyncNeededError(slot, "the replication slot no longer exists")
    if state.lost:
        raise ResyncNeededError(slot, state.lost)
    if state.confirmed > after:
        reason = f"the slot was moved to {show_lsn(state.confirmed)}, but the mirror is at {show_lsn(after)}"
        raise ResyncNeededError(slot, reason)
    return state


def advance_slot(connection: Connection, slot: str, lsn: int) -> None:
    """Let go of the log before a position. Never call it before the mirror has committed that position."""
    state = require_slot(connection, slot, lsn)
    if state.confirmed < lsn:
        query = sql.SQL("SELECT pg_replication_slot_advance({}, {}::pg_lsn)")
        run_statements(connection, query.format(sql.Literal(slot), sql.Literal(show_lsn(lsn))))


@dataclass(frozen=True)
class LogEnd:
    """A position up to which the log can be read now.

    `whole`: no record crosses it, so that a slot may be moved there once everything before it was read.
    Whatever had ended when the server was `asked` lies before it.
    """

    lsn: int
    asked: Asked
    whole: bool = True


def write_heartbeat(connection: Connection) -> None:
    """An empty transaction that our slots see, so that they can advance while our tables rest."""
    # On disk when this returns, but only there: standbys are not waited for.
    local = "SELECT set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, {}, '')"
    run_statements(connection, sql.SQL(local).format(_HEARTBEAT))


def find_log_end(connection: Connection, after: int | None = None, max_lag_bytes: int = 0) -> LogEnd:
    """Where the log ends, once everything before it is on disk.

    Without it a reader of the log may come upon a record of an open transaction of which only a part is on
    disk yet, and wait for the rest: for seconds, on a quiet server. If the log is more than `max_lag_bytes`
    beyond `after`, a heartbeat is its last transaction, whether or not one of our tables was written to.
    """
    end, on_disk, may_emit = _log_ends(connection)
    if not may_emit:
        # What is on disk may end inside of a record.
        return end if on_disk >= end.lsn else replace(end, lsn=on_disk, whole=False)
    if after is not None and end.lsn - after > max_lag_bytes:
        write_heartbeat(connection)
        later, on_disk, _ = _log_ends(connection)
        return later if on_disk >= later.lsn else end  # others may write meanwhile
    if on_disk < end.lsn:
        write_heartbeat(connection)
    return end


def _log_ends(connection: Connection) -> tuple[LogEnd, int, bool]:
    """Where the log ends, up to where it is on disk, and whether our role may write a heartbeat."""
    inserted, flushed, may_emit, *asked = read_rows(connection, _ENDS)[0]
    return LogEnd(_before_header(parse_lsn(inserted)), Asked(*asked)), parse_lsn(flushed), may_emit


def _before_header(lsn: int) -> int:
    """Just after the header of a page there is no record yet that ends there."""
    beyond = lsn % _LOG_PAGE
    return lsn - beyond if beyond <= _LONGEST_HEADER else lsn


def _require_logical(connection: Connection) -> None:
    level = read_value(connection, sql.SQL("SELECT current_setting('wal_level')"))
    if level != "logical":
        raise SourceSetupError(
            f'wal_level is "{level}", but the log contains changes of rows only if it is "logical"',
            "Run ALTER SYSTEM SET wal_level = logical and restart the server, or capture with triggers.",
        )


_SLOT = sql.SQL("""
    SELECT confirmed_flush_lsn::text, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn),
        coalesce(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn), 0),
        active, coalesce(wal_status, 'lost'), clock_timestamp(), pg_current_snapshot()::text
    FROM pg_replication_slots WHERE slot_name = {} AND database = current_database()
""")

# The function has one argument more since PostgreSQL 17, so it is found by its name.
_ENDS = sql.SQL("""
    SELECT pg_current_wal_insert_lsn()::text, pg_current_wal_flush_lsn()::text,
        (SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p
         WHERE p.proname = 'pg_logical_emit_message' AND p.pronamespace = 'pg_catalog'::regnamespace),
        clock_timestamp(), pg_current_snapshot()::text
""")

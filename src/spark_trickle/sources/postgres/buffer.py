"""The change buffers of a source -> every committed change once, as weighted rows, up to one moment.

What is read lies between two snapshots: a row is taken if its transaction is seen by the newer one and was
not seen by the older one. So a transaction that commits late is neither passed over nor waited for, and every
reading brings all tables to one state that the source really had.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql

from spark_trickle.errors import ColumnNotFoundError, ResyncNeededError, SourceBusyError
from spark_trickle.sources.postgres.capture import SCHEMA, Capture
from spark_trickle.sources.postgres.chunks import USUAL, Bounds, read_chunks
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot, parse_lsn
from spark_trickle.sources.postgres.ranges import KeyRange, compose_range
from spark_trickle.sources.postgres.run import Statement, begin_transaction, read_value, run_statements
from spark_trickle.sources.postgres.survey import survey_captures, unread_rows
from spark_trickle.sources.postgres.types import MappedColumn
from spark_trickle.sources.postgres.values import to_table


@dataclass(frozen=True)
class Position:
    """How far a mirror is: the buffer it follows, and the moment that it has reached."""

    token: str
    moment: Moment

    def move_to(self, moment: Moment) -> Position:
        return replace(self, moment=moment)


def claim_buffers(connection: Connection, schema: str = SCHEMA) -> None:
    """Be the only reader of these buffers until the connection ends; reading and compacting ask for it.

    Two readers could not do harm to the mirror, whose commits are compared, but one that compacts could take
    away what the other has half read.
    """
    held = read_value(connection, _CLAIM.format(schema=sql.Literal(schema)))
    if not held:
        raise SourceBusyError(
            f'another process reads the change buffers in "{schema}"',
            "Wait until it has ended, or give this warehouse a schema of its own.",
        )


def release_buffers(connection: Connection, schema: str = SCHEMA) -> None:
    """Let others read these buffers."""
    run_statements(connection, _RELEASE.format(schema=sql.Literal(schema)))


@contextmanager
def open_reading(connection: Connection, schema: str = SCHEMA) -> Iterator[Moment]:
    """One moment, which everything that is read in the block shows; it comes out as the new position."""
    claim_buffers(connection, schema)
    with begin_transaction(connection):
        run_statements(connection, sql.SQL("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        yield read_moment(connection)


def read_moment(connection: Connection) -> Moment:
    """The moment of the running transaction; the log position comes second, so that it is not too early."""
    snapshot = read_value(connection, sql.SQL("SELECT pg_current_snapshot()::text"))
    lsn = read_value(connection, sql.SQL("SELECT pg_current_wal_insert_lsn()::text"))
    return Moment(ServerSnapshot.parse(snapshot), parse_lsn(lsn))


def read_changes(
    connection: Connection,
    capture: Capture,
    columns: Sequence[MappedColumn],
    since: Position,
    bounds: Bounds = USUAL,
    key_range: KeyRange | None = None,
) -> Iterator[pa.Table]:
    """What changed since a position, in tables of limited size; inside of `open_reading`."""
    require_complete(connection, capture, since)
    yield from read_rows(connection, capture, columns, since, bounds, key_range)


def read_rows(
    connection: Connection,
    capture: Capture,
    columns: Sequence[MappedColumn],
    since: Position,
    bounds: Bounds = USUAL,
    key_range: KeyRange | None = None,
) -> Iterator[pa.Table]:
    """The same from a buffer that is known to be complete.

    All tables of one reading belong into one commit: only together they are whole transactions. An update
    that touches none of the columns is left out.
    """
    query = sql.SQL(
        "SELECT action, {fields} FROM {buffer} AS b WHERE {unread} AND {touched} AND {range}"
    ).format(
        fields=sql.SQL(", ").join(sql.Identifier("b", name) for name in _find_stored_names(capture, columns)),
        buffer=capture.buffer,
        unread=unread_rows(since.moment.snapshot),
        touched=_compose_touched(capture, columns),
        range=compose_range(key_range, dict(zip(capture.column_names, capture.buffer_names, strict=True))),
    )
    for action, *texts in read_chunks(connection, query, len(columns) + 1, bounds):
        weight = pc.if_else(pc.equal(action, "I"), pa.scalar(1, pa.int32()), pa.scalar(-1, pa.int32()))
        yield to_table(columns, texts, weight)


def forget_changes(connection: Connection, capture: Capture, upto: Position) -> int:
    """Delete what a mirror has committed; how many rows that were. Never call it before that commit."""
    with begin_transaction(connection):
        run_statements(connection, _delete_seen(capture.losses, upto, capture))
        return run_statements(connection, _delete_seen(capture.buffer, upto, None))


def require_complete(connection: Connection, capture: Capture, since: Position) -> None:
    """Refuse to read a buffer from which something is missing since a position."""
    source, snapshot = capture.source.oid, since.moment.snapshot
    seen = survey_captures(connection, capture.schema, since={source: snapshot})
    if reason := seen.find_loss(source, since.token, snapshot):
        raise ResyncNeededError(capture.source.full_name, reason)


# --- pieces --------------------------------------------------------------------------------------

# Taken for the session, once, and found among its own locks later.
_CLAIM = sql.SQL("""
    SELECT CASE WHEN EXISTS (
        SELECT FROM pg_locks
        WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND objsubid = 2
            AND classid = hashtext('spark-trickle')::oid AND objid = hashtext({schema})::oid
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
    THEN true ELSE pg_try_advisory_lock(hashtext('spark-trickle'), hashtext({schema})) END
""")


_RELEASE = sql.SQL("SELECT pg_advisory_unlock(hashtext('spark-trickle'), hashtext({schema}))")


def _delete_seen(table: sql.Identifier, upto: Position, of: Capture | None) -> Statement:
    condition = sql.SQL("source = {}").format(of.source.oid) if of else sql.SQL("true")
    return sql.SQL("DELETE FROM {} WHERE {} AND pg_visible_in_snapshot(xid, {}::pg_snapshot)").format(
        table, condition, str(upto.moment.snapshot)
    )


def _find_stored_names(capture: Capture, columns: Sequence[MappedColumn]) -> list[str]:
    names = dict(zip(capture.column_names, capture.buffer_names, strict=True))
    for column in columns:
        if column.name not in names:
            raise ColumnNotFoundError(column.name, capture.column_names)
    return [names[c.name] for c in columns]


def _compose_touched(capture: Capture, columns: Sequence[MappedColumn]) -> Statement:
    """Whether an update changed one of the columns; rows from before a column was captured cannot tell."""
    wanted = {c.name for c in columns}
    if wanted >= set(capture.column_names):
        return sql.SQL("true")
    mask = "".join("1" if name in wanted else "0" for name in capture.column_names)
    return sql.SQL(
        "(b.changed_cols IS NULL OR length(b.changed_cols) < {width} "
        "OR position(B'1' IN substring(b.changed_cols FOR {width}) & {mask}) > 0)"
    ).format(width=len(mask), mask=sql.SQL(f"B'{mask}'"))

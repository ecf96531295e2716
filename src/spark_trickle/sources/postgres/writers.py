"""Tables -> a moment at which nobody is in the middle of writing to them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from psycopg import sql

from spark_trickle.errors import SourceBusyError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.ranges import compose_own_rows
from spark_trickle.sources.postgres.run import lock_timeout, read_rows, run_statements

_PAUSE = 0.1  # seconds between two looks


def await_writers(connection: Connection, tables: Sequence[SourceTable], seconds: float) -> None:
    """Until all transactions that have written to these tables have ended; inside of a transaction.

    An owner keeps new ones out until the transaction ends. Who only reads the tables may not lock them, and
    waits for those that are there.
    """
    run_statements(connection, lock_timeout(seconds))
    for table in tables:
        if table.owned:
            _lock_table(connection, table, seconds)
        else:
            _watch_writers(connection, table, seconds)


def _lock_table(connection: Connection, table: SourceTable, seconds: float) -> None:
    try:
        run_statements(
            connection, sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(compose_own_rows(table))
        )
    except SourceBusyError:
        raise _make_busy_error(table, seconds) from None


def _watch_writers(connection: Connection, table: SourceTable, seconds: float) -> None:
    oids = sql.Literal([table.oid, *(p.oid for p in table.partitions)])
    end = time.monotonic() + seconds
    waited_for = read_rows(connection, _WRITERS.format(oids))
    while set(waited_for) & set(read_rows(connection, _WRITERS.format(oids))):
        if time.monotonic() > end:
            raise _make_busy_error(table, seconds)
        time.sleep(_PAUSE)


def _make_busy_error(table: SourceTable, seconds: float) -> SourceBusyError:
    return SourceBusyError(
        f'transactions that write to "{table.full_name}" did not end within {seconds:g} seconds',
        "Try again when they have ended; pg_stat_activity and pg_prepared_xacts list them.",
    )


# Transactions keep what they have locked, also those that are prepared.
_WRITERS = sql.SQL("""
    SELECT virtualtransaction FROM pg_locks
    WHERE locktype = 'relation' AND relation = ANY ({}::oid[]) AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
""")

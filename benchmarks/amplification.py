"""What capture makes a PostgreSQL server write: log, dead rows and index pages, for each changed row.

The same changes are made to tables that differ in nothing but how they are captured. Bytes are counted, not
seconds, so one run on any machine tells them; full pages that the log holds after a checkpoint are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from benchmarks.servers import tuned_server
from benchmarks.store import Store
from spark_trickle.sources.postgres.buffer import Position, forget_changes, open_reading, read_moment
from spark_trickle.sources.postgres.capture import Capture, plan_capture
from spark_trickle.sources.postgres.connect import Address, Connection, open_connection
from spark_trickle.sources.postgres.discover import find_tables
from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.publication import publish_tables
from spark_trickle.sources.postgres.slot import create_slot, drop_slot
from tests.postgres.server import Server

ROWS = 50_000
CHANGED = 10_000
MODES = ("none", "trigger", "unlogged trigger", "log")
_LOG = "bench"


@dataclass(frozen=True)
class Workload:
    """A table, and statements that change so many of its rows; `{t}` stands for its name."""

    name: str
    columns: str
    statements: tuple[str, ...]
    setup: tuple[str, ...] = ()
    for_log: tuple[str, ...] = ()  # what only the log needs


_COLUMNS = "id int8{}, customer text, amount numeric(12,2), at timestamptz, note text"
WORKLOADS = (
    Workload(
        "UPDATE of a column without an index",
        _COLUMNS.format(" PRIMARY KEY"),
        (f"UPDATE {{t}} SET amount = amount + 1 WHERE id <= {CHANGED}",),
        ("ALTER TABLE {t} SET (fillfactor = 50)",),
    ),
    Workload(
        "UPDATE of a column with an index",
        _COLUMNS.format(" PRIMARY KEY"),
        (f"UPDATE {{t}} SET at = at + interval '1 s' WHERE id <= {CHANGED}",),
        ("CREATE INDEX ON {t} (at)", "CREATE INDEX ON {t} (customer)"),
    ),
    Workload(
        "UPDATE without a key",
        _COLUMNS.format(""),
        (f"UPDATE {{t}} SET amount = amount + 1 WHERE id <= {CHANGED}",),
        for_log=("ALTER TABLE {t} REPLICA IDENTITY FULL",),
    ),
    Workload(
        "INSERT, later DELETE",
        _COLUMNS.format(" PRIMARY KEY"),
        (
            f"INSERT INTO {{t}} SELECT {ROWS} + g, 'c', g, now(), 'new' "
            f"FROM generate_series(1, {CHANGED // 2}) g",
            f"DELETE FROM {{t}} WHERE id > {ROWS}",
        ),
    ),
)


@dataclass(frozen=True)
class Amplified:
    """For each changed row; `read_wal` is what reading and forgetting a buffer adds to the log."""

    workload: str
    mode: str
    wal: float
    read_wal: float
    dead_rows: float  # of the table and of its buffer
    index_bytes: float
    buffer_bytes: float


STORE = Store("amplification", Amplified, ("workload", "mode"))


def run() -> list[Amplified]:
    with tuned_server("full_page_writes = 'off'", "checkpoint_timeout = '1h'") as server:
        found = [_measure(server, workload, mode) for workload in WORKLOADS for mode in MODES]
    STORE.add(found)
    return found


def _measure(server: Server, workload: Workload, mode: str) -> Amplified:
    with server.connect() as application, open_connection(Address(server.conninfo()), "bench") as reader:
        _create(application, workload, workload.setup + (workload.for_log if mode == "log" else ()))
        (table,) = find_tables(reader, "public.t")
        capture = plan_capture(table, unlogged="unlogged" in mode) if "trigger" in mode else None
        token = install_capture(reader, capture) if capture is not None else ""
        if mode == "log":
            publish_tables(reader, _LOG, [table])
            create_slot(reader, _LOG)
        size = _index_bytes(application)
        wal = _wal_of(application, lambda: _change(application, workload))
        index = _index_bytes(application) - size
        held = _size(application, f"trickle_changes.changes_{table.oid}") if capture is not None else 0
        read = 0
        if capture is not None:
            read = _wal_of(application, lambda: _consume(reader, capture, token))
        dead = _dead_rows(application)
        if mode == "log":
            drop_slot(reader, _LOG)
            application.execute(f"DROP PUBLICATION {_LOG}".encode())
        application.execute("DROP SCHEMA IF EXISTS trickle_changes CASCADE")
        application.execute("DROP TABLE t")
    each = (round(found / CHANGED, 2) for found in (wal, read, dead, index, held))
    return Amplified(workload.name, mode, *each)


def _create(application: psycopg.Connection, workload: Workload, setup: tuple[str, ...]) -> None:
    application.execute(f"CREATE TABLE t ({workload.columns})".encode())
    for statement in setup:
        application.execute(statement.format(t="t").encode())
    application.execute(
        "INSERT INTO t SELECT g, 'customer ' || g % 5000, g * 0.37, "
        "timestamptz '2024-01-01Z' + g * interval '1 s', repeat('x', 40) "
        f"FROM generate_series(1, {ROWS}) g".encode()
    )
    application.execute("VACUUM ANALYZE t")


def _change(application: psycopg.Connection, workload: Workload) -> None:
    for statement in workload.statements:
        application.execute(statement.format(t="t").encode())


def _consume(reader: Connection, capture: Capture, token: str) -> None:
    with open_reading(reader):
        position = Position(token, read_moment(reader))
    forget_changes(reader, capture, position)
    reader.execute("SELECT pg_stat_force_next_flush()")


def _wal_of(application: psycopg.Connection, act: Callable[[], None]) -> int:
    position = "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8"
    ((before,),) = application.execute(position).fetchall()
    act()
    ((after,),) = application.execute(position).fetchall()
    return int(after) - int(before)


def _size(application: psycopg.Connection, name: str) -> int:
    return int(application.execute("SELECT pg_relation_size(%s)", (name,)).fetchall()[0][0])


def _index_bytes(application: psycopg.Connection) -> int:
    """Of the table; a buffer has none."""
    return int(application.execute("SELECT pg_indexes_size('t')").fetchall()[0][0])


def _dead_rows(application: psycopg.Connection) -> int:
    """As VACUUM will find them."""
    application.execute("SELECT pg_stat_force_next_flush()")
    query = "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables WHERE relname ~ '^(t|changes_.*)$'"
    return int(application.execute(query).fetchall()[0][0])

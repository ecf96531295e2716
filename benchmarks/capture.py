"""What capture costs: writes of an application with and without it, and reading the changes against COPY.

The same statements run on tables that differ in nothing but how they are captured, in turn. The server does
not wait for its disk, and all is measured in the time that processors work for them, where the system
tells it: an application that waits for a disk or a network sees smaller ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.servers import tuned_server
from benchmarks.timing import Ratio, race, ratio, save
from spark_trickle.sources.postgres.assemble import Followed
from spark_trickle.sources.postgres.buffer import Position, open_reading, read_changes, read_moment
from spark_trickle.sources.postgres.capture import Capture, plan_capture
from spark_trickle.sources.postgres.connect import Address, Connection, open_connection
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import SourceTable, find_tables
from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.publication import publish_tables
from spark_trickle.sources.postgres.slot import create_slot, write_heartbeat
from spark_trickle.sources.postgres.types import map_columns
from spark_trickle.sources.postgres.wal import peek_changes
from tests.postgres.server import Server

WIDTHS = (3, 8, 20)
MODES = ("none", "trigger", "unlogged trigger", "log")
BULK = 10_000
SINGLE = 200  # transactions of one row, one after the other
BAR = 2.3
_SLOT = _PUBLICATION = "bench"

# Type and value of the columns after the key, again and again; n is the number of the row.
_KINDS = (
    ("int4", "(n % 1000)::int4"),
    ("text", "'customer ' || n % 5000"),
    ("numeric(12,2)", "(n * 0.37)::numeric(12,2)"),
    ("timestamptz", "timestamptz '2024-01-01 00:00Z' + n * interval '1 second'"),
    ("float8", "n * 0.1::float8"),
    ("bool", "n % 2 = 0"),
    ("date", "date '2024-01-01' + (n % 1000)::int4"),
)


def run(rounds: int) -> list[Ratio]:
    with tuned_server("shared_buffers = '256MB'", "checkpoint_timeout = '1h'") as server:
        lines = [line for width in WIDTHS for line in _writes(server, width, rounds)]
        lines += _reads(server, rounds)
    save("capture", lines)
    return lines


# --- writing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A table that is written to, captured in its way or not at all."""

    mode: str
    name: str
    width: int
    capture: Capture | None = None

    @property
    def values(self) -> str:
        return ", ".join(["n", *(_KINDS[c % len(_KINDS)][1] for c in range(self.width - 1))])

    def insert(self, numbers: str) -> str:
        return f"INSERT INTO {self.name} SELECT {self.values} FROM {numbers}"


def _table(server: Server, connection: Connection, name: str, width: int) -> SourceTable:
    columns = ", ".join(f"c{c} {_KINDS[c % len(_KINDS)][0]}" for c in range(width - 1))
    with server.connect() as admin:
        admin.execute(f"CREATE TABLE {name} (id int8 PRIMARY KEY, {columns})".encode())
    (table,) = find_tables(connection, f"public.{name}")
    return table


def _subject(server: Server, connection: Connection, mode: str, width: int) -> Subject:
    name = f"{mode.replace(' ', '_')}_{width}"
    table = _table(server, connection, name, width)
    if "trigger" not in mode:
        return Subject(mode, name, width)
    capture = plan_capture(table, unlogged="unlogged" in mode)
    install_capture(connection, capture)
    return Subject(mode, name, width, capture)


@contextmanager
def _subjects(server: Server, width: int) -> Iterator[list[Subject]]:
    with open_connection(Address(server.conninfo()), "bench") as connection:
        made = [_subject(server, connection, mode, width) for mode in MODES]
        publish_tables(connection, _PUBLICATION, find_tables(connection, f"public.log_{width}"))
        create_slot(connection, _SLOT)
        yield made
        with server.connect() as admin:
            admin.execute(f"SELECT pg_drop_replication_slot('{_SLOT}')".encode())
            admin.execute(f"DROP PUBLICATION {_PUBLICATION}".encode())


def _writes(server: Server, width: int, rounds: int) -> list[Ratio]:
    with _subjects(server, width) as subjects, server.connect() as application:
        clock = _work_of(application)
        bulk = race(_bulk(application, subjects), rounds, 2, clock)
        single = race(_single(application, subjects), rounds, 2, clock)
    return [
        ratio(f"{label} {action}, {width} columns", found[f"{mode} {action}"], found[f"none {action}"], BAR)
        for label, found in ((f"{BULK:,} rows", bulk), ("1 row", single))
        for action in ("INSERT", "UPDATE", "DELETE")
        for mode in MODES[1:]
    ]


def _work_of(application: psycopg.Connection[Any]) -> Callable[[], float]:
    """Seconds that the server has worked for this connection, and we ourselves."""
    server = Path(f"/proc/{application.info.backend_pid}/schedstat")
    if not server.exists():
        return time.perf_counter
    return lambda: int(server.read_text().split()[0]) / 1e9 + time.process_time()


def _bulk(application: psycopg.Connection[Any], subjects: list[Subject]) -> dict[str, Callable[[], object]]:
    """One statement for all rows, on tables that hold only these rows."""
    statements = {
        "INSERT": lambda s: s.insert(f"generate_series(1, {BULK}) AS n"),
        "UPDATE": lambda s: f"UPDATE {s.name} SET c0 = c0 + 1",
        "DELETE": lambda s: f"DELETE FROM {s.name}",
    }
    contenders: dict[str, Callable[[], object]] = {}
    for action, write in statements.items():
        for subject in subjects:
            contenders[f"{subject.mode} {action}"] = partial(application.execute, write(subject).encode())
    contenders["clean"] = lambda: _clean(application, subjects)
    return contenders


def _single(application: psycopg.Connection[Any], subjects: list[Subject]) -> dict[str, Callable[[], object]]:
    """Prepared statements of one row each, every one a transaction, on tables of many rows."""
    for subject in subjects:
        application.execute(subject.insert(f"generate_series(1, {BULK}) AS n").encode())
    statements = {
        "INSERT": lambda s: s.insert(f"(SELECT $1::int8 + {BULK} AS n) AS one"),
        "UPDATE": lambda s: f"UPDATE {s.name} SET c0 = c0 + 1 WHERE id = $1",
        "DELETE": lambda s: f"DELETE FROM {s.name} WHERE id = $1::int8 + {BULK}",
    }
    contenders: dict[str, Callable[[], object]] = {}
    for action, write in statements.items():
        for subject in subjects:
            contenders[f"{subject.mode} {action}"] = _loop(application, write(subject))
    contenders["clean"] = lambda: _clean(application, subjects)
    return contenders


def _loop(application: psycopg.Connection[Any], text: str) -> Callable[[], None]:
    def run() -> None:
        with psycopg.RawCursor(application) as cursor:
            for n in range(1, SINGLE + 1):
                cursor.execute(text, (n,), prepare=True)

    return run


def _clean(application: psycopg.Connection[Any], subjects: list[Subject]) -> None:
    """What a reader and autovacuum do all the time."""
    for subject in subjects:
        if subject.capture:
            application.execute(f"TRUNCATE {subject.capture.buffer.as_string(None)}".encode())
        application.execute(f"VACUUM {subject.name}".encode())
    application.execute(f"SELECT pg_replication_slot_advance('{_SLOT}', pg_current_wal_lsn())".encode())
    application.execute("CHECKPOINT")


# --- reading -------------------------------------------------------------------------------------


def _reads(server: Server, rounds: int, rows: int = 100_000, width: int = 8) -> list[Ratio]:
    """Rows of an INSERT from a buffer, from the log and from the table; the last is the floor.

    Each way has a table of its own: a buffer beside it would double what the server finds in its log.
    """
    with open_connection(Address(server.conninfo()), "bench") as connection, server.connect() as application:
        table, logged = (_table(server, connection, name, width) for name in ("buffered", "logged"))
        capture, columns = plan_capture(table), map_columns(table, count(100))
        token = install_capture(connection, capture)
        with open_reading(connection):
            start = Position(token, read_moment(connection))
        _fill(application, table, rows, width)
        marks = publish_tables(connection, _PUBLICATION, [logged])
        after = create_slot(connection, _SLOT)
        _fill(application, logged, rows, width)
        followed = [Followed(logged, map_columns(logged, count(100)), marks[logged.oid])]

        def copied() -> None:
            with open_snapshot(connection, [table]):
                assert sum(t.num_rows for t in copy_rows(connection, table, columns)) == rows

        def from_buffer() -> None:
            with open_reading(connection):
                assert sum(t.num_rows for t in read_changes(connection, capture, columns, start)) == rows

        def from_log() -> None:
            write_heartbeat(connection)
            (found,) = peek_changes(connection, _SLOT, _PUBLICATION, followed, after, rows * 2).tables
            assert found.rows.num_rows == rows

        ways = {"COPY": copied, "the buffer": from_buffer, "the log": from_log}
        measured = race(ways, rounds, clock=_work_of(connection))
    label = f"reading {rows:,} rows of {width} columns"
    return [ratio(label, measured[n], measured["COPY"]) for n in ("the buffer", "the log")]


def _fill(application: psycopg.Connection[Any], table: SourceTable, rows: int, width: int) -> None:
    subject = Subject("", table.name, width)
    application.execute(subject.insert(f"generate_series(1, {rows}) AS n").encode())

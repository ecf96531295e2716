"""A table -> its rows at one moment; the changes after it are what that moment has not seen.

Install the triggers first, or create the slot: then what the copy misses is captured, and by the snapshot
everybody knows which transactions those are. This holds for the log as for the buffers, so no snapshot has to
be exported by a replication connection, and tables can be copied one after the other, or again at any time.

With triggers a copy can be resumed: `key_ranges` cuts the table, each range is copied at a moment of its own
and kept as a Piece, and `catch_up` brings all pieces to one moment. From the log it cannot: only the server
can say in which range a key lies. A mirror that is to follow the log starts with triggers and moves over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

from spark_trickle.sources.postgres.buffer import Position, read_changes, read_moment
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.chunks import USUAL, Bounds, read_chunks
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.moment import Moment
from spark_trickle.sources.postgres.ranges import KeyRange, compose_own_rows, compose_range
from spark_trickle.sources.postgres.run import begin_transaction, read_value, run_statements
from spark_trickle.sources.postgres.types import MappedColumn
from spark_trickle.sources.postgres.values import to_table


@dataclass(frozen=True)
class Progress:
    """How far the copy of a table is; `expected` is the server's estimate of its rows, or -1."""

    table: str
    rows: int
    expected: int


@dataclass(frozen=True)
class Piece:
    """A range of a table that has been copied, and when."""

    key_range: KeyRange
    position: Position


@contextmanager
def open_snapshot(connection: Connection, tables: Sequence[SourceTable]) -> Iterator[Moment]:
    """One moment of the tables, to be copied inside of the block."""
    with begin_transaction(connection):
        run_statements(connection, sql.SQL("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        # Before the snapshot: a TRUNCATE after it would empty the table for us too, and nothing would say so.
        for table in tables:
            run_statements(
                connection, sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(compose_own_rows(table))
            )
        yield read_moment(connection)


def copy_rows(
    connection: Connection,
    table: SourceTable,
    columns: Sequence[MappedColumn],
    bounds: Bounds = USUAL,
    key_range: KeyRange | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Iterator[pa.Table]:
    """The rows, each with weight 1, in tables of limited size; inside of `open_snapshot`."""
    expected, done = _estimate_rows(connection, table), 0
    query = sql.SQL("SELECT {fields} FROM {rows} AS t WHERE {range}").format(
        fields=sql.SQL(", ").join(sql.Identifier("t", c.name) for c in columns),
        rows=compose_own_rows(table),
        range=compose_range(key_range, {name: name for name in table.column_names}),
    )
    for texts in read_chunks(connection, query, len(columns), bounds):
        copied = to_table(columns, texts, pa.repeat(pa.scalar(1, pa.int32()), len(texts[0])))
        yield copied
        done += copied.num_rows
        progress(Progress(table.full_name, done, expected))


def catch_up(
    connection: Connection, capture: Capture, columns: Sequence[MappedColumn], pieces: Sequence[Piece]
) -> Iterator[pa.Table]:
    """What happened to each piece since it was copied, up to the moment of `open_reading`; inside of it."""
    for piece in pieces:
        yield from read_changes(connection, capture, columns, piece.position, key_range=piece.key_range)


def _estimate_rows(connection: Connection, table: SourceTable) -> int:
    oids = [table.oid, *(p.oid for p in table.partitions)]
    query = sql.SQL(
        "SELECT sum(reltuples)::int8 FROM pg_class WHERE relkind <> 'p' AND oid = ANY ({}::oid[])"
    )
    found = read_value(connection, query.format(sql.Literal(oids)))
    return -1 if found is None else max(int(found), -1)

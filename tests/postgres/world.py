"""What tests do with a source: change it as an application would, capture it, and compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa

from spark_trickle.model.table import WEIGHT
from spark_trickle.sources.postgres.capture import Capture, plan_capture
from spark_trickle.sources.postgres.connect import Address, Connection, open_connection
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import SourceTable, find_tables
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.types import MappedColumn, map_columns
from tests.postgres.server import Server

ODD_NAMES = [
    "plain",
    "Mixed Case",
    "dot.ted",
    'quo"te',
    "apo'strophe",
    "emoji 😀",
    "per%cent %s",
    "brace{0}",
    "back\\slash",
]


@dataclass
class World:
    """A database with an application (autocommit, plain psycopg) and connections of ours."""

    server: Server
    database: str
    opened: list[Any] = field(default_factory=list)

    def application(self, user: str = "postgres") -> psycopg.Connection[Any]:
        self.opened.append(self.server.connect(self.database, user))
        return self.opened[-1]

    def address(self, user: str = "postgres") -> Address:
        return Address(self.server.conninfo(self.database, user))

    def connect(self, role: str = "test", user: str = "postgres") -> Connection:
        self.opened.append(open_connection(self.address(user), role))
        return self.opened[-1]

    def run(self, *statements: str) -> None:
        """As the application would, each statement a transaction."""
        for statement in statements:
            self.usual.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.usual.execute(query).fetchall()

    @cached_property
    def usual(self) -> psycopg.Connection[Any]:
        return self.application()

    def clean(self) -> None:
        """Nothing that a test made is left in the database."""
        for connection in self.opened:
            connection.close()
        with self.server.connect(self.database) as admin:
            for query in _LEFTOVERS:
                for (statement,) in admin.execute(query).fetchall():
                    admin.execute(statement)
            admin.execute("CREATE SCHEMA public")


_LEFTOVERS = [
    "SELECT format('SELECT pg_terminate_backend(%s, 10000)', pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "SELECT format('ROLLBACK PREPARED %L', gid) FROM pg_prepared_xacts WHERE database = current_database()",
    "SELECT format('SELECT pg_drop_replication_slot(%L)', slot_name) FROM pg_replication_slots "
    "WHERE database = current_database()",
    "SELECT format('DROP PUBLICATION %I', pubname) FROM pg_publication",
    "SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace "
    "WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'",
]


def table_of(connection: Connection, name: str) -> SourceTable:
    """A table by schema.name, as written in SQL."""
    (table,) = find_tables(connection, name)
    return table


def mapped(table: SourceTable, **options: Any) -> tuple[MappedColumn, ...]:
    return map_columns(table, count(100), **options)


def mapped_for(capture: Capture) -> tuple[MappedColumn, ...]:
    """The columns of a capture, in the order of the table."""
    captured = set(capture.column_names)
    return tuple(c for c in mapped(capture.source) if c.name in captured)


def plan(connection: Connection, name: str, **options: Any) -> Capture:
    return plan_capture(table_of(connection, name), **options)


def total(tables: Iterable[pa.Table]) -> Counter[Hashable]:
    """The sum of weighted rows, without zeros; values by their text, so that NaN and lists can be compared."""
    found: Counter[Hashable] = Counter()
    for table in tables:
        weights = table.column(WEIGHT).to_pylist()
        columns = [table.column(n).to_pylist() for n in table.column_names if n != WEIGHT]
        for *row, weight in zip(*columns, weights, strict=True):
            found[tuple(map(repr, row))] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def content(connection: Connection, table: SourceTable, columns: Sequence[MappedColumn]) -> Counter[Hashable]:
    """What the table holds now, by the way of a copy."""
    with open_snapshot(connection, [table]):
        return total(copy_rows(connection, table, columns))


def create(name: str, columns: str) -> str:
    return f"CREATE TABLE {quote_name('public', name)} ({columns})"

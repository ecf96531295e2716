"""Tables -> what the server's own catalog says around them now, for any number of them in one statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from spark_trickle.sources.postgres.capture import SCHEMA
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.run import Statement, rows_of_all

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Link:
    """A partition of any level. `suspicious`: it may have come with rows, or was emptied."""

    mark: str
    name: str
    file: str
    suspicious: bool


@dataclass(frozen=True)
class TriggerFound:
    """A trigger that calls one of our functions. `suspicious`: rows of its table may have missed it."""

    function: str
    table: int
    mark: str
    state: str
    name: str  # of the table
    suspicious: bool

    @property
    def fires(self) -> bool:
        return self.state in ("O", "A")


@dataclass(frozen=True)
class Surroundings:
    """Versions of rows of the server's catalog that are about one table."""

    columns: Mapping[str, str]
    labels: tuple[tuple[str, str], ...]  # of enum types, with the column that uses them
    files: tuple[str, ...]
    links: tuple[Link, ...]
    related: bool  # has parents or children
    triggers: tuple[TriggerFound, ...]

    def column_marks(self, names: Collection[str]) -> tuple[str, ...]:
        return tuple(mark for name, mark in self.columns.items() if name in names)

    def parts(self, names: Collection[str]) -> Parts:
        """What the table has now of what it may not lose, as far as these columns need it."""
        labels = tuple(dict.fromkeys(label for column, label in self.labels if column in names))
        return Parts(labels, tuple(link.mark for link in self.links))


def look_around(connection: Connection, oids: Sequence[int], schema: str = SCHEMA) -> dict[int, Surroundings]:
    return read_surroundings(oids, rows_of_all(connection, *compose_surroundings(oids, schema)))


def compose_surroundings(oids: Sequence[int], schema: str = SCHEMA) -> list[Statement]:
    """Queries for those who have more to ask at the same moment."""
    wanted = sql.SQL("unnest({}::oid[]) AS root(oid)").format(sql.Literal(list(oids)))
    namespace = sql.Literal(sql.Identifier(schema).as_string(None))
    tables = [q.format(tables=wanted) for q in (_COLUMNS, _LABELS, _FILES, _LINKS, _RELATED)]
    return [*tables, _TRIGGERS.format(tables=wanted, schema=namespace)]


def read_surroundings(oids: Sequence[int], found: Sequence[Rows]) -> dict[int, Surroundings]:
    columns, labels, files, links, related, triggers = (_by_table(rows) for rows in found)
    return {
        oid: Surroundings(
            dict(columns.get(oid, ())),
            tuple(labels.get(oid, ())),
            tuple(file for (file,) in files.get(oid, ())),
            tuple(Link(*link) for link in links.get(oid, ())),
            oid in related,
            tuple(TriggerFound(*trigger) for trigger in triggers.get(oid, ())),
        )
        for oid in oids
    }


def _by_table(rows: Rows) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for oid, *rest in rows:
        found.setdefault(oid, []).append(tuple(rest))
    return found


_COLUMNS = sql.SQL("""
    SELECT a.attrelid::int8, a.attname::text, a.attnum::text || ':' || a.xmin::text
    FROM {tables} JOIN pg_attribute a ON a.attrelid = root.oid WHERE a.attnum > 0
    ORDER BY a.attrelid, a.attnum
""")

# Enums are found inside of domains, arrays, composite types and ranges too.
_LABELS = sql.SQL("""
    WITH RECURSIVE used(root, name, oid) AS (
        SELECT a.attrelid, a.attname, a.atttypid
        FROM {tables} JOIN pg_attribute a ON a.attrelid = root.oid WHERE a.attnum > 0
        UNION
        SELECT used.root, used.name, part.oid FROM used JOIN pg_type t ON t.oid = used.oid, LATERAL (
            VALUES (t.typbasetype), (t.typelem)
            UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0
            UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
        ) AS part(oid))
    SELECT used.root::int8, used.name::text, e.oid::text || ':' || e.enumlabel
    FROM used JOIN pg_enum e ON e.enumtypid = used.oid ORDER BY e.oid
""")

_FILES = sql.SQL("""
    SELECT f.root::int8, c.oid::text || ':' || c.relfilenode::text
    FROM (SELECT root.oid, root.oid FROM {tables}
          UNION SELECT root.oid, p.relid FROM {tables}, pg_partition_tree(root.oid) p WHERE p.isleaf
         ) AS f(root, oid) JOIN pg_class c ON c.oid = f.oid
    ORDER BY f.root, c.oid
""")

# A partition is known by the version of its link, so that one which was away for a while is another one. One
# that is partitioned itself may have come with its partitions, so every level counts. It is harmless if it
# was created as a partition, so that each of its rows came through the log, and is still in its first file.
_LINKS = sql.SQL("""
    SELECT root.oid::int8, i.inhrelid::text || ':' || i.xmin::text, c.relname::text,
        c.oid::text || ':' || c.relfilenode::text,
        a.xmin::text <> i.xmin::text OR (p.isleaf AND c.relfilenode <> c.oid)
    FROM {tables}, pg_partition_tree(root.oid) p JOIN pg_class c ON c.oid = p.relid
        JOIN pg_inherits i ON i.inhrelid = c.oid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'
    WHERE p.level > 0 ORDER BY root.oid, i.inhrelid
""")

_RELATED = sql.SQL("""
    SELECT DISTINCT root.oid::int8 FROM {tables} JOIN pg_inherits i ON root.oid IN (i.inhrelid, i.inhparent)
""")

# Our functions are named after the table. A new partition is harmless for triggers if it was created as one,
# so that each of its rows came through the trigger, and is still in its first file: TRUNCATE gives it another
# one, and has no trigger there until we install it.
_TRIGGERS = sql.SQL("""
    SELECT root.oid::int8, f.proname::text, t.tgrelid::int8, t.oid::text || ':' || t.xmin::text,
        t.tgenabled::text, c.relname::text,
        c.relkind = 'r' AND (a.xmin::text <> t.xmin::text OR c.relfilenode <> c.oid)
    FROM {tables} JOIN pg_proc f ON f.pronamespace = to_regnamespace({schema})
            AND f.proname LIKE 'capture\\_' || root.oid || '\\_%'
        JOIN pg_trigger t ON t.tgfoid = f.oid JOIN pg_class c ON c.oid = t.tgrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'
    ORDER BY root.oid, t.oid
""")

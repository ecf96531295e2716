"""What surrounds a captured table -> whether all of its changes can have been seen.

Some things change a table, or blind its triggers, and leave no trace but a new version of a row of the
server's own catalog: a trigger that was disabled for a while, a column that ALTER TABLE computed anew, a
partition that came with its rows. So versions are noted when a capture begins, and compared at each reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from spark_trickle.cdc.postgres.capture import Capture
from spark_trickle.cdc.postgres.connect import Connection
from spark_trickle.cdc.postgres.discover import SourceTable
from spark_trickle.cdc.postgres.parts import Parts, parts
from spark_trickle.cdc.postgres.run import Statement, rows, value


@dataclass(frozen=True)
class TableMarks:
    """Versions of the columns of a table, the files that its rows are in, and its parts."""

    columns: tuple[str, ...]
    files: tuple[str, ...]
    parts: Parts

    def rewritten(self, now: TableMarks) -> bool:
        """VACUUM FULL only gives new files, SET DEFAULT only new versions; ALTER … TYPE … USING does both."""
        return self.moved(now) and not set(self.columns) <= set(now.columns)

    def moved(self, now: TableMarks) -> bool:
        """Whether a file is gone, also that of a partition."""
        return not set(self.files) <= set(now.files)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> TableMarks:
        return cls(tuple(kept["columns"]), tuple(kept["files"]), Parts.from_json(kept["parts"]))


@dataclass(frozen=True)
class Marks:
    triggers: tuple[str, ...]
    table: TableMarks


def table_marks(connection: Connection, table: SourceTable, names: Sequence[str]) -> TableMarks:
    """Take them together with the copy, and give them to `log_gap` later."""
    query = _COLUMNS.format(oid=table.oid, names=sql.Literal(list(names)))
    oids = [table.oid, *(p.oid for p in table.partitions)]
    files = _column(connection, _FILES.format(sql.Literal(oids)))
    return TableMarks(_column(connection, query), files, parts(connection, table, names))


def marks(connection: Connection, capture: Capture, names: Sequence[str]) -> Marks:
    """What a capture of these columns rests on, row triggers on partitions included."""
    triggers = _column(connection, _TRIGGERS.format(_functions(capture)))
    return Marks(triggers, table_marks(connection, capture.source, names))


def gap(connection: Connection, capture: Capture, noted: Marks, names: Sequence[str]) -> str | None:
    """Why changes may have been missed since the marks were noted."""
    now = marks(connection, capture, names)
    if not set(noted.triggers) <= set(now.triggers):
        return "its triggers were disabled, changed or removed"
    if noted.table.rewritten(now.table):
        return "its rows were rewritten by ALTER TABLE"
    if reason := noted.table.parts.lost(now.table.parts):
        return reason
    if capture.mode == "statement" and value(connection, _RELATIVES.format(capture.source.oid)):
        return "it has parents or children now, so statements on them change it too"
    if capture.source.kind != "p":
        return None
    new = _NEW_PARTITIONS.format(_functions(capture), noted=sql.Literal(list(noted.triggers)))
    attached = _column(connection, new)
    return f'partition "{attached[0]}" was attached with its rows, or emptied unnoticed' if attached else None


def log_gap(connection: Connection, table: SourceTable, noted: TableMarks, now: TableMarks) -> str | None:
    """Why the log may not show all changes of a table.

    It is silent about what ALTER TABLE does to rows, and about TRUNCATE of a single partition.
    """
    if noted.rewritten(now):
        return "its rows were rewritten by ALTER TABLE"
    if reason := noted.parts.lost(now.parts):
        return reason
    if table.kind != "p":
        return None
    if noted.moved(now):
        return "one of its partitions was emptied or rewritten"
    attached = _column(connection, _ATTACHED.format(oid=table.oid, noted=sql.Literal(list(noted.files))))
    return f'partition "{attached[0]}" was attached with its rows, or emptied unnoticed' if attached else None


def _functions(capture: Capture) -> Statement:
    names = [f"{capture.function(event).as_string(None)}()" for event in capture.events]
    return sql.SQL("SELECT to_regprocedure(f) FROM unnest({}::text[]) AS f").format(sql.Literal(names))


def _column(connection: Connection, query: Statement) -> tuple[str, ...]:
    return tuple(str(found) for (found,) in rows(connection, query))


_TRIGGERS = sql.SQL("""
    SELECT t.oid::text || ':' || t.xmin::text FROM pg_trigger t
    WHERE t.tgfoid IN ({}) AND t.tgenabled IN ('O', 'A') ORDER BY t.oid
""")

_COLUMNS = sql.SQL("""
    SELECT attnum::text || ':' || xmin::text FROM pg_attribute
    WHERE attrelid = {oid} AND attnum > 0 AND attname = ANY ({names}::name[]) ORDER BY attnum
""")

_FILES = sql.SQL("""
    SELECT oid::text || ':' || relfilenode::text FROM pg_class WHERE oid = ANY ({}::oid[]) ORDER BY oid
""")

_RELATIVES = sql.SQL("SELECT EXISTS (SELECT FROM pg_inherits WHERE {0} IN (inhrelid, inhparent))")

# A new partition is harmless if it was created as one, so that each of its rows came through the trigger, and
# is still in its first file: TRUNCATE gives it another one, and has no trigger there until we install it.
_NEW_PARTITIONS = sql.SQL("""
    SELECT c.relname::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'
    WHERE t.tgfoid IN ({}) AND c.relkind = 'r' AND t.oid::text || ':' || t.xmin::text <> ALL ({noted}::text[])
        AND (a.xmin::text <> t.xmin::text OR c.relfilenode <> c.oid)
""")

# The same by the links between partitions, because there are no triggers; one that is partitioned itself may
# have come with its partitions, so every level counts.
_ATTACHED = sql.SQL("""
    SELECT c.relname::text FROM pg_partition_tree({oid}) p JOIN pg_class c ON c.oid = p.relid
        JOIN pg_inherits i ON i.inhrelid = c.oid
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tableoid'
    WHERE p.level > 0 AND c.oid::text || ':' || c.relfilenode::text <> ALL ({noted}::text[])
        AND (a.xmin::text <> i.xmin::text OR (p.isleaf AND c.relfilenode <> c.oid))
""")

"""What a table may get more of without harm, but not lose: the values of its enum types, its partitions.

A value that is renamed changes every row that holds it, a partition that goes takes its rows along, and no
trigger and no log says so. New ones come with their rows, so what there is is noted again at each reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from spark_trickle.cdc.postgres.connect import Connection
from spark_trickle.cdc.postgres.discover import SourceTable
from spark_trickle.cdc.postgres.run import rows


@dataclass(frozen=True)
class Parts:
    """Each with what tells it from another that has taken its place."""

    labels: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()

    def lost(self, now: Parts) -> str | None:
        """Why rows may have changed, or gone, unnoticed."""
        if not set(self.labels) <= set(now.labels):
            return "a value of one of its enum types was renamed"
        if not set(self.partitions) <= set(now.partitions):
            return "one of its partitions was detached or dropped"
        return None

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Parts:
        return cls(**{name: tuple(values) for name, values in kept.items()})


def parts(connection: Connection, table: SourceTable, names: Sequence[str]) -> Parts:
    """The parts of a table now, as far as these columns need them."""
    query = _PARTS.format(oid=table.oid, names=sql.Literal(list(names)))
    return Parts(*map(tuple, rows(connection, query)[0]))


# Enums are found inside of domains, arrays, composite types and ranges too. A partition is known by the
# version of its link, so that one which was away for a while is another one; every level counts.
_PARTS = sql.SQL("""
    WITH RECURSIVE used(oid) AS (
        SELECT atttypid FROM pg_attribute
        WHERE attrelid = {oid} AND attnum > 0 AND attname = ANY ({names}::name[])
        UNION
        SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid, LATERAL (
            VALUES (t.typbasetype), (t.typelem)
            UNION ALL SELECT atttypid FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0
            UNION ALL SELECT rngsubtype FROM pg_range WHERE rngtypid = t.oid
        ) AS part(oid))
    SELECT ARRAY(SELECT e.oid::text || ':' || e.enumlabel
        FROM used JOIN pg_enum e ON e.enumtypid = used.oid ORDER BY e.oid),
    ARRAY(SELECT i.inhrelid::text || ':' || i.xmin::text
        FROM pg_partition_tree({oid}) p JOIN pg_inherits i ON i.inhrelid = p.relid
        WHERE p.level > 0 ORDER BY i.inhrelid)
""")

"""A database -> its tables as they are now: columns, types, keys, and what tells rows apart in the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from spark_trickle.errors import TableNotFoundError, UnsupportedError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.names import Pattern, parse_patterns, quote_name
from spark_trickle.sources.postgres.run import Statement, read_rows, rows_of_all

Rows = list[tuple[Any, ...]]

_KINDS = {"v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence"}


@dataclass(frozen=True)
class PgType:
    """A type with its modifier; a domain has a `base`, an array has an `element`."""

    oid: int
    schema: str
    name: str
    kind: str  # b base, c composite, d domain, e enum, p pseudo, r range, m multirange
    modifier: int
    shown: str
    base: PgType | None = None
    element: PgType | None = None
    delimiter: str = ","

    @property
    def plain(self) -> PgType:
        """What values of a domain really are."""
        return self.base.plain if self.base else self


@dataclass(frozen=True)
class SourceColumn:
    """`number` stays the same when the column is renamed; `bitwise`: equal values are the same bits."""

    number: int
    name: str
    type: PgType
    not_null: bool = False
    generated: str = ""  # s stored, v virtual
    bitwise: bool = False
    collation: str = ""  # quoted, with its schema


@dataclass(frozen=True)
class ServerRelation:
    oid: int
    schema: str
    name: str

    @property
    def sql(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Partition(ServerRelation):
    """A leaf, which says by itself what the log holds of its old rows."""

    replica_identity: str = "d"
    logged: bool = True


@dataclass(frozen=True)
class SourceTable(ServerRelation):
    kind: str  # r plain, p partitioned
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()
    replica_identity: str = "d"  # d default, n nothing, f full, i index
    identity: tuple[str, ...] = ()  # the columns that name an old row in the log
    partitions: tuple[Partition, ...] = ()  # the leaves
    inherits: bool = False  # has parents or children, so statements reach it under other names
    logged: bool = True
    owned: bool = False

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @property
    def unlogged(self) -> tuple[ServerRelation, ...]:
        """What of it the log does not know, and a crash of the server empties."""
        own = () if self.logged else (self,)
        return (*own, *(p for p in self.partitions if not p.logged))

    def column(self, name: str) -> SourceColumn:
        return next(c for c in self.columns if c.name == name)


def find_tables(connection: Connection, patterns: str) -> tuple[SourceTable, ...]:
    """The tables that patterns such as 'public.*' mean, by name; one without wildcards must mean a table."""
    found = [_Found(*row) for row in read_rows(connection, _TABLES)]
    chosen: dict[int, _Found] = {}
    for pattern in parse_patterns(patterns):
        chosen |= {f.oid: f for f in _find_matching(pattern, found)}
    return describe_tables(connection, tuple(sorted(chosen)))


def describe_tables(connection: Connection, oids: Sequence[int]) -> tuple[SourceTable, ...]:
    """Tables by their ids, in the order of their names; those that no longer exist are left out."""
    if not oids:
        return ()
    return read_descriptions(*rows_of_all(connection, *compose_descriptions(oids)))


def compose_descriptions(oids: Sequence[int]) -> list[Statement]:
    """Queries about tables, for those who have more to ask at the same moment."""
    wanted = sql.Literal(list(oids))
    return [query.format(oids=wanted) for query in (_TYPES, _COLUMNS, _PARTITIONS, _DETAILS)]


def read_descriptions(
    of_types: Rows, of_columns: Rows, of_partitions: Rows, of_tables: Rows
) -> tuple[SourceTable, ...]:
    types = {row[0]: row for row in of_types}
    columns: dict[int, list[SourceColumn]] = {}
    for oid, *column in of_columns:
        columns.setdefault(oid, []).append(_make_column(column, types))
    leaves: dict[int, list[Partition]] = {}
    for root, *leaf in of_partitions:
        leaves.setdefault(root, []).append(Partition(*leaf))
    return tuple(_make_table(row, columns.get(row[0], []), leaves.get(row[0], [])) for row in of_tables)


@dataclass(frozen=True)
class _Found:
    oid: int
    schema: str
    name: str
    kind: str
    partition: bool


def _find_matching(pattern: Pattern, found: list[_Found]) -> list[_Found]:
    named = [f for f in found if pattern.matches(f.schema, f.name)]
    if not pattern.names_one:
        # A partition is captured as part of its parent.
        return [f for f in named if f.kind in "rp" and not f.partition]
    if not named:
        available = tuple(quote_name(f.schema, f.name) for f in found if f.kind in "rp" and not f.partition)
        raise TableNotFoundError(pattern.text, available)
    if named[0].kind not in "rp":
        what = f'{_KINDS.get(named[0].kind, "this object")} such as "{pattern.text}" as a source'
        raise UnsupportedError(what, "Capture the tables it reads, and write its query as a stream table.")
    return named


def _make_table(row: tuple[Any, ...], columns: list[SourceColumn], leaves: list[Partition]) -> SourceTable:
    oid, schema, name, kind, replica_identity, key, index_key, inherits, logged, owned = row
    names = {c.number: c.name for c in columns}
    primary = tuple(names[n] for n in key or ())
    identity = {
        "d": primary,
        "n": (),
        "f": tuple(names.values()),
        "i": tuple(names[n] for n in index_key or ()),
    }[replica_identity]
    return SourceTable(
        oid=oid,
        schema=schema,
        name=name,
        kind=kind,
        columns=tuple(columns),
        key=primary,
        replica_identity=replica_identity,
        identity=identity,
        partitions=tuple(leaves),
        inherits=inherits,
        logged=logged,
        owned=owned,
    )


def _make_column(row: list[Any], types: Mapping[int, tuple[Any, ...]]) -> SourceColumn:
    number, name, type_oid, modifier, shown, not_null, generated, deterministic, collation = row
    kind = _make_type(type_oid, modifier, shown, types)
    bitwise = deterministic and (kind.plain.kind == "e" or _is_bitwise(kind.plain))
    return SourceColumn(number, name, kind, not_null, generated, bitwise, collation)


_BITWISE = frozenset({
    "bool", "int2", "int4", "int8", "oid", "text", "varchar", "name", "uuid", "bytea",
    "date", "time", "timestamp", "timestamptz",
})  # fmt: skip


def _is_bitwise(kind: PgType) -> bool:
    """Not so: 1.0 = 1.00, −0.0 = 0.0, '1 mon' = '30 days', and json has no = at all.

    A numeric that says how many digits it has stores exactly so many.
    """
    fixed = kind.name == "numeric" and kind.modifier >= 0
    return kind.schema == "pg_catalog" and (kind.name in _BITWISE or fixed)


def _make_type(oid: int, modifier: int, shown: str, types: Mapping[int, tuple[Any, ...]]) -> PgType:
    _, schema, name, kind, delimiter, element, element_shown, base, base_modifier, base_shown = types[oid]
    return PgType(
        oid,
        schema,
        name,
        kind,
        modifier,
        shown,
        base=_make_type(base, base_modifier, base_shown, types) if base else None,
        element=_make_type(element, modifier, element_shown, types)
        if element
        else None,  # they share the modifier
        delimiter=delimiter,
    )


# --- the questions -------------------------------------------------------------------------------

_TABLES = sql.SQL("""
    SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relispartition
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND c.relpersistence <> 't'
      AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
      AND NOT EXISTS (SELECT FROM pg_class own WHERE own.relnamespace = n.oid AND own.relname = 'captures'
                      AND obj_description(own.oid, 'pg_class') LIKE 'spark-trickle:%')
    ORDER BY n.nspname, c.relname
""")

_DETAILS = sql.SQL("""
    SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relreplident::text,
        (SELECT array_agg(k.attnum ORDER BY k.place)
         FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
         WHERE i.indrelid = c.oid AND i.indisprimary AND k.place <= i.indnkeyatts),
        (SELECT array_agg(k.attnum ORDER BY k.place)
         FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
         WHERE i.indrelid = c.oid AND i.indisreplident AND k.place <= i.indnkeyatts),
        EXISTS (SELECT FROM pg_inherits h WHERE c.oid IN (h.inhrelid, h.inhparent)),
        c.relpersistence = 'p',
        pg_has_role(c.relowner, 'USAGE')
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY ({oids}::oid[])
    ORDER BY n.nspname, c.relname
""")

_COLUMNS = sql.SQL("""
    SELECT a.attrelid::int8, a.attnum, a.attname::text, a.atttypid::int8, a.atttypmod,
        format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attgenerated::text,
        coalesce(l.collisdeterministic, true),
        coalesce(quote_ident(ln.nspname) || '.' || quote_ident(l.collname), '')
    FROM pg_attribute a LEFT JOIN pg_collation l ON l.oid = a.attcollation
        LEFT JOIN pg_namespace ln ON ln.oid = l.collnamespace
    WHERE a.attrelid = ANY ({oids}::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
    ORDER BY a.attrelid, a.attnum
""")

_PARTITIONS = sql.SQL("""
    SELECT root.oid::int8, leaf.oid::int8, n.nspname::text, leaf.relname::text, leaf.relreplident::text,
        leaf.relpersistence = 'p'
    FROM pg_class root, pg_partition_tree(root.oid) p
        JOIN pg_class leaf ON leaf.oid = p.relid JOIN pg_namespace n ON n.oid = leaf.relnamespace
    WHERE root.oid = ANY ({oids}::oid[]) AND root.relkind = 'p' AND p.isleaf
    ORDER BY n.nspname, leaf.relname
""")

# A real array is what its element calls its array; int2vector and point only look like one.
_TYPES = sql.SQL("""
    WITH RECURSIVE used(oid) AS (
        SELECT atttypid FROM pg_attribute WHERE attrelid = ANY ({oids}::oid[]) AND NOT attisdropped
        UNION
        SELECT part.oid FROM used JOIN pg_type t ON t.oid = used.oid
            JOIN pg_type part ON part.oid IN (t.typbasetype, t.typelem))
    SELECT t.oid::int8, n.nspname::text, t.typname::text, t.typtype::text, t.typdelim::text,
        e.oid::int8, format_type(e.oid, NULL), nullif(t.typbasetype, 0)::int8, t.typtypmod,
        format_type(t.typbasetype, t.typtypmod)
    FROM used JOIN pg_type t ON t.oid = used.oid JOIN pg_namespace n ON n.oid = t.typnamespace
        LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
""")

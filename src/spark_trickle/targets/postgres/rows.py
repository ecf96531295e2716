"""Rows that go and rows that come, in tables of their own -> changes of the published table, counted.

Rows are the same if every bit of them is, NULL included, and a row may be there several times.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from psycopg import sql

from spark_trickle.errors import RepairNeededError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.postgres.encode import to_csv
from spark_trickle.targets.postgres.run import execute_statement, read_value
from spark_trickle.targets.postgres.target import (
    COMMA,
    Target,
    compose_grouping_key,
    compose_hash,
    compose_identity,
    list_fields,
    list_stored_fields,
    pg_type,
)

DELETED = "trickle_deleted"
INSERTED = "trickle_inserted"


# --- into the database ---------------------------------------------------------------------------


def name_temporary(name: str) -> sql.Identifier:
    return sql.Identifier("pg_temp", name)


def list_own_columns(target: Target) -> sql.Composed:
    return COMMA.join(sql.Identifier(f"c{n}") for n in range(len(target.columns)))


def make_temporary(connection: Connection, target: Target, name: str) -> None:
    """A table for one side of a change; `h` is what its rows are joined by."""
    columns = COMMA.join(
        sql.SQL("{} {}").format(sql.Identifier(f"c{n}"), sql.SQL(pg_type(c.type)))
        for n, c in enumerate(target.columns)
    )
    statement = sql.SQL(
        "CREATE TEMPORARY TABLE {} ({}, h int8 GENERATED ALWAYS AS ({}) STORED) ON COMMIT DROP"
    )
    execute_statement(
        connection, statement.format(name_temporary(name), columns, compose_hash(target, own=True))
    )


def load_rows(connection: Connection, target: Target, name: str, tables: Iterable[pa.Table]) -> int:
    """Rows in a temporary table; how many."""
    make_temporary(connection, target, name)
    into = sql.SQL("{} ({})").format(name_temporary(name), list_own_columns(target))
    found = _copy_rows(connection, target, into, tables)
    analyze_temporary(connection, name)
    return found


def copy_in(connection: Connection, target: Target, tables: Iterable[pa.Table]) -> int:
    """Rows straight in the published table; how many."""
    names = COMMA.join(map(sql.Identifier, target.column_names))
    return _copy_rows(connection, target, sql.SQL("{} ({})").format(target.sql, names), tables)


def _copy_rows(connection: Connection, target: Target, into: sql.Composed, tables: Iterable[pa.Table]) -> int:
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT csv)").format(into)
    with connection.cursor() as cursor:
        with cursor.copy(statement) as copy:
            for table in tables:
                for lines in to_csv(target, table):
                    copy.write(lines)
        return cursor.rowcount


def analyze_temporary(connection: Connection, name: str) -> None:
    """Let the planner know how many rows there are: a few are looked up, many are joined."""
    execute_statement(connection, sql.SQL("ANALYZE {} (h)").format(name_temporary(name)))


def analyze_target(connection: Connection, target: Target) -> None:
    """Nothing else tells the planner that the hash of a row finds one row."""
    execute_statement(connection, sql.SQL("ANALYZE {}").format(target.sql))


def lock_target(connection: Connection, target: Target) -> None:
    """Keep other writers out, not readers, so that what is compared is what is changed."""
    execute_statement(connection, sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(target.sql))


def is_empty(connection: Connection, target: Target) -> bool:
    return not read_value(connection, sql.SQL("SELECT EXISTS (SELECT FROM {})").format(target.sql))


# --- the change ----------------------------------------------------------------------------------


def change_rows(connection: Connection, target: Target, gone: int, come: int) -> None:
    """What is in the two tables; a row whose key stays is updated, so that references to it hold."""
    if not target.key:
        delete_rows(connection, target, gone)
        _require_count(
            target, execute_statement(connection, _compose_insert(target, sql.SQL("true"))).rowcount, come
        )
        return
    stays = sql.SQL("EXISTS (SELECT FROM {} AS o WHERE {})")
    coming = stays.format(name_temporary(INSERTED), _compose_same_key(target, "o", "d"))
    going = stays.format(name_temporary(DELETED), _compose_same_key(target, "o", "i"))
    removed = execute_statement(
        connection, _compose_delete(target, sql.SQL("NOT {}").format(coming))
    ).rowcount
    updated = execute_statement(connection, _compose_update(target)).rowcount
    _require_count(target, removed + updated, gone)
    added = execute_statement(connection, _compose_insert(target, sql.SQL("NOT {}").format(going))).rowcount
    if updated + added != come:
        raise RepairNeededError(target.full_name, "two of the new rows have the same key")


def delete_rows(connection: Connection, target: Target, gone: int) -> None:
    if gone:
        _require_count(
            target, execute_statement(connection, _compose_delete(target, sql.SQL("true"))).rowcount, gone
        )


def _require_count(target: Target, found: int, wanted: int) -> None:
    if found != wanted:
        missing = wanted - found
        raise RepairNeededError(
            target.full_name,
            f"{missing} of {wanted} rows to change are missing or were changed by somebody else",
        )


def _compose_delete_copies(target: Target, condition: sql.Composable) -> sql.Composed:
    return sql.SQL(
        "WITH wanted AS (SELECT min(d.ctid) AS one, count(*) AS copies FROM {deleted} AS d "
        "WHERE {condition} GROUP BY {grouping}), "
        "found AS (SELECT t.ctid AS place, w.copies, row_number() OVER (PARTITION BY w.one) AS n "
        "FROM wanted AS w JOIN {deleted} AS d ON d.ctid = w.one JOIN {table} AS t ON {same}) "
        "DELETE FROM {table} AS t USING found AS f WHERE t.ctid = f.place AND f.n <= f.copies"
    ).format(
        deleted=name_temporary(DELETED),
        condition=condition,
        grouping=compose_grouping_key(target, "d"),
        table=target.sql,
        same=_compose_same_row(target),
    )


def _compose_delete(target: Target, condition: sql.Composable) -> sql.Composed:
    """As many copies of each row as are to go, no matter which; of a row with a primary key there is one."""
    if not target.key_is_primary:
        return _compose_delete_copies(target, condition)
    return sql.SQL("DELETE FROM {} AS t USING {} AS d WHERE {} AND {}").format(
        target.sql, name_temporary(DELETED), _compose_same_row(target), condition
    )


def _compose_update(target: Target) -> sql.Composed:
    names = COMMA.join(map(sql.Identifier, target.column_names))
    return sql.SQL("UPDATE {} AS t SET ({}) = ROW({}) FROM {} AS d, {} AS i WHERE {} AND {}").format(
        target.sql,
        names,
        list_stored_fields(target, "i"),
        name_temporary(DELETED),
        name_temporary(INSERTED),
        _compose_same_row(target),
        _compose_same_key(target, "d", "i"),
    )


def _compose_insert(target: Target, condition: sql.Composable) -> sql.Composed:
    names = COMMA.join(map(sql.Identifier, target.column_names))
    return sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} AS i WHERE {}").format(
        target.sql, names, list_stored_fields(target, "i"), name_temporary(INSERTED), condition
    )


def _compose_same_row(target: Target) -> sql.Composed:
    """A row `t` of the published table that is `d` to the last bit; found by its key or its hash."""
    image = sql.SQL("ROW({})::record *= ROW({})::record").format(
        list_fields(target, "t"), list_stored_fields(target, "d")
    )
    if target.key_is_primary:
        pairs = [(target.column_names[n], f"c{n}") for n in target.identity]
        found = sql.SQL(" AND ").join(
            sql.SQL("{} = {}").format(sql.Identifier("t", name), sql.Identifier("d", own))
            for name, own in pairs
        )
    else:
        found = sql.SQL("{} = d.h").format(compose_hash(target, "t"))
    return sql.SQL("{} AND {}").format(found, image)


def _compose_same_key(target: Target, one: str, other: str) -> sql.Composed:
    """Whether two rows of ours have the same key; records take NULL for NULL."""
    return sql.SQL("{a}.h = {b}.h AND {x}::record = {y}::record").format(
        a=sql.Identifier(one),
        b=sql.Identifier(other),
        x=compose_identity(target, one, own=True),
        y=compose_identity(target, other, own=True),
    )

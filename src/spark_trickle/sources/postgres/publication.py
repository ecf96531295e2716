"""Tables -> a publication that shows all of their changes, and proof that it has done so all the time.

What is not published is not in the log for us, and nobody says so: newer servers even read on if the
publication is gone. So versions of its rows in the server's catalog are noted, and compared at each reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from psycopg import sql

from spark_trickle.errors import (
    ReplicaIdentityError,
    ResyncNeededError,
    SourceSetupError,
    UnsupportedError,
)
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import ServerRelation, SourceTable
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.run import (
    LOCK_SECONDS,
    Statement,
    begin_transaction,
    read_rows,
    run_statements,
)
from spark_trickle.sources.postgres.writers import await_writers

_GENERATED = 180_000  # since this version the log can show stored generated columns


def require_identity(table: SourceTable) -> None:
    """Refuse a table whose UPDATE and DELETE the server itself would refuse once it is published."""
    if table.unlogged:
        unknown = table.unlogged[0]
        name = quote_name(unknown.schema, unknown.name)
        raise SourceSetupError(
            f'table "{unknown.full_name}" is unlogged, so its changes are not in the write-ahead log',
            f"Run ALTER TABLE {name} SET LOGGED, or capture it with triggers.",
        )
    fixes = [
        f"ALTER TABLE {quote_name(r.schema, r.name)} REPLICA IDENTITY {to}" for r, to in _find_nameless(table)
    ]
    if fixes:
        raise ReplicaIdentityError(table.full_name, "; ".join(fixes))


def _find_nameless(table: SourceTable) -> list[tuple[ServerRelation, str]]:
    """What must log more of its old rows. A partition logs what it says itself, and is read as its root."""
    if not table.identity:
        return [(table, "FULL"), *((p, "FULL") for p in table.partitions if p.replica_identity != "f")]
    wanted, allowed = ("FULL", "f") if table.replica_identity == "f" else ("DEFAULT", "df")
    if table.replica_identity == "i" and table.partitions:
        return [(table, "FULL"), *((p, "FULL") for p in table.partitions)]
    return [(p, wanted) for p in table.partitions if p.replica_identity not in allowed]


def publish_tables(
    connection: Connection,
    publication: str,
    tables: Sequence[SourceTable],
    new: Sequence[SourceTable] = (),
    lock_seconds: float = LOCK_SECONDS,
) -> dict[int, str]:
    """Make a publication hold these tables; the marks that they have in it.

    The log shows what was written while the table was published, not what was committed then. Whoever
    creates a slot afterwards waits for all that is half done. If there is one already, say which tables are
    `new`: those who write to them are waited for, but not longer than `lock_seconds`.
    """
    for table in tables:
        require_identity(table)
        _require_visible(connection, table)
    with begin_transaction(connection):
        await_writers(connection, new, lock_seconds)
        return _write_publication(connection, publication, tables)


def _write_publication(
    connection: Connection, publication: str, tables: Sequence[SourceTable]
) -> dict[int, str]:
    found = read_rows(connection, _PUBLICATION.format(sql.Literal(publication)))
    if not found:
        run_statements(connection, _compose_create(connection, publication, tables))
        return read_publication(connection, publication)
    for_all, complete = found[0]
    if not complete:
        raise SourceSetupError(
            f'publication "{publication}" does not publish everything',
            f"Run ALTER PUBLICATION {quote_name(publication)} SET "
            "(publish = 'insert, update, delete, truncate', publish_via_partition_root = true).",
        )
    if not for_all and read_publication(connection, publication).keys() != {t.oid for t in tables}:
        alter = sql.SQL("ALTER PUBLICATION {} SET TABLE {}")
        run_statements(connection, alter.format(sql.Identifier(publication), _list_tables(tables)))
    return read_publication(connection, publication)


def read_publication(connection: Connection, publication: str) -> dict[int, str]:
    """The tables of a publication with marks; a mark changes if the table was taken out for a time."""
    return read_published(publication, read_rows(connection, compose_published(publication)))


def compose_published(publication: str) -> Statement:
    return _PUBLISHED.format(sql.Literal(publication))


def read_published(publication: str, found: Sequence[tuple[Any, ...]]) -> dict[int, str]:
    for oid, name, _, filtered in found:
        if filtered:
            raise SourceSetupError(
                f'publication "{publication}" includes only some rows of "{name}"',
                f"Remove the WHERE of the table with id {oid} from the publication.",
            )
    return {oid: mark for oid, _, mark, _ in found}


def require_published(
    connection: Connection, publication: str, wanted: Iterable[tuple[SourceTable, str]]
) -> None:
    """Refuse to read a log in which changes of a table may be missing."""
    marks = read_publication(connection, publication)
    for table, mark in wanted:
        if marks.get(table.oid) != mark:
            reason = f'publication "{publication}" did not always include the table'
            raise ResyncNeededError(table.full_name, reason)


def drop_publication(connection: Connection, publication: str) -> None:
    run_statements(connection, sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(publication)))


def _compose_create(connection: Connection, publication: str, tables: Sequence[SourceTable]) -> Statement:
    options = "publish = 'insert, update, delete, truncate', publish_via_partition_root = true"
    if connection.info.server_version >= _GENERATED:
        options += ", publish_generated_columns = stored"
    create = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH ({})")
    return create.format(sql.Identifier(publication), _list_tables(tables), sql.SQL(options))


def _list_tables(tables: Sequence[SourceTable]) -> sql.Composed:
    """A table with children that inherit from it is published alone; they are tables of their own."""
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.SQL("ONLY" if t.kind == "r" else ""), t.sql) for t in tables
    )


def _require_visible(connection: Connection, table: SourceTable) -> None:
    stored = [c.name for c in table.columns if c.generated == "s"]
    if stored and connection.info.server_version < _GENERATED:
        raise UnsupportedError(
            f'the generated column "{stored[0]}" of "{table.full_name}" in the log of this server',
            "Leave the column out, capture the table with triggers, or use PostgreSQL 18.",
        )


_PUBLICATION = sql.SQL("""
    SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate AND pubviaroot
    FROM pg_publication WHERE pubname = {}
""")

# Row filters came with version 15, so the column is looked for in the row as JSON.
_PUBLISHED = sql.SQL("""
    SELECT r.prrelid::int8, r.prrelid::regclass::text, concat_ws(':', p.oid, p.xmin, r.oid, r.xmin),
        to_jsonb(r) ->> 'prqual' IS NOT NULL
    FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
    WHERE p.pubname = {0}
    UNION ALL
    SELECT c.oid::int8, c.oid::regclass::text, concat_ws(':', p.oid, p.xmin), false
    FROM pg_publication p JOIN pg_class c ON c.relkind IN ('r', 'p')
    WHERE p.pubname = {0} AND p.puballtables
""")

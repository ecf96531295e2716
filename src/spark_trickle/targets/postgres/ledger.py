"""How far published tables are -> rows in the same database, which change with the tables or not at all."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NoReturn

from psycopg import sql

from spark_trickle.errors import NotPublishedError, WarehouseCopiedError
from spark_trickle.model.source import Site
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.interface import Applied
from spark_trickle.targets.postgres.run import execute_statement, read_value
from spark_trickle.targets.postgres.target import Target

CHANNEL = "trickle_published"  # of NOTIFY, whatever the schema is
_MARK = "spark-trickle: how far published tables are"


@dataclass(frozen=True)
class LedgerEntry:
    """A published table as the ledger knows it; `relation` is its oid then.

    `site` is where the warehouse is that writes it. `mark` is when its snapshot was made: the number alone
    does not tell two histories of a warehouse apart.
    """

    schema: str
    name: str
    warehouse: str
    stream: str
    relation: int
    snapshot: int | None
    applied_at: datetime | None
    rows: int
    inserted: int
    deleted: int
    site: Site | None = None
    mark: str = ""


def name_ledger(schema: str) -> sql.Identifier:
    return sql.Identifier(schema, "tables")


def prepare_ledger(connection: Connection, schema: str) -> None:
    """Make the ledger if it is not there; the schema may have been made for us by somebody else."""
    prepare_schema(connection, schema)
    ledger = name_ledger(schema)
    if find_relation(connection, schema, "tables") is None:
        # A name instead of a number in dumps: what is restored from one finds its tables again.
        create = sql.SQL(
            "CREATE TABLE {} (schema_name text NOT NULL, table_name text NOT NULL, "
            "relation regclass NOT NULL, warehouse text NOT NULL, stream text NOT NULL, "
            "snapshot int8, applied_at timestamptz, row_count int8 NOT NULL DEFAULT 0, "
            "inserted int8 NOT NULL DEFAULT 0, deleted int8 NOT NULL DEFAULT 0, "
            "host text, catalog text, mark text, "
            "PRIMARY KEY (schema_name, table_name))"
        )
        execute_statement(connection, create.format(ledger))
        execute_statement(connection, sql.SQL("COMMENT ON TABLE {} IS {}").format(ledger, sql.Literal(_MARK)))


def _add_columns(connection: Connection, schema: str) -> None:
    """To a ledger that an older version made."""
    count = sql.SQL(
        "SELECT count(*) FROM pg_attribute "
        "WHERE attrelid = to_regclass({}) AND attname IN ('host', 'catalog', 'mark')"
    )
    if read_value(connection, count.format(_compose_text(schema, "tables"))) < 3:
        add = sql.SQL(
            "ALTER TABLE {} ADD COLUMN IF NOT EXISTS host text, ADD COLUMN IF NOT EXISTS catalog text, "
            "ADD COLUMN IF NOT EXISTS mark text"
        )
        execute_statement(connection, add.format(name_ledger(schema)))


def prepare_schema(connection: Connection, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if it exists.
    found = sql.SQL("SELECT to_regnamespace({}) IS NOT NULL").format(_compose_text(schema))
    if not read_value(connection, found):
        execute_statement(connection, sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def find_relation(connection: Connection, schema: str, name: str) -> int | None:
    """The oid of whatever has this name."""
    found = read_value(
        connection, sql.SQL("SELECT to_regclass({})::oid::int8").format(_compose_text(schema, name))
    )
    return None if found is None else int(found)


def _compose_text(*name: str) -> sql.Literal:
    return sql.Literal(sql.Identifier(*name).as_string(None))


# --- entries -------------------------------------------------------------------------------------

# A ledger that an older version made has no columns for the site and the mark.
_FIELDS = sql.SQL(
    "schema_name, table_name, warehouse, stream, relation::oid::int8, snapshot, applied_at, "
    "row_count, inserted, deleted, to_jsonb(t) ->> 'host', to_jsonb(t) ->> 'catalog', to_jsonb(t) ->> 'mark'"
)


def read_entries(connection: Connection, ledger: str) -> list[LedgerEntry]:
    """All of a ledger by name; none if there is no such ledger."""
    if find_relation(connection, ledger, "tables") is None:
        return []
    query = sql.SQL("SELECT {} FROM {} AS t ORDER BY schema_name, table_name")
    return [
        _row_to_entry(row)
        for row in execute_statement(connection, query.format(_FIELDS, name_ledger(ledger))).fetchall()
    ]


def find_entry(connection: Connection, target: Target, lock: bool = False) -> LedgerEntry | None:
    """What is noted under the name of the target, whoever noted it."""
    if find_relation(connection, target.ledger, "tables") is None:
        return None
    query = sql.SQL("SELECT {} FROM {} AS t WHERE {} {}").format(
        _FIELDS, name_ledger(target.ledger), _compose_condition(target), sql.SQL("FOR UPDATE" if lock else "")
    )
    found = execute_statement(connection, query).fetchone()
    return _row_to_entry(found) if found else None


def _row_to_entry(row: tuple[Any, ...]) -> LedgerEntry:
    host, catalog, mark = row[-3:]
    site = None if host is None else Site(host, catalog)
    return replace(LedgerEntry(*row[:-3]), site=site, mark=mark or "")


def is_ours(entry: LedgerEntry, target: Target) -> bool:
    return (entry.warehouse, entry.stream) == (target.warehouse, target.stream)


def require_entry(connection: Connection, target: Target, lock: bool = False) -> LedgerEntry:
    """The entry of a table that this warehouse publishes, whichever copy of it."""
    entry = find_entry(connection, target, lock)
    if entry is None:
        raise NotPublishedError(target.stream, target.full_name)
    if not is_ours(entry, target):
        of = "" if entry.warehouse == target.warehouse else " of another warehouse"
        other = f'"{entry.stream}"{of}'
        raise NotPublishedError(target.stream, target.full_name, other)
    return entry


def lock_entry(connection: Connection, target: Target) -> LedgerEntry:
    """Be the only one who changes the table until the transaction ends, and the only copy that may."""
    entry = require_entry(connection, target, lock=True)
    if entry.site not in (None, target.site):
        refuse_copy(target, entry.site)
    return entry


def refuse_copy(target: Target, served: Site | None) -> NoReturn:
    writes = f'the published table "{target.full_name}" is written by'
    take_over = f"SYNC SOURCE {target.source} TAKE OVER"
    raise WarehouseCopiedError(writes, str(served), str(target.site), take_over)


def note_site(connection: Connection, target: Target) -> None:
    """From now on the warehouse at this site writes the table."""
    _add_columns(connection, target.ledger)
    update = sql.SQL("UPDATE {} SET host = {}, catalog = {} WHERE {}").format(
        name_ledger(target.ledger), target.site.host, target.site.catalog, _compose_condition(target)
    )
    execute_statement(connection, update)


def add_entry(connection: Connection, target: Target, relation: int) -> None:
    """Begin at no snapshot, also if an earlier table of this name had reached one."""
    insert = sql.SQL(
        "INSERT INTO {ledger} (schema_name, table_name, relation, warehouse, stream) "
        "VALUES ({schema}, {name}, {relation}::oid::regclass, {warehouse}, {stream}) "
        "ON CONFLICT (schema_name, table_name) DO UPDATE SET relation = excluded.relation, snapshot = NULL, "
        "applied_at = NULL, row_count = 0, inserted = 0, deleted = 0"
    )
    execute_statement(
        connection,
        insert.format(
            ledger=name_ledger(target.ledger),
            schema=target.schema,
            name=target.name,
            relation=relation,
            warehouse=target.warehouse,
            stream=target.stream,
        ),
    )
    note_site(connection, target)


def remove_entry(connection: Connection, target: Target) -> None:
    execute_statement(
        connection,
        sql.SQL("DELETE FROM {} WHERE {}").format(name_ledger(target.ledger), _compose_condition(target)),
    )


def note_change(connection: Connection, target: Target, rows: int, done: Applied, mark: str = "") -> None:
    """Write down what was done, and tell who listens; both become true with the commit."""
    update = sql.SQL(
        "UPDATE {ledger} SET snapshot = {snapshot}, applied_at = clock_timestamp(), row_count = {rows}, "
        "mark = {mark}, inserted = inserted + {inserted}, deleted = deleted + {deleted} WHERE {named}"
    )
    execute_statement(
        connection,
        update.format(
            ledger=name_ledger(target.ledger),
            snapshot=done.snapshot,
            rows=rows,
            mark=mark,
            inserted=done.inserted,
            deleted=done.deleted,
            named=_compose_condition(target),
        ),
    )
    notify = sql.SQL("SELECT pg_notify({}, {})").format(CHANNEL, sql.Literal(_write_payload(target, done)))
    execute_statement(connection, notify)


def _write_payload(target: Target, done: Applied) -> str:
    return json.dumps({
        "schema": target.schema,
        "table": target.name,
        "stream": target.stream,
        "snapshot": done.snapshot,
        "inserted": done.inserted,
        "deleted": done.deleted,
    })  # fmt: skip


def _compose_condition(target: Target) -> sql.Composed:
    return sql.SQL("schema_name = {} AND table_name = {}").format(target.schema, target.name)

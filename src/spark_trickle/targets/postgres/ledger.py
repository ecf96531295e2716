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
from spark_trickle.targets.postgres.run import execute, value
from spark_trickle.targets.postgres.target import Target

CHANNEL = "trickle_published"  # of NOTIFY, whatever the schema is
_MARK = "spark-trickle: how far published tables are"


@dataclass(frozen=True)
class Entry:
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


@dataclass(frozen=True)
class Applied:
    """What became of a change; not `applied` if the table already was that far."""

    applied: bool
    snapshot: int
    inserted: int = 0
    deleted: int = 0


def ledger_of(schema: str) -> sql.Identifier:
    return sql.Identifier(schema, "tables")


def prepare_ledger(connection: Connection, schema: str) -> None:
    """Make the ledger if it is not there; the schema may have been made for us by somebody else."""
    prepare_schema(connection, schema)
    ledger = ledger_of(schema)
    if relation_of(connection, schema, "tables") is None:
        # A name instead of a number in dumps: what is restored from one finds its tables again.
        create = sql.SQL(
            "CREATE TABLE {} (schema_name text NOT NULL, table_name text NOT NULL, "
            "relation regclass NOT NULL, warehouse text NOT NULL, stream text NOT NULL, "
            "snapshot int8, applied_at timestamptz, row_count int8 NOT NULL DEFAULT 0, "
            "inserted int8 NOT NULL DEFAULT 0, deleted int8 NOT NULL DEFAULT 0, "
            "host text, catalog text, mark text, "
            "PRIMARY KEY (schema_name, table_name))"
        )
        execute(connection, create.format(ledger))
        execute(connection, sql.SQL("COMMENT ON TABLE {} IS {}").format(ledger, sql.Literal(_MARK)))


def _add_columns(connection: Connection, schema: str) -> None:
    """To a ledger that an older version made."""
    count = sql.SQL(
        "SELECT count(*) FROM pg_attribute "
        "WHERE attrelid = to_regclass({}) AND attname IN ('host', 'catalog', 'mark')"
    )
    if value(connection, count.format(_text(schema, "tables"))) < 3:
        add = sql.SQL(
            "ALTER TABLE {} ADD COLUMN IF NOT EXISTS host text, ADD COLUMN IF NOT EXISTS catalog text, "
            "ADD COLUMN IF NOT EXISTS mark text"
        )
        execute(connection, add.format(ledger_of(schema)))


def prepare_schema(connection: Connection, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if it exists.
    found = sql.SQL("SELECT to_regnamespace({}) IS NOT NULL").format(_text(schema))
    if not value(connection, found):
        execute(connection, sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))


def relation_of(connection: Connection, schema: str, name: str) -> int | None:
    """The oid of whatever has this name."""
    found = value(connection, sql.SQL("SELECT to_regclass({})::oid::int8").format(_text(schema, name)))
    return None if found is None else int(found)


def _text(*name: str) -> sql.Literal:
    return sql.Literal(sql.Identifier(*name).as_string(None))


# --- entries -------------------------------------------------------------------------------------

# A ledger that an older version made has no columns for the site and the mark.
_FIELDS = sql.SQL(
    "schema_name, table_name, warehouse, stream, relation::oid::int8, snapshot, applied_at, "
    "row_count, inserted, deleted, to_jsonb(t) ->> 'host', to_jsonb(t) ->> 'catalog', to_jsonb(t) ->> 'mark'"
)


def entries(connection: Connection, ledger: str) -> list[Entry]:
    """All of a ledger by name; none if there is no such ledger."""
    if relation_of(connection, ledger, "tables") is None:
        return []
    query = sql.SQL("SELECT {} FROM {} AS t ORDER BY schema_name, table_name")
    return [_entry(row) for row in execute(connection, query.format(_FIELDS, ledger_of(ledger))).fetchall()]


def find_entry(connection: Connection, target: Target, lock: bool = False) -> Entry | None:
    """What is noted under the name of the target, whoever noted it."""
    if relation_of(connection, target.ledger, "tables") is None:
        return None
    query = sql.SQL("SELECT {} FROM {} AS t WHERE {} {}").format(
        _FIELDS, ledger_of(target.ledger), _named(target), sql.SQL("FOR UPDATE" if lock else "")
    )
    found = execute(connection, query).fetchone()
    return _entry(found) if found else None


def _entry(row: tuple[Any, ...]) -> Entry:
    host, catalog, mark = row[-3:]
    site = None if host is None else Site(host, catalog)
    return replace(Entry(*row[:-3]), site=site, mark=mark or "")


def is_ours(entry: Entry, target: Target) -> bool:
    return (entry.warehouse, entry.stream) == (target.warehouse, target.stream)


def own_entry(connection: Connection, target: Target, lock: bool = False) -> Entry:
    """The entry of a table that this warehouse publishes, whichever copy of it."""
    entry = find_entry(connection, target, lock)
    if entry is None:
        raise NotPublishedError(target.stream, target.full_name)
    if not is_ours(entry, target):
        of = "" if entry.warehouse == target.warehouse else " of another warehouse"
        other = f'"{entry.stream}"{of}'
        raise NotPublishedError(target.stream, target.full_name, other)
    return entry


def lock_entry(connection: Connection, target: Target) -> Entry:
    """Be the only one who changes the table until the transaction ends, and the only copy that may."""
    entry = own_entry(connection, target, lock=True)
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
        ledger_of(target.ledger), target.site.host, target.site.catalog, _named(target)
    )
    execute(connection, update)


def add_entry(connection: Connection, target: Target, relation: int) -> None:
    """Begin at no snapshot, also if an earlier table of this name had reached one."""
    insert = sql.SQL(
        "INSERT INTO {ledger} (schema_name, table_name, relation, warehouse, stream) "
        "VALUES ({schema}, {name}, {relation}::oid::regclass, {warehouse}, {stream}) "
        "ON CONFLICT (schema_name, table_name) DO UPDATE SET relation = excluded.relation, snapshot = NULL, "
        "applied_at = NULL, row_count = 0, inserted = 0, deleted = 0"
    )
    execute(
        connection,
        insert.format(
            ledger=ledger_of(target.ledger),
            schema=target.schema,
            name=target.name,
            relation=relation,
            warehouse=target.warehouse,
            stream=target.stream,
        ),
    )
    note_site(connection, target)


def remove_entry(connection: Connection, target: Target) -> None:
    execute(connection, sql.SQL("DELETE FROM {} WHERE {}").format(ledger_of(target.ledger), _named(target)))


def note(connection: Connection, target: Target, rows: int, done: Applied, mark: str = "") -> None:
    """Write down what was done, and tell who listens; both become true with the commit."""
    update = sql.SQL(
        "UPDATE {ledger} SET snapshot = {snapshot}, applied_at = clock_timestamp(), row_count = {rows}, "
        "mark = {mark}, inserted = inserted + {inserted}, deleted = deleted + {deleted} WHERE {named}"
    )
    execute(
        connection,
        update.format(
            ledger=ledger_of(target.ledger),
            snapshot=done.snapshot,
            rows=rows,
            mark=mark,
            inserted=done.inserted,
            deleted=done.deleted,
            named=_named(target),
        ),
    )
    notify = sql.SQL("SELECT pg_notify({}, {})").format(CHANNEL, sql.Literal(_payload(target, done)))
    execute(connection, notify)


def _payload(target: Target, done: Applied) -> str:
    return json.dumps({
        "schema": target.schema,
        "table": target.name,
        "stream": target.stream,
        "snapshot": done.snapshot,
        "inserted": done.inserted,
        "deleted": done.deleted,
    })  # fmt: skip


def _named(target: Target) -> sql.Composed:
    return sql.SQL("schema_name = {} AND table_name = {}").format(target.schema, target.name)

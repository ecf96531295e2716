"""A table in the source -> which warehouses it serves, where each of them is, and what it was given."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from spark_trickle.model.source import Site
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.install import (
    begin_capture_change,
    drop_own_schema,
    has_table,
    prepare_schema,
)
from spark_trickle.sources.postgres.moment import parse_lsn, show_lsn
from spark_trickle.sources.postgres.run import Statement, read_rows, rows_if_table_exists, run_statements

_TABLE = "readers"
_MARK = "spark-trickle: which warehouses read from this database, and how far they are"


@dataclass(frozen=True)
class Subscription:
    """A warehouse and the name under which it attached the source; its line is in a schema of the source."""

    schema: str
    warehouse: str
    source: str

    @property
    def table(self) -> sql.Identifier:
        return sql.Identifier(self.schema, _TABLE)

    @property
    def is_this(self) -> sql.Composed:
        return sql.SQL("warehouse = {} AND source = {}").format(self.warehouse, self.source)


@dataclass(frozen=True)
class Registration:
    """What the source knows of a reader. `confirmed` is how far its slot is, if it has one."""

    site: Site
    epoch: int
    consumed: int
    confirmed: int = 0


def read_registration(connection: Connection, reader: Subscription, slot: str = "") -> Registration | None:
    """One statement, because every sync asks."""
    query = sql.SQL(
        "SELECT host, catalog, epoch, consumed::text, (SELECT confirmed_flush_lsn::text "
        "FROM pg_replication_slots WHERE slot_name = {} AND database = current_database()) "
        "FROM {} WHERE {}"
    ).format(slot, reader.table, reader.is_this)
    found = rows_if_table_exists(connection, query)
    if not found:
        return None
    host, catalog, epoch, consumed, confirmed = found[0]
    return Registration(Site(host, catalog), epoch, parse_lsn(consumed), parse_lsn(confirmed or "0/0"))


def register_reader(connection: Connection, reader: Subscription, site: Site, epoch: int) -> None:
    """Note that a source serves the warehouse at this site from now on; what it was given before stays."""
    insert = sql.SQL(
        "INSERT INTO {table} (warehouse, source, host, catalog, epoch) "
        "VALUES ({warehouse}, {source}, {host}, {catalog}, {epoch}) ON CONFLICT (warehouse, source) "
        "DO UPDATE SET host = excluded.host, catalog = excluded.catalog, epoch = excluded.epoch, "
        "noted_at = clock_timestamp()"
    ).format(
        table=reader.table,
        warehouse=reader.warehouse,
        source=reader.source,
        host=site.host,
        catalog=site.catalog,
        epoch=epoch,
    )
    with begin_capture_change(connection):
        prepare_schema(connection, reader.schema)
        if not has_table(connection, reader.schema, _TABLE):
            run_statements(connection, *_new_table(reader))
        run_statements(connection, insert)


def note_consumed(connection: Connection, reader: Subscription, lsn: int) -> None:
    """In the transaction that deletes what was read, so that a copy that lacks it finds out."""
    update = sql.SQL("UPDATE {} SET consumed = {}::pg_lsn, noted_at = clock_timestamp() WHERE {}")
    run_statements(connection, update.format(reader.table, show_lsn(lsn), reader.is_this))


def unregister_reader(connection: Connection, reader: Subscription) -> None:
    """Leave nothing behind; the last one takes the table along, and the schema if we made it."""
    if not has_table(connection, reader.schema, _TABLE):
        return
    with begin_capture_change(connection):
        run_statements(connection, sql.SQL("DELETE FROM {} WHERE {}").format(reader.table, reader.is_this))
        if not read_rows(connection, sql.SQL("SELECT FROM {} LIMIT 1").format(reader.table)):
            run_statements(connection, sql.SQL("DROP TABLE {}").format(reader.table))
            drop_own_schema(connection, reader.schema)


def _new_table(reader: Subscription) -> list[Statement]:
    create = sql.SQL(
        "CREATE TABLE {} (warehouse text NOT NULL, source text NOT NULL, host text NOT NULL, "
        "catalog text NOT NULL, epoch int8 NOT NULL, consumed pg_lsn NOT NULL DEFAULT '0/0', "
        "noted_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (warehouse, source))"
    )
    comment = sql.SQL("COMMENT ON TABLE {} IS {}")
    return [create.format(reader.table), comment.format(reader.table, sql.Literal(_MARK))]

"""DROP STREAM TABLE, and what prevents it: stream tables that read it, and a published table."""

from __future__ import annotations

from spark_trickle.errors import InUseError, InvalidDefinitionError, TableNotFoundError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table, display_names
from spark_trickle.sql.statements import kinds as s
from spark_trickle.txn.names import drop_relation
from spark_trickle.txn.work import Work


def find_stream_table(work: Work, name: s.Name) -> Table:
    table = work.catalog.table(name, work.place.schema)
    if table.stream is None:
        streams = [t for t in work.catalog.tables() if t.stream is not None]
        names = display_names(streams, work.place.schema)
        raise TableNotFoundError(table.full_name, names, "stream table", found="table")
    return table


def drop_stream(work: Work, statement: s.DropStream) -> Result:
    if statement.if_exists and work.catalog.find(statement.name, work.place.schema) is None:
        return Result()
    table = find_stream_table(work, statement.name)
    refuse_published(work, table)
    if statement.cascade:
        for user in reversed(_list_users(work, table)):
            refuse_published(work, user)
            drop_relation(work, user)
    else:
        refuse_users(work, table, "dropped")
    drop_relation(work, table)
    return Result()


def _list_users(work: Work, table: Table) -> list[Table]:
    """Those that depend on it, each before its own users as far as they do not read each other."""
    found: list[Table] = []

    def visit_readers(used: Table) -> None:
        for user in work.catalog.find_readers(used):
            if user.id != table.id and user not in found:
                found.append(user)
                visit_readers(user)

    visit_readers(table)
    return found


def refuse_users(work: Work, table: Table, change: str) -> None:
    """Other stream tables read it; that it reads itself is its own affair."""
    if users := [t for t in work.catalog.find_readers(table) if t.id != table.id]:
        raise InUseError(table.full_name, change, tuple(t.full_name for t in users))


def refuse_published(work: Work, table: Table) -> None:
    with open_reader(work.place.warehouse.engine) as connection:
        found = sources.read_published(connection).get(table.id)
    if found is not None:
        raise InvalidDefinitionError(
            f'"{table.full_name}" is published to source "{found.source}" as {found.schema}.{found.table}',
            f"Run UNPUBLISH STREAM TABLE {table.name} first; the published table stays for its readers.",
        )

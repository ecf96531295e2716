"""Attached sources, mirrors and published stream tables, in the catalog."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from spark_trickle.errors import AlreadyExistsError, ConflictError, SourceNotFoundError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.identity import read_identity
from spark_trickle.model.source import (
    AttachedSource,
    Landed,
    MirrorState,
    MirrorStatus,
    Published,
    SourceState,
    StoredPosition,
)


def all_sources(connection: Connection) -> list[AttachedSource]:
    found = connection.execute(select(s.trickle_source).order_by(s.trickle_source.c.name))
    return [_row_to_source(row) for row in found]


def source_named(connection: Connection, name: str) -> AttachedSource:
    known = all_sources(connection)
    for source in known:
        if source.name == name.lower():
            return source
    raise SourceNotFoundError(name, tuple(source.name for source in known))


def find_source(engine: Engine, name: str) -> AttachedSource:
    with open_reader(engine) as connection:
        return source_named(connection, name)


def add_source(engine: Engine, source: AttachedSource) -> None:
    with open_writer(engine) as connection:
        if any(known.name == source.name for known in all_sources(connection)):
            raise AlreadyExistsError("source", source.name)
        connection.execute(
            insert(s.trickle_source).values(
                name=source.name,
                kind=source.kind,
                options=json.dumps(dict(source.options)),
                attached=source.attached,
                version=source.version,
                state=source.state.to_text(),
            )
        )


def remove_source(engine: Engine, name: str) -> None:
    with open_writer(engine) as connection:
        connection.execute(delete(s.trickle_source).where(s.trickle_source.c.name == name))
        for table in (s.trickle_mirror, s.trickle_published):
            connection.execute(delete(table).where(table.c.source == name))


# --- landings ------------------------------------------------------------------------------------


def mirror_states(connection: Connection, source: str | None = None) -> dict[int, MirrorState]:
    query = select(s.trickle_mirror)
    if source is not None:
        query = query.where(s.trickle_mirror.c.source == source)
    return {
        row.table_id: MirrorState(
            row.table_id, row.source, MirrorStatus(row.status), row.reason, StoredPosition(row.position)
        )
        for row in connection.execute(query)
    }


def record_landing(connection: Connection, landed: Landed, current: int) -> None:
    """Move a source and its mirrors on, inside the transaction of a commit."""
    table, expected = s.trickle_source, landed.source.version
    moved = connection.execute(
        update(table)
        .where(table.c.name == landed.source.name, table.c.version == expected)
        .values(version=expected + 1, state=landed.state.to_text())
    )
    if not moved.rowcount:
        name = landed.source.name
        raise ConflictError(name, expected, current, "read", f'the source "{name}"')
    for mirror in landed.mirrors:
        forget_mirror(connection, mirror.table_id)
        connection.execute(
            insert(s.trickle_mirror).values(
                table_id=mirror.table_id,
                source=mirror.source,
                status=mirror.status.value,
                reason=mirror.reason,
                position=mirror.position.text,
            )
        )


def attach_anew(engine: Engine, source: AttachedSource, landed: Landed) -> AttachedSource:
    """Give a source other options and another beginning, with the states that its mirrors have then."""
    table = s.trickle_source
    with open_writer(engine) as connection:
        record_landing(connection, landed, 0)
        changed = {"options": json.dumps(dict(source.options)), "attached": source.attached}
        connection.execute(update(table).where(table.c.name == source.name).values(changed))
        return source_named(connection, source.name)


def move_on(engine: Engine, landed: Landed) -> AttachedSource:
    """The same without a snapshot, when no row changed; the source as it is then."""
    with open_writer(engine) as connection:
        record_landing(connection, landed, 0)
        return source_named(connection, landed.source.name)


def forget_mirror(connection: Connection, table_id: int) -> None:
    connection.execute(delete(s.trickle_mirror).where(s.trickle_mirror.c.table_id == table_id))


# --- published stream tables -----------------------------------------------------------------------


def read_published(connection: Connection) -> dict[int, Published]:
    return {
        row.table_id: Published(
            row.table_id,
            row.source,
            row.schema_name,
            row.table_name,
            row.reached,
            row.applied,
            row.error,
            tuple(json.loads(row.options or "{}").items()),
        )
        for row in connection.execute(select(s.trickle_published))
    }


def set_published(engine: Engine, found: Published) -> None:
    with open_writer(engine) as connection:
        forget_published(connection, found.table_id)
        connection.execute(
            insert(s.trickle_published).values(
                table_id=found.table_id,
                source=found.source,
                schema_name=found.schema,
                table_name=found.table,
                reached=found.reached,
                applied=found.applied,
                error=found.error,
                options=json.dumps(dict(found.options)),
            )
        )


def forget_published(connection: Connection, table_id: int) -> None:
    connection.execute(delete(s.trickle_published).where(s.trickle_published.c.table_id == table_id))


def remove_published(engine: Engine, table_id: int) -> None:
    with open_writer(engine) as connection:
        forget_published(connection, table_id)


def warehouse_id(engine: Engine) -> str:
    """A name for this warehouse that no other has, but a copy of it."""
    with open_reader(engine) as connection:
        return read_identity(connection)


def oldest_published(connection: Connection) -> int | None:
    """The oldest snapshot from which a published table still has to go on."""
    return connection.execute(select(func.min(s.trickle_published.c.reached))).scalar()


def _row_to_source(row: Any) -> AttachedSource:
    return AttachedSource(
        row.name,
        row.kind,
        json.loads(row.options),
        row.attached,
        row.version,
        SourceState.from_text(row.state),
    )

"""Captures -> triggers, functions and buffers in the source; each step is done, or nothing of it is."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import uuid4

from psycopg import sql

from spark_trickle.errors import SourceSchemaChangedError, SourceSetupError
from spark_trickle.sources.postgres import trigger
from spark_trickle.sources.postgres.capture import SCHEMA, Capture, Mode
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable, describe_tables
from spark_trickle.sources.postgres.drift import Drift, RecordedColumn, find_drift, record_column
from spark_trickle.sources.postgres.run import (
    LOCK_SECONDS,
    Statement,
    begin_transaction,
    lock_timeout,
    read_rows,
    read_value,
    run_statements,
)
from spark_trickle.sources.postgres.surroundings import Surroundings, look_around
from spark_trickle.sources.postgres.watch import Marks, TableMarks, find_gap, read_marks

_MARK = "spark-trickle: changes on their way to a warehouse"
_OWN_MARK = "spark-trickle made this"
_INSTALL_LOCK = 5_117_430_862_915


@dataclass(frozen=True)
class Installed:
    """What the source itself says about a capture."""

    oid: int
    table: str
    schema: str
    columns: tuple[RecordedColumn, ...]
    known: int  # the number of the newest column then
    mode: Mode
    unlogged: bool
    guarded: bool
    owner: str
    token: str
    marks: Marks
    edition: int = 1  # of its functions
    logged: bool = True  # the table, at that time
    notify: bool = False

    def find_gap(self, table: SourceTable, found: Surroundings, alive: bool) -> str | None:
        """Why changes may have been missed; a crash takes what is `alive`.

        It may also have emptied a table that was made to survive the next one since.
        """
        if not alive and not (self.logged and not table.unlogged):
            return "the server crashed, and the table is unlogged"
        return find_gap(self.plan_capture(table), self.marks, [c.name for c in self.columns], found)

    def find_drift(self, table: SourceTable) -> list[Drift]:
        return find_drift(self.columns, [self.known], table.columns)

    def make_capture(self, table: SourceTable) -> Capture:
        """The capture again, if the table still has all of its columns as they were."""
        if broken := [d.detail for d in self.find_drift(table) if d.breaks]:
            raise SourceSchemaChangedError(table.full_name, tuple(broken))
        columns = tuple(table.column(c.name) for c in self.columns)
        return replace(self.plan_capture(table), columns=columns)

    def plan_capture(self, table: SourceTable) -> Capture:
        """The capture without its columns, which may be gone: enough to name what belongs to it."""
        names = (self.mode, self.schema, self.unlogged, self.guarded, self.owner, self.notify)
        return Capture(table, (), *names)


def read_installed_captures(connection: Connection, schema: str = SCHEMA) -> dict[int, Installed]:
    """All captures of a schema by the id of their table; none if there is no such schema."""
    if not has_table(connection, schema, "captures"):
        return {}
    return read_captures(schema, read_rows(connection, captures_query(schema)))


def captures_query(schema: str) -> Statement:
    query = sql.SQL("SELECT source::int8, token::text, description::text FROM {}")
    return query.format(sql.Identifier(schema, "captures"))


def read_captures(schema: str, found: Iterable[tuple[Any, ...]]) -> dict[int, Installed]:
    return {oid: _parse_installed(oid, schema, token, json.loads(text)) for oid, token, text in found}


def install_capture(connection: Connection, capture: Capture, lock_seconds: float = LOCK_SECONDS) -> str:
    """Capture every change of the table that commits from now on; doing it again changes nothing.

    The token that comes back names the buffer: whoever reads it later says which one it means. It is a new
    one if the buffer had to be begun anew, because its columns are others now.

    Transactions that write to the table are waited for, so that none is captured by half. New ones wait
    meanwhile, therefore not longer than `lock_seconds`: then it raises SourceBusyError and nothing was done.
    """
    with begin_capture_change(connection, lock_seconds):
        prepare_schema(connection, capture.schema)
        if not has_table(connection, capture.schema, "captures"):
            run_statements(connection, *_compose_bookkeeping(capture))
        before = _find_continuable(connection, capture)
        missed = before and _find_gap(connection, before, capture)
        if before and _has_functions(connection, capture):
            # The table first, the buffer after it, in the order in which a writer locks them.
            run_statements(connection, *trigger.trigger_statements(capture))
        run_statements(connection, *_compose_build(capture))
        _require_unchanged(connection, capture)
        if missed:  # else installing again would hide it
            run_statements(connection, _note_loss(capture, missed))
        return _note_capture(connection, capture, before)


def _find_gap(connection: Connection, before: Installed, capture: Capture) -> str | None:
    oid = capture.source.oid
    alive = sql.SQL("SELECT FROM {} WHERE source = {} AND token = {}::uuid")
    found = read_rows(connection, alive.format(capture.alive, oid, before.token))
    around = look_around(connection, [oid], capture.schema)
    return before.find_gap(capture.source, around[oid], alive=bool(found))


def _compose_build(capture: Capture) -> list[Statement]:
    return [
        *trigger.drop_functions(capture, [e for e in trigger.EVENTS if e not in capture.events]),
        *trigger.buffer_statements(capture),
        *trigger.function_statements(capture),
        *trigger.trigger_statements(capture),
    ]


def _find_continuable(connection: Connection, capture: Capture) -> Installed | None:
    """What is installed, if it can go on: columns may only be added at the end. Else it goes."""
    before = read_installed_captures(connection, capture.schema).get(capture.source.oid)
    if before is None:
        return None
    _require_owner(before, capture)
    columns = tuple(record_column(c) for c in capture.columns)
    if before.unlogged == capture.unlogged and columns[: len(before.columns)] == before.columns:
        return before
    run_statements(connection, *trigger.drop_functions(capture), *_forget_all(capture))
    return None


def modernize_functions(connection: Connection, found: Installed, table: SourceTable) -> None:
    """Replace functions that an older version of ours wrote. The triggers stay, so no table is locked."""
    if found.edition >= trigger.EDITION:
        return
    capture = found.make_capture(table)
    noted = sql.SQL("UPDATE {} SET description = description || {}::jsonb WHERE source = {}").format(
        capture.captures, json.dumps({"edition": trigger.EDITION}), table.oid
    )
    with begin_capture_change(connection, LOCK_SECONDS):
        run_statements(connection, *trigger.function_statements(capture), noted)


def _require_owner(before: Installed, capture: Capture) -> None:
    """Two readers of one buffer would each delete what the other has not read yet."""
    if before.owner != capture.owner:
        raise SourceSetupError(
            f'the changes of "{capture.source.full_name}" in schema "{capture.schema}" '
            f"are already captured for {before.owner or 'somebody else'}",
            "Attach this source with a schema of its own, as in OPTIONS (schema 'trickle_changes_2'); "
            "or DROP SCHEMA … CASCADE if nobody reads it any more.",
        )


def renew_capture(connection: Connection, capture: Capture) -> str:
    """Give up what waits in the buffer, also after a loss, and begin again under a new token; copy after."""
    token = str(uuid4())
    tables = (capture.losses, capture.alive)
    with begin_transaction(connection):
        run_statements(
            connection,
            *(sql.SQL("DELETE FROM {} WHERE source = {}").format(t, capture.source.oid) for t in tables),
            sql.SQL("DELETE FROM {}").format(capture.buffer),
            sql.SQL("UPDATE {} SET token = {}::uuid WHERE source = {}").format(
                capture.captures, token, capture.source.oid
            ),
            _note_alive(capture, token),
        )
    return token


def uninstall_capture(connection: Connection, capture: Capture, lock_seconds: float = LOCK_SECONDS) -> None:
    """Leave nothing of a capture behind; the last one takes the schema along, if we made it."""
    if not has_table(connection, capture.schema, "captures"):
        return
    with begin_capture_change(connection, lock_seconds):
        run_statements(connection, *trigger.drop_functions(capture), *_forget_all(capture))
        if not read_rows(connection, sql.SQL("SELECT FROM {} LIMIT 1").format(capture.captures)):
            tables = (capture.captures, capture.losses, capture.alive)
            run_statements(connection, *(sql.SQL("DROP TABLE {}").format(table) for table in tables))
            drop_own_schema(connection, capture.schema)


@contextmanager
def begin_capture_change(connection: Connection, lock_seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """A transaction that may make or drop what is ours in a source; one at a time."""
    lock = sql.SQL("SELECT pg_advisory_xact_lock({})").format(_INSTALL_LOCK)
    with begin_transaction(connection):
        run_statements(connection, lock_timeout(lock_seconds), lock)
        yield


# --- what we note down ---------------------------------------------------------------------------


def prepare_schema(connection: Connection, schema: str) -> None:
    # CREATE SCHEMA IF NOT EXISTS asks for the right to create one even if it exists.
    found = sql.SQL("SELECT to_regnamespace({}) IS NOT NULL").format(_quote_name(schema))
    if not read_value(connection, found):
        name = sql.Identifier(schema)
        run_statements(
            connection,
            sql.SQL("CREATE SCHEMA {}").format(name),
            sql.SQL("COMMENT ON SCHEMA {} IS {}").format(name, sql.Literal(_OWN_MARK)),
        )


def drop_own_schema(connection: Connection, schema: str) -> None:
    """Drop a schema that we made, once none of its tables is left."""
    if _is_our_schema(connection, schema) and read_value(connection, _IS_EMPTY.format(_quote_name(schema))):
        run_statements(connection, sql.SQL("DROP SCHEMA {}").format(sql.Identifier(schema)))


def _compose_bookkeeping(capture: Capture) -> list[Statement]:
    """`losses` says what could not be captured; `alive` is emptied by a crash, as all that is unlogged."""
    return [
        sql.SQL(
            "CREATE TABLE {} (source oid PRIMARY KEY, token uuid NOT NULL, description jsonb NOT NULL)"
        ).format(capture.captures),
        sql.SQL(
            "CREATE TABLE {} (source oid NOT NULL, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), "
            "reason text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())"
        ).format(capture.losses),
        sql.SQL("CREATE UNLOGGED TABLE {} (source oid NOT NULL, token uuid NOT NULL)").format(capture.alive),
        sql.SQL("COMMENT ON TABLE {} IS {}").format(capture.captures, sql.Literal(_MARK)),
    ]


def _note_capture(connection: Connection, capture: Capture, before: Installed | None) -> str:
    token = before.token if before else str(uuid4())
    noted = read_marks(connection, capture, capture.column_names)
    run_statements(
        connection,
        sql.SQL(
            "INSERT INTO {} VALUES ({}, {}::uuid, {}::jsonb) "
            "ON CONFLICT (source) DO UPDATE SET description = excluded.description"
        ).format(capture.captures, capture.source.oid, token, _describe_capture(capture, noted)),
    )
    if not before:
        run_statements(connection, _note_alive(capture, token))
    return token


def _note_alive(capture: Capture, token: str) -> Statement:
    """The token once more, in a table that dies with what an unlogged buffer or table held."""
    return sql.SQL("INSERT INTO {} VALUES ({}, {}::uuid)").format(capture.alive, capture.source.oid, token)


def _note_loss(capture: Capture, reason: str) -> Statement:
    return sql.SQL("INSERT INTO {} (source, reason) VALUES ({}, {})").format(
        capture.losses, capture.source.oid, reason
    )


def _describe_capture(capture: Capture, noted: Marks) -> str:
    return json.dumps({
        "table": capture.source.full_name,
        "columns": [asdict(record_column(c)) for c in capture.columns],
        "known": max(c.number for c in capture.source.columns),
        "mode": capture.mode,
        "unlogged": capture.unlogged,
        "guarded": capture.guarded,
        "notify": capture.notify,
        "owner": capture.owner,
        "marks": asdict(noted),
        "edition": trigger.EDITION,
        "logged": not capture.source.unlogged,
    })  # fmt: skip


def _parse_installed(oid: int, schema: str, token: str, description: dict[str, Any]) -> Installed:
    noted = description["marks"]
    parts = {
        "columns": tuple(RecordedColumn(**c) for c in description["columns"]),
        "marks": Marks(tuple(noted["triggers"]), TableMarks.from_json(noted["table"])),
    }
    return Installed(oid=oid, schema=schema, token=token, **(description | parts))


def _forget_all(capture: Capture) -> list[Statement]:
    tables = (capture.captures, capture.losses, capture.alive)
    return [
        sql.SQL("DROP TABLE IF EXISTS {}").format(capture.buffer),
        *(sql.SQL("DELETE FROM {} WHERE source = {}").format(t, capture.source.oid) for t in tables),
    ]


def _require_unchanged(connection: Connection, capture: Capture) -> None:
    """The triggers name columns: they must still be there now that nobody else can change the table."""
    now = describe_tables(connection, [capture.source.oid])
    if not now:
        raise SourceSchemaChangedError(capture.source.full_name, ("it was dropped",))
    found = find_drift([record_column(c) for c in capture.columns], [], now[0].columns)
    if broken := tuple(d.detail for d in found if d.breaks):
        raise SourceSchemaChangedError(capture.source.full_name, broken)


# --- questions -----------------------------------------------------------------------------------


def _quote_name(name: str) -> sql.Literal:
    return sql.Literal(sql.Identifier(name).as_string(None))


def has_table(connection: Connection, schema: str, table: str) -> bool:
    name = sql.Identifier(schema, table).as_string(None)
    return bool(
        read_value(connection, sql.SQL("SELECT to_regclass({}) IS NOT NULL").format(sql.Literal(name)))
    )


def _has_functions(connection: Connection, capture: Capture) -> bool:
    wanted = [capture.function_sql(e).as_string(None) + "()" for e in capture.events]
    query = sql.SQL("SELECT bool_and(to_regprocedure(f) IS NOT NULL) FROM unnest({}::text[]) AS f")
    return bool(read_value(connection, query.format(sql.Literal(wanted))))


def _is_our_schema(connection: Connection, schema: str) -> bool:
    query = sql.SQL("SELECT obj_description(to_regnamespace({}), 'pg_namespace')").format(_quote_name(schema))
    return bool(read_value(connection, query) == _OWN_MARK)


_IS_EMPTY = sql.SQL("SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace({}))")

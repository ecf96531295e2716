"""The ledger and the tables it names -> how far each is, and what others did to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from psycopg import sql

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.interface import PublishedState
from spark_trickle.targets.postgres.follow import find_wider
from spark_trickle.targets.postgres.ledger import LedgerEntry, find_relation, read_entries, require_entry
from spark_trickle.targets.postgres.rows import is_empty
from spark_trickle.targets.postgres.run import ask_server, execute_statement
from spark_trickle.targets.postgres.target import LEDGER, Target, pg_type


def read_published(connection: Connection, ledger: str = LEDGER) -> list[PublishedState]:
    """All tables of a ledger, whichever warehouse fills them; only that they are gone is noticed here."""
    with ask_server(connection, ledger):
        return [_make_state(e, _describe_absence(connection, e)) for e in read_entries(connection, ledger)]


def read_state(connection: Connection, target: Target) -> PublishedState:
    """How far a table is. Its rows are as many as we wrote; that others changed them is found out later."""
    with ask_server(connection, target.full_name):
        entry = require_entry(connection, target)
        found = compare_table(connection, target, entry)
        return replace(_make_state(entry, found.changes), columns_behind=bool(found.grown))


def has_rows(connection: Connection, target: Target) -> bool:
    with ask_server(connection, target.full_name):
        return not is_empty(connection, target)


@dataclass(frozen=True)
class Differences:
    """What is not as `create_target` made it; a push brings the wider types of `grown` columns there."""

    changes: tuple[str, ...] = ()
    grown: Mapping[str, str] = field(default_factory=dict)


def compare_table(connection: Connection, target: Target, entry: LedgerEntry) -> Differences:
    """A published table with what it should be, as far as a difference keeps us from writing."""
    if gone := _describe_absence(connection, entry):
        return Differences(gone)
    found = {
        name: rest
        for name, *rest in execute_statement(connection, _COLUMNS.format(entry.relation)).fetchall()
    }
    wanted = {c.name: pg_type(c.type) for c in target.columns}
    grown = find_wider(target, {name: kind for name, (kind, _) in found.items()})
    changes = (
        *(f'column "{n}" was dropped or renamed' for n in wanted if n not in found),
        *(
            f'column "{n}" has type {found[n][0]}, not {kind}'
            for n, kind in wanted.items()
            if n in found and found[n][0] != kind and n not in grown
        ),
        *(
            f'column "{n}" was added and needs a value'
            for n, (_, needed) in found.items()
            if n not in wanted and needed
        ),
    )
    return Differences(changes, grown)


def _describe_absence(connection: Connection, entry: LedgerEntry) -> tuple[str, ...]:
    now = find_relation(connection, entry.schema, entry.name)
    if now is None:
        return ("it was dropped or renamed",)
    return () if now == entry.relation else ("another table now has its name",)


def _make_state(entry: LedgerEntry, changes: tuple[str, ...]) -> PublishedState:
    return PublishedState(
        schema=entry.schema,
        name=entry.name,
        warehouse=entry.warehouse,
        stream=entry.stream,
        snapshot=entry.snapshot,
        applied_at=entry.applied_at,
        rows=entry.rows,
        inserted=entry.inserted,
        deleted=entry.deleted,
        changes=changes,
        site=entry.site,
        mark=entry.mark,
    )


_COLUMNS = sql.SQL("""
    SELECT attname::text, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = ''
    FROM pg_attribute WHERE attrelid = {} AND attnum > 0 AND NOT attisdropped ORDER BY attnum
""")

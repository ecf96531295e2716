"""A source -> findings: what was looked at, what it is, whether that is well, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from spark_trickle.sources.postgres.capture import SCHEMA
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import ServerRelation
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.run import read_rows
from spark_trickle.sources.postgres.slot import slot_state
from spark_trickle.sources.postgres.survey import Survey, survey_captures

MOST_COUNTED = 1_000_000
_INSTALL = "Install the capture of this table again, then copy the table again."
_COPY = "Copy the table again."
_READ_IT = "Sync the source more often; trickle.source_status() shows what holds it back."


@dataclass(frozen=True)
class SourceFinding:
    """`fix` is empty if all is well."""

    check: str
    subject: str
    value: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.fix


# --- the server ----------------------------------------------------------------------------------


def server_findings(connection: Connection, wants_log: bool) -> list[SourceFinding]:
    """Settings that capture depends on; those of the log only if it is wanted."""
    version, level, used, most, replication = read_rows(connection, _SERVER)[0]
    found = [SourceFinding("version", "server", version)]
    if not wants_log:
        return found
    return [
        *found,
        SourceFinding(
            "wal_level",
            "server",
            level,
            "" if level == "logical" else "Run ALTER SYSTEM SET wal_level = logical and restart the server.",
        ),
        SourceFinding(
            "replication slots",
            "server",
            f"{used} of {most} used",
            "" if used < most else "Drop slots that nobody reads, or raise max_replication_slots.",
        ),
        SourceFinding(
            "replication",
            "role",
            "allowed" if replication else "not allowed",
            "" if replication else "Run ALTER ROLE … REPLICATION for the role in the address of the source.",
        ),
    ]


# --- triggers and buffers ------------------------------------------------------------------------


def capture_findings(
    connection: Connection, schema: str = SCHEMA, most_rows: int = MOST_COUNTED
) -> list[SourceFinding]:
    """Everything about all captures of a schema, table by table; no more than `most_rows` should wait."""
    seen = survey_captures(connection, schema, count_upto=most_rows + 1)
    return [finding for oid in sorted(seen.captures) for finding in _list_findings(seen, oid, most_rows)]


def _list_findings(seen: Survey, oid: int, most_rows: int) -> Iterable[SourceFinding]:
    capture, table = seen.captures[oid], seen.tables.get(oid)
    if oid not in seen.sizes:
        yield SourceFinding("buffer", capture.table, "missing", _INSTALL)
        return
    if table is None:
        yield SourceFinding(
            "table", capture.table, "dropped", "Drop the mirror, or mirror the table that replaced it."
        )
        return
    for change in capture.find_drift(table):
        advice = _INSTALL if change.breaks else "Run RESYNC TABLE if you need the column."
        yield SourceFinding("columns", table.full_name, change.detail, advice)
    yield from _trigger_findings(seen, oid)
    yield from _loss_findings(seen, oid)
    many = seen.counts[oid] > most_rows
    count = f"more than {most_rows}" if many else str(seen.counts[oid])
    text = f"{count} rows, {seen.sizes[oid]} bytes"
    yield SourceFinding("buffer", table.full_name, text, _READ_IT if many else "")


def trigger_findings(connection: Connection, schema: str = SCHEMA) -> list[SourceFinding]:
    """Each trigger that should be there: whether it is, and fires."""
    seen = survey_captures(connection, schema)
    known = [oid for oid in sorted(seen.captures) if oid in seen.tables]
    return [finding for oid in known for finding in _trigger_findings(seen, oid)]


def _trigger_findings(seen: Survey, oid: int) -> Iterable[SourceFinding]:
    table = seen.tables[oid]
    plan = seen.captures[oid].plan_capture(table)
    for event in plan.events:
        function = plan.function_name(event)
        states = {t.table: t.state for t in seen.around[oid].triggers if t.function == function}
        copies = table.partitions if event == "row" else ()
        name = plan.trigger_sql(event).as_string(None)
        for place in (*plan.find_tables(event), *copies):
            yield _trigger_finding(event, place, states.get(place.oid), name)


def _trigger_finding(event: str, place: ServerRelation, state: str | None, name: str) -> SourceFinding:
    check, table = f"{event} trigger", place.full_name
    match state:
        case None:
            return SourceFinding(check, table, "missing", _INSTALL)
        case "D" | "R":
            run = f"ALTER TABLE {quote_name(place.schema, place.name)} ENABLE ALWAYS TRIGGER {name}"
            return SourceFinding(check, table, "disabled", f"Run {run}, then copy the table again.")
        case "A":
            return SourceFinding(check, table, "enabled always")
    return SourceFinding(check, table, "enabled")


def _loss_findings(seen: Survey, oid: int) -> Iterable[SourceFinding]:
    capture, name = seen.captures[oid], seen.tables[oid].full_name
    if reason := seen.find_gap(oid):
        yield SourceFinding("losses", name, reason, _INSTALL)
    for loss in seen.losses.get(oid, ()):
        yield SourceFinding("losses", name, f"{loss.times} times, last at {loss.last}: {loss.reason}", _COPY)
    if capture.unlogged and (oid, capture.token) not in seen.alive:
        yield SourceFinding("losses", name, "the unlogged buffer was emptied by a crash", _COPY)
    if capture.mode == "statement" and oid in seen.subscribed:
        advice = "Capture this table with row triggers: replication fires no others."
        yield SourceFinding("losses", name, "the table is filled by a subscription", advice)


# --- the log -------------------------------------------------------------------------------------


def slot_findings(
    connection: Connection, slot: str, publication: str, max_lag_bytes: int
) -> list[SourceFinding]:
    state = slot_state(connection, slot)
    if state is None:
        return [SourceFinding("slot", slot, "missing", "Create the slot again, then copy all tables again.")]
    behind = ""
    if state.lag_bytes > max_lag_bytes:
        behind = "Sync the source more often, or DETACH SOURCE it if nobody needs it any more."
    elif state.kept_bytes > max_lag_bytes:
        behind = "End long-running transactions: the server keeps the log since they began."
    exists = read_rows(
        connection, sql.SQL("SELECT FROM pg_publication WHERE pubname = {}").format(publication)
    )
    return [
        SourceFinding(
            "slot",
            slot,
            state.lost or ("being read" if state.active else "idle"),
            "Drop the slot and create it again, then copy all tables again." if state.lost else "",
        ),
        SourceFinding("lag", slot, f"{state.lag_bytes} bytes, {state.kept_bytes} kept on disk", behind),
        SourceFinding(
            "publication",
            publication,
            "exists" if exists else "missing",
            "" if exists else "Create the publication again, then the slot, then copy all tables again.",
        ),
    ]


_SERVER = sql.SQL("""
    SELECT current_setting('server_version'), current_setting('wal_level'),
        (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')::int,
        (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)
""")

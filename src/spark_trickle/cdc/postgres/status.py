"""A source -> findings: what was looked at, what it is, whether that is well, and what to do if not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from psycopg import sql

from spark_trickle.cdc.postgres.capture import SCHEMA
from spark_trickle.cdc.postgres.connect import Connection
from spark_trickle.cdc.postgres.discover import Relation, SourceTable, describe
from spark_trickle.cdc.postgres.install import Installed, installed
from spark_trickle.cdc.postgres.names import quoted
from spark_trickle.cdc.postgres.run import rows, value
from spark_trickle.cdc.postgres.slot import slot_state

_MOST_COUNTED = 1_000_000
_INSTALL = "Install the capture of this table again, then copy the table again."
_COPY = "Copy the table again."
_READ_IT = "Sync the source more often, and see trickle.source_status() for what keeps it from being read."


@dataclass(frozen=True)
class Finding:
    """`fix` is empty if all is well."""

    check: str
    subject: str
    value: str
    fix: str = ""

    @property
    def ok(self) -> bool:
        return not self.fix


@dataclass(frozen=True)
class Pending:
    """What waits in a buffer; `rows` stops counting at a million, unless told otherwise."""

    rows: int
    bytes: int


# --- the server ----------------------------------------------------------------------------------


def server_findings(connection: Connection, wants_log: bool) -> list[Finding]:
    """Settings that capture depends on; those of the log only if it is wanted."""
    version, level, used, most, replication = rows(connection, _SERVER)[0]
    found = [Finding("version", "server", version)]
    if not wants_log:
        return found
    return [
        *found,
        Finding(
            "wal_level",
            "server",
            level,
            "" if level == "logical" else "Run ALTER SYSTEM SET wal_level = logical and restart the server.",
        ),
        Finding(
            "replication slots",
            "server",
            f"{used} of {most} used",
            "" if used < most else "Drop slots that nobody reads, or raise max_replication_slots.",
        ),
        Finding(
            "replication",
            "role",
            "allowed" if replication else "not allowed",
            "" if replication else "Run ALTER ROLE … REPLICATION for the role that we connect as.",
        ),
    ]


# --- triggers and buffers ------------------------------------------------------------------------


def capture_findings(
    connection: Connection, schema: str = SCHEMA, most_rows: int = _MOST_COUNTED
) -> list[Finding]:
    """Everything about all captures of a schema, table by table; no more than `most_rows` should wait."""
    captures = installed(connection, schema)
    tables = {t.oid: t for t in describe(connection, sorted(captures))}
    found = (_findings(connection, captures[oid], tables.get(oid), most_rows) for oid in sorted(captures))
    return [finding for findings in found for finding in findings]


def _findings(
    connection: Connection, capture: Installed, table: SourceTable | None, most_rows: int
) -> Iterable[Finding]:
    if table is None:
        yield Finding(
            "table", capture.table, "dropped", "Drop its mirror, or attach the table that replaced it."
        )
        return
    for change in capture.drift(table):
        advice = _INSTALL if change.breaks else "Widen the capture if the column is needed."
        yield Finding("columns", table.full_name, change.detail, advice)
    yield from trigger_findings(connection, capture, table)
    yield from _loss_findings(connection, capture, table)
    waiting = pending(connection, capture.oid, capture.schema, most_rows + 1)
    many = waiting.rows > most_rows
    count = f"more than {most_rows}" if many else str(waiting.rows)
    yield Finding("buffer", table.full_name, f"{count} rows, {waiting.bytes} bytes", _READ_IT if many else "")


def trigger_findings(connection: Connection, capture: Installed, table: SourceTable) -> Iterable[Finding]:
    """Each trigger that should be there: whether it is, and fires."""
    plan = capture.planned(table)
    for event in plan.events:
        function = plan.function(event).as_string(None)
        states = dict(rows(connection, _TRIGGERS.format(sql.Literal(f"{function}()"))))
        copies = table.partitions if event == "row" else ()
        name = plan.trigger(event).as_string(None)
        for place in (*plan.tables_of(event), *copies):
            yield _trigger_finding(event, place, states.get(place.oid), name)


def _trigger_finding(event: str, place: Relation, state: str | None, name: str) -> Finding:
    check, table = f"{event} trigger", place.full_name
    match state:
        case None:
            return Finding(check, table, "missing", _INSTALL)
        case "D" | "R":
            run = f"ALTER TABLE {quoted(place.schema, place.name)} ENABLE ALWAYS TRIGGER {name}"
            return Finding(check, table, "disabled", f"Run {run}, then copy the table again.")
        case "A":
            return Finding(check, table, "enabled always")
    return Finding(check, table, "enabled")


def _loss_findings(connection: Connection, capture: Installed, table: SourceTable) -> Iterable[Finding]:
    if reason := capture.gap(connection, table):
        yield Finding("losses", table.full_name, reason, _INSTALL)
    losses, alive = (sql.Identifier(capture.schema, name) for name in ("losses", "alive"))
    query = sql.SQL("SELECT reason, count(*), max(at)::text FROM {} WHERE source = {} GROUP BY reason")
    for reason, times, last in rows(connection, query.format(losses, capture.oid)):
        yield Finding("losses", table.full_name, f"{times} times, last at {last}: {reason}", _COPY)
    query = sql.SQL("SELECT FROM {} WHERE source = {} AND token = {}::uuid")
    if capture.unlogged and not rows(connection, query.format(alive, capture.oid, capture.token)):
        yield Finding("losses", table.full_name, "the unlogged buffer was emptied by a crash", _COPY)
    if capture.mode == "statement" and rows(connection, _SUBSCRIBED.format(capture.oid)):
        advice = "Capture this table with row triggers: replication fires no others."
        yield Finding("losses", table.full_name, "the table is filled by a subscription", advice)


def pending(connection: Connection, oid: int, schema: str = SCHEMA, most: int = _MOST_COUNTED) -> Pending:
    buffer = sql.Identifier(schema, f"changes_{oid}")
    count = sql.SQL("SELECT count(*) FROM (SELECT FROM {} LIMIT {}) AS b").format(buffer, most)
    return Pending(value(connection, count), buffer_bytes(connection, oid, schema))


def buffer_bytes(connection: Connection, oid: int, schema: str = SCHEMA) -> int:
    """The size of a buffer, which is known without reading it."""
    name = sql.Identifier(schema, f"changes_{oid}").as_string(None)
    query = sql.SQL("SELECT coalesce(pg_total_relation_size(to_regclass({})), 0)").format(sql.Literal(name))
    return int(value(connection, query))


# --- the log -------------------------------------------------------------------------------------


def slot_findings(connection: Connection, slot: str, publication: str, max_lag_bytes: int) -> list[Finding]:
    state = slot_state(connection, slot)
    if state is None:
        return [Finding("slot", slot, "missing", "Create the slot again, then copy all tables again.")]
    behind = ""
    if state.lag_bytes > max_lag_bytes:
        behind = "Sync the source, more often if it is synced; DETACH SOURCE it if nobody needs it any more."
    elif state.kept_bytes > max_lag_bytes:
        behind = "End transactions that are open for long: the log since they began is kept for them."
    exists = rows(connection, sql.SQL("SELECT FROM pg_publication WHERE pubname = {}").format(publication))
    return [
        Finding(
            "slot",
            slot,
            state.lost or ("being read" if state.active else "idle"),
            "Drop the slot and create it again, then copy all tables again." if state.lost else "",
        ),
        Finding("lag", slot, f"{state.lag_bytes} bytes, {state.kept_bytes} kept on disk", behind),
        Finding(
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

_TRIGGERS = sql.SQL(
    "SELECT tgrelid::int8, tgenabled::text FROM pg_trigger WHERE tgfoid = to_regprocedure({})"
)

_SUBSCRIBED = sql.SQL("SELECT FROM pg_subscription_rel WHERE srrelid = {}")

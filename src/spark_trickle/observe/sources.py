"""Table functions on attached sources: how they are captured, how far they lag, and what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from spark_trickle.errors import TrickleError
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.source import AttachedSource, CaptureMode, Mirror, MirrorState, Published
from spark_trickle.model.table import Table
from spark_trickle.observe.answer import Answer
from spark_trickle.refresh.identity import key_of
from spark_trickle.sources.followed.job import read_version
from spark_trickle.sources.followed.loading import find_pending
from spark_trickle.sources.followed.opening import KINDS, configure_table, open_attached
from spark_trickle.sources.followed.parts import LEDGER, REJECTS
from spark_trickle.sources.interface import LoadedTable, Records, SourceReader, Version
from spark_trickle.sources.kinds import POSTGRES
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirrored import find_mirror_drift, require_mirror
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.moment import show_lsn
from spark_trickle.sources.postgres.options import PostgresOptions, read_options
from spark_trickle.sources.postgres.slot import slot_state
from spark_trickle.sources.postgres.status import (
    MOST_COUNTED,
    SourceFinding,
    capture_findings,
    server_findings,
    slot_findings,
    trigger_findings,
)
from spark_trickle.sources.postgres.survey import survey_captures
from spark_trickle.targets.kinds import open_target
from spark_trickle.txn.work import Work

Row = tuple[Any, ...]

_FINDING = {"source": "string", "check": "string", "subject": "string", "value": "string"}


def source_status(work: Work) -> Answer:
    """Every mirror: how it is captured, whether it is exact, and how many changes wait in its source."""
    known = _list_mirrors(work)
    rows: list[Row] = []
    for source in _list_sources(work):
        mirrors = [(t, s) for t, s in known if s.source == source.name]
        if source.kind == POSTGRES:
            rows += _ask_source(source, read_options(source.options), mirrors)
        else:
            rows += _make_followed_rows(work, source, mirrors)
    columns = {
        "source": "string",
        "mirror": "string",
        "source_table": "string",
        "status": "string",
        "reason": "string",
        "capture": "string",
        "cdc_mode": "string",
        "pending_rows": "long",
        "pending_bytes": "long",
        "new_columns": "string",
        "last_sync": "string",
        "last_error": "string",
    }
    return Answer(columns, rows)


def _ask_source(
    source: AttachedSource, options: PostgresOptions, mirrors: list[tuple[Table, MirrorState]]
) -> list[Row]:
    """What the source answers; if it cannot be reached, what the catalog knows, and the error."""
    try:
        with _reach_source(source, options) as connection:
            return _mirror_rows(connection, source, mirrors)
    except TrickleError as error:
        known: list[tuple[Table | None, MirrorState | None]] = [*mirrors] or [(None, None)]
        return [_mirror_row(source, t, s, None, None, "", error.message) for t, s in known]


def _mirror_rows(
    connection: Connection, source: AttachedSource, mirrors: list[tuple[Table, MirrorState]]
) -> list[Row]:
    if not mirrors:
        return [_mirror_row(source, None, None, None, None, "", source.state.error)]
    schema = read_options(source.options).schema
    seen = survey_captures(
        connection, schema, [require_mirror(t).oid for t, _ in mirrors], count_upto=MOST_COUNTED
    )
    rows = []
    for table, known in mirrors:
        oid = require_mirror(table).oid
        captured = oid in seen.captures
        new = _new_columns(table, seen.tables.get(oid))
        rows.append(
            _mirror_row(
                source,
                table,
                known,
                seen.counts.get(oid) if captured else None,
                seen.sizes.get(oid) if captured else None,
                new,
                source.state.error,
            )
        )
    return rows


def _make_followed_rows(
    work: Work, source: AttachedSource, mirrors: list[tuple[Table, MirrorState]]
) -> list[Row]:
    """Whether a table of the source has a version that is not here yet, and columns that it has more."""
    if not mirrors:
        return [_mirror_row(source, None, None, None, None, "", source.state.error)]
    names = [require_mirror(t).table for t, _ in mirrors]
    error, behind, new = source.state.error, dict[str, bool](), dict[str, str]()
    sizes: dict[str, int] = {}
    counts: dict[str, int | None] = {}
    try:
        with open_attached(source) as reader:
            newest = reader.position(names)
            for table, state in mirrors:
                name = require_mirror(table).table
                configure_table(reader, source.kind, name, dict(require_mirror(table).options))
                if name in newest and newest[name] != read_version(state):
                    if reader.capabilities.log:
                        counts[name] = _count_waiting(reader, name, state, newest[name])
                        continue
                    described = reader.describe(name, newest[name])
                    if isinstance(described, LoadedTable):
                        pending = find_pending(work, table, reader.read(name, newest[name]))
                        behind[name], sizes[name] = bool(pending), sum(f.bytes for f in pending)
                        continue
                    behind[name] = True
                    there = [c.name for c in described.columns]
                    new[name] = ", ".join(c for c in there if not table.has_column(c))
    except TrickleError as unreachable:
        error = unreachable.message
    capture = "IN PLACE" if KINDS[source.kind].capabilities.in_place else "READER"
    rows = []
    for table, state in mirrors:
        name = require_mirror(table).table
        # How many rows wait is known once the files are compared; until then, that there are some.
        waiting = None if behind.get(name) else counts.get(name, 0)
        size = sizes.get(name, 0) if KINDS[source.kind].capabilities.loads else None
        row = _mirror_row(source, table, state, waiting, size, new.get(name, ""), error)
        rows.append((*row[:5], capture, "", *row[7:]))
    return rows


def _count_waiting(reader: SourceReader, name: str, state: MirrorState, newest: Version) -> int | None:
    """The records of a log that were not read, as far as offsets tell; None if some of them are lost."""
    change = reader.changes(name, read_version(state), newest)
    return change.size + change.waiting if isinstance(change, Records) else None


def _new_columns(table: Table, remote: SourceTable | None) -> str:
    if remote is None:
        return ""
    return ", ".join(d.column for d in find_mirror_drift(table, remote) if not d.breaks)


def _mirror_row(
    source: AttachedSource,
    table: Table | None,
    state: MirrorState | None,
    waiting: int | None,
    size: int | None,
    new: str,
    error: str,
) -> Row:
    shown = None
    if table is not None:
        shown = ".".join(require_mirror(table).becomes or (table.schema, table.name))
    return (
        source.name,
        shown,
        require_mirror(table).full_name if table else None,
        state.status.value if state else None,
        state.reason if state else "",
        source.state.capture.value,
        source.options.get("cdc_mode", "auto"),
        waiting,
        size,
        new,
        source.state.synced.isoformat() if source.state.synced else None,
        error,
    )


def wal_source_status(work: Work) -> Answer:
    """Every source: how its log is read, how far reading lags, and when and why the capture mode changed."""
    rows: list[Row] = []
    for source, options in _list_postgres(work):
        state, slot, error = source.state, None, source.state.error
        try:
            with _reach_source(source, options) as connection:
                slot = slot_state(connection, state.slot) if state.slot else None
        except TrickleError as unreachable:
            error = unreachable.message
        lag = slot.lag_bytes if slot else None
        rows.append(
            (
                source.name,
                state.capture.value,
                options.cdc_mode.value,
                state.blocked,
                state.slot or None,
                state.publication or None,
                show_lsn(state.lsn) if state.capture is CaptureMode.WAL else None,
                lag,
                slot.asked.seconds_since(state.read_until, state.read_snapshot) if slot else None,
                work.place.unlanded.get(source.name, 0),
                (slot.lost or "") if slot else ("missing" if state.capture is CaptureMode.WAL else ""),
                json.dumps([t.to_json() for t in state.history]),
                error,
            )
        )
    columns = {
        "source": "string",
        "capture": "string",
        "cdc_mode": "string",
        "blocked_reason": "string",
        "slot": "string",
        "publication": "string",
        "position": "string",
        "lag_bytes": "long",
        "lag_seconds": "double",
        "unlanded_records": "long",
        "slot_problem": "string",
        "transitions": "string",
        "last_error": "string",
    }
    return Answer(columns, rows)


def check_cdc_health(work: Work) -> Answer:
    """Every check of every source: what was found, whether it is ok, and how to fix it if not."""
    settings = work.place.settings

    def find_issues(
        connection: Connection, source: AttachedSource, options: PostgresOptions
    ) -> Iterator[SourceFinding]:
        by_log = source.state.capture is CaptureMode.WAL
        yield from server_findings(connection, wants_log=by_log)
        yield from capture_findings(connection, options.schema, settings.buffer_alert_rows)
        if by_log:
            most = settings.wal_alert_lag_bytes
            yield from slot_findings(connection, source.state.slot, source.state.publication, most)

    found = _collect_findings(work, find_issues)
    others = [_check_followed(s) for s in _list_sources(work) if s.kind != POSTGRES]
    rejects = [
        _check_rejects(work, t, m) for t in work.catalog.tables() if (m := t.mirror) and m.part == REJECTS
    ]
    return replace(found, rows=sorted([*found.rows, *others, *rejects], key=lambda row: row[0]))


def _check_rejects(work: Work, table: Table, mirror: Mirror) -> Row:
    """Whether files or records could not be loaded."""
    count = work.row_count(table)
    fix = f"See {table.full_name} for the reasons."
    of_files = replace(mirror, part=LEDGER)
    if any(t.mirror == of_files for t in work.catalog.tables()):
        fix = f"See {table.full_name} and correct the files; RESYNC TABLE tries again."
    return (mirror.source, "rejects", table.full_name, f"{count} rejects", count == 0, fix if count else "")


def _check_followed(source: AttachedSource) -> Row:
    """Whether the tables of a source can be listed."""
    try:
        with open_attached(source) as reader:
            names = reader.discover()
    except TrickleError as error:
        return (source.name, "connection", source.name, error.message, False, error.hint or "Try again.")
    return (source.name, "connection", source.name, f"{len(names)} tables", True, "")


def slot_health(work: Work) -> Answer:
    """The replication slots and publications of sources that are captured from the write-ahead log."""

    def find_issues(
        connection: Connection, source: AttachedSource, options: PostgresOptions
    ) -> Iterator[SourceFinding]:
        if source.state.slot:
            most = work.place.settings.wal_alert_lag_bytes
            yield from slot_findings(connection, source.state.slot, source.state.publication, most)

    return _collect_findings(work, find_issues)


def trigger_inventory(work: Work) -> Answer:
    """Every trigger that spark-trickle created in a source, and whether it fires."""

    def find_issues(
        connection: Connection, source: AttachedSource, options: PostgresOptions
    ) -> Iterator[SourceFinding]:
        yield from trigger_findings(connection, options.schema)

    return _collect_findings(work, find_issues)


def _collect_findings(
    work: Work, ask: Callable[[Connection, AttachedSource, PostgresOptions], Iterator[SourceFinding]]
) -> Answer:
    rows: list[Row] = []
    for source, options in _list_postgres(work):
        try:
            with _reach_source(source, options) as connection:
                found = list(ask(connection, source, options))
        except TrickleError as error:
            found = [SourceFinding("connection", source.name, error.message, error.hint or "Try again.")]
        rows += [(source.name, f.check, f.subject, f.value, f.ok, f.fix) for f in found]
    return Answer({**_FINDING, "ok": "boolean", "fix": "string"}, rows)


def published_status(work: Work) -> Answer:
    """Every published stream table: where it is, which snapshot it shows, and what holds it back."""
    with open_reader(work.place.warehouse.engine) as connection:
        found = sorted(sources.read_published(connection).values(), key=lambda p: p.table_id)
    rows = [_make_published_row(work, p) for p in found]
    columns = {
        "stream_table": "string",
        "source": "string",
        "published_as": "string",
        "key": "string",
        "snapshot": "long",
        "newest_snapshot": "long",
        "applied_at": "timestamp",
        "rows": "long",
        "problem": "string",
    }
    return Answer(columns, rows)


def _make_published_row(work: Work, found: Published) -> Row:
    table = work.catalog.table_by_id(found.table_id)
    assert table is not None
    snapshot, count, problem = found.reached, None, found.error
    try:
        with share_connections(), open_target(work, _LINKS.get(), table, found, "status") as target:
            there = target.read_state()
            snapshot, count = there.snapshot, there.rows
            problem = "; ".join(there.changes) or found.error
    except TrickleError as error:
        problem = error.message
    key, name = ", ".join(key_of(work, table)), ".".join(n for n in (found.schema, found.table) if n)
    newest = work.base.id
    return (table.full_name, found.source, name, key, snapshot, newest, found.applied, count, problem)


@contextmanager
def _reach_source(source: AttachedSource, options: PostgresOptions) -> Iterator[Connection]:
    """A connection of its own: whoever asks may not wait for a sync that is under way."""
    with share_connections(), _LINKS.get().use_connection(source.name, options, "status") as connection:
        yield connection


@contextmanager
def share_connections() -> Iterator[None]:
    """Questions inside of this share one connection to each source."""
    if _LINKS.get(None) is not None:
        yield
        return
    links = Links()
    before = _LINKS.set(links)
    try:
        yield
    finally:
        _LINKS.reset(before)
        links.close()


_LINKS: ContextVar[Links] = ContextVar("connections for questions that are asked together")


def _list_sources(work: Work) -> list[AttachedSource]:
    with open_reader(work.place.warehouse.engine) as connection:
        return sources.all_sources(connection)


def _list_postgres(work: Work) -> list[tuple[AttachedSource, PostgresOptions]]:
    return [(s, read_options(s.options)) for s in _list_sources(work) if s.kind == POSTGRES]


def _list_mirrors(work: Work) -> list[tuple[Table, MirrorState]]:
    with open_reader(work.place.warehouse.engine) as connection:
        states = sources.mirror_states(connection)
    found = [(t, states[t.id]) for t in work.catalog.tables() if t.mirror is not None and t.id in states]
    return sorted(found, key=lambda pair: pair[0].full_name)

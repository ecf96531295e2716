"""The state of stream tables in the catalog: frontiers, status, and the history of refreshes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from spark_trickle.errors import ConflictError, FuseBlownError, TrickleError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.model.execution import write_executions
from spark_trickle.model.experience import (
    Experience,
    add_run,
    charge_compaction,
    read_experience,
    write_experience,
)
from spark_trickle.model.stream import GIVEN_UP, Action, Refreshed, RefreshReport, Run, Status, StreamState

_KEPT_PLANS = 20  # of each stream table, and up to as many more
_COMPACT = "compact"  # the phase after a refresh that merges its files
_CONTENT = ("inserted", "deleted", "replaced")  # what changes rows; compaction does not


def read_state(connection: Connection, table_id: int) -> StreamState:
    row = connection.execute(
        select(s.trickle_stream).where(s.trickle_stream.c.table_id == table_id)
    ).one_or_none()
    if row is None:
        return StreamState(table_id, None, Status.INITIALIZING)
    return _row_to_state(row)


def all_states(connection: Connection) -> dict[int, StreamState]:
    """Of every stream table that was ever filled or tried."""
    return {row.table_id: _row_to_state(row) for row in connection.execute(select(s.trickle_stream))}


def _row_to_state(row: Any) -> StreamState:
    return StreamState(
        row.table_id,
        row.frontier,
        Status(row.status),
        row.error,
        row.errors_in_a_row or 0,
        row.streams_frontier,
        row.retry_at,
    )


def find_changed_tables(
    connection: Connection, table_ids: Iterable[int], after: int, upto: int
) -> frozenset[int]:
    """Those of some tables whose rows changed in (after, upto]."""
    query = (
        select(s.trickle_change.c.table_id)
        .distinct()
        .where(
            s.trickle_change.c.snapshot_id > after,
            s.trickle_change.c.snapshot_id <= upto,
            s.trickle_change.c.table_id.in_(list(table_ids)),
            s.trickle_change.c.change.in_(_CONTENT),
        )
    )
    return frozenset(row[0] for row in connection.execute(query))


def oldest_frontier(connection: Connection, without: Iterable[int] = ()) -> int | None:
    """The oldest snapshot that some stream table still has to read, some of them aside."""
    frontiers = select(func.min(s.trickle_stream.c.frontier))
    return connection.execute(frontiers.where(s.trickle_stream.c.table_id.not_in(list(without)))).scalar()


def record_refresh(connection: Connection, done: Refreshed, current: int, snapshot: int) -> None:
    """Move a stream table on, inside the transaction of a commit that makes a snapshot."""
    found = read_state(connection, done.table_id)
    if found.frontier != done.expected:
        raise ConflictError(done.report.name, done.expected or 0, current, "refreshed")
    known_now = done.occasion.together or done.occasion.at_commit
    if known_now and find_changed_tables(connection, done.outside, done.frontier, current):
        # It would be taken to know them up to this commit, and it read them before.
        name = done.report.name
        raise ConflictError(name, done.frontier, current, "refreshed", f'a source of "{name}"')
    connection.execute(delete(s.trickle_stream).where(s.trickle_stream.c.table_id == done.table_id))
    connection.execute(
        insert(s.trickle_stream).values(
            table_id=done.table_id,
            frontier=snapshot if done.occasion.at_commit else done.frontier,
            # Only resume() lets the scheduler have it again.
            status=(found.status if found.status is Status.SUSPENDED else Status.ACTIVE).value,
            error=None,
            errors_in_a_row=0,
            streams_frontier=snapshot if done.occasion.at_commit or done.occasion.together else done.frontier,
        )
    )
    if done.report.action is not Action.NO_DATA:
        _note_refresh(connection, done)


def move_on(engine: Engine, refreshed: Iterable[Refreshed], current: int) -> None:
    """The same without a snapshot, when nothing of the stream tables changed."""
    with open_writer(engine) as connection:
        for done in refreshed:
            record_refresh(connection, done, current, current)


def record_failure(engine: Engine, table_id: int, started: datetime, failure: TrickleError) -> None:
    """The rows and the frontier stay as they are."""
    error = str(failure)
    with open_writer(engine) as connection:
        found = read_state(connection, table_id)
        values = {
            "status": _choose_failed_status(found.status, failure).value,
            "error": error,
            "errors_in_a_row": found.errors_in_a_row + 1,
        }
        changed = connection.execute(
            update(s.trickle_stream).where(s.trickle_stream.c.table_id == table_id).values(**values)
        )
        if not changed.rowcount:
            connection.execute(insert(s.trickle_stream).values(table_id=table_id, frontier=None, **values))
        connection.execute(
            insert(s.trickle_refresh).values(table_id=table_id, started=started, action="ERROR", error=error)
        )


def _choose_failed_status(before: Status, failure: TrickleError) -> Status:
    if before is Status.SUSPENDED:  # only resume() lets the scheduler have it again
        return before
    return Status.FUSED if isinstance(failure, FuseBlownError) else Status.ERROR


def read_name(connection: Connection, table_id: int) -> str | None:
    c = s.trickle_table.c
    query = select(c.schema_name, c.table_name).where(c.table_id == table_id, c.end_snapshot.is_(None))
    row = connection.execute(query).first()
    return f"{row[0]}.{row[1]}" if row else None


def forget_table(connection: Connection, table_id: int) -> None:
    for table in (s.trickle_stream, s.trickle_refresh, s.trickle_experience, s.trickle_read):
        connection.execute(delete(table).where(table.c.table_id == table_id))


def load_experience(connection: Connection, table_id: int) -> Experience:
    """What is remembered of the refreshes of a stream table, as long as its query stays the same."""
    c = s.trickle_experience.c
    return read_experience(connection.execute(select(c.runs).where(c.table_id == table_id)).scalar())


def _store_experience(connection: Connection, table_id: int, known: Experience) -> None:
    connection.execute(delete(s.trickle_experience).where(s.trickle_experience.c.table_id == table_id))
    connection.execute(insert(s.trickle_experience).values(table_id=table_id, runs=write_experience(known)))


def _make_run(report: RefreshReport) -> Run:
    return Run(
        report.action,
        report.delta_rows,
        report.source_rows,
        report.duration_ms,
        given_up_ms=report.phases.get(GIVEN_UP, 0.0),
        result_rows=report.rows_inserted + report.rows_deleted,
    )


def note_compaction(engine: Engine, table_id: int, ms: float) -> None:
    """What merging the files of a stream table took belongs to what its newest refresh cost."""
    c = s.trickle_refresh.c
    with open_writer(engine) as connection:
        _store_experience(connection, table_id, charge_compaction(load_experience(connection, table_id), ms))
        query = select(c.started, c.phases).where(c.table_id == table_id, c.phases.is_not(None))
        row = connection.execute(query.order_by(c.started.desc()).limit(1)).first()
        if row is not None:
            phases = json.loads(row.phases)
            phases[_COMPACT] = round(phases.get(_COMPACT, 0.0) + ms, 3)
            newest = (c.table_id == table_id, c.started == row.started)
            connection.execute(update(s.trickle_refresh).where(*newest).values(phases=json.dumps(phases)))


def last_report(engine: Engine, table_id: int, name: str) -> RefreshReport | None:
    """What the newest successful refresh did."""
    query = (
        select(*(c for c in s.trickle_refresh.c if c.name != "executed"))
        .where(s.trickle_refresh.c.table_id == table_id, s.trickle_refresh.c.error.is_(None))
        .order_by(s.trickle_refresh.c.started.desc())
        .limit(1)
    )
    with open_reader(engine) as connection:
        row = connection.execute(query).one_or_none()
    if row is None:
        return None
    phases = json.loads(row.phases)
    return RefreshReport(
        name,
        Action(row.action),
        row.reason,
        row.rows_inserted,
        row.rows_deleted,
        row.delta_rows,
        sum(phases.values()),
        row.snapshot_id,
        phases,
        row.source_rows or 0,
        row.apply or "",
    )


def _note_refresh(connection: Connection, done: Refreshed) -> None:
    report = done.report
    known = load_experience(connection, done.table_id)
    _store_experience(connection, done.table_id, add_run(known, _make_run(report)))
    connection.execute(
        insert(s.trickle_refresh).values(
            table_id=done.table_id,
            started=done.started,
            action=report.action.value,
            reason=report.reason,
            rows_inserted=report.rows_inserted,
            rows_deleted=report.rows_deleted,
            delta_rows=report.delta_rows,
            snapshot_id=report.snapshot,
            phases=json.dumps({k: round(v, 3) for k, v in report.phases.items()}),
            source_rows=report.source_rows,
            duration_ms=report.duration_ms,
            initiated_by=done.occasion.initiated_by.value,
            waited_ms=done.occasion.waited_ms,
            apply=report.apply,
            executed=write_executions(done.executions),
        )
    )
    if known.count % _KEPT_PLANS == 0:
        _forget_plans(connection, done.table_id)


def _forget_plans(connection: Connection, table_id: int) -> None:
    """Of older refreshes only figures are kept."""
    c = s.trickle_refresh.c
    newest = select(c.started).where(c.table_id == table_id, c.executed.is_not(None))
    oldest = newest.order_by(c.started.desc()).offset(_KEPT_PLANS - 1).limit(1).scalar_subquery()
    old = update(s.trickle_refresh).where(c.table_id == table_id, c.started < oldest)
    connection.execute(old.values(executed=None))

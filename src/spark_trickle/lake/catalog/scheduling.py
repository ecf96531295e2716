"""What the scheduler keeps in the catalog: who runs it, what is running, gates, watermarks, alerts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, insert, select, update

from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader, open_writer
from spark_trickle.lake.catalog.lease import this_host
from spark_trickle.model.stream import Status

_CONTENT = ("inserted", "deleted", "replaced")
_THE_ONE = 1  # there is one scheduler a warehouse


@dataclass(frozen=True)
class Holder:
    """Who runs the scheduler, and until when it counts as alive."""

    session_id: str
    host: str
    process_id: int
    expires: datetime


@dataclass(frozen=True)
class LastRun:
    started: datetime
    duration_ms: float | None  # None: it failed
    action: str


@dataclass(frozen=True)
class Alert:
    """Something that someone should know about."""

    raised: datetime
    event: str
    table_name: str  # or the name of a source or of the warehouse
    message: str


# --- one scheduler at a time -----------------------------------------------------------------------


def claim_scheduler(engine: Engine, session_id: str, now: datetime, seconds: float) -> bool:
    """Become or stay the scheduler; False while another one lives."""
    with open_writer(engine) as connection:
        row = connection.execute(select(s.trickle_scheduler)).one_or_none()
        if row is not None and row.session_id not in (None, session_id) and row.expires > now:
            return False
        values = {
            "session_id": session_id,
            "host": this_host(),
            "process_id": os.getpid(),
            "expires": now + timedelta(seconds=seconds),
        }
        if row is None:
            connection.execute(insert(s.trickle_scheduler).values(id=_THE_ONE, paused=False, **values))
        else:
            connection.execute(update(s.trickle_scheduler).values(**values))
        return True


def release_scheduler(engine: Engine, session_id: str) -> None:
    with open_writer(engine) as connection:
        connection.execute(
            update(s.trickle_scheduler)
            .where(s.trickle_scheduler.c.session_id == session_id)
            .values(session_id=None, expires=None)
        )
        connection.execute(delete(s.trickle_running).where(s.trickle_running.c.session_id == session_id))


def read_holder(connection: Connection) -> Holder | None:
    row = connection.execute(select(s.trickle_scheduler)).one_or_none()
    if row is None or row.session_id is None:
        return None
    return Holder(row.session_id, row.host, row.process_id, row.expires)


def is_paused(connection: Connection) -> bool:
    return bool(connection.execute(select(s.trickle_scheduler.c.paused)).scalar())


def set_paused(engine: Engine, paused: bool) -> None:
    with open_writer(engine) as connection:
        done = connection.execute(update(s.trickle_scheduler).values(paused=paused))
        if not done.rowcount:
            connection.execute(insert(s.trickle_scheduler).values(id=_THE_ONE, paused=paused))


# --- what is running -------------------------------------------------------------------------------


def mark_running(engine: Engine, table_ids: Iterable[int], session_id: str, now: datetime) -> None:
    rows = [{"table_id": i, "session_id": session_id, "started": now} for i in table_ids]
    with open_writer(engine) as connection:
        for row in rows:
            connection.execute(
                delete(s.trickle_running).where(s.trickle_running.c.table_id == row["table_id"])
            )
        connection.execute(insert(s.trickle_running), rows)


def mark_done(engine: Engine, table_ids: Iterable[int]) -> None:
    with open_writer(engine) as connection:
        connection.execute(delete(s.trickle_running).where(s.trickle_running.c.table_id.in_(list(table_ids))))


def read_running(connection: Connection) -> list[tuple[int, str, datetime]]:
    return [tuple(row) for row in connection.execute(select(s.trickle_running))]


def recover_orphans(engine: Engine, session_id: str) -> list[int]:
    """Refreshes whose scheduler died: nothing of them was committed, so they are simply due again."""
    with open_writer(engine) as connection:
        others = s.trickle_running.c.session_id != session_id
        found = [row[0] for row in connection.execute(select(s.trickle_running.c.table_id).where(others))]
        connection.execute(delete(s.trickle_running).where(others))
        return found


# --- what is known of all stream tables, in few queries --------------------------------------------


def last_changes(connection: Connection, after: int) -> dict[int, tuple[int, int]]:
    """The first and the last snapshot after a given one that changed rows, of every table that changed."""
    c = s.trickle_change.c
    query = (
        select(c.table_id, func.min(c.snapshot_id), func.max(c.snapshot_id))
        .where(c.snapshot_id > after, c.change.in_(_CONTENT))
        .group_by(c.table_id)
    )
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def last_runs(connection: Connection) -> dict[int, LastRun]:
    """When each stream table was last refreshed, successfully or not."""
    c = s.trickle_refresh.c
    newest = select(c.table_id, func.max(c.started).label("started")).group_by(c.table_id).subquery()
    query = select(c.table_id, c.started, c.duration_ms, c.action).join(
        newest, (c.table_id == newest.c.table_id) & (c.started == newest.c.started)
    )
    return {row[0]: LastRun(*row[1:]) for row in connection.execute(query)}


def last_actions(connection: Connection) -> dict[int, str]:
    """What each stream table did when it last had changed rows to take in."""
    c = s.trickle_refresh.c
    took = (c.error.is_(None), c.delta_rows > 0)
    newest = (
        select(c.table_id, func.max(c.started).label("started")).where(*took).group_by(c.table_id).subquery()
    )
    query = select(c.table_id, c.action).join(
        newest, (c.table_id == newest.c.table_id) & (c.started == newest.c.started)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def read_commit_times(connection: Connection, snapshot_ids: Iterable[int]) -> dict[int, datetime]:
    """When the changes of snapshots were committed: in their source, if they come from one."""
    c, extra = s.snapshot.c, s.snapshot_changes.c
    query = (
        select(c.snapshot_id, c.snapshot_time, extra.commit_extra_info)
        .join(s.snapshot_changes, extra.snapshot_id == c.snapshot_id, isouter=True)
        .where(c.snapshot_id.in_(sorted(set(snapshot_ids))))
    )
    return {row[0]: _choose_commit_time(row[1], row[2]) for row in connection.execute(query)}


def _choose_commit_time(landed: datetime, origin: str | None) -> datetime:
    """Clocks differ, but nothing is committed after it was landed."""
    committed = json.loads(origin).get("committed") if origin else None
    return min(landed, datetime.fromisoformat(committed)) if committed else landed


# --- status ----------------------------------------------------------------------------------------


def set_status(
    engine: Engine, table_id: int, status: Status, error: str | None, retry_at: datetime | None = None
) -> None:
    values: dict[str, Any] = {"status": status.value, "error": error, "retry_at": retry_at}
    if status is Status.ACTIVE:
        values["errors_in_a_row"] = 0
    with open_writer(engine) as connection:
        where = s.trickle_stream.c.table_id == table_id
        done = connection.execute(update(s.trickle_stream).where(where).values(**values))
        if not done.rowcount:
            connection.execute(insert(s.trickle_stream).values(table_id=table_id, **values))


def set_retry(engine: Engine, table_id: int, retry_at: datetime) -> None:
    with open_writer(engine) as connection:
        where = s.trickle_stream.c.table_id == table_id
        connection.execute(update(s.trickle_stream).where(where).values(retry_at=retry_at))


# --- gates and watermarks --------------------------------------------------------------------------


def gate_table(engine: Engine, table_id: int, now: datetime) -> None:
    ungate_table(engine, table_id)
    with open_writer(engine) as connection:
        connection.execute(insert(s.trickle_gate).values(table_id=table_id, closed=now))


def ungate_table(engine: Engine, table_id: int) -> None:
    with open_writer(engine) as connection:
        connection.execute(delete(s.trickle_gate).where(s.trickle_gate.c.table_id == table_id))


def read_gates(connection: Connection) -> dict[int, datetime]:
    return {row.table_id: row.closed for row in connection.execute(select(s.trickle_gate))}


def read_watermarks(connection: Connection) -> dict[int, tuple[datetime, int, datetime]]:
    rows = connection.execute(select(s.trickle_watermark))
    return {row.table_id: (row.watermark, row.snapshot_id, row.advanced) for row in rows}


def set_watermark(engine: Engine, table_id: int, at: datetime, snapshot_id: int, now: datetime) -> None:
    with open_writer(engine) as connection:
        connection.execute(delete(s.trickle_watermark).where(s.trickle_watermark.c.table_id == table_id))
        connection.execute(
            insert(s.trickle_watermark).values(
                table_id=table_id, watermark=at, snapshot_id=snapshot_id, advanced=now
            )
        )


def watermark_groups(connection: Connection) -> dict[str, tuple[tuple[int, ...], float]]:
    rows = connection.execute(select(s.trickle_watermark_group))
    return {row.name: (tuple(json.loads(row.table_ids)), row.tolerance_seconds) for row in rows}


def set_watermark_group(engine: Engine, name: str, table_ids: Iterable[int], tolerance: float) -> None:
    drop_watermark_group(engine, name)
    with open_writer(engine) as connection:
        connection.execute(
            insert(s.trickle_watermark_group).values(
                name=name, table_ids=json.dumps(sorted(table_ids)), tolerance_seconds=tolerance
            )
        )


def drop_watermark_group(engine: Engine, name: str) -> bool:
    with open_writer(engine) as connection:
        where = s.trickle_watermark_group.c.name == name
        return bool(connection.execute(delete(s.trickle_watermark_group).where(where)).rowcount)


# --- alerts ----------------------------------------------------------------------------------------


def raise_alert(engine: Engine, alert: Alert) -> None:
    with open_writer(engine) as connection:
        connection.execute(insert(s.trickle_alert).values(**vars(alert)))


def read_alerts(engine: Engine, most: int = 1000) -> list[Alert]:
    query = select(s.trickle_alert).order_by(s.trickle_alert.c.raised.desc()).limit(most)
    with open_reader(engine) as connection:
        return [Alert(*row) for row in connection.execute(query)]


def alerts_after(engine: Engine, moment: datetime) -> list[Alert]:
    """What was raised after a moment, oldest first."""
    c = s.trickle_alert.c
    with open_reader(engine) as connection:
        rows = connection.execute(select(s.trickle_alert).where(c.raised > moment).order_by(c.raised))
        return [Alert(*row) for row in rows]


def prune_history(engine: Engine, before: datetime) -> int:
    """Forget refreshes and alerts that are older than anyone asks for; the newest of each table stays."""
    c = s.trickle_refresh.c
    with open_writer(engine) as connection:
        newest = select(func.max(c.started)).group_by(c.table_id).scalar_subquery()
        gone = connection.execute(
            delete(s.trickle_refresh).where(c.started < before, c.started.not_in(newest))
        )
        connection.execute(delete(s.trickle_alert).where(s.trickle_alert.c.raised < before))
        return int(gone.rowcount)

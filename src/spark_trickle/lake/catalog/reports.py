"""The history of refreshes -> figures, in one query each."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from spark_trickle.lake.catalog import schema as s
from spark_trickle.model.execution import Execution, read_executions
from spark_trickle.model.files import FEED


@dataclass(frozen=True)
class Past:
    """One refresh as the catalog remembers it."""

    table_id: int
    started: datetime
    action: str
    reason: str | None
    rows_inserted: int
    rows_deleted: int
    delta_rows: int
    snapshot_id: int | None
    error: str | None
    duration_ms: float | None
    initiated_by: str | None
    waited_ms: float | None
    phases: dict[str, float] = field(default_factory=dict)
    apply: str = ""


def read_refreshes(
    connection: Connection,
    table_id: int | None = None,
    most: int | None = None,
    since: datetime | None = None,
) -> list[Past]:
    """Refreshes, newest first; of one stream table or of all."""
    c = s.trickle_refresh.c
    query = select(*(column for column in c if column.name != "executed")).order_by(c.started.desc())
    if table_id is not None:
        query = query.where(c.table_id == table_id)
    if since is not None:
        query = query.where(c.started >= since)
    if most is not None:
        query = query.limit(most)
    return [_row_to_refresh(row) for row in connection.execute(query)]


def _row_to_refresh(row: Any) -> Past:
    return Past(
        row.table_id,
        row.started,
        row.action,
        row.reason,
        row.rows_inserted or 0,
        row.rows_deleted or 0,
        row.delta_rows or 0,
        row.snapshot_id,
        row.error,
        row.duration_ms,
        row.initiated_by,
        row.waited_ms,
        json.loads(row.phases) if row.phases else {},
        row.apply or "",
    )


@dataclass(frozen=True)
class ExecutedRefresh:
    """What one refresh executed."""

    started: datetime
    action: str
    executions: tuple[Execution, ...]


def read_executed(connection: Connection, table_id: int, number: int) -> ExecutedRefresh | None:
    """The newest refresh of a stream table is number 1; those without data, or that failed, do not count."""
    c = s.trickle_refresh.c
    query = select(c.started, c.action, c.executed).where(c.table_id == table_id, c.executed.is_not(None))
    row = connection.execute(query.order_by(c.started.desc()).offset(number - 1).limit(1)).first()
    return None if row is None else ExecutedRefresh(row.started, row.action, read_executions(row.executed))


@dataclass(frozen=True)
class Unseen:
    """Changes of a table that some stream table has not seen yet."""

    files: int
    rows: int
    bytes: int


def read_unseen(connection: Connection, frontiers: dict[int, int]) -> dict[int, Unseen]:
    """For each table, what changed after the oldest snapshot that a reader knows: one query for all."""
    if not frontiers:
        return {}
    f, d = s.trickle_file.c, s.data_file.c
    query = (
        select(f.table_id, f.begin_snapshot, d.record_count, d.file_size_bytes)
        .join(s.data_file, f.data_file_id == d.data_file_id)
        .where(f.role.in_(FEED), f.begin_snapshot > min(frontiers.values()))
    )
    found: dict[int, list[Any]] = {}
    for row in connection.execute(query):
        if row.begin_snapshot > frontiers.get(row.table_id, 2**62):
            found.setdefault(row.table_id, []).append(row)
    return {
        i: Unseen(len(rows), sum(r.record_count for r in rows), sum(r.file_size_bytes for r in rows))
        for i, rows in found.items()
    }


def read_first_refreshes(connection: Connection) -> dict[int, datetime]:
    """The oldest refresh of each stream table that is remembered."""
    c = s.trickle_refresh.c
    query = select(c.table_id, func.min(c.started)).group_by(c.table_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def find_quantile(values: Iterable[float], share: float) -> float | None:
    """The smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def count_snapshots(connection: Connection) -> int:
    return connection.execute(select(func.count()).select_from(s.snapshot)).scalar() or 0

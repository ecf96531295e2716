"""Catalog rows -> snapshots, names and file lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, or_, select

from spark_trickle.errors import SnapshotNotFoundError
from spark_trickle.lake.catalog import schema as s
from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.files import FEED, ColumnStats, DataFile, Outside, Role
from spark_trickle.model.table import Relation, Schema, View, table_from_json


def is_visible(table: Any, snapshot_id: int) -> ColumnElement[bool]:
    """Rows of a versioned catalog table that exist at a snapshot."""
    ends = table.c.end_snapshot
    return and_(table.c.begin_snapshot <= snapshot_id, or_(ends.is_(None), ends > snapshot_id))


def read_newest(connection: Connection) -> Snapshot:
    query = select_snapshots().order_by(s.snapshot.c.snapshot_id.desc()).limit(1)
    return Snapshot(*connection.execute(query).one())


def select_snapshots() -> Select[Any]:
    """The columns of a Snapshot, in their order."""
    changes = s.snapshot_changes.c
    joined = s.snapshot.outerjoin(s.snapshot_changes, changes.snapshot_id == s.snapshot.c.snapshot_id)
    return select(s.snapshot, changes.author).select_from(joined)


def read_oldest_id(connection: Connection) -> int:
    return int(connection.execute(select(func.min(s.snapshot.c.snapshot_id))).scalar_one())


def read_snapshot(connection: Connection, snapshot_id: int) -> Snapshot:
    if snapshot_id >= 2**63:  # more than the catalog can count
        raise _make_not_found(connection, str(snapshot_id))
    found = find_snapshot(connection, snapshot_id)
    if found is None:
        raise _make_not_found(connection, str(snapshot_id))
    return found


def find_snapshot(connection: Connection, snapshot_id: int) -> Snapshot | None:
    query = select_snapshots().where(s.snapshot.c.snapshot_id == snapshot_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else Snapshot(*row)


def read_snapshot_before(connection: Connection, moment: datetime, strictly: bool = False) -> Snapshot:
    """The newest snapshot that was committed before a moment, or also at it."""
    time = s.snapshot.c.snapshot_time
    row = connection.execute(
        select_snapshots()
        .where(time < moment if strictly else time <= moment)
        .order_by(s.snapshot.c.snapshot_id.desc())
        .limit(1)
    ).one_or_none()
    if row is None:
        asked = "before" if strictly else "at or before"
        raise _make_not_found(connection, f"{asked} {moment.isoformat(sep=' ')}")
    return Snapshot(*row)


def _make_not_found(connection: Connection, asked: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(asked, read_oldest_id(connection), read_newest(connection).id)


def require_range(connection: Connection, after: int, upto: int) -> None:
    """A change feed is whole only if nothing of it was vacuumed: its start must still be a snapshot."""
    oldest, latest = read_oldest_id(connection), read_newest(connection).id
    if after < oldest or upto > latest or after > upto:
        raise SnapshotNotFoundError(f"range ({after}, {upto}]", oldest, latest)


def read_catalog(connection: Connection, at: Snapshot) -> Catalog:
    schemas = {
        row.schema_name.lower(): Schema(row.schema_id, row.schema_name)
        for row in connection.execute(select(s.namespace).where(is_visible(s.namespace, at.id)))
    }
    relations: dict[tuple[str, str], Relation] = {}
    for row in connection.execute(select(s.trickle_table).where(is_visible(s.trickle_table, at.id))):
        key = (row.schema_name.lower(), row.table_name.lower())
        definition = json.loads(row.definition)
        relations[key] = table_from_json(row.table_id, row.schema_name, row.table_name, definition)
    for row in connection.execute(select(s.trickle_view).where(is_visible(s.trickle_view, at.id))):
        view = json.loads(row.definition)
        relations[row.schema_name.lower(), row.view_name.lower()] = View(
            row.view_id,
            row.schema_name,
            row.view_name,
            view["sql"],
            tuple(view["columns"]),
            view["comment"],
            tuple(view["source"]),
            view["home"],
        )
    return Catalog(at, schemas, relations)


_FILE_COLUMNS = (
    s.data_file.c.data_file_id,
    s.data_file.c.path,
    s.data_file.c.record_count,
    s.data_file.c.file_size_bytes,
    s.data_file.c.footer_size,
    s.data_file.c.begin_snapshot,
    s.data_file.c.end_snapshot,
    s.trickle_file.c.role,
    s.trickle_file.c.deletes,
    s.trickle_file.c.as_of,
    s.trickle_file.c.memory_bytes,
    s.trickle_file.c.whole,
    s.trickle_file.c.updates,
    s.trickle_file.c.by_name,
    s.trickle_file.c.outside,
)


def _select_files() -> Select[Any]:
    joined = s.data_file.join(s.trickle_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    return select(*_FILE_COLUMNS).select_from(joined)


def _row_to_file(row: Row[Any]) -> DataFile:
    file = DataFile(
        id=row.data_file_id,
        path=row.path,
        role=Role(row.role),
        rows=row.record_count,
        deletes=row.deletes,
        bytes=row.file_size_bytes,
        footer_bytes=row.footer_size,
        as_of=row.as_of,
        memory=row.memory_bytes,
        whole=bool(row.whole),
        updates=bool(row.updates),
        by_name=bool(row.by_name),
        begin=row.begin_snapshot,
        end=row.end_snapshot,
    )
    if row.outside is None:
        return file
    if file.role is Role.UNKNOWN:
        return replace(file, reason=json.loads(row.outside)["reason"])
    return replace(file, outside=Outside.from_text(row.outside))


def read_files(connection: Connection, table_id: int, snapshot_id: int) -> tuple[DataFile, ...]:
    """The files whose sum is the content of a table at a snapshot."""
    oldest = select(func.min(s.snapshot.c.snapshot_id)).scalar_subquery().label("oldest")
    query = _select_files().where(s.data_file.c.table_id == table_id, is_visible(s.data_file, snapshot_id))
    rows = connection.execute(query.add_columns(oldest)).all()
    # The files of a forgotten snapshot went with it, so it must not look like a table with fewer rows.
    if snapshot_id < (rows[0].oldest if rows else read_oldest_id(connection)):
        raise _make_not_found(connection, str(snapshot_id))
    return tuple(_row_to_file(row) for row in rows)


def find_files(
    connection: Connection, table_id: int, snapshot_id: int, paths: Collection[str]
) -> tuple[DataFile, ...]:
    """Those of some paths among the files of a table."""
    query = _select_files().where(s.data_file.c.table_id == table_id, is_visible(s.data_file, snapshot_id))
    found: list[DataFile] = []
    wanted = sorted(paths)
    for start in range(0, len(wanted), 500):
        part = query.where(s.data_file.c.path.in_(wanted[start : start + 500]))
        found += (_row_to_file(row) for row in connection.execute(part))
    return tuple(found)


def read_change_files(connection: Connection, table_id: int, after: int, upto: int) -> tuple[DataFile, ...]:
    """The files that hold what changed in (after, upto], whether or not compaction replaced them since."""
    query = _select_files().where(
        s.trickle_file.c.table_id == table_id,
        s.trickle_file.c.role.in_(FEED),
        s.trickle_file.c.begin_snapshot > after,
        s.trickle_file.c.begin_snapshot <= upto,
    )
    return tuple(
        _row_to_file(row) for row in connection.execute(query.order_by(s.trickle_file.c.begin_snapshot))
    )


def add_bounds(
    connection: Connection, found: Sequence[DataFile], column_ids: Sequence[int]
) -> tuple[DataFile, ...]:
    """The files with their statistics of some columns, to choose which need reading."""
    stats: dict[int, list[ColumnStats]] = {f.id: [] for f in found}
    ids = sorted(i for i in stats if i >= 0)
    for start in range(0, len(ids), 500):
        query = select(s.file_stats).where(
            s.file_stats.c.data_file_id.in_(ids[start : start + 500]),
            s.file_stats.c.column_id.in_(column_ids),
        )
        for row in connection.execute(query):
            stats[row.data_file_id].append(
                ColumnStats(row.column_id, row.value_count, row.null_count, row.min_value, row.max_value)
            )
    return tuple(f if f.id < 0 else replace(f, stats=tuple(stats[f.id])) for f in found)


@dataclass(frozen=True)
class SnapshotEntry:
    """A line of the history of the warehouse."""

    id: int
    time: datetime
    schema_version: int
    changes: str
    message: str | None


def read_history(connection: Connection) -> list[SnapshotEntry]:
    joined = s.snapshot.outerjoin(
        s.snapshot_changes, s.snapshot.c.snapshot_id == s.snapshot_changes.c.snapshot_id
    )
    query = select(
        s.snapshot.c.snapshot_id,
        s.snapshot.c.snapshot_time,
        s.snapshot.c.schema_version,
        s.snapshot_changes.c.changes_made,
        s.snapshot_changes.c.commit_message,
    ).select_from(joined)
    return [SnapshotEntry(*row) for row in connection.execute(query.order_by(s.snapshot.c.snapshot_id))]


@dataclass(frozen=True)
class TableSize:
    rows: int
    files: int
    bytes: int


def read_sizes(connection: Connection, snapshot_id: int) -> dict[int, TableSize]:
    """Rows, files and bytes of every table in one query."""
    joined = s.data_file.join(s.trickle_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    weight = s.data_file.c.record_count - 2 * s.trickle_file.c.deletes
    query = (
        select(
            s.data_file.c.table_id,
            func.sum(weight),
            func.count(),
            func.sum(s.data_file.c.file_size_bytes),
        )
        .select_from(joined)
        .where(is_visible(s.data_file, snapshot_id))
        .group_by(s.data_file.c.table_id)
    )
    return {row[0]: TableSize(int(row[1]), int(row[2]), int(row[3])) for row in connection.execute(query)}


def count_rows(connection: Connection, table_id: int, snapshot_id: int) -> int:
    """Rows of a table, without a list of its files, which may be very many."""
    joined = s.data_file.join(s.trickle_file, s.data_file.c.data_file_id == s.trickle_file.c.data_file_id)
    weight = func.sum(s.data_file.c.record_count - 2 * s.trickle_file.c.deletes)
    query = select(weight).select_from(joined)
    query = query.where(s.data_file.c.table_id == table_id, is_visible(s.data_file, snapshot_id))
    return int(connection.execute(query).scalar_one() or 0)


def read_changes_since(connection: Connection, snapshot_id: int) -> list[tuple[int, int, str]]:
    """(snapshot, table, change) of every commit after a snapshot."""
    query = select(s.trickle_change).where(s.trickle_change.c.snapshot_id > snapshot_id)
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]

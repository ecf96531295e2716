"""A Commit -> one snapshot in one catalog transaction; or a conflict, or a question, and no change."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, assert_never

from sqlalchemy import Connection, Engine, and_, insert, update
from sqlalchemy import Table as SqlTable

from spark_trickle.lake.catalog import ducklake, read, sources, states, turns
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.conflicts import Overlap, find_overlap
from spark_trickle.lake.catalog.engine import open_writer
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.lake.storage.marker import CommitNote, DataFolder
from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.commit import (
    AlteredTable,
    Commit,
    CreatedSchema,
    CreatedTable,
    CreatedView,
    Definition,
    DroppedSchema,
    DroppedTable,
    DroppedView,
    TableChange,
)
from spark_trickle.model.files import FEED, DataFile, Role
from spark_trickle.model.source import Landed
from spark_trickle.model.table import HIDDEN_SCHEMA, Table, TableColumn, View, table_to_json


def publish_commit(
    engine: Engine, folder: DataFolder, commit: Commit, now: datetime
) -> Snapshot | Overlap | turns.Blocked:
    """Make the commit the next snapshot of the warehouse, and note it in its data folder.

    Unless others are to be heard first: then nothing is written.
    """
    with folder.note_commit() as note:
        return _write_commit(engine, folder, commit, now, note)


def _write_commit(
    engine: Engine, folder: DataFolder, commit: Commit, now: datetime, note: CommitNote
) -> Snapshot | Overlap | turns.Blocked:
    crash_point("begin")
    with open_writer(engine) as connection:
        current, is_queue = turns.newest_snapshot(connection)
        folder.require(current, partial(read.find_snapshot, connection))
        if is_queue:
            turns.forget_dead(connection, now)
            if turns.is_blocked(connection, commit.moved_tables, commit.ticket, now):
                return turns.Blocked()
        if overlap := find_overlap(connection, commit, current):
            return overlap
        snapshot = _next_snapshot(current, commit, now, folder.session_id)
        _Writer(
            connection, snapshot, read.read_catalog(connection, current) if commit.definitions else None
        ).write_commit(commit, current)
        for done in commit.refreshed:
            report = replace(done.report, snapshot=snapshot.id)
            states.record_refresh(connection, replace(done, report=report), current.id, snapshot.id)
        if commit.landed is not None:
            sources.record_landing(connection, commit.landed, current.id)
        note.prepare(snapshot)
        crash_point("before_commit")
    crash_point("after_commit")
    return snapshot


def _next_snapshot(current: Snapshot, commit: Commit, now: datetime, session_id: str) -> Snapshot:
    # Time travel by timestamp needs times that grow with the ids, whatever the clocks of the writers say.
    time = max(now, current.time + timedelta(microseconds=1))
    created = [d for d in commit.definitions if isinstance(d, CreatedTable | CreatedView | CreatedSchema)]
    ids = sum(2 if isinstance(d, CreatedTable) else 1 for d in created)
    added = sum(len(c.added) + len(c.feed_only) for c in commit.changes)
    mappings = sum(len(_find_layouts(c)) for c in commit.changes)
    return Snapshot(
        id=current.id + 1,
        time=time,
        schema_version=current.schema_version + (1 if commit.definitions else 0),
        next_catalog_id=commit.read_next_id + ids if ids else current.next_catalog_id,
        next_file_id=current.next_file_id + added + mappings,
        session_id=session_id,
    )


def _find_layouts(change: TableChange) -> dict[tuple[TableColumn, ...], Table]:
    """The table as it was when files were written whose columns must be matched by name."""
    files = [f for f in change.added + change.feed_only if f.by_name]
    return {f.written_as.columns: f.written_as for f in files if f.written_as}


def _describe_origin(landed: Landed | None) -> str | None:
    """Where the rows of a snapshot come from, and since when they are visible there."""
    if landed is None or landed.committed is None:
        return None
    return json.dumps({"source": landed.source.name, "committed": landed.committed.isoformat()})


def _make_lasting_uuid(table: Table, part: str) -> str:
    """The same through every change of the table: its folder never changes."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{part}:{table.path}"))


class _Writer:
    """Writes the rows of one snapshot."""

    def __init__(self, connection: Connection, snapshot: Snapshot, catalog: Catalog | None) -> None:
        self._connection = connection
        self._snapshot = snapshot
        self._schema_ids = {n: sc.id for n, sc in catalog.schemas.items()} if catalog else {}
        self._next_file_id = 0
        self._words: list[str] = []
        self._changes: list[dict[str, Any]] = []

    def write_commit(self, commit: Commit, current: Snapshot) -> None:
        self._next_file_id = current.next_file_id
        self._insert_rows(
            s.snapshot,
            {
                "snapshot_id": self._snapshot.id,
                "snapshot_time": self._snapshot.time,
                "schema_version": self._snapshot.schema_version,
                "next_catalog_id": self._snapshot.next_catalog_id,
                "next_file_id": self._snapshot.next_file_id,
            },
        )
        crash_point("after_snapshot_row")
        for definition in commit.definitions:
            self._write_definition(definition)
        crash_point("after_definitions")
        for change in commit.changes:
            self._change_files(change)
        crash_point("after_files")
        self._insert_rows(
            s.snapshot_changes,
            {
                "snapshot_id": self._snapshot.id,
                "changes_made": ",".join(dict.fromkeys(self._words)),
                "author": self._snapshot.session_id,
                "commit_message": commit.message,
                "commit_extra_info": _describe_origin(commit.landed),
            },
        )
        if self._changes:
            self._insert_rows(s.trickle_change, *self._changes)

    # --- definitions -----------------------------------------------------------------------------

    def _write_definition(self, definition: Definition) -> None:
        match definition:
            case CreatedSchema(schema):
                self._words.append(f"created_schema:{ducklake.quote_name(schema.name)}")
                self._schema_ids[schema.name.lower()] = schema.id
                self._insert_rows(
                    s.namespace,
                    {
                        "schema_id": schema.id,
                        "schema_uuid": str(uuid.uuid4()),
                        "begin_snapshot": self._snapshot.id,
                        "schema_name": schema.name,
                        "path": f"{schema.id}/",
                        "path_is_relative": True,
                    },
                )
            case DroppedSchema(schema):
                self._words.append(f"dropped_schema:{schema.id}")
                self._end_rows(s.namespace, schema_id=schema.id)
            case CreatedTable(table):
                self._create_table(table)
            case AlteredTable(old, new):
                self._alter_table(old, new)
            case DroppedTable(table):
                self._drop_table(table)
            case CreatedView(view):
                self._create_view(view)
            case DroppedView(view):
                self._words.append(f"dropped_view:{view.id}")
                self._end_rows(s.trickle_view, view_id=view.id)
            case _:
                assert_never(definition)

    def _create_table(self, table: Table) -> None:
        names = f"{ducklake.quote_name(HIDDEN_SCHEMA)}.{ducklake.quote_name(ducklake.physical_name(table))}"
        self._words.append(f"created_table:{names}")
        self._insert_rows(
            s.table_stats, {"table_id": table.id, "record_count": 0, "next_row_id": 0, "file_size_bytes": 0}
        )
        self._write_table(table)
        self._write_columns(table)

    def _write_table(self, table: Table) -> None:
        self._insert_rows(
            s.table,
            {
                "table_id": table.id,
                "table_uuid": _make_lasting_uuid(table, "table"),
                "begin_snapshot": self._snapshot.id,
                "schema_id": self._schema_ids[HIDDEN_SCHEMA],
                "table_name": ducklake.physical_name(table),
                "path": table.path,
                "path_is_relative": True,
            },
        )
        self._insert_rows(
            s.view,
            {
                "view_id": table.view_id,
                "view_uuid": _make_lasting_uuid(table, "view"),
                "begin_snapshot": self._snapshot.id,
                "schema_id": self._schema_ids[table.schema.lower()],
                "view_name": table.name,
                "dialect": "duckdb",
                "sql": ducklake.view_sql(table),
                "column_aliases": "",
            },
        )
        self._insert_rows(
            s.trickle_table,
            {
                "table_id": table.id,
                "begin_snapshot": self._snapshot.id,
                "schema_name": table.schema,
                "table_name": table.name,
                "definition": json.dumps(table_to_json(table)),
            },
        )

    def _write_columns(self, table: Table) -> None:
        own = {"table_id": table.id, "begin_snapshot": self._snapshot.id}
        self._insert_rows(s.column, *({**row, **own} for row in ducklake.column_rows(table)))
        self._insert_rows(
            s.schema_versions,
            {
                "begin_snapshot": self._snapshot.id,
                "schema_version": self._snapshot.schema_version,
                "table_id": table.id,
            },
        )

    def _alter_table(self, old: Table, new: Table) -> None:
        self._words.append(f"altered_table:{new.id}")
        self._note_change(new.id, "altered")
        self._end_rows(s.table, table_id=old.id)
        self._end_rows(s.view, view_id=old.view_id)
        self._end_rows(s.trickle_table, table_id=old.id)
        self._write_table(new)
        if new.columns != old.columns:
            self._end_rows(s.column, table_id=old.id)
            self._write_columns(new)

    def _drop_table(self, table: Table) -> None:
        self._words.append(f"dropped_table:{table.id}")
        self._note_change(table.id, "dropped")
        self._end_rows(s.table, table_id=table.id)
        self._end_rows(s.column, table_id=table.id)
        self._end_rows(s.view, view_id=table.view_id)
        self._end_rows(s.trickle_table, table_id=table.id)
        self._end_rows(s.data_file, table_id=table.id)
        states.forget_table(self._connection, table.id)
        sources.forget_mirror(self._connection, table.id)
        sources.forget_published(self._connection, table.id)

    def _create_view(self, view: View) -> None:
        self._words.append(
            f"created_view:{ducklake.quote_name(view.schema)}.{ducklake.quote_name(view.name)}"
        )
        definition: dict[str, Any] = {
            "sql": view.sql,
            "columns": list(view.column_names),
            "comment": view.comment,
        }
        definition |= {"source": list(view.source_columns), "home": view.home}
        self._insert_rows(
            s.trickle_view,
            {
                "view_id": view.id,
                "begin_snapshot": self._snapshot.id,
                "schema_name": view.schema,
                "view_name": view.name,
                "definition": json.dumps(definition),
            },
        )

    # --- files -----------------------------------------------------------------------------------

    def _change_files(self, change: TableChange) -> None:
        if change.empty:
            return
        self._describe_change(change)
        ended = sorted(f.id for f in change.ended)
        for start in range(0, len(ended), 500):
            ids = ended[start : start + 500]
            self._connection.execute(
                update(s.data_file)
                .where(s.data_file.c.data_file_id.in_(ids))
                .values(end_snapshot=self._snapshot.id)
            )
        new = change.added + change.feed_only
        if new:
            feed_only = {f.path for f in change.feed_only}
            mappings = {columns: self._map_names(table) for columns, table in _find_layouts(change).items()}
            self._add_files(change.table, new, feed_only, mappings)

    def _describe_change(self, change: TableChange) -> None:
        table_id = change.table.id
        if change.compaction:
            self._words.append(f"compacted_table:{table_id}")
            self._note_change(table_id, "compacted")
        if change.inserts:
            self._words.append(f"inserted_into_table:{table_id}")
            self._note_change(table_id, "inserted")
        if change.deletes:
            self._words.append(f"deleted_from_table:{table_id}")
            self._note_change(table_id, "replaced" if change.ended else "deleted")

    def _map_names(self, table: Table) -> int:
        mapping = self._next_file_id
        self._next_file_id += 1
        self._insert_rows(
            s.column_mapping, {"mapping_id": mapping, "table_id": table.id, "type": "map_by_name"}
        )
        self._insert_rows(
            s.name_mapping, *({**row, "mapping_id": mapping} for row in ducklake.name_mapping_rows(table))
        )
        return mapping

    def _add_files(
        self,
        table: Table,
        files: tuple[DataFile, ...],
        feed_only: set[str],
        mappings: dict[tuple[TableColumn, ...], int],
    ) -> None:
        numbered = [replace(f, id=self._next_file_id + n) for n, f in enumerate(files)]
        self._next_file_id += len(files)
        row_id = self._advance_stats(table, files)
        data, roles, stats = [], [], []
        for f in numbered:
            data.append(
                {
                    "data_file_id": f.id,
                    "table_id": table.id,
                    "begin_snapshot": self._snapshot.id,
                    "end_snapshot": self._snapshot.id if f.path in feed_only else None,
                    "path": f.path,
                    "path_is_relative": f.is_ours,
                    "file_format": "parquet",
                    "record_count": f.rows,
                    "file_size_bytes": f.bytes,
                    "footer_size": f.footer_bytes,
                    "row_id_start": row_id,
                    "mapping_id": mappings[f.written_as.columns] if f.by_name and f.written_as else None,
                }
            )
            row_id += f.rows
            roles.append(
                {
                    "data_file_id": f.id,
                    "table_id": table.id,
                    "begin_snapshot": self._snapshot.id,
                    "role": f.role.value,
                    "location": f"{table.path}{f.path}" if f.is_ours else None,
                    "outside": _write_details(f),
                    "deletes": f.deletes,
                    # What was merged in this very commit stands where its changes do.
                    "as_of": self._snapshot.id if f.role in FEED else min(f.as_of, self._snapshot.id),
                    "memory_bytes": f.memory,
                    "whole": f.whole,
                    "updates": f.updates,
                    "by_name": f.by_name,
                }
            )
            stats += [
                {
                    "data_file_id": f.id,
                    "table_id": table.id,
                    "column_id": c.column_id,
                    "column_size_bytes": c.bytes,
                    "value_count": c.values,
                    "null_count": c.nulls,
                    "min_value": c.low,
                    "max_value": c.high,
                    "contains_nan": c.has_nan,
                }
                for c in f.stats
            ]
        self._insert_rows(s.data_file, *data)
        self._insert_rows(s.trickle_file, *roles)
        self._insert_rows(s.file_stats, *stats)

    def _advance_stats(self, table: Table, files: tuple[DataFile, ...]) -> int:
        """Count the new rows, and return the first of their row ids."""
        where = s.table_stats.c.table_id == table.id
        rows = sum(f.rows for f in files)
        updated = self._connection.execute(
            update(s.table_stats)
            .where(where)
            .values(
                record_count=s.table_stats.c.record_count + rows,
                next_row_id=s.table_stats.c.next_row_id + rows,
                file_size_bytes=s.table_stats.c.file_size_bytes + sum(f.bytes for f in files),
            )
            .returning(s.table_stats.c.next_row_id)
        )
        return int(updated.scalar_one()) - rows

    # --- rows ------------------------------------------------------------------------------------

    def _note_change(self, table_id: int, change: str) -> None:
        self._changes.append({"snapshot_id": self._snapshot.id, "table_id": table_id, "change": change})

    def _insert_rows(self, table: SqlTable, *rows: dict[str, Any]) -> None:
        if rows:
            self._connection.execute(insert(table), list(rows))

    def _end_rows(self, table: SqlTable, **ids: int) -> None:
        same = [table.c[name] == value for name, value in ids.items()]
        self._connection.execute(
            update(table)
            .where(and_(table.c.end_snapshot.is_(None), *same))
            .values(end_snapshot=self._snapshot.id)
        )


def _write_details(file: DataFile) -> str | None:
    """Where a file is, if it is not ours; or why nobody knows what changed."""
    if file.role is Role.UNKNOWN:
        return json.dumps({"reason": file.reason})
    return None if file.outside is None else file.outside.to_text()

"""A step of a published table -> one commit of its Iceberg table: rows, columns and state together."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import (
    Operation,
    Snapshot,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertLastAssignedFieldId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from spark_trickle.targets.iceberg.manifests import SnapshotWriter
from spark_trickle.targets.iceberg.state import NOTE, IcebergNote
from spark_trickle.targets.state import TargetState

DELETES_METADATA = "write.metadata.delete-after-commit.enabled"
_MAIN = "main"
_LAST_ADDED = -1


@dataclass(frozen=True)
class PreparedCommit:
    """What the catalog is asked for, on which terms, and how to undo what was written for it."""

    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]
    undo: Callable[[], None]


@dataclass(frozen=True)
class NewSnapshot:
    """What a snapshot changes: files that come, the addresses of those that go, and the columns after it."""

    added: Sequence[DataFile]
    gone: frozenset[str]
    schema: Schema
    files: str  # the sum over all that there are then

    @property
    def operation(self) -> Operation:
        if self.gone:
            return Operation.OVERWRITE if self.added else Operation.DELETE
        return Operation.APPEND


def prepare_note(table: Table, state: TargetState, files: str) -> PreparedCommit:
    """No row changes: only the state does, and the table gets no snapshot."""
    note = IcebergNote(state, table.metadata.current_snapshot_id, files)
    return PreparedCommit(_require_unmoved(table), (_set_note(note),), lambda: None)


def prepare_snapshot(
    table: Table, state: TargetState, new: NewSnapshot, undo: Callable[[], None]
) -> PreparedCommit:
    """One snapshot, with the state in it and beside it."""
    id = table.metadata.new_snapshot_id()
    writer = SnapshotWriter(table, new.schema, id, table.metadata.next_sequence_number())
    note, parent = IcebergNote(state, id, new.files), table.current_snapshot()
    schema_requirements, schema_updates, schema_id = _change_schema(table, new.schema)
    place = writer.write(parent, new.added, new.gone)
    assert len(writer.removed) == len(new.gone), "a file that is to go is not there"
    snapshot = Snapshot.model_validate(
        {
            "snapshot-id": id,
            "parent-snapshot-id": None if parent is None else parent.snapshot_id,
            "sequence-number": writer.sequence,
            "timestamp-ms": max(int(time.time() * 1000), table.metadata.last_updated_ms),
            "manifest-list": place,
            "summary": _summarize(new, writer.removed, note, parent),
            "schema-id": schema_id,
        }
    )

    def undo_all() -> None:
        for path in writer.written:
            with suppress(Exception):  # the reason of the refusal is what counts
                table.io.delete(path)
        undo()

    return PreparedCommit(
        (*_require_unmoved(table), *schema_requirements),
        (
            *schema_updates,
            AddSnapshotUpdate(snapshot=snapshot),
            SetSnapshotRefUpdate.model_validate({"ref-name": _MAIN, "type": "branch", "snapshot-id": id}),
            _set_note(note),
        ),
        undo_all,
    )


def _require_unmoved(table: Table) -> tuple[TableRequirement, ...]:
    metadata = table.metadata
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": _MAIN, "snapshot-id": metadata.current_snapshot_id}),
    )


def _set_note(note: IcebergNote) -> TableUpdate:
    return SetPropertiesUpdate(updates={NOTE: note.to_text()})


def _change_schema(
    table: Table, schema: Schema
) -> tuple[tuple[TableRequirement, ...], tuple[TableUpdate, ...], int]:
    """What makes a schema the current one, and its id; it may be one that the table had before."""
    metadata = table.metadata
    known = next((s for s in metadata.schemas if s.fields == schema.fields), None)
    if known is not None and known.schema_id == metadata.current_schema_id:
        return (), (), known.schema_id
    requirements = (
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
        AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": metadata.last_column_id}),
    )
    if known is not None:
        return requirements, (_set_schema(known.schema_id),), known.schema_id
    id = max(s.schema_id for s in metadata.schemas) + 1
    added = Schema(*schema.fields, schema_id=id)
    updates = (AddSchemaUpdate(schema=added), _set_schema(_LAST_ADDED))
    return requirements, updates, id


def _set_schema(id: int) -> TableUpdate:
    return SetCurrentSchemaUpdate.model_validate({"schema-id": id})


def _summarize(
    new: NewSnapshot, removed: Sequence[DataFile], note: IcebergNote, parent: Snapshot | None
) -> Summary:
    counts = SnapshotSummaryCollector()
    for f in new.added:
        counts.add_file(f, new.schema)
    for f in removed:
        counts.metrics.remove_file(f)
    return update_snapshot_summaries(
        Summary(new.operation, **counts.build(), **{NOTE: note.to_text()}),
        parent.summary if parent is not None else None,
    )


def delete_old_metadata(table: Table, now: TableMetadata) -> None:
    """Versions of the metadata that the table forgot with this commit; they are of no use to anybody."""
    if now.properties.get(DELETES_METADATA, "").lower() != "true":
        return
    before = {entry.metadata_file for entry in table.metadata.metadata_log}
    for path in before - {entry.metadata_file for entry in now.metadata_log}:
        with suppress(Exception):  # the commit has succeeded, and the catalog may have deleted them itself
            table.io.delete(path)

"""What our commits note in an Iceberg table: whose it is, and how far.

It is a property of the table, set in the same commit as the rows, so that it stays when snapshots expire. It
names the snapshot that it is about. Each of our snapshots has it in its summary too: there it counts after a
rollback. If others compacted the table and our snapshot expired, its files tell whether only that happened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from spark_trickle.sources.iceberg.manifests import EntryStatus, Manifests
from spark_trickle.targets.state import TargetState

NOTE = "spark-trickle.state"
_AT, _FILES = "at", "files"


@dataclass(frozen=True)
class IcebergNote:
    """The state, the snapshot of the Iceberg table that it is about, and a sum over its files."""

    state: TargetState
    at: int | None  # none before the first
    files: str

    def to_text(self) -> str:
        return self.state.to_text(**{_AT: self.at, _FILES: self.files})

    @classmethod
    def from_text(cls, text: str) -> IcebergNote:
        given = json.loads(text)
        at, files = given.pop(_AT), given.pop(_FILES)
        return cls(TargetState.from_json(given), at, files)


def sum_paths(paths: Iterable[str]) -> str:
    """The same for the same files, in whatever order."""
    digests = (hashlib.sha256(path.encode()).digest() for path in paths)
    return f"{sum(int.from_bytes(d) for d in digests) % 2**256:064x}"


@dataclass(frozen=True)
class IcebergHistory:
    """What we noted last, what others did since, and whether an older snapshot of ours counts again."""

    state: TargetState
    changes: tuple[str, ...] = ()
    rolled_back: Snapshot | None = None


def read_note(metadata: TableMetadata) -> IcebergNote | None:
    text = metadata.properties.get(NOTE)
    return None if text is None else IcebergNote.from_text(text)


def find_history(metadata: TableMetadata, note: IcebergNote, manifests: Manifests) -> IcebergHistory:
    """From the newest snapshot back to the one that we know; compaction by others does no harm."""
    snapshots: Mapping[int, Snapshot] = {s.snapshot_id: s for s in metadata.snapshots}
    changes: list[str] = []
    at, oldest = metadata.current_snapshot_id, None
    while at != note.at:
        snapshot = None if at is None else snapshots.get(at)
        if snapshot is None:
            if note.at in snapshots:
                changes.append(f"another writer rolled it back to before snapshot {note.at}")
            elif oldest is None or note.files != _sum_before(manifests, oldest):
                changes.append(f"snapshots since {note.at} have expired, so nobody knows what they changed")
            break
        if (text := _read_summary(snapshot)) is not None:
            return IcebergHistory(
                _go_back(note.state, IcebergNote.from_text(text).state), tuple(reversed(changes)), snapshot
            )
        if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
            changes.append(f"another writer changed its rows in snapshot {at}")
        at, oldest = snapshot.parent_snapshot_id, snapshot
    return IcebergHistory(note.state, tuple(reversed(changes)))


def _read_summary(snapshot: Snapshot) -> str | None:
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(NOTE)


def _go_back(now: TargetState, then: TargetState) -> TargetState:
    """The rows are those of then; whose table it is has not changed by that."""
    owner = replace(now, snapshot=then.snapshot, mark=then.mark, rows=then.rows, applied=then.applied)
    return replace(owner, inserted=then.inserted, deleted=then.deleted)


def _sum_before(manifests: Manifests, snapshot: Snapshot) -> str:
    """Of the files that the table had before a snapshot, whose parent has expired."""
    changed = manifests.list_changed(snapshot)
    added = {e.file.path for e in changed if e.status is EntryStatus.ADDED}
    removed = {e.file.path for e in changed if e.status is EntryStatus.DELETED}
    return sum_paths((list_paths(manifests, snapshot) - added) | removed)


def list_paths(manifests: Manifests, snapshot: Snapshot | None) -> set[str]:
    """Of all files of a snapshot, those that delete rows included."""
    if snapshot is None:
        return set()
    return {f.path for deletes in (False, True) for f in manifests.list_live(snapshot, deletes)}

"""Files that come and go -> the manifests of a new snapshot, which stay few.

pyiceberg's own writer leaves a manifest behind for each commit, and reads all of them with each overwrite.
Here one that lists only files which are gone is left out, and many small ones become one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from spark_trickle.errors import UnsupportedError
from spark_trickle.sources.iceberg.deletes import find_address

VERSION: Final = 2
_CODEC: Final = "deflate"
_MOST = 100  # manifests of one partitioning, before small ones are merged: as in Iceberg's own writers
_LARGE = 8 * 2**20  # bytes of a manifest that is not merged any more


@dataclass
class SnapshotWriter:
    """Writes the metadata of one snapshot; `written` lists its files, in case that it is not committed."""

    table: Table
    schema: Schema
    snapshot_id: int
    sequence: int
    written: list[str] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)

    @property
    def _io(self) -> FileIO:
        return self.table.io

    def write(self, parent: Snapshot | None, added: Sequence[DataFile], gone: frozenset[str]) -> str:
        """The address of its list of manifests; `gone` names files that the parent has."""
        kept = [] if parent is None else self._keep_manifests(parent, gone)
        new = self._write_manifest(find_spec(self.table), _make_entries(added)) if added else []
        place = self._name_file(f"snap-{self.snapshot_id}-0-{uuid.uuid4()}.avro")
        parent_id = None if parent is None else parent.snapshot_id
        with write_manifest_list(
            VERSION, self._io.new_output(place), self.snapshot_id, parent_id, self.sequence, _CODEC
        ) as output:
            output.add_manifests([*new, *kept])
        return place

    def _keep_manifests(self, parent: Snapshot, gone: frozenset[str]) -> list[ManifestFile]:
        found: list[ManifestFile] = []
        for manifest in parent.manifests(self._io):
            if manifest.content is not ManifestContent.DATA:
                found.append(manifest)
            elif manifest.has_added_files() or manifest.has_existing_files():
                found += self._remove_files(manifest, gone) if gone else [manifest]
        return self._merge_small(found)

    def _remove_files(self, manifest: ManifestFile, gone: frozenset[str]) -> list[ManifestFile]:
        entries = manifest.fetch_manifest_entry(self._io)
        removed = [e for e in entries if find_address(e.data_file.file_path) in gone]
        if not removed:
            return [manifest]
        self.removed += [e.data_file for e in removed]
        spec, paths = self.table.specs()[manifest.partition_spec_id], {e.data_file.file_path for e in removed}
        return self._write_manifest(spec, [self._pass_on(e, e.data_file.file_path in paths) for e in entries])

    def _pass_on(self, entry: ManifestEntry, is_removed: bool) -> ManifestEntry:
        status = ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=self.snapshot_id if is_removed else entry.snapshot_id,
            sequence_number=entry.sequence_number,
            file_sequence_number=entry.file_sequence_number,
            data_file=entry.data_file,
        )

    def _merge_small(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Manifests of before become one if they are many; what this snapshot wrote stays as it is."""
        found = list(manifests)
        for id, spec in self.table.specs().items():
            small = [m for m in found if self._can_merge(m, id)]
            if len(small) >= _MOST:
                entries = [e for m in small for e in m.fetch_manifest_entry(self._io)]
                found = [m for m in found if m not in small]
                found += self._write_manifest(spec, [self._pass_on(e, False) for e in entries])
        return found

    def _can_merge(self, manifest: ManifestFile, spec_id: int) -> bool:
        is_old = manifest.added_snapshot_id != self.snapshot_id
        is_small = manifest.manifest_length < _LARGE and manifest.content is ManifestContent.DATA
        return is_old and is_small and manifest.partition_spec_id == spec_id

    def _write_manifest(self, spec: PartitionSpec, entries: Iterable[ManifestEntry]) -> list[ManifestFile]:
        place = self._name_file(f"{uuid.uuid4()}-m0.avro")
        output = self._io.new_output(place)
        with write_manifest(VERSION, spec, self.schema, output, self.snapshot_id, _CODEC) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return [writer.to_manifest_file()]

    def _name_file(self, name: str) -> str:
        place = self.table.location_provider().new_metadata_location(name)
        self.written.append(place)
        return place


def find_spec(table: Table) -> PartitionSpec:
    """That of no partitions, which the table was made with; others may have added some since."""
    for spec in table.specs().values():
        if spec.is_unpartitioned():
            return spec
    name = ".".join(table.name())
    raise UnsupportedError(
        f'writing the Iceberg table "{name}", all of whose partitionings have partitions,',
        "UNPUBLISH it, and publish the stream table under another name.",
    )


def _make_entries(added: Sequence[DataFile]) -> list[ManifestEntry]:
    return [
        ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED,
            snapshot_id=None,
            sequence_number=None,
            file_sequence_number=None,
            data_file=f,
        )
        for f in added
    ]

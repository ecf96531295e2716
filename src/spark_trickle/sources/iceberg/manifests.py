"""Snapshots of an Iceberg table -> the data files and delete files that their manifests list."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pyiceberg.avro.file import AvroFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile, read_manifest_list
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import IcebergType, StructType

from spark_trickle.errors import UnsupportedError

# What the spec calls the fields of an entry, and of its file.
_STATUS, _SNAPSHOT, _SEQUENCE, _FILE = 0, 1, 3, 2
_CONTENT, _PATH, _FORMAT, _PARTITION, _ROWS, _BYTES = 134, 100, 101, 102, 103, 104
_NULLS, _LOWS, _HIGHS, _KEY = 110, 125, 128, 131
_REFERENCED, _OFFSET, _SIZE = 143, 144, 145


class FileKind(IntEnum):
    """What a file holds."""

    DATA = 0
    POSITION_DELETES = 1
    EQUALITY_DELETES = 2


class EntryStatus(IntEnum):
    """What a snapshot did with a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


@dataclass(frozen=True)
class ListedFile:
    """A data file or a delete file as a manifest lists it; `sequence` orders data and deletes."""

    kind: FileKind
    path: str
    format: str
    partition: tuple[int, tuple[str, ...]]  # the id of the spec, and the values
    rows: int
    length: int
    sequence: int
    nulls: Mapping[int, int]
    lows: Mapping[int, bytes]
    highs: Mapping[int, bytes]
    encrypted: bool
    referenced: str | None = None  # the only data file that a delete file is about
    vector_offset: int = 0  # where a deletion vector is in its file
    vector_length: int = 0


@dataclass(frozen=True)
class ManifestLine:
    """A line of a manifest."""

    status: EntryStatus
    snapshot: int
    file: ListedFile


class Manifests:
    """What the manifests of a table list; each is read once, for it never changes."""

    def __init__(self, io: FileIO) -> None:
        self._io = io
        self._entries: dict[str, tuple[ManifestLine, ...]] = {}
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}

    def list_live(self, snapshot: Snapshot, deletes: bool) -> list[ListedFile]:
        """The data files, or the delete files, that a snapshot consists of."""
        return [
            e.file
            for manifest in self._list_manifests(snapshot)
            if (manifest.content != 0) is deletes
            for e in self._read_entries(manifest)
            if e.status is not EntryStatus.DELETED
        ]

    def list_changed(self, snapshot: Snapshot) -> list[ManifestLine]:
        """What a snapshot itself added and deleted; that is in manifests which it wrote."""
        return [
            e
            for manifest in self._list_manifests(snapshot)
            if manifest.added_snapshot_id == snapshot.snapshot_id
            for e in self._read_entries(manifest)
            if e.status is not EntryStatus.EXISTING and e.snapshot == snapshot.snapshot_id
        ]

    def _list_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        if snapshot.snapshot_id not in self._lists:
            found = tuple(read_manifest_list(self._io.new_input(snapshot.manifest_list)))
            self._lists[snapshot.snapshot_id] = found
        return self._lists[snapshot.snapshot_id]

    def _read_entries(self, manifest: ManifestFile) -> tuple[ManifestLine, ...]:
        path = manifest.manifest_path
        if path not in self._entries:
            if manifest.key_metadata is not None:
                raise UnsupportedError(
                    f"the encrypted manifest {path}", "Copy the table to one without encryption."
                )
            self._entries[path] = tuple(_read_manifest(self._io, manifest))
        return self._entries[path]


def _read_manifest(io: FileIO, manifest: ManifestFile) -> Iterator[ManifestLine]:
    """By the schema that the manifest has itself: pyiceberg's own reader leaves out fields of version 3."""
    with AvroFile[Record](io.new_input(manifest.manifest_path)) as reader:
        places = _list_places(reader.schema.as_struct())
        of_file = _list_places(reader.schema.find_field(_FILE).field_type)
        for record in reader:
            values = _take_values(record, places)
            status = EntryStatus(values[_STATUS])
            # What is written before its commit knows these numbers takes them from the list of manifests.
            sequence, snapshot = values.get(_SEQUENCE), values.get(_SNAPSHOT)
            file = _make_file(
                _take_values(values[_FILE], of_file),
                manifest.partition_spec_id,
                int(manifest.sequence_number if sequence is None else sequence),
            )
            yield ManifestLine(status, int(snapshot or manifest.added_snapshot_id or 0), file)


def _list_places(struct: IcebergType) -> dict[int, int]:
    assert isinstance(struct, StructType)
    return {f.field_id: place for place, f in enumerate(struct.fields)}


def _take_values(record: Record, places: Mapping[int, int]) -> dict[int, Any]:
    return {id: record[place] for id, place in places.items()}


def _make_file(values: Mapping[int, Any], spec: int, sequence: int) -> ListedFile:
    partition = values[_PARTITION]
    return ListedFile(
        kind=FileKind(values.get(_CONTENT) or 0),
        path=values[_PATH],
        format=str(values[_FORMAT]).upper(),
        partition=(spec, tuple(repr(partition[n]) for n in range(len(partition)))),
        rows=values[_ROWS],
        length=values[_BYTES],
        sequence=sequence,
        nulls=dict(values.get(_NULLS) or {}),
        lows=dict(values.get(_LOWS) or {}),
        highs=dict(values.get(_HIGHS) or {}),
        encrypted=values.get(_KEY) is not None,
        referenced=values.get(_REFERENCED) or _find_only_path(values),
        vector_offset=values.get(_OFFSET) or 0,
        vector_length=values.get(_SIZE) or 0,
    )


_FILE_PATH = 2147483546  # the field of a delete file that names data files


def _find_only_path(values: Mapping[int, Any]) -> str | None:
    """The data file of a delete file, if it has rows for one only: then its bounds are equal, and whole."""
    low = (values.get(_LOWS) or {}).get(_FILE_PATH)
    high = (values.get(_HIGHS) or {}).get(_FILE_PATH)
    return bytes(low).decode("utf-8") if low and low == high else None

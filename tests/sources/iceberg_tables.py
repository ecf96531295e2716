"""A folder of Iceberg tables that an application writes with pyiceberg, and commits that pyiceberg cannot make.

pyiceberg appends, deletes, overwrites and upserts; compaction and deletion of rows by their numbers, which
Spark and Flink do, are written here letter by letter, as the specification has them.
"""

from __future__ import annotations

import time
import uuid
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroOutputFile
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap

from spark_trickle.session import Trickle
from tests.sources.lakes import count_rows, define_streams, orders, shops

_ROWS_OF_PATHS = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {b"PARQUET:field_id": b"2147483546"}),
        pa.field("pos", pa.int64(), False, {b"PARQUET:field_id": b"2147483545"}),
    ]
)
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"


@dataclass
class IcebergLake:
    """A catalog in SQLite, beside its tables."""

    path: Path
    formats: dict[str, str] = field(default_factory=lambda: {"format-version": "2"})

    def __post_init__(self) -> None:
        self.path.mkdir()
        self.catalog.create_namespace("shop")

    @property
    def uri(self) -> str:
        return f"sqlite:///{self.path}/catalog.db"

    @property
    def catalog(self) -> Catalog:
        return load_catalog("writer", type="sql", uri=self.uri, warehouse=f"file://{self.path}/tables")

    def table(self, name: str = "orders") -> Table:
        return self.catalog.load_table(f"shop.{name}")

    def create(self, rows: pa.Table, name: str = "orders", **options: Any) -> Table:
        """A table with the columns of some rows, and these rows."""
        made = self.catalog.create_table(
            f"shop.{name}", schema=rows.schema, properties=self.formats, **options
        )
        made.append(rows)
        return made

    def align(self, rows: pa.Table, name: str = "orders") -> pa.Table:
        """Rows under the names that the columns have now; columns that were added since are null."""
        wanted = self.table(name).schema().as_arrow()
        columns = [
            rows.column(n) if n < rows.num_columns else pa.nulls(rows.num_rows, f.type)
            for n, f in enumerate(wanted)
        ]
        return pa.table(dict(zip(wanted.names, columns, strict=True))).cast(wanted)

    def append(self, *values: tuple[Any, ...]) -> None:
        self.table().append(self.align(orders(values)))

    def upsert(self, *values: tuple[Any, ...]) -> None:
        self.table().upsert(self.align(orders(values)), join_cols=["id"])

    def add_shops(self, *pairs: tuple[str, str]) -> None:
        self.table("shops").append(shops(*pairs))

    def read(self, name: str = "orders") -> pa.Table:
        return self.table(name).scan().to_arrow()

    def rows(self, name: str = "orders") -> Counter[tuple[Any, ...]]:
        return count_rows(self.read(name))

    def attach(self, tr: Trickle) -> None:
        options = f"catalog 'sql', catalog_name 'writer', uri '{self.uri}'"
        tr.sql(f"ATTACH SOURCE ice TYPE iceberg OPTIONS ({options})")

    def follow(self, tr: Trickle) -> None:
        self.attach(tr)
        tr.sql("CREATE TABLE orders FROM SOURCE ice.shop.orders")
        tr.sql("CREATE TABLE shops FROM SOURCE ice.shop.shops")
        define_streams(tr)


class _Manifest(ManifestWriterV2):
    """Also of delete files, and with the fields of version 3, which deletion vectors need."""

    deletes = False

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES if self.deletes else ManifestContent.DATA

    @property
    def version(self) -> Any:
        return 3

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes" if self.deletes else "data"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(3)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


@dataclass
class Commit:
    """A snapshot written by hand: what it adds, and the paths that it takes out."""

    table: Table
    operation: Operation
    added: Sequence[DataFile] = ()
    removed: Sequence[str] = ()

    def write(self) -> None:
        metadata, io = self.table.metadata, self.table.io
        parent = self.table.current_snapshot()
        assert parent is not None
        number, id = metadata.last_sequence_number + 1, uuid.uuid4().int >> 66
        folder = f"{self.table.location()}/metadata"
        manifests = [
            m for deletes in (False, True) for m in self._write_manifests(id, folder, parent, deletes)
        ]
        place = f"{folder}/snap-{id}.avro"
        with write_manifest_list(
            2, io.new_output(place), id, parent.snapshot_id, number, "deflate"
        ) as writer:
            writer.add_manifests(manifests)
        snapshot = Snapshot(
            snapshot_id=id,
            parent_snapshot_id=parent.snapshot_id,
            sequence_number=number,
            timestamp_ms=max(int(time.time() * 1000), metadata.last_updated_ms),
            manifest_list=place,
            summary=Summary(operation=self.operation),
            schema_id=metadata.current_schema_id,
        )
        self.table.catalog.commit_table(
            self.table,
            (AssertRefSnapshotId(ref="main", snapshot_id=parent.snapshot_id),),
            (
                AddSnapshotUpdate(snapshot=snapshot),
                SetSnapshotRefUpdate(ref_name="main", type="branch", snapshot_id=id),
            ),
        )

    def _write_manifests(self, id: int, folder: str, parent: Snapshot, deletes: bool) -> list[ManifestFile]:
        """Those that stay untouched, and one for each partitioning that says what changed."""
        found, touched = [], []
        for manifest in parent.manifests(self.table.io):
            if (manifest.content == ManifestContent.DELETES) is deletes:
                entries = _read_entries(self.table, manifest)
                if any(e.data_file.file_path in self.removed for e in entries):
                    touched += entries
                else:
                    found.append(manifest)
        added = [f for f in self.added if (f.content != DataFileContent.DATA) is deletes]
        if touched or added:
            output = self.table.io.new_output(f"{folder}/{uuid.uuid4()}-m.avro")
            writer = _Manifest(self.table.spec(), self.table.schema(), output, id, "deflate")
            writer.deletes = deletes
            with writer:
                for e in touched:
                    if e.data_file.file_path in self.removed:
                        writer.delete(e)
                    else:
                        writer.existing(e)
                for f in added:
                    entry = ManifestEntry.from_args(
                        3, status=ManifestEntryStatus.ADDED, snapshot_id=id, data_file=f
                    )
                    writer.add_entry(entry)
            found.append(writer.to_manifest_file())
        return found


def _read_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    entries = manifest.fetch_manifest_entry(table.io)
    for e in entries:  # with the fields of version 3
        e.data_file._data = [*e.data_file._data[:16], *[None] * 4]
    return entries


def list_data_files(table: Table) -> list[DataFile]:
    return [t.file for t in table.scan().plan_files()]


def write_data_file(table: Table, rows: pa.Table, partition: Record | None = None) -> DataFile:
    place = f"{table.location()}/data/{uuid.uuid4()}.parquet"
    return _write_parquet(
        place, rows.cast(schema_to_pyarrow(table.schema())), DataFileContent.DATA, partition
    )


def write_position_deletes(
    table: Table, rows: Sequence[tuple[str, int]], partition: Record | None = None
) -> DataFile:
    place = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
    ordered = sorted(rows)
    found = pa.table([[r[0] for r in ordered], [r[1] for r in ordered]], schema=_ROWS_OF_PATHS)
    return _write_parquet(place, found, DataFileContent.POSITION_DELETES, partition)


def _write_parquet(
    place: str, rows: pa.Table, content: DataFileContent, partition: Record | None
) -> DataFile:
    path = Path(place.removeprefix("file://"))
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return describe_file(place, content, FileFormat.PARQUET, rows.num_rows, partition)


def write_vector(table: Table, path: str, numbers: Sequence[int]) -> DataFile:
    """A deletion vector in a Puffin file."""
    bitmap = BitMap(numbers).serialize()
    vector = _VECTOR_MAGIC + (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap
    blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
    place = f"{table.location()}/data/{uuid.uuid4()}.puffin"
    Path(place.removeprefix("file://")).write_bytes(b"PFA1" + blob)
    return describe_file(
        place,
        DataFileContent.POSITION_DELETES,
        FileFormat.PUFFIN,
        len(numbers),
        None,
        referenced_data_file=path,
        content_offset=4,
        content_size_in_bytes=len(blob),
    )


def describe_file(
    place: str, content: DataFileContent, kind: FileFormat, rows: int, partition: Record | None, **more: Any
) -> DataFile:
    found = DataFile.from_args(
        3,
        content=content,
        file_path=place,
        file_format=kind,
        partition=partition or Record(),
        record_count=rows,
        file_size_in_bytes=Path(place.removeprefix("file://")).stat().st_size,
        **more,
    )
    found.spec_id = 0
    return found


def compact(table: Table, snapshot_rows: pa.Table | None = None) -> None:
    """All rows in one new file, as rewrite_data_files does."""
    rows = table.scan().to_arrow() if snapshot_rows is None else snapshot_rows
    old = [f.file_path for f in list_data_files(table)]
    Commit(table, Operation.REPLACE, [write_data_file(table, rows)], old).write()

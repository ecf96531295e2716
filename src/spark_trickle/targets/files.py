"""Rows of a stream table -> Parquet files of the table that shows it in a lake."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from spark_trickle.lake.storage.addresses import is_local, open_address
from spark_trickle.lake.storage.stats import column_stats
from spark_trickle.model.arrow import arrow_schema
from spark_trickle.model.files import ColumnStats, DataFile, Role
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.sources.followed.in_place import FileMaker
from spark_trickle.sources.interface import RemoteFile
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.numbered import needs_python, write_numbered
from spark_trickle.spark.write import write_plain

_COMPRESSION = "zstd"


@dataclass(frozen=True)
class NewFile:
    """A file that was written and that no commit names yet; `path` is relative to its folder."""

    path: str
    bytes: int
    rows: int
    stats: tuple[ColumnStats, ...]


@dataclass(frozen=True)
class TargetFolder:
    """Where the files of a published table are, and how they hold its columns.

    `table` is the stream table as if its rows were in the files there. New files have the columns of
    `written`, with their ids if they are `numbered`.
    """

    address: str
    table: Table
    written: Table
    numbered: bool

    def write_rows(self, rows: pa.Table) -> list[NewFile]:
        """Rows that are at the driver, as one file."""
        if not rows.num_rows:
            return []
        filesystem, folder = open_address(self.address)
        name = f"trickle-{uuid.uuid4().hex}.parquet"
        if is_local(filesystem):  # in a bucket there are no folders
            filesystem.create_dir(folder, recursive=True)
        plain = rows.drop_columns([WEIGHT]).cast(self.schema)
        with filesystem.open_output_stream(f"{folder}/{name}") as sink:
            pq.write_table(plain, sink, compression=_COMPRESSION, store_decimal_as_integer=True)
        return [self._describe_file(filesystem, folder, name)]

    def write_frame(self, rows: Frame) -> list[NewFile]:
        """Rows that the executors have, as files that they write."""
        filesystem, folder = open_address(self.address)
        name = f"trickle-{uuid.uuid4().hex}"
        if self.numbered and needs_python(self.written):
            names = write_numbered(
                rows, self.written, partial(open_address, f"{self.address}/{name}"), _COMPRESSION
            )
        else:
            write_plain(rows, self.written, f"{self.address}/{name}", _COMPRESSION, self.numbered)
            found = filesystem.get_file_info(fs.FileSelector(f"{folder}/{name}"))
            names = sorted(f.base_name for f in found if f.base_name.endswith(".parquet"))
        files = [self._describe_file(filesystem, folder, f"{name}/{n}") for n in names]
        return [f for f in files if f.rows]

    def delete_files(self, files: Sequence[NewFile]) -> None:
        """What was written for a commit that did not come about."""
        filesystem, folder = open_address(self.address)
        for f in files:
            filesystem.delete_file(f"{folder}/{f.path}")

    @property
    def schema(self) -> pa.Schema:
        """The columns of new files: no weights."""
        found = arrow_schema(self.written)
        fields = [f for f in found if f.name != WEIGHT]
        return pa.schema(fields if self.numbered else [_without_id(f) for f in fields])

    def _describe_file(self, filesystem: fs.FileSystem, folder: str, name: str) -> NewFile:
        size = filesystem.get_file_info(f"{folder}/{name}").size
        with filesystem.open_input_file(f"{folder}/{name}") as source:
            footer = pq.read_metadata(source)
        return NewFile(name, size, footer.num_rows, column_stats(footer, self.written))


def take_files(table: Table, files: Sequence[RemoteFile]) -> list[DataFile]:
    """Files of a published table as files of ours, to be read."""
    make = FileMaker(table, 0)
    return [make.file(f, Role.BASE) for f in files]


def _without_id(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _without_ids(field.type))


def _without_ids(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_without_ids(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([_without_id(kind.field(n)) for n in range(kind.num_fields)])
    return kind

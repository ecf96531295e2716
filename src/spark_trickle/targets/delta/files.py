"""Rows of a stream table -> Parquet files of its Delta table, and the files that it has as ours to read."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from spark_trickle.lake.storage.addresses import open_address
from spark_trickle.lake.storage.stats import column_stats
from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.files import ColumnStats, DataFile, Role
from spark_trickle.model.source import Mirror, WrittenColumn
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import Scalar
from spark_trickle.sources.followed.in_place import FileMaker
from spark_trickle.sources.interface import RemoteFile
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.write import write_plain

_LONGEST = 32  # letters of a text that is told as a bound


@dataclass(frozen=True)
class NewFile:
    """A file that was written and that no commit names yet; `path` is relative to the table."""

    path: str
    bytes: int
    rows: int
    stats: str


def plain_schema(table: Table) -> pa.Schema:
    """The columns of the Delta table: no weights, no ids."""
    return pa.schema([pa.field(c.name, _without_metadata(arrow_type(c.type))) for c in table.columns])


def write_rows(address: str, table: Table, rows: pa.Table) -> list[NewFile]:
    """Rows that are at the driver, as one file."""
    if not rows.num_rows:
        return []
    filesystem, folder = open_address(address)
    name = f"trickle-{uuid.uuid4().hex}.parquet"
    filesystem.create_dir(folder, recursive=True)
    with filesystem.open_output_stream(f"{folder}/{name}") as sink:
        pq.write_table(rows.drop_columns([WEIGHT]).cast(plain_schema(table)), sink, compression="zstd")
    return [_describe_file(filesystem, folder, name, table)]


def write_frame(address: str, table: Table, rows: Frame) -> list[NewFile]:
    """Rows that the executors have, as files that they write."""
    filesystem, folder = open_address(address)
    name = f"trickle-{uuid.uuid4().hex}"
    write_plain(rows, table, f"{address}/{name}", "zstd")
    found = filesystem.get_file_info(fs.FileSelector(f"{folder}/{name}"))
    names = sorted(f.base_name for f in found if f.base_name.endswith(".parquet"))
    files = [_describe_file(filesystem, folder, f"{name}/{n}", table) for n in names]
    return [f for f in files if f.rows]


def delete_files(address: str, files: Sequence[NewFile]) -> None:
    """What was written for a commit that did not come about."""
    filesystem, folder = open_address(address)
    for f in files:
        filesystem.delete_file(f"{folder}/{f.path}")


def _describe_file(filesystem: fs.FileSystem, folder: str, name: str, table: Table) -> NewFile:
    size = filesystem.get_file_info(f"{folder}/{name}").size
    with filesystem.open_input_file(f"{folder}/{name}") as source:
        footer = pq.read_metadata(source)
    stats: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    found = {s.column_id: s for s in column_stats(footer, table)}
    for column in table.columns:
        known = found.get(column.id)
        if known is None or not isinstance(column.type, Scalar):
            continue
        if known.nulls is not None:
            stats["nullCount"][column.name] = known.nulls
        if (pair := _read_bounds(known, column.type)) is not None:
            stats["minValues"][column.name], stats["maxValues"][column.name] = pair
    return NewFile(name, size, footer.num_rows, json.dumps(stats))


def _read_bounds(stats: ColumnStats, kind: Scalar) -> tuple[Any, Any] | None:
    """Bounds that JSON holds exactly and that need no rounding."""
    if stats.low is None or stats.high is None:
        return None
    if kind.name in ("byte", "short", "integer", "long"):
        return int(stats.low), int(stats.high)
    if kind.name == "date" or (kind.name == "string" and max(len(stats.low), len(stats.high)) <= _LONGEST):
        return stats.low, stats.high
    return None


def _without_metadata(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_without_metadata(kind.value_type))
    if pa.types.is_struct(kind):
        fields = [kind.field(n) for n in range(kind.num_fields)]
        return pa.struct([pa.field(f.name, _without_metadata(f.type)) for f in fields])
    return kind


# --- the files that are there ----------------------------------------------------------------------


def table_there(table: Table) -> Table:
    """The stream table as if its rows were in the files of the Delta table."""
    written = tuple(WrittenColumn(c.id, c.name, c.type) for c in table.columns)
    return replace(table, mirror=Mirror("", "", table.name, 0, (), 0, written=written))


def files_there(table: Table, files: Sequence[RemoteFile]) -> list[DataFile]:
    make = FileMaker(table, 0)
    return [make.file(f, Role.BASE) for f in files]

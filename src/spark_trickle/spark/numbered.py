"""Rows that the executors have -> Parquet files in which also the elements of lists have ids.

Spark gives ids to columns and to fields of structs, but not to the elements of lists. So Python writes these
files, in the tasks that have the rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_trickle.model.arrow import arrow_schema
from spark_trickle.model.quoting import quote
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import has_array
from spark_trickle.spark.run import collect_rows
from spark_trickle.spark.types import storage_schema

Opener = Callable[[], tuple[fs.FileSystem, str]]  # the file system of a folder, and what it calls it

_GROUP = 64 * 2**20  # bytes of rows in memory that become one row group


def needs_python(table: Table) -> bool:
    return any(has_array(c.type) for c in table.columns)


def write_numbered(frame: DataFrame, table: Table, open_folder: Opener, compression: str) -> list[str]:
    """The names of the files; those of a task that was repeated are not among them."""
    fields = [f for f in storage_schema(table).fields if f.name != WEIGHT]
    # Under plain names: PySpark finds no column whose name has a dot.
    typed = frame.select(
        *[F.col(quote(f.name)).cast(f.dataType).alias(f"c{n}", metadata={}) for n, f in enumerate(fields)]
    )
    schema = pa.schema([f for f in arrow_schema(table) if f.name != WEIGHT])

    def write_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = _write_file(batches, schema, open_folder, compression)
        yield pa.RecordBatch.from_pylist([{"name": name}] if name else [], pa.schema([("name", pa.string())]))

    return sorted(row["name"] for row in collect_rows(typed.mapInArrow(write_batches, "name string")))


def _write_file(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, open_folder: Opener, compression: str
) -> str | None:
    """One file for the rows of a task; none if it has no rows."""
    groups = _group_batches(batches, schema)
    if (first := next(groups, None)) is None:
        return None
    filesystem, place = open_folder()
    name = f"{uuid.uuid4().hex}.parquet"
    filesystem.create_dir(place, recursive=True)
    with (
        filesystem.open_output_stream(f"{place}/{name}") as sink,
        pq.ParquetWriter(sink, schema, compression=compression, store_decimal_as_integer=True) as writer,
    ):
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)
    return name


def _group_batches(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP:
            yield _name_columns(waiting, schema)
            waiting, size = [], 0
    if any(b.num_rows for b in waiting):
        yield _name_columns(waiting, schema)


def _name_columns(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches).rename_columns(schema.names).cast(schema)

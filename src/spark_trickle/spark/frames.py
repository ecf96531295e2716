"""The names by which the layers above speak of Spark's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.table import Table
from spark_trickle.model.types import Scalar
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.types import data_type, plain_field, storage_schema
from spark_trickle.sql.lexer.words import quote

Frame = DataFrame
Session = SparkSession


def frame_of(spark: SparkSession, columns: dict[str, str], rows: Sequence[Sequence[Any]]) -> DataFrame:
    """A small DataFrame of rows that are here already; no Spark job is needed to show it."""
    arrays = [
        pa.array([row[n] for row in rows], arrow_type(Scalar(kind)))
        for n, kind in enumerate(columns.values())
    ]
    schema = StructType([StructField(n, data_type(Scalar(kind))) for n, kind in columns.items()])
    return create_frame(spark, pa.Table.from_arrays(arrays, names=list(columns)), schema)


def as_frame(like: DataFrame, rows: pa.Table, spark: SparkSession | None = None) -> DataFrame:
    """Rows that were collected from a frame, as a frame of the same types again; any value may be null.

    In the session of the frame, unless another is named.
    """
    copied = rows.take(pa.array(range(rows.num_rows), pa.int64())).combine_chunks()
    schema = StructType([plain_field(f) for f in like.schema.fields])
    return create_frame(spark or like.sparkSession, copied, schema)


def as_stored(frame: DataFrame) -> DataFrame:
    """Columns that Spark compares by their bytes: CHAR(n) would be filled up in some comparisons only."""
    return frame.select(*[F.col(quote(n)).alias(n, metadata={}) for n in frame.columns])


def local_frame(spark: SparkSession, table: Table, rows: pa.Table) -> DataFrame:
    """Rows of a table that are at the driver, as a DataFrame.

    PySpark would guess that every timestamp is in the session's zone, so it is told the types. It does
    not take slices of lists, and loses rows of lists in several chunks: so they are copied into one.
    """
    known = {f.name: plain_field(f) for f in storage_schema(table).fields}
    schema = StructType([known[name] for name in rows.column_names])
    copied = rows.take(pa.array(range(rows.num_rows), pa.int64())).combine_chunks()
    return create_frame(spark, copied, schema)

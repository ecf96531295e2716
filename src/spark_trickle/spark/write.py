"""Rows with weights -> Parquet files, by the driver when they are few and by the executors when not."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_trickle.model.quoting import quote
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import without_ids
from spark_trickle.spark.addresses import name_in_spark
from spark_trickle.spark.errors import explain_errors
from spark_trickle.spark.observe import observe_counts
from spark_trickle.spark.read import strict_reader
from spark_trickle.spark.run import collect_rows
from spark_trickle.spark.types import storage_schema
from spark_trickle.spark.width import width_of

_ROWS = {"rows": "count(*)"}


@dataclass(frozen=True)
class WrittenFile:
    """What the executors wrote, each to what it has at that path: so many rows, and the memory they take."""

    rows: int
    bytes: int


def write_by_executors(
    frame: DataFrame, table: Table, folder: str, compression: str, file_rows: int = 0
) -> WrittenFile:
    """Write a frame of the table's columns and weight as files in a new folder."""
    fields = storage_schema(table).fields
    typed = [
        F.col(quote(f.name)).cast(f.dataType).alias(f.name, metadata=_id_only(f.metadata)) for f in fields
    ]
    width = width_of(fields)
    counted, read_counts = observe_counts(frame.select(*typed), {**_ROWS, "bytes": f"sum({width.sql})"})
    writer = (
        counted.write.mode("append")  # the folder is there and empty
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .option("compression", compression if compression != "none" else "uncompressed")
        .option("parquet.page.write-checksum.enabled", "true")
        .option("maxRecordsPerFile", file_rows)  # 0: as many as there are
    )
    with explain_errors(""):
        writer.parquet(folder)
    return WrittenFile(**read_counts())


def _id_only(metadata: dict[str, object]) -> dict[str, object]:
    return {k: v for k, v in metadata.items() if k == "parquet.field.id"}


def write_plain(
    frame: DataFrame, table: Table, folder: str, compression: str, numbered: bool = False
) -> None:
    """Write the columns of a table for readers that know nothing of us: no weights; ids only if asked for."""
    fields = [f for f in storage_schema(table).fields if f.name != WEIGHT]
    if not numbered:
        fields = StructType.fromJson(without_ids(StructType(fields).jsonValue())).fields
    typed = [
        F.col(quote(f.name)).cast(f.dataType).alias(f.name, metadata=_id_only(f.metadata)) for f in fields
    ]
    writer = frame.select(*typed).write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    with explain_errors(""):
        writer.option("compression", compression).parquet(name_in_spark(folder))


def deletes_by_file(spark: SparkSession, paths: list[str]) -> dict[str, int]:
    """How many rows of each file have a negative weight; reads that one column."""
    frame = strict_reader(spark).schema(f"{WEIGHT} INT").parquet(*paths)
    counted = frame.groupBy("_metadata.file_name").agg(F.count_if(F.col(WEIGHT) < 0).alias("deletes"))
    return {row["file_name"]: row["deletes"] for row in collect_rows(counted)}


def write_staged(frame: DataFrame, folder: str) -> int:
    """Write a frame down, to be computed once; how many rows the executors wrote."""
    counted, read_counts = observe_counts(_mark_staged(frame), _ROWS)
    with explain_errors(""):
        counted.write.parquet(folder)
    return read_counts()["rows"]


def read_staged(frame: DataFrame, folder: str, spark: SparkSession | None = None) -> DataFrame:
    """What was written down of a frame, for its session unless another is named."""
    with explain_errors(""):
        return strict_reader(spark or frame.sparkSession).schema(_mark_staged(frame).schema).parquet(folder)


def _mark_staged(frame: DataFrame) -> DataFrame:
    """Old and new image of a column carry the same field id; without ids they match by name."""
    return frame.select(*[F.col(quote(n)).alias(n, metadata={"staged": True}) for n in frame.columns])

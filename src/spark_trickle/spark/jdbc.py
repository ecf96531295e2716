"""Queries of another database -> a DataFrame of their rows, each query asked by one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.errors import SourceSetupError
from spark_trickle.model.table import Table
from spark_trickle.spark.errors import SPARK_ERRORS
from spark_trickle.spark.types import storage_schema


def require_driver(spark: SparkSession, driver: str, package: str) -> None:
    """Refuse at once what would fail in the middle of a copy.

    Spark looks for the driver before it looks at the address, and this one leads nowhere. A session of
    Spark Connect looks only when the columns are asked for.
    """
    nowhere = {"driver": driver, "url": "jdbc:nowhere:", "query": "SELECT 1"}
    try:
        spark.read.format("jdbc").options(**nowhere).load().isLocal()
    except SPARK_ERRORS as error:
        if "ClassNotFoundException" in str(error):
            raise SourceSetupError(
                f"Spark cannot find the driver {driver}",
                f"Start Spark with spark.jars.packages = {package}, or leave out the option copy.",
            ) from None


def read_queries(spark: SparkSession, options: Mapping[str, str], queries: Sequence[str]) -> DataFrame:
    """The rows of all queries, which have the same columns."""
    frames = [spark.read.format("jdbc").options(**options).option("query", q).load() for q in queries]
    return reduce(DataFrame.unionAll, frames)


def convert_rows(frame: DataFrame, table: Table, convert: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Rows of a table out of rows in another form; executors need this package for it."""

    def convert_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from convert(pa.Table.from_batches([batch])).to_batches()

    return frame.mapInArrow(convert_batches, storage_schema(table))

"""The change files of some commits -> what changed, in the columns that Spark and Delta use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.outside import DataFiles
from spark_trickle.spark.read import (
    empty_frame,
    files_by_sign,
    repeat_rows_sql,
    rows_with_weights,
    sum_weights_sql,
)
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import columns_sql
from spark_trickle.sql.lexer.words import quote, quote_literal


def read_feed(
    spark: SparkSession,
    data: DataFiles,
    table: Table,
    files: Sequence[DataFile],
    snapshots: Sequence[Snapshot],
) -> DataFrame:
    """The change feed: every changed row, how it changed, and the commit that changed it."""
    times = {s.id: s.time for s in snapshots}
    columns = columns_sql(table)
    if not files:
        return run_sql(
            spark,
            f"SELECT {columns}, '' AS _change_type, 0L AS _commit_version, "
            "CAST(NULL AS TIMESTAMP) AS _commit_timestamp FROM {log}",
            log=empty_frame(spark, table),
        )
    commits = spark.createDataFrame(
        pa.table(
            {
                "_trickle_file": [f.tag for f in files],
                "_trickle_version": pa.array([f.begin for f in files], pa.int64()),
                "_trickle_time": pa.array([times[f.begin] for f in files], pa.timestamp("us", tz="UTC")),
                "_trickle_updates": [f.updates for f in files],
                "_trickle_of_removed": [f.role is Role.REMOVED for f in files],
            }
        )
    )
    mixed = {f.begin for f in files if f.role is Role.REMOVED and f.deletes < f.rows}
    plain = [f for f in files if f.role is not Role.REMOVED or f.begin not in mixed]
    # A file can tell of two commits: that its rows came, and that they went.
    named = [
        rows.selectExpr("*", f"{removed} AS _trickle_removed")
        for removed, rows in files_by_sign(spark, data, table, plain, "_trickle_name").items()
    ]
    for version in sorted(mixed):
        deleted = [f for f in files if f.role is Role.REMOVED and f.begin == version]
        named.append(_sum_removed(spark, data, table, deleted))
    return run_sql(
        spark,
        f"SELECT {columns}, {_change_type(table)} AS _change_type, "
        "_trickle_version AS _commit_version, _trickle_time AS _commit_timestamp "
        "FROM {log} AS log JOIN {commits} AS commits ON log._trickle_name = commits._trickle_file "
        "AND log._trickle_removed = commits._trickle_of_removed",
        log=reduce(DataFrame.unionByName, named),
        commits=commits,
    )


def _sum_removed(
    spark: SparkSession, data: DataFiles, table: Table, removed: Sequence[DataFile]
) -> DataFrame:
    """What went with files that hold deletions: their sum, told in the name of one of them."""
    columns, name = columns_sql(table), quote_literal(removed[0].tag)
    counted = f"SELECT {columns}, -{WEIGHT} AS {WEIGHT} FROM ({sum_weights_sql(table, '{rows}')})"
    text = (
        f"SELECT *, -1 AS {WEIGHT}, {name} AS _trickle_name, true AS _trickle_removed "
        f"FROM ({repeat_rows_sql(table, f'({counted})')})"
    )
    return run_sql(spark, text, rows=rows_with_weights(spark, data, table, removed))


def _change_type(table: Table) -> str:
    """A key that leaves and comes in one commit was updated; without a key the statement tells."""
    update = "_trickle_updates"
    if table.key:
        keys = ", ".join(quote(c.name) for c in table.key_columns)
        both = f"count({{}}) OVER (PARTITION BY _trickle_version, {keys})"
        deleted, inserted = (f"IF({WEIGHT} {sign} 0, 1, NULL)" for sign in ("<", ">"))
        update = f"({both.format(deleted)} > 0 AND {both.format(inserted)} > 0)"
    return (
        f"CASE WHEN {update} THEN IF({WEIGHT} < 0, 'update_preimage', 'update_postimage') "
        f"ELSE IF({WEIGHT} < 0, 'delete', 'insert') END"
    )

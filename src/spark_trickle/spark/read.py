"""Chosen files of a table -> a DataFrame of its rows, or of its changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.files import DataFile, Log
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import is_float
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import cast_name, columns_sql, storage_schema
from spark_trickle.sql.words import quote

Locate = Callable[[Table, Sequence[DataFile]], list[str]]  # where the files of a table are, once checked


def rows_with_weights(
    spark: SparkSession, locate: Locate, table: Table, files: Sequence[DataFile]
) -> DataFrame:
    """The rows of some files as they are, weight included."""
    if not files:
        return empty(spark, table)
    return spark.read.schema(storage_schema(table)).parquet(*locate(table, files))


def empty(spark: SparkSession, table: Table) -> DataFrame:
    columns = [f"CAST(NULL AS {cast_name(c.type)}) AS {quote(c.name)}" for c in table.columns]
    return spark.sql(f"SELECT {', '.join(columns)}, 0 AS {WEIGHT} WHERE false")


def content(
    spark: SparkSession,
    locate: Locate,
    table: Table,
    log: Log,
    net_tail: DataFrame | None,
    broadcast_rows: int,
) -> DataFrame:
    """The rows of a table: the sum of its files.

    Files before the first deletion are read as they are. What was deleted since is few, known, and
    taken out by a join against it, so the big files are never shuffled. `net_tail` is the sum of the
    tail, if somebody knows it already.
    """
    settled = rows_with_weights(spark, locate, table, log.settled)
    if not log.tail:
        return settled.select(*[quote(c) for c in table.column_names])
    tail = net_tail if net_tail is not None else rows_with_weights(spark, locate, table, log.tail)
    summed = net_tail is not None or (table.unique and log.tail_is_one_change)
    net = "{tail}" if summed else f"({consolidated(table, '{tail}')})"
    hint = "/*+ BROADCAST(gone) */" if log.tail_deletes <= broadcast_rows else ""
    text = _keyed(table, net, hint) if table.unique else _keyless(table, net, hint)
    return run_sql(spark, text, settled=settled, tail=tail)


def _keyed(table: Table, net: str, hint: str) -> str:
    """Every key stands once in `settled`, so a deleted key takes its whole row with it.

    An enforced key is never null, so plain `=` does, which lets Spark hash a single number.
    """
    columns = columns_sql(table)
    keys = ", ".join(quote(c.name) for c in table.key_columns)
    same = " AND ".join(f"base.{quote(c.name)} = gone.{quote(c.name)}" for c in table.key_columns)
    return (
        f"SELECT {hint} {columns_sql(table, 'base.')} FROM {{settled}} AS base "
        f"LEFT ANTI JOIN (SELECT {keys} FROM {net} WHERE {WEIGHT} < 0) AS gone ON {same} "
        f"UNION ALL SELECT {columns} FROM {net} WHERE {WEIGHT} > 0"
    )


def _keyless(table: Table, net: str, hint: str) -> str:
    """Rows may repeat, so a touched row is counted; untouched rows pass by."""
    columns = columns_sql(table)
    gone = f"(SELECT {columns} FROM {net} WHERE {WEIGHT} < 0) AS gone"
    same = " AND ".join(f"base.{quote(c)} <=> gone.{quote(c)}" for c in table.column_names)
    base = columns_sql(table, "base.")
    touched = (
        f"SELECT {hint} {base}, 1 AS {WEIGHT} FROM {{settled}} AS base LEFT SEMI JOIN {gone} ON {same} "
        f"UNION ALL SELECT {columns}, {WEIGHT} FROM {net} WHERE {WEIGHT} < 0"
    )
    counted = consolidated(table, f"({touched})")
    return (
        f"SELECT {hint} {base} FROM {{settled}} AS base LEFT ANTI JOIN {gone} ON {same} "
        f"UNION ALL {repeated(table, f'({counted})')} "
        f"UNION ALL {repeated(table, net)}"
    )


def consolidated(table: Table, source: str) -> str:
    """The sum of weights of each different row, without zeros.

    Grouping would turn −0.0 into 0.0, so the sign of a zero is kept beside it.
    """
    floats = [c.name for c in table.columns if is_float(c.type)]
    zeros = {name: quote(f"_zero_{n}") for n, name in enumerate(floats)}
    outer = ", ".join(_restored(c.name, zeros.get(c.name)) for c in table.columns)
    keys = ", ".join([quote(c) for c in table.column_names] + list(zeros.values()))
    extra = "".join(
        f", CASE WHEN {quote(n)} = 0 THEN string({quote(n)}) END AS {z}" for n, z in zeros.items()
    )
    inner = f"SELECT {columns_sql(table)}, {WEIGHT}{extra} FROM {source} AS weighed"
    return (
        f"SELECT {outer}, CAST(sum({WEIGHT}) AS INT) AS {WEIGHT} FROM ({inner}) "
        f"GROUP BY {keys} HAVING sum({WEIGHT}) <> 0"
    )


def _restored(name: str, zero: str | None) -> str:
    if zero is None:
        return quote(name)
    return f"CASE WHEN {zero} = '-0.0' THEN -{quote(name)} ELSE {quote(name)} END AS {quote(name)}"


def repeated(table: Table, source: str) -> str:
    """Each row as often as its weight says."""
    return (
        f"SELECT {columns_sql(table)} FROM {source} AS counted "
        f"LATERAL VIEW explode(array_repeat(0, greatest({WEIGHT}, 0))) copies AS _copy"
    )


def changes(
    spark: SparkSession,
    locate: Locate,
    table: Table,
    files: Sequence[DataFile],
    snapshots: Sequence[Snapshot],
) -> DataFrame:
    """The change feed: every changed row, how it changed, and the commit that changed it."""
    times = {s.id: s.time for s in snapshots}
    log = rows_with_weights(spark, locate, table, files)
    columns = columns_sql(table)
    if not files:
        return run_sql(
            spark,
            f"SELECT {columns}, '' AS _change_type, 0L AS _commit_version, "
            "CAST(NULL AS TIMESTAMP) AS _commit_timestamp FROM {log}",
            log=log,
        )
    commits = spark.createDataFrame(
        pa.table(
            {
                "_file": [f.path.rpartition("/")[2] for f in files],
                "_version": pa.array([f.begin for f in files], pa.int64()),
                "_time": pa.array([times[f.begin] for f in files], pa.timestamp("us", tz="UTC")),
                "_updates": [f.updates for f in files],
            }
        )
    )
    named = log.select("*", "_metadata.file_name")
    return run_sql(
        spark,
        f"SELECT {columns}, {_change_type(table)} AS _change_type, "
        "_version AS _commit_version, _time AS _commit_timestamp "
        "FROM {log} AS log JOIN {commits} AS commits ON log.file_name = commits._file",
        log=named,
        commits=commits,
    )


def _change_type(table: Table) -> str:
    """A key that leaves and comes in one commit was updated; without a key the statement tells."""
    update = "_updates"
    if table.key:
        keys = ", ".join(quote(c.name) for c in table.key_columns)
        both = f"count({{}}) OVER (PARTITION BY _version, {keys})"
        gone, come = (f"IF({WEIGHT} {sign} 0, 1, NULL)" for sign in ("<", ">"))
        update = f"({both.format(gone)} > 0 AND {both.format(come)} > 0)"
    return (
        f"CASE WHEN {update} THEN IF({WEIGHT} < 0, 'update_preimage', 'update_postimage') "
        f"ELSE IF({WEIGHT} < 0, 'delete', 'insert') END"
    )

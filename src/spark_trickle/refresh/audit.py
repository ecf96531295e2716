"""A stream table against its own query, computed by Spark at the snapshot that it claims to be exact at."""

from __future__ import annotations

from spark_trickle.dml.query import catalog_at, run_query, snapshot_by_id
from spark_trickle.dml.work import Work
from spark_trickle.errors import TransactionStateError
from spark_trickle.lake import stream as states
from spark_trickle.lake.engine import reading
from spark_trickle.model.table import Table
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import run_sql
from spark_trickle.sql.words import quote


def audit(work: Work, table: Table) -> Frame:
    """The rows that differ, and how often each is missing from the stream table or too much in it."""
    stream = table.stream
    assert stream is not None
    with reading(work.place.warehouse.engine) as connection:
        frontier = states.state(connection, table.id).knows
    if frontier is None:
        raise TransactionStateError(
            f'the stream table "{table.full_name}" was never filled', "Refresh it first."
        )
    at = snapshot_by_id(work, frontier.tables)
    then = Work(work.place, catalog_at(work, at), at)
    for source in stream.sources:
        known = work.catalog.table_by_id(source.table_id)
        if known is not None and known.stream is not None:
            then.see(known, frontier.streams)
    wanted = run_query(then, stream.query, schema=stream.home).toDF(*table.column_names)
    names = ", ".join(quote(c) for c in table.column_names)
    text = (
        f"SELECT {names}, IF(sum(_w) > 0, 'extra', 'missing') AS difference, abs(sum(_w)) AS rows FROM ("
        f"SELECT {names}, 1 AS _w FROM {{found}} UNION ALL SELECT {names}, -1 AS _w FROM {{wanted}}) "
        f"GROUP BY {names} HAVING sum(_w) <> 0"
    )
    return run_sql(work.place.spark, text, found=work.rows(table), wanted=wanted)

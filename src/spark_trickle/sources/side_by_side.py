"""A table of a source -> the rows of its mirror, read by Spark's executors through JDBC at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from spark_trickle.model.arrow import to_storage
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import Landing, land_frame
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.parallel import DRIVER, find_endpoint, jdbc_options, plan_shared_read
from spark_trickle.sources.postgres.types import MappedColumn
from spark_trickle.sources.postgres.values import to_table
from spark_trickle.spark.jdbc import convert_rows, read_queries, require_driver
from spark_trickle.txn.work import Work

_PACKAGE = "org.postgresql:postgresql:42.7.7"
_PAGES = 16_384  # of 8 kB: 128 MB for one task


@dataclass(frozen=True)
class FromTexts:
    """Columns of texts as rows of a mirror; executors get it with their task."""

    table: Table
    columns: tuple[MappedColumn, ...]

    def __call__(self, rows: pa.Table) -> pa.Table:
        texts = [column.combine_chunks() for column in rows.columns]
        weight = pa.repeat(pa.scalar(1, pa.int32()), rows.num_rows)
        return to_storage(self.table, to_table(self.columns, texts, weight))


def require_jdbc(job: Job) -> None:
    require_driver(job.place.spark, DRIVER, _PACKAGE)


def land_side_by_side(
    job: Job, work: Work, table: Table, remote: SourceTable, columns: Sequence[MappedColumn]
) -> Landing:
    """All rows at the moment of the running transaction, which stays open until they are stored."""
    read = plan_shared_read(job.connection, remote, columns, _PAGES)
    options = jdbc_options(find_endpoint(job.connection), read)
    frame = read_queries(job.place.spark, options, read.queries)
    return land_frame(work, table, convert_rows(frame, table, FromTexts(table, tuple(columns))))

"""A table -> whether somebody takes its changes."""

from __future__ import annotations

from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.table import Table
from spark_trickle.txn.work import Work


def is_followed(work: Work, table: Table) -> bool:
    """By another stream table, or by a published copy."""
    if work.catalog.find_readers(table):
        return True
    with open_reader(work.place.warehouse.engine) as connection:
        return table.id in sources.read_published(connection)

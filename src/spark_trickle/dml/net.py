"""Several changes of one table in a transaction -> one, so that the feed shows what the commit really did."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.dml.rows import cancelled_frame
from spark_trickle.dml.store import fits_arrow, store_frame, store_rows
from spark_trickle.dml.work import Work
from spark_trickle.model.files import DataFile
from spark_trickle.model.table import Table
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect


def merge_changes(work: Work) -> None:
    for table_id, change in list(work.changes.items()):
        steps = {f.as_of for f in change.added}
        if len(steps) > 1 and any(f.deletes for f in change.added):
            change = replace(change, added=_merged(work, change.table, change.added))
        # What was removed by ending files: its sum is the content that the transaction found.
        if len({f.as_of for f in change.feed_only}) > 1:
            change = replace(change, feed_only=_merged(work, change.table, change.feed_only))
        work.changes[table_id] = change


def _merged(work: Work, table: Table, added: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    rows = rows_with_weights(work.place.spark, work.place.storage.locate, table, added)
    net = cancelled_frame(work, table, rows)
    count = sum(f.rows for f in added)
    if count <= work.place.settings.max_driver_rows and fits_arrow(table):
        files = store_rows(work, table, collect(net))
    else:
        files = store_frame(work, table, net)
    updates = all(f.updates for f in added)
    return tuple(replace(f, updates=updates) for f in files)

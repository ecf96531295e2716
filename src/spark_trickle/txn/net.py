"""Several changes of one table in a transaction -> one, so that the feed shows what the commit really did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from spark_trickle.model.arrow import (
    arrow_schema,
    can_hold,
    from_storage,
    negate_weights,
    single_weights,
    sum_weights,
)
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.collect import collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.read import rows_with_weights, sum_weights_sql
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import columns_sql
from spark_trickle.txn.store import fits_arrow, store_frame, store_rows
from spark_trickle.txn.work import Work


def net_change(work: Work, table: Table, weighted: Frame) -> Frame:
    """The net of a change, each row with weight +1 or −1."""
    net = sum_weights_sql(table, "{rows}")
    sign = f"SELECT {columns_sql(table)}, IF({WEIGHT} > 0, 1, -1) AS {WEIGHT} FROM ({net}) AS net "
    copies = f"LATERAL VIEW explode(array_repeat(0, abs({WEIGHT}))) _trickle_copies AS _trickle_copy"
    return run_sql(work.place.spark, sign + copies, rows=weighted)


def merge_changes(work: Work) -> None:
    for change in tuple(work.changes.values()):
        steps = {f.as_of for f in change.added}
        if len(steps) > 1 and any(f.deletes for f in change.added):
            change = replace(change, added=_merge_files(work, change.table, change.added))
        # What was removed by ending files: its sum is the content that the transaction found.
        if len({f.as_of for f in change.feed_only}) > 1:
            change = replace(change, feed_only=_merge_files(work, change.table, change.feed_only))
        work.state = work.state.replace_change(change)


def _merge_files(work: Work, table: Table, added: tuple[DataFile, ...]) -> tuple[DataFile, ...]:
    rows = rows_with_weights(work.place.spark, work.place.storage, table, added)
    net = net_change(work, table, rows)
    count = sum(f.rows for f in added)
    room = room_of_statement(work.place.settings)
    few = collect_known(net, room, count) if fits_arrow(table) else None
    files = store_frame(work, table, net) if few is None else store_rows(work, table, few)
    updates = all(f.updates for f in added)
    return tuple(replace(f, updates=updates) for f in files)


def store_difference(
    work: Work, table: Table, inserted: Sequence[DataFile], deleted: Sequence[DataFile]
) -> tuple[DataFile, ...]:
    """The rows of some files without those of others, written as one change."""
    if room_of_statement(work.place.settings).holds((*inserted, *deleted)):
        plus, minus = load_rows(work, table, inserted), load_rows(work, table, deleted)
        if plus is not None and minus is not None:
            return store_rows(
                work,
                table,
                single_weights(sum_weights(table, pa.concat_tables([plus, negate_weights(minus)]))),
            )
    rows = _read_weighted(work, table, inserted)
    if deleted:
        others = [c for c in rows.columns if c != WEIGHT]
        minus_rows = _read_weighted(work, table, deleted)
        taken = minus_rows.select(*others, (-minus_rows[WEIGHT]).alias(WEIGHT))
        rows = rows.unionByName(taken)
    return store_frame(work, table, net_change(work, table, rows))


def _read_weighted(work: Work, table: Table, files: Sequence[DataFile]) -> Frame:
    return rows_with_weights(work.place.spark, work.place.storage, table, files)


def load_rows(work: Work, table: Table, files: Sequence[DataFile]) -> pa.Table | None:
    """The rows of files with their weights, at the driver; None if they can only be read by Spark."""
    if not all(can_hold(c.type) for c in table.columns):
        return None
    parts = [from_storage(table, work.place.storage.read(table, f)) for f in files]
    if any(p is None for p in parts):
        return None
    return pa.concat_tables([arrow_schema(table).empty_table(), *parts])

"""A net change -> which files of a published table hold rows that go, and what stands in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import RepairNeededError
from spark_trickle.model.arrow import single_weights, sum_weights
from spark_trickle.model.files import ColumnStats, DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import Scalar
from spark_trickle.refresh.identity import key_of, with_identity
from spark_trickle.spark.frames import local_frame
from spark_trickle.spark.read import (
    NetTail,
    Replaced,
    files_by_sign,
    read_content,
    rows_with_weights,
    same_row_sql,
)
from spark_trickle.spark.run import collect_rows, run_sql
from spark_trickle.targets.files import NewFile, TargetFolder
from spark_trickle.targets.interface import RowsToPublish
from spark_trickle.txn.net import load_rows

_TAG = "_trickle_tag"
_MISSING = "that are to be changed or deleted are missing or were modified"


@dataclass(frozen=True)
class Rewrite:
    """Files that go and files that replace them, and how many rows were inserted and deleted."""

    removed: tuple[DataFile, ...]
    added: tuple[NewFile, ...]
    inserted: int
    deleted: int
    new_columns: bool = False  # then nothing of the table stays

    @property
    def is_empty(self) -> bool:
        return not (self.removed or self.added or self.new_columns)


NO_ROWS = Rewrite((), (), 0, 0)


def plan_rewrite(folder: TargetFolder, name: str, files: Sequence[DataFile], rows: RowsToPublish) -> Rewrite:
    """Write what the change needs; only files that hold a row which goes are written again."""
    few = rows.few
    if few is None:
        return _rewrite_by_executors(folder, name, files, rows)
    old_rows = few.filter(pc.less(few.column(WEIGHT), 0))
    new_rows = few.filter(pc.greater(few.column(WEIGHT), 0))
    if not old_rows.num_rows:
        return Rewrite((), tuple(folder.write_rows(new_rows)), new_rows.num_rows, 0)
    candidates = find_candidates(files, rows)
    if not room_of_statement(rows.work.place.settings).holds(candidates):
        return _rewrite_by_executors(folder, name, candidates, rows)
    touched: list[DataFile] = []
    kept, left = new_rows, old_rows
    for f in candidates:
        if not left.num_rows:
            break
        held = load_rows(rows.work, folder.table, [f])
        if held is None:
            return _rewrite_by_executors(folder, name, candidates, rows)
        net = sum_weights(rows.table, pa.concat_tables([held, left]))
        missing = net.filter(pc.less(net.column(WEIGHT), 0))
        if _count(missing) < _count(left):
            touched.append(f)
            stays = net.filter(pc.greater(net.column(WEIGHT), 0))
            kept = pa.concat_tables([kept, single_weights(stays)])
            left = single_weights(missing)
    if left.num_rows:
        raise RepairNeededError(name, f"{left.num_rows} rows {_MISSING}")
    return Rewrite(tuple(touched), tuple(folder.write_rows(kept)), new_rows.num_rows, old_rows.num_rows)


def find_candidates(files: Sequence[DataFile], rows: RowsToPublish) -> list[DataFile]:
    """The files that may hold a row which goes, by what is known of them."""
    if rows.few is None:
        return list(files)
    old_rows = rows.few.filter(pc.less(rows.few.column(WEIGHT), 0))
    return [f for f in files if old_rows.num_rows and _may_hold(rows.table, f, old_rows)]


def _count(net: pa.Table) -> int:
    return int(-(pc.sum(net.column(WEIGHT)).as_py() or 0))


def _may_hold(table: Table, file: DataFile, old_rows: pa.Table) -> bool:
    """Whether the bounds of a file leave room for one of the rows."""
    stats = {s.column_id: s for s in file.stats}
    for column in table.columns:
        known = stats.get(column.id)
        is_whole = isinstance(column.type, Scalar) and column.type.name in _WHOLE
        if known is not None and is_whole and _lies_outside(known, old_rows.column(column.name)):
            return False
    return True


_WHOLE = ("byte", "short", "integer", "long")


def _lies_outside(known: ColumnStats, values: pa.ChunkedArray) -> bool:
    if known.low is None or known.high is None or values.null_count:
        return False
    bounds = pc.min_max(values).as_py()
    return bool(bounds["max"] < int(known.low) or bounds["min"] > int(known.high))


def count_by_sign(rows: RowsToPublish) -> tuple[int, int]:
    """How many rows were inserted, and how many deleted."""
    if rows.few is not None:
        deleted = pc.sum(pc.less(rows.few.column(WEIGHT), 0)).as_py() or 0
        return rows.few.num_rows - deleted, deleted
    counts = rows.frame.groupBy(WEIGHT).agg({"*": "count"}).toDF(WEIGHT, "n")
    counted = {r[WEIGHT]: r["n"] for r in collect_rows(counts)}
    return counted.get(1, 0), counted.get(-1, 0)


def _rewrite_by_executors(
    folder: TargetFolder, name: str, files: Sequence[DataFile], rows: RowsToPublish
) -> Rewrite:
    """`files` are those that may hold a row which goes."""
    work = rows.work
    there = with_identity(folder.table, key_of(work, rows.table))
    spark, storage = work.place.spark, work.place.storage
    change = rows.frame if rows.few is None else local_frame(spark, rows.table, rows.few)
    inserted, deleted = count_by_sign(rows)
    new_rows = change.where(f"{WEIGHT} > 0").drop(WEIGHT)
    if not deleted:
        return Rewrite((), tuple(folder.write_frame(new_rows)), inserted, 0)
    is_small = rows.few is not None
    old_rows = change.where(f"{WEIGHT} < 0").drop(WEIGHT)
    (held,) = files_by_sign(spark, storage, there, files, _TAG).values() if files else (None,)
    touched: list[DataFile] = []
    if held is not None:
        text = (
            f"SELECT {'/*+ BROADCAST(deleted) */ ' if is_small else ''}DISTINCT base.{_TAG} AS tag "
            f"FROM {{held}} AS base LEFT SEMI JOIN {{old_rows}} AS deleted ON {same_row_sql(there)}"
        )
        tags = {r["tag"] for r in collect_rows(run_sql(spark, text, held=held, old_rows=old_rows))}
        touched = [f for f in files if f.tag in tags]
    settled = rows_with_weights(spark, storage, there, touched)
    # A key is that of one row: its row goes, and another may replace it. Without one, equal rows count.
    tail = Replaced(old_rows, new_rows) if there.distinct_by else NetTail(change)
    content = read_content(settled, there, tail, broadcast=is_small)
    added = folder.write_frame(content)
    expected = sum(f.rows for f in touched) + inserted - deleted
    if sum(f.rows for f in added) != expected:
        folder.delete_files(added)
        raise RepairNeededError(name, f"rows {_MISSING}")
    return Rewrite(tuple(touched), tuple(added), inserted, deleted)

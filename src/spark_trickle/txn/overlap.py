"""Rows that a transaction changes and looked at, rows that others changed meanwhile -> a conflict, or none.

There is none if the transaction would do the same on the newest snapshot: none of their rows has a key that
it changes, and none of them, neither as it was nor as it is, is one that it looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import ConflictError, QueryError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.arrow import arrow_schema, can_hold, from_storage, list_images
from spark_trickle.model.commit import Commit, TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import identity_columns, rows_with_weights
from spark_trickle.spark.run import collect, run_sql
from spark_trickle.sql.lexer.words import quote
from spark_trickle.txn.keys import comparable_key, find_files_meeting, list_bounded_columns, row_tuples
from spark_trickle.txn.reads import ReadSet, TableRead

if TYPE_CHECKING:
    from spark_trickle.txn.work import Place


_ASKED_TOGETHER = 200  # conditions


def find_conflict(place: Place, commit: Commit, reads: ReadSet, upto: int) -> ConflictError | None:
    """What stands in the way of a commit among all that was committed since it was last compared."""
    changes = [c for c in commit.changes if not c.compaction]
    with open_reader(place.warehouse.engine) as connection:
        since = commit.compared_upto
        theirs = [read.read_change_files(connection, c.table.id, since, upto) for c in changes]
        theirs = [
            read.add_bounds(connection, files, [k.id for k in list_bounded_columns(c.table)])
            for c, files in zip(changes, theirs, strict=True)
        ]
    for change, files in zip(changes, theirs, strict=True):
        if files and _is_conflict(place, change, files, reads.list_reads(change.table.id)):
            name, last = change.table.full_name, max(f.begin for f in files)
            return ConflictError(name, commit.read_snapshot, last, "changed")
    return None


def _is_conflict(
    place: Place, change: TableChange, theirs: Sequence[DataFile], reads: Sequence[TableRead]
) -> bool:
    table = change.table
    # Appends never conflict with each other, whatever queries they come from.
    appends = not (table.unique or change.deletes or any(f.deletes for f in theirs))
    looked = [r for r in reads if r.by_statement or not appends]
    if any(r.meet is None for r in looked):
        return True
    others = _Rows(place, table, theirs)
    if any(_meets_any(r, others) for r in looked):
        return True
    return _share_rows(_Rows(place, table, change.feed), others)


@dataclass(frozen=True)
class _Rows:
    """The rows of some files with their weights: at the driver if they are few, else a frame."""

    place: Place
    table: Table
    files: Sequence[DataFile]

    def load(self) -> pa.Table | None:
        few = room_of_statement(self.place.settings).holds(self.files)
        if not few or not all(can_hold(c.type) for c in self.table.columns):
            return None
        parts = [from_storage(self.table, self.place.storage.read(self.table, f)) for f in self.files]
        if any(p is None for p in parts):
            return None
        return pa.concat_tables([arrow_schema(self.table).empty_table(), *parts])

    def frame(self) -> Frame:
        if (rows := self.load()) is not None:
            return local_frame(self.place.spark, self.table, rows)
        return rows_with_weights(self.place.spark, self.place.storage, self.table, self.files)


def _meets_any(looked: TableRead, others: _Rows) -> bool:
    if looked.meet is None:
        return True
    rows = others.frame().select(*[quote(c) for c in others.table.column_names])
    parts = range(0, len(looked.conditions), _ASKED_TOGETHER)
    try:
        return any(_has_rows(looked.meet(rows, looked.conditions[n : n + _ASKED_TOGETHER])) for n in parts)
    except QueryError:
        return True  # a value that a condition cannot judge: the statement itself shall tell, run again


def _has_rows(rows: Frame) -> bool:
    return bool(collect(rows.limit(1)).num_rows)


def _share_rows(mine: _Rows, theirs: _Rows) -> bool:
    """Whether both touch a key; without a key, whether I remove a row that they added or removed."""
    here, there = mine.load(), theirs.load()
    if here is None or there is None:
        return _share_rows_on_executors(mine, theirs, here, there)
    if mine.table.unique:
        names = [c.name for c in mine.table.key_columns]
        keys = {comparable_key(k) for k in row_tuples(here, names)}
        return any(comparable_key(k) in keys for k in row_tuples(there, names))
    removed = set(list_images(here.filter(pc.less(here.column(WEIGHT), 0))))
    return any(image in removed for image in list_images(there))


def _share_rows_on_executors(
    mine: _Rows, theirs: _Rows, here: pa.Table | None, there: pa.Table | None
) -> bool:
    table = mine.table
    mine, theirs = _prune_files(mine, there), _prune_files(theirs, here)
    if not mine.files or not theirs.files:
        return False
    same = " AND ".join(f"m.{quote(c.name)} <=> t.{quote(c.name)}" for c in identity_columns(table))
    only = "" if table.unique else f"WHERE m.{WEIGHT} < 0 "
    text = f"SELECT 1 FROM {{mine}} AS m LEFT SEMI JOIN {{theirs}} AS t ON {same} {only}"
    return _has_rows(run_sql(mine.place.spark, text, mine=mine.frame(), theirs=theirs.frame()))


def _prune_files(rows: _Rows, others: pa.Table | None) -> _Rows:
    """Without the files that cannot hold a key of the others."""
    columns = list_bounded_columns(rows.table) if rows.table.unique else []
    if others is None or not columns:
        return rows
    return _Rows(rows.place, rows.table, find_files_meeting(rows.files, columns, others))

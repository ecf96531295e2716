"""Files of a stream table -> the rows to publish: at the driver if they are few, else on the executors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.arrow import (
    arrow_schema,
    can_hold,
    negate_weights,
    single_weights,
    sum_weights,
    to_storage,
)
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.collect import collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.write import write_staged
from spark_trickle.targets.interface import RowsToPublish
from spark_trickle.txn.net import load_rows, net_change
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class ChangedRows:
    """What some change files come to."""

    work: Work
    table: Table
    files: Sequence[DataFile]

    @property
    def most(self) -> int:
        return sum(f.rows for f in self.files)

    @cached_property
    def few(self) -> pa.Table | None:
        """Few rows never leave this process."""
        if not self.files:
            return arrow_schema(self.table).empty_table()
        if not room_of_statement(self.work.place.settings).holds(self.files):
            return None
        rows = load_rows(self.work, self.table, self.files)
        return None if rows is None else single_weights(sum_weights(self.table, rows))

    @cached_property
    def frame(self) -> Frame:
        place = self.work.place
        return net_change(
            self.work, self.table, rows_with_weights(place.spark, place.storage, self.table, self.files)
        )

    def read_pieces(self, weight: int) -> Iterator[pa.Table]:
        if self.few is not None:
            chosen = self.few.filter(pc.equal(self.few.column(WEIGHT), weight)).drop_columns([WEIGHT])
            if chosen.num_rows:
                yield chosen
            return
        frame = self.frame.where(f"{WEIGHT} {'<' if weight < 0 else '>'} 0").drop(WEIGHT)
        yield from read_frame(self.work, self.table, frame, self.most)


@dataclass(frozen=True)
class AllRows:
    """All that a table holds."""

    work: Work
    table: Table

    @property
    def most(self) -> int:
        return self.work.row_count(self.table)

    @cached_property
    def few(self) -> pa.Table | None:
        if not all(can_hold(c.type) for c in self.table.columns):
            return None
        return collect_known(self.frame, room_of_statement(self.work.place.settings), self.most)

    @cached_property
    def frame(self) -> Frame:
        return self.work.rows(self.table).selectExpr("*", f"1 AS {WEIGHT}")

    def read_pieces(self, weight: int) -> Iterator[pa.Table]:
        if weight > 0:
            yield from read_frame(self.work, self.table, self.work.rows(self.table), self.most)


def read_frame(work: Work, table: Table, frame: Frame, most: int) -> Iterator[pa.Table]:
    """The rows of a frame in Arrow tables; many are written down first, so that memory stays bounded."""
    place = work.place
    few = collect_known(frame, room_of_statement(place.settings), most)
    if few is not None:
        yield few
        return
    folder = f"{place.storage.new_name()}-pushed"
    work.note_written(table, folder)
    write_staged(frame, place.storage.path(table, folder))
    for name in place.storage.list_parts(table, folder):
        yield from place.storage.read_batches(table, name)


@dataclass(frozen=True)
class Difference:
    """What a table holds beyond the rows of some files, and what these hold beyond it."""

    ours: RowsToPublish
    there: Table
    files: Sequence[DataFile]

    @property
    def work(self) -> Work:
        return self.ours.work

    @property
    def table(self) -> Table:
        return self.ours.table

    @property
    def most(self) -> int:
        return self.ours.most + sum(f.rows for f in self.files)

    @cached_property
    def few(self) -> pa.Table | None:
        if self.ours.few is None or not room_of_statement(self.work.place.settings).holds(self.files):
            return None
        held = load_rows(self.work, self.there, self.files)
        if held is None:
            return None
        rows = pa.concat_tables([to_storage(self.table, self.ours.few), negate_weights(held)])
        return single_weights(sum_weights(self.table, rows))

    @cached_property
    def frame(self) -> Frame:
        if not self.files:
            return self.ours.frame
        place = self.work.place
        held = rows_with_weights(place.spark, place.storage, self.there, self.files)
        gone = held.withColumn(WEIGHT, -held[WEIGHT])
        return net_change(self.work, self.table, self.ours.frame.unionByName(gone))

    def read_pieces(self, weight: int) -> Iterator[pa.Table]:
        frame = self.frame.where(f"{WEIGHT} = {weight}").drop(WEIGHT)
        yield from read_frame(self.work, self.table, frame, self.most)

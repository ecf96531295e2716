"""The changes since a table's last deletion-free state -> what they take away and add.

A table that is changed often in small steps has a short tail of small files. Reading them here, once,
spares every statement the Spark jobs that would read and sum them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.arrow import can_hold, from_storage, list_images, sum_weights
from spark_trickle.model.cache import Cache, Weighed
from spark_trickle.model.files import DataFile, Log
from spark_trickle.model.room import Room
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.frames import Session, local_frame
from spark_trickle.spark.read import NetTail, Replaced, Tail, identity_columns
from spark_trickle.txn.long_tail import LongTails, identity_of

_MOST_KEPT, _LEAST_KEPT = 64, 4  # tails in memory: that many small ones, or so many of the largest
_Short = Replaced | NetTail


class Tails:
    """Tails of tables, by the Spark session that reads them and the files they come from."""

    def __init__(self, warehouse: Warehouse, room: Room) -> None:
        self._storage = warehouse.storage
        self._room = room
        self._long = LongTails(warehouse)
        budget = _LEAST_KEPT * room.bytes
        least = budget // _MOST_KEPT
        self._known = Cache[tuple[object, ...], Weighed[_Short | None]](
            budget, weigh=lambda tail: max(tail.bytes, least)
        )

    def read(self, spark: Session, table: Table, log: Log) -> Tail | None:
        """None if there is no tail; rows that are here already, unless they are too many."""
        if not log.tail:
            return None
        short = self._short(spark, table, log)
        return short if short is not None else self._long.read(spark, table, log)

    def _short(self, spark: Session, table: Table, log: Log) -> _Short | None:
        if not self._room.holds(log.tail):
            return None
        key = (spark, *identity_of(table, log))
        memory = sum(f.memory for f in log.tail)
        return self._known.get(key, lambda: Weighed(self._load(spark, table, log), memory)).value

    def _load(self, spark: Session, table: Table, log: Log) -> _Short | None:
        if not all(can_hold(c.type) for c in table.columns):
            return None
        parts = [from_storage(table, self._storage.read(table, f)) for f in log.tail]
        if any(p is None for p in parts):
            return None
        if table.distinct_by:
            net = sum_weights(table, pa.concat_tables(parts))
            return _replaced(spark, table, net, net.filter(pc.greater(net.column(WEIGHT), 0)))
        if log.tail_is_whole:
            return _replaced(spark, table, pa.concat_tables(parts), _survivors(table, log.tail, parts))
        return NetTail(local_frame(spark, table, sum_weights(table, pa.concat_tables(parts))))


def _replaced(spark: Session, table: Table, rows: pa.Table, inserted: pa.Table) -> Replaced:
    identity = [c.name for c in identity_columns(table)]
    deleted = rows.filter(pc.less(rows.column(WEIGHT), 0)).select(identity)
    return Replaced(
        local_frame(spark, table, deleted),
        local_frame(spark, table, inserted.select(list(table.column_names))),
    )


def _survivors(table: Table, files: Sequence[DataFile], parts: Sequence[pa.Table]) -> pa.Table:
    """The added rows that no later change removes; a removal takes all equal rows that were there before."""
    removed_at: dict[Any, int] = {}
    keyed = [(f.as_of, list_images(part), part) for f, part in zip(files, parts, strict=True)]
    for as_of, keys, part in keyed:
        for key, weight in zip(keys, part.column(WEIGHT).to_pylist(), strict=True):
            if weight < 0:
                removed_at[key] = max(as_of, removed_at.get(key, as_of))
    kept = []
    for as_of, keys, part in keyed:
        weights = part.column(WEIGHT).to_pylist()
        chosen = [n for n, k in enumerate(keys) if weights[n] > 0 and removed_at.get(k, as_of) <= as_of]
        kept.append(part.take(pa.array(chosen, pa.int64())))
    return pa.concat_tables(kept)

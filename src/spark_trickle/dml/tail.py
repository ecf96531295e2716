"""The changes since a table's last deletion-free state -> their net, kept at the driver while they are few.

A table that is changed often in small steps has a short tail of small files. Reading them here, once,
spares every statement the Spark jobs that would read and sum them.
"""

from __future__ import annotations

from collections import OrderedDict

import pyarrow as pa

from spark_trickle.lake.files import Storage
from spark_trickle.model.arrow import can_hold, from_storage, summed
from spark_trickle.model.files import Log
from spark_trickle.model.table import Table
from spark_trickle.spark.frames import Frame, Session, local_frame

_KEPT = 64  # tails in memory


class Tails:
    """Net changes of tables, by the files they come from."""

    def __init__(self, storage: Storage, spark: Session, most_rows: int) -> None:
        self._storage = storage
        self._spark = spark
        self._most_rows = most_rows
        self._known: OrderedDict[tuple[object, ...], Frame | None] = OrderedDict()

    def net(self, table: Table, log: Log) -> Frame | None:
        """The consolidated tail as rows that are here already; None if it is too long for that."""
        if not log.tail or sum(f.rows for f in log.tail) > self._most_rows:
            return None
        key = (table.columns, *(f.path for f in log.tail))
        if key not in self._known:
            self._known[key] = self._sum(table, log)
            if len(self._known) > _KEPT:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]

    def _sum(self, table: Table, log: Log) -> Frame | None:
        if not all(can_hold(c.type) for c in table.columns):
            return None
        parts = [from_storage(table, self._storage.read(table, f)) for f in log.tail]
        if any(p is None for p in parts):
            return None
        return local_frame(self._spark, summed(table, pa.concat_tables(parts)))

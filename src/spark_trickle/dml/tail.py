"""The changes since a table's last deletion-free state -> what they take away and add, while they are few.

A table that is changed often in small steps has a short tail of small files. Reading them here, once,
spares every statement the Spark jobs that would read and sum them. Of a longer tail only the keys are read
here: they tell which rows went and which are the last of their key, so the rows themselves need no sum.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_trickle.dml.last_change import Keys, Numbers, last_changes, numbered, words
from spark_trickle.lake.files import Storage
from spark_trickle.model.arrow import can_hold, from_storage, images, summed
from spark_trickle.model.files import DataFile, Log
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Column, Table
from spark_trickle.model.types import Scalar
from spark_trickle.spark.frames import Frame, Session, local_frame
from spark_trickle.spark.read import (
    FILE,
    WORDS,
    Bits,
    Counted,
    Guided,
    Replaced,
    identity_columns,
    rows_with_weights,
    tail_of_keys,
)

_KEPT, _KEPT_KEYS = 64, 8  # tails in memory, and of how many longer ones what their keys tell
_MOST_KEYS = 10_000_000  # values of keys that are read here
_MOST_BYTES = 2**30  # that they may have
_MOST_BITS = 2**26  # that are made here
_MOST_SUSPECT = 0.5  # of the numbers of a column; what most rows have tells nothing
_MOST_OVERTAKEN = 200_000  # rows that are named to Spark
_Tail = Replaced | Counted
_Marks = tuple[Bits | None, Frame | None]  # which keys went; which added rows went later, by key and file
# What PySpark takes from Arrow as it is, and what is equal in both if it is the same.
_COMPARABLE = tuple(Scalar(name) for name in ("byte", "short", "integer", "long", "string", "date"))
_Value = TypeVar("_Value")


class Tails:
    """Tails of tables, by the files they come from."""

    def __init__(self, storage: Storage, spark: Session, most_rows: int) -> None:
        self._storage = storage
        self._spark = spark
        self._most_rows = most_rows
        self._known = _Latest[_Tail | None](_KEPT)
        self._keys = _Latest[_Marks | None](_KEPT_KEYS)
        self._numbers = _Latest[Bits | None](_KEPT_KEYS)

    def read(self, table: Table, log: Log) -> _Tail | None:
        """The tail as rows that are here already; None if it is too long for that."""
        if not log.tail or sum(f.rows for f in log.tail) > self._most_rows:
            return None
        return self._known.get(_identity(table, log), lambda: self._load(table, log))

    def read_keys(self, table: Table, log: Log, span: tuple[int, int] | None) -> Replaced | None:
        """The tail of a table with a key; None if it is too long. A span has a bit for each number."""
        if not table.distinct_by or (span is None and log.tail_is_one_change):
            return None
        if span is not None and span[1] - span[0] >= _MOST_BITS:
            return None
        if len(table.distinct_by) * sum(f.rows for f in log.tail) > _MOST_KEYS:
            return None
        if any(c.type not in _COMPARABLE for c in table.distinct_by):
            return None
        marks = self._keys.get(_identity(table, log), lambda: self._marks(table, log, span))
        if marks is None:
            return None
        return tail_of_keys(self._spark, self._storage.locate, table, log, *marks)

    def read_numbers(self, table: Table, log: Log, column: Column, low: int, high: int) -> Guided | None:
        """The numbers from `low` to `high` that a column has in the rows that went; None if most of them."""
        if sum(f.rows for f in log.tail) > _MOST_KEYS or high - low >= _MOST_BITS:
            return None

        def make() -> Bits | None:
            parts = self._columns(table, log, (column,))
            if parts is None:
                return None
            rows = pa.concat_tables(parts)
            gone = np.zeros(high - low + 1, np.bool_)
            numbers = rows.filter(pc.less(rows.column(WEIGHT), 0)).column(0).to_numpy()
            gone[numbers.astype("int64") - low] = True
            return self._bits(gone, low) if gone.mean() <= _MOST_SUSPECT else None

        bits = self._numbers.get((column.id, *_identity(table, log)), make)
        if bits is None:
            return None
        rows = rows_with_weights(self._spark, self._storage.locate, table, log.tail)
        return Guided(rows, column.name, bits)

    def _marks(self, table: Table, log: Log, span: tuple[int, int] | None) -> _Marks | None:
        parts = self._columns(table, log, table.distinct_by)
        if parts is None:
            return None
        keys = pa.concat_tables(parts)
        if keys.nbytes > _MOST_BYTES:
            return None
        weights = keys.column(WEIGHT).to_numpy()
        if span is None:
            places, low, size = numbered(keys.drop_columns([WEIGHT])), 0, keys.num_rows
        else:
            low, size = span[0], span[1] - span[0] + 1
            places = keys.column(0).to_numpy().astype("int64") - low
        if places is None:
            return None
        ends = list(accumulate(f.rows for f in log.tail))
        slices = [slice(end - f.rows, end) for f, end in zip(log.tail, ends, strict=True)]
        files = [
            Keys(f.as_of, f.path, places[s], weights[s] < 0) for f, s in zip(log.tail, slices, strict=True)
        ]
        gone, overtaken = last_changes(files, size)
        if sum(map(len, overtaken.values())) > _MOST_OVERTAKEN:
            return None
        return self._bits(gone, low) if span else None, self._overtaken(table, log, parts, overtaken)

    def _columns(self, table: Table, log: Log, columns: tuple[Column, ...]) -> list[pa.Table] | None:
        """Some columns of each file, and the weights."""
        narrow = replace(table, columns=columns)
        ids = [*(c.id for c in columns), WEIGHT_ID]
        found = [from_storage(narrow, self._storage.read_columns(table, f, ids)) for f in log.tail]
        return None if any(rows is None for rows in found) else found

    def _bits(self, gone: NDArray[np.bool_], low: int) -> Bits:
        row = pa.table({WORDS: pa.array([words(gone)], pa.list_(pa.int64()))})
        return Bits(low, low + len(gone) - 1, self._spark.createDataFrame(row))

    def _overtaken(
        self, table: Table, log: Log, parts: Sequence[pa.Table], overtaken: Mapping[str, Numbers]
    ) -> Frame | None:
        if not overtaken:
            return None
        by_path = {f.path: part for f, part in zip(log.tail, parts, strict=True)}
        rows = [
            by_path[path]
            .take(chosen)
            .drop_columns([WEIGHT])
            .append_column(FILE, pa.repeat(path.rpartition("/")[2], len(chosen)))
            for path, chosen in overtaken.items()
        ]
        return self._spark.createDataFrame(pa.concat_tables(rows).combine_chunks())

    def _load(self, table: Table, log: Log) -> _Tail | None:
        if not all(can_hold(c.type) for c in table.columns):
            return None
        parts = [from_storage(table, self._storage.read(table, f)) for f in log.tail]
        if any(p is None for p in parts):
            return None
        if table.distinct_by:
            net = summed(table, pa.concat_tables(parts))
            return self._replaced(table, net, net.filter(pc.greater(net.column(WEIGHT), 0)))
        if log.tail_is_whole:
            return self._replaced(table, pa.concat_tables(parts), _survivors(table, log.tail, parts))
        return Counted(local_frame(self._spark, table, summed(table, pa.concat_tables(parts))))

    def _replaced(self, table: Table, rows: pa.Table, come: pa.Table) -> Replaced:
        identity = [c.name for c in identity_columns(table)]
        gone = rows.filter(pc.less(rows.column(WEIGHT), 0)).select(identity)
        return Replaced(
            local_frame(self._spark, table, gone),
            local_frame(self._spark, table, come.select(list(table.column_names))),
        )


def _identity(table: Table, log: Log) -> tuple[object, ...]:
    return (table.columns, table.distinct_by, *(f.path for f in log.tail))


class _Latest(Generic[_Value]):
    """The values that were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[tuple[object, ...], _Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        with self._lock:
            if key not in self._values:
                self._values[key] = make()
                if len(self._values) > self._most:
                    self._values.popitem(last=False)
            self._values.move_to_end(key)
            return self._values[key]


def _survivors(table: Table, files: Sequence[DataFile], parts: Sequence[pa.Table]) -> pa.Table:
    """The added rows that no later change removes; a removal takes all equal rows that were there before."""
    removed_at: dict[Any, int] = {}
    keyed = [(f.as_of, images(part), part) for f, part in zip(files, parts, strict=True)]
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

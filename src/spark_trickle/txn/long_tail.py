"""A tail with too many rows for the driver -> what its keys and numbers tell, which spares a sum of the rows.

With a key, they tell which rows went and which are the last of their key. Without one, the numbers of a
column tell which rows cannot have gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.model.arrow import from_storage
from spark_trickle.model.cache import Cache, Weighed
from spark_trickle.model.files import Log
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Scalar
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.frames import Frame, Session
from spark_trickle.spark.read import (
    FILE,
    WORDS,
    Bits,
    Guided,
    Replaced,
    Tail,
    rows_with_weights,
    tail_of_files,
    tail_of_keys,
)
from spark_trickle.txn.last_change import FileKeys, Numbers, find_last_changes, number_rows, pack_bits

_BUDGET, _LEAST = 128 * 2**20, 8 * 2**20  # bytes of what is known of all, and what each counts for
_MANY_KEYS = 100_000  # below that a hash join is as fast as bits that Spark has to make first
_MOST_KEYS = 10_000_000  # values of keys that are read here
_MOST_BYTES = 2**30  # that rows with texts among their keys may have
_MOST_BITS = 2**26  # that are made here
_MOST_SUSPECT = 0.5  # of the numbers of a column; what most rows have tells nothing
_MOST_OVERTAKEN = 200_000  # rows that are named to Spark
_WHOLE_NUMBERS = tuple(Scalar(name) for name in ("byte", "short", "integer", "long"))
# What PySpark takes from Arrow as it is, and what is equal in both if it is the same.
_COMPARABLE = (*_WHOLE_NUMBERS, Scalar("string"), Scalar("date"))
_Span = tuple[int, int]  # the least and the greatest number of a column
_Marks = tuple[Bits | None, Frame | None]  # which keys went; which added rows went later, by key and file


class LongTails:
    """What the driver knows of long tails, by the files they come from."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._engine, self._storage = warehouse.engine, warehouse.storage
        self._marks = Cache[tuple[object, ...], Weighed[_Marks | None]](_BUDGET // 2, weigh=_weigh)
        self._numbers = Cache[tuple[object, ...], Weighed[Bits | None]](_BUDGET // 2, weigh=_weigh)

    def read(self, spark: Session, table: Table, log: Log) -> Tail:
        key = table.distinct_by
        spans = self._find_spans(log, key or table.columns)
        span = spans.get(key[0]) if len(key) == 1 else None
        known = (
            self._read_by_key(spark, table, log, span) if key else self._find_guide(spark, table, log, spans)
        )
        if known is not None:
            return known
        span = span if log.tail_deletes >= _MANY_KEYS else None
        return tail_of_files(spark, self._storage, table, log, span)

    def _find_spans(self, log: Log, columns: Sequence[TableColumn]) -> dict[TableColumn, _Span]:
        """The bounds of columns in a tail where a bit for each number between them is worth its space."""
        whole = {c.id: c for c in columns if c.type in _WHOLE_NUMBERS}
        if not whole:
            return {}
        with open_reader(self._engine) as connection:
            files = read.add_bounds(connection, log.tail, list(whole))
        found: dict[TableColumn, _Span] = {}
        for column_id, column in whole.items():
            # Files of this transaction come with the bounds of all their columns.
            stats = [s for f in files for s in f.stats if s.column_id == column_id]
            lows = [int(s.low) for s in stats if s.low is not None]
            highs = [int(s.high) for s in stats if s.high is not None]
            if any(s.nulls != 0 for s in stats):  # there is no bit for NULL
                continue
            if len(lows) == len(highs) == len(log.tail) and _is_worth(log, max(highs) - min(lows)):
                found[column] = (min(lows), max(highs))
        return found

    # --- with a key ------------------------------------------------------------------------------

    def _read_by_key(self, spark: Session, table: Table, log: Log, span: _Span | None) -> Replaced | None:
        """None if there is too much to read here, or nothing to gain. A span has a bit for each number."""
        if span is None and log.tail_is_one_change:
            return None
        if span is not None and span[1] - span[0] >= _MOST_BITS:
            return None
        if len(table.distinct_by) * sum(f.rows for f in log.tail) > _MOST_KEYS:
            return None
        if any(c.type not in _COMPARABLE for c in table.distinct_by):
            return None
        if any(c.type == Scalar("string") for c in table.distinct_by) and log.tail_memory > _MOST_BYTES:
            return None
        marks = self._marks.get(
            (spark, *identity_of(table, log)), lambda: self._mark_keys(spark, table, log, span)
        ).value
        if marks is None:
            return None
        return tail_of_keys(spark, self._storage, table, log, *marks)

    def _mark_keys(
        self, spark: Session, table: Table, log: Log, span: _Span | None
    ) -> Weighed[_Marks | None]:
        parts = self._read_columns(table, log, table.distinct_by)
        if parts is None:
            return Weighed(None, 0)
        keys = pa.concat_tables(parts)
        if span is None:
            places, low, size = number_rows(keys.drop_columns([WEIGHT])), 0, keys.num_rows
        else:
            low, size = span[0], span[1] - span[0] + 1
            places = keys.column(0).to_numpy().astype("int64") - low
        if places is None:
            return Weighed(None, 0)
        ends = np.cumsum([f.rows for f in log.tail])[:-1]
        negative = np.split(keys.column(WEIGHT).to_numpy() < 0, ends)
        files = [
            FileKeys(f.as_of, f.path, mine, gone)
            for f, mine, gone in zip(log.tail, np.split(places, ends), negative, strict=True)
        ]
        went, overtaken = find_last_changes(files, size)
        if sum(map(len, overtaken.values())) > _MOST_OVERTAKEN:
            return Weighed(None, 0)
        bits = _make_bits(spark, went, low) if span else None
        rows = _list_overtaken(log, parts, overtaken)
        frame = create_frame(spark, rows) if rows is not None else None
        return Weighed((bits, frame), (size // 8 if span else 0) + (rows.nbytes if rows is not None else 0))

    # --- without a key ---------------------------------------------------------------------------

    def _find_guide(
        self, spark: Session, table: Table, log: Log, spans: Mapping[TableColumn, _Span]
    ) -> Guided | None:
        """The column tells most whose numbers are spread the widest; None if most rows have one that went."""
        if not spans:
            return None
        column, (low, high) = max(spans.items(), key=lambda item: item[1][1] - item[1][0])
        if sum(f.rows for f in log.tail) > _MOST_KEYS or high - low >= _MOST_BITS:
            return None
        key = (spark, column.id, *identity_of(table, log))
        bits = self._numbers.get(
            key,
            lambda: Weighed(self._find_numbers_gone(spark, table, log, column, low, high), (high - low) // 8),
        ).value
        if bits is None:
            return None
        rows = rows_with_weights(spark, self._storage, table, log.tail)
        return Guided(rows, column.name, bits)

    def _find_numbers_gone(
        self, spark: Session, table: Table, log: Log, column: TableColumn, low: int, high: int
    ) -> Bits | None:
        parts = self._read_columns(table, log, (column,))
        if parts is None:
            return None
        rows = pa.concat_tables(parts)
        gone = np.zeros(high - low + 1, np.bool_)
        numbers = rows.filter(pc.less(rows.column(WEIGHT), 0)).column(0).to_numpy()
        gone[numbers.astype("int64") - low] = True
        return _make_bits(spark, gone, low) if gone.mean() <= _MOST_SUSPECT else None

    # --- both ------------------------------------------------------------------------------------

    def _read_columns(
        self, table: Table, log: Log, columns: tuple[TableColumn, ...]
    ) -> list[pa.Table] | None:
        """Some columns of each file, and the weights."""
        narrow = replace(table, columns=columns)
        ids = [*(c.id for c in columns), WEIGHT_ID]
        found = [from_storage(narrow, self._storage.read_columns(table, f, ids)) for f in log.tail]
        return None if any(rows is None for rows in found) else found


def identity_of(table: Table, log: Log) -> tuple[object, ...]:
    """Everything that a tail depends on."""
    return (table.columns, table.distinct_by, *(f.path for f in log.tail))


def _is_worth(log: Log, width: int) -> bool:
    return width < 64 * max(log.tail_deletes, _MANY_KEYS)


def _weigh(known: Weighed[object]) -> int:
    return max(known.bytes, _LEAST)


def _list_overtaken(log: Log, parts: Sequence[pa.Table], overtaken: Mapping[str, Numbers]) -> pa.Table | None:
    """Overtaken rows by key and file."""
    rows = [
        part.take(overtaken[f.path])
        .drop_columns([WEIGHT])
        .append_column(FILE, pa.repeat(f.tag, len(overtaken[f.path])))
        for f, part in zip(log.tail, parts, strict=True)
        if f.path in overtaken
    ]
    return pa.concat_tables(rows).combine_chunks() if rows else None


def _make_bits(spark: Session, gone: NDArray[np.bool_], low: int) -> Bits:
    row = pa.table({WORDS: pa.array([pack_bits(gone)], pa.list_(pa.int64()))})
    return Bits(low, low + len(gone) - 1, create_frame(spark, row))

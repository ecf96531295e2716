"""A column in as few bytes as its values need, and the places of each value in it.

Numbers, dates and decimals are kept as the smallest whole numbers that hold them, texts that are repeated as
numbers of the different ones. What is taken out of it is what was put in, of the same type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.arrow import combine_chunks

Numbers = np.ndarray[Any, np.dtype[Any]]

_SIZES = (np.int8, np.int16, np.int32, np.int64)
_EIGHT_BYTES = 18  # digits of a decimal that fit


@dataclass(frozen=True)
class Packed:
    """`numbers` stand for the values, or for places in `words`; without them `plain` is the column."""

    type: pa.DataType
    numbers: Numbers | None = None
    nulls: Numbers | None = None
    words: pa.Array | None = None
    plain: pa.Array | None = None

    @property
    def bytes(self) -> int:
        arrays = (self.numbers, self.nulls, self.words, self.plain)
        return sum(a.nbytes for a in arrays if a is not None)

    def take(self, places: Numbers) -> pa.Array:
        if self.numbers is None:
            assert self.plain is not None
            return self.plain.take(pa.array(places))
        numbers = self.numbers[places]
        mask = None if self.nulls is None else self.nulls[places]
        if self.words is not None:
            return self.words.take(pa.array(numbers, mask=mask))
        if pa.types.is_decimal(self.type):
            return _make_decimals(numbers, mask, self.type)
        width = np.int32 if self.type.bit_width == 32 else np.int64
        if pa.types.is_temporal(self.type):
            return pa.array(numbers.astype(width), mask=mask).view(self.type)
        return pa.array(numbers, mask=mask).cast(self.type)

    def find_numbers(self, values: pa.Array) -> Numbers | None:
        """The numbers that stand for some values without nulls; those that no value can have are left out."""
        if self.numbers is None or values.type != self.type:
            return None
        if self.words is not None:
            found = np.asarray(pc.index_in(values, value_set=self.words).drop_null())
        else:
            found = _to_whole_numbers(values)
        ends = np.iinfo(self.numbers.dtype)
        return found[(found >= ends.min) & (found <= ends.max)].astype(self.numbers.dtype)

    def scan_values(self, values: pa.Array) -> Numbers | None:
        """The rows that have one of some values, found by looking at all; None if that is for Spark."""
        kind = self.type
        alike = pa.types.is_string(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
        if self.plain is None or values.type != kind or not alike:
            return None
        return np.flatnonzero(np.asarray(pc.is_in(self.plain, value_set=values)))


def pack_column(column: pa.ChunkedArray | pa.Array) -> Packed:
    values = combine_chunks(column)
    nulls = np.asarray(values.is_null()) if values.null_count else None
    if pa.types.is_string(values.type):
        coded = values.dictionary_encode()
        if 4 * len(coded.dictionary) > len(values):
            return Packed(values.type, plain=values)
        codes = _shrink_numbers(np.asarray(pc.fill_null(coded.indices, 0)))
        return Packed(values.type, codes, nulls, coded.dictionary)
    if not _is_whole(values.type):
        return Packed(values.type, plain=values)
    return Packed(values.type, _shrink_numbers(_to_whole_numbers(values, nulls)), nulls)


def _is_whole(kind: pa.DataType) -> bool:
    if pa.types.is_decimal128(kind):
        return bool(kind.precision <= _EIGHT_BYTES)
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _to_whole_numbers(values: pa.Array, nulls: Numbers | None = None) -> Numbers:
    """The whole numbers behind values; 0 for null."""
    if pa.types.is_decimal128(values.type):
        pairs = np.frombuffer(values.buffers()[1], np.int64).reshape(-1, 2)
        found = pairs[values.offset : values.offset + len(values), 0]
    else:
        width = pa.int32() if values.type.bit_width == 32 else pa.int64()
        plain = values.view(width) if pa.types.is_temporal(values.type) else values
        found = np.asarray(pc.fill_null(plain, 0))
    return found if nulls is None else np.where(nulls, 0, found)


def _shrink_numbers(numbers: Numbers) -> Numbers:
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    for size in _SIZES:
        if np.iinfo(size).min <= low and high <= np.iinfo(size).max:
            return np.ascontiguousarray(numbers, size)
    raise AssertionError("integers have at most eight bytes")


def _make_decimals(numbers: Numbers, mask: Numbers | None, kind: pa.DataType) -> pa.Array:
    """A decimal is a whole number of sixteen bytes, the low half first."""
    halves = np.empty((len(numbers), 2), np.int64)
    halves[:, 0] = numbers
    halves[:, 1] = halves[:, 0] >> 63
    valid = None
    if mask is not None:
        valid = pa.py_buffer(np.packbits(~mask, bitorder="little"))
    return pa.Array.from_buffers(kind, len(numbers), [valid, pa.py_buffer(halves)])


@dataclass(frozen=True)
class Places:
    """Where each value of a packed column is: its numbers in order, and the rows that they come from."""

    ordered: Numbers
    rows: Numbers | None  # None if the column is in order itself

    @property
    def bytes(self) -> int:
        return 0 if self.rows is None else self.ordered.nbytes + self.rows.nbytes

    def find_rows(self, numbers: Numbers) -> Numbers:
        """The rows that have one of some different numbers."""
        first = np.searchsorted(self.ordered, numbers, "left")
        counts = np.searchsorted(self.ordered, numbers, "right") - first
        before = np.cumsum(counts) - counts
        found: Numbers = np.arange(counts.sum()) + np.repeat(first - before, counts)
        return found if self.rows is None else self.rows[found]


def index_places(column: Packed) -> Places:
    """Nulls have no place: nothing equals them."""
    assert column.numbers is not None
    if column.nulls is None and bool((column.numbers[:-1] <= column.numbers[1:]).all()):
        return Places(column.numbers, None)
    kept = np.arange(len(column.numbers)) if column.nulls is None else np.flatnonzero(~column.nulls)
    order = kept[np.argsort(column.numbers[kept])]
    return Places(column.numbers[order], order.astype(np.uint32))

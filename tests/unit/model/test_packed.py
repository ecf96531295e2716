"""Packed columns give back what was put in, and find every place of a value and no other."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.model.packed import index_places, pack_column

KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int64(): st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)),
    pa.decimal128(15, 2): st.integers(-(10**15) + 1, 10**15 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(38, 2): st.sampled_from([Decimal("0.00"), Decimal("1e30")]),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)),
    pa.timestamp("us", tz="UTC"): st.datetimes(
        datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC)
    ),
    pa.string(): st.sampled_from(["", "a", "b", "é"]),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -1.5, 1e300]),
    pa.list_(pa.int32()): st.lists(st.integers(0, 9), max_size=2),
}


@given(st.data())
def test_what_goes_in_comes_out(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(list(KINDS)))
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind]), max_size=24))
    column = pa.array(values, kind)
    if data.draw(st.booleans()):
        column = column.slice(len(values) // 2)
    packed = pack_column(pa.chunked_array([column]))
    chosen = np.array(data.draw(st.lists(st.integers(0, max(len(column) - 1, 0)), max_size=9)), np.int64)
    chosen = chosen[: len(column) and None]
    assert packed.take(chosen).equals(column.take(pa.array(chosen)))


@given(st.data())
def test_every_place_of_a_value(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([k for k in KINDS if not pa.types.is_nested(k)]))
    values = data.draw(st.lists(st.one_of(st.none(), KINDS[kind]), max_size=24))
    asked = data.draw(st.lists(KINDS[kind], max_size=5, unique=True))
    packed = pack_column(pa.array(values, kind))
    numbers = packed.find_numbers(pa.array(asked, kind))
    if numbers is not None:
        found = index_places(packed).find_rows(numbers)
    else:
        scanned = packed.scan_values(pa.array(asked, kind))
        assert (scanned is None) == pa.types.is_floating(kind)
        if scanned is None:
            return
        found = scanned
    assert sorted(found.tolist()) == [n for n, v in enumerate(values) if v in asked]


def test_a_column_in_order_needs_no_list_of_places() -> None:
    assert index_places(pack_column(pa.array([1, 1, 5]))).bytes == 0
    assert index_places(pack_column(pa.array([5, 1, 1]))).bytes > 0


@pytest.mark.parametrize(("values", "width"), [([1, -128], 1), ([300], 2), ([70_000], 4), ([2**40], 8)])
def test_numbers_take_as_few_bytes_as_they_need(values: list[int], width: int) -> None:
    assert pack_column(pa.array(values, pa.int64())).bytes == width * len(values)


def test_values_of_another_type_are_not_looked_for() -> None:
    assert pack_column(pa.array([1, 2], pa.int64())).find_numbers(pa.array([1], pa.int32())) is None

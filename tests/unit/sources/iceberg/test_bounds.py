"""Bounds in manifests -> values; what cannot be told is left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from spark_trickle.sources.iceberg.bounds import read_bounds
from spark_trickle.sources.interface import ColumnBounds
from tests.unit.sources.iceberg.test_deletes import FILE

MICROSECOND = 1_714_566_615_123_456
LOCAL = datetime(2024, 5, 1, 12, 30, 15, 123456)


def bounds_of(kind: IcebergType, low: bytes | None, high: bytes | None, masked: bool = False) -> Any:
    schema = Schema(NestedField(1, "c", kind))
    lows, highs = ({1: b} if b is not None else {} for b in (low, high))
    return read_bounds(schema, replace(FILE, lows=lows, highs=highs, nulls={1: 2}), masked).get("c")


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        (IntegerType(), -5, -5),
        (LongType(), 2**40, 2**40),
        (DecimalType(38, 3), Decimal("-12345678901234567890123456789012345.678"), None),
        (DateType(), -1, date(1969, 12, 31)),
        (StringType(), "ä\N{PILE OF POO}", None),
        (TimestampType(), MICROSECOND, LOCAL),
        (TimestamptzType(), MICROSECOND, LOCAL.replace(tzinfo=UTC)),
    ],
)
def test_values(kind: Any, stored: Any, value: Any) -> None:
    found = bounds_of(kind, to_bytes(kind, stored), to_bytes(kind, stored))
    expected = stored if value is None else value
    assert found == ColumnBounds(2, expected, expected)


def test_a_file_that_is_older_than_the_type() -> None:
    assert bounds_of(LongType(), to_bytes(IntegerType(), -7), to_bytes(IntegerType(), 7)) == ColumnBounds(
        2, -7, 7
    )
    day = to_bytes(DateType(), 1)
    assert bounds_of(TimestampType(), day, day) == ColumnBounds(2, None, None)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (LongType(), b"\x01" * 8, None),  # one alone says too little
        (DateType(), (2**31 - 1).to_bytes(4, "little"), (2**31 - 1).to_bytes(4, "little")),
        (StringType(), b"\xff", b"\xff"),
    ],
)
def test_unknown(kind: Any, low: bytes | None, high: bytes | None) -> None:
    assert bounds_of(kind, low, high) == ColumnBounds(2, None, None)


def test_floats_have_none() -> None:
    assert bounds_of(DoubleType(), to_bytes(DoubleType(), 1.0), to_bytes(DoubleType(), 2.0)) is None


def test_nulls_of_masked_rows_were_counted_too() -> None:
    one = to_bytes(LongType(), 1)
    assert bounds_of(LongType(), one, one, masked=True) == ColumnBounds(None, 1, 1)

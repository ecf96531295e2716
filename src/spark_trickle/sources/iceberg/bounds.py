"""What a manifest says of the columns of a file -> bounds, as far as they hold for each of its rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.decimal import unscaled_to_decimal

from spark_trickle.sources.iceberg.manifests import ListedFile
from spark_trickle.sources.interface import ColumnBounds

_EPOCH = datetime(1970, 1, 1)


def read_bounds(schema: Schema, file: ListedFile, masked: bool) -> Mapping[str, ColumnBounds]:
    """Of columns of the table; parts of nested ones have none.

    Texts are cut after some letters, and an upper bound is then rounded up: both still hold.
    """
    found = {}
    for field in schema.fields:
        kind = field.field_type
        if isinstance(kind, _BOUNDED):
            low = _parse_bound(kind, file.lows.get(field.field_id))
            high = _parse_bound(kind, file.highs.get(field.field_id))
            if low is None or high is None:
                low = high = None
            # Rows that are masked were counted too.
            nulls = None if masked else file.nulls.get(field.field_id)
            found[field.name] = ColumnBounds(nulls, low, high)
    return found


# Floats have none: NaN, which is above all of them, is left out of their bounds.
_BOUNDED = (IntegerType, LongType, DecimalType, DateType, StringType, TimestampType, TimestamptzType)


def _parse_bound(kind: IcebergType, given: bytes | None) -> Any:
    """None where it cannot be told; a column may have had another type when its file was written."""
    if given is None:
        return None
    try:
        match kind:
            case IntegerType() | LongType():
                return int.from_bytes(given, "little", signed=True)
            case DecimalType():
                return unscaled_to_decimal(int.from_bytes(given, "big", signed=True), kind.scale)
            case StringType():
                return given.decode("utf-8")
            case DateType() if len(given) == 4:
                return date(1970, 1, 1) + timedelta(days=int.from_bytes(given, "little", signed=True))
            case TimestampType() | TimestamptzType() if len(given) == 8:
                found = _EPOCH + timedelta(microseconds=int.from_bytes(given, "little", signed=True))
                return found.replace(tzinfo=UTC) if isinstance(kind, TimestamptzType) else found
    except (OverflowError, UnicodeDecodeError):
        return None
    return None

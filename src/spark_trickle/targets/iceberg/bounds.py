"""What a new file holds -> its entry in a manifest, with the counts and bounds of its columns."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from spark_trickle.model.files import ColumnStats
from spark_trickle.targets.files import NewFile

_LETTERS = 16  # of a text that are told as a bound, as Iceberg's own writers do


def describe_file(file: NewFile, path: str, schema: Schema, spec_id: int) -> DataFile:
    """Of columns and of parts of structs; lists have neither counts nor bounds."""
    known = {s.column_id: s for s in file.stats}
    bounds = {id: pair for id, s in known.items() if (pair := _make_bounds(_find_type(schema, id), s))}
    found = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        column_sizes={id: s.bytes for id, s in known.items()},
        value_counts={id: s.values for id, s in known.items()},
        null_value_counts={id: s.nulls for id, s in known.items() if s.nulls is not None},
        nan_value_counts={},
        lower_bounds={id: low for id, (low, _) in bounds.items() if low is not None},
        upper_bounds={id: high for id, (_, high) in bounds.items() if high is not None},
    )
    found.spec_id = spec_id
    return found


def _find_type(schema: Schema, id: int) -> IcebergType:
    return schema.find_field(id).field_type


def _make_bounds(kind: IcebergType, stats: ColumnStats) -> tuple[bytes | None, bytes | None] | None:
    if stats.low is None or stats.high is None or not isinstance(kind, PrimitiveType):
        return None
    if isinstance(kind, StringType):
        high = truncate_upper_bound_text_string(stats.high, _LETTERS)
        return stats.low[:_LETTERS].encode(), None if high is None else high.encode()
    low, high = (_parse_bound(kind, text) for text in (stats.low, stats.high))
    if low is None or high is None:
        return None
    return to_bytes(kind, low), to_bytes(kind, high)


def _parse_bound(kind: PrimitiveType, text: str) -> Any:
    """A bound out of the text that the catalog of a warehouse would have; None if it is of no use."""
    match kind:
        case BooleanType():
            return text == "1"
        case IntegerType() | LongType():
            return int(text)
        case FloatType() | DoubleType():
            return float(text)
        case DecimalType():
            return Decimal(text)
        case DateType():
            return date.fromisoformat(text)
        case TimestampType() | TimestamptzType():
            return datetime.fromisoformat(text)
    return None

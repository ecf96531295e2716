"""A value of a column as Arrow has it -> its JSON text, exactly: what `sources/kafka/values` reads back.

Days and instants come as whole numbers, since Python's calendar is shorter than Spark's.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_trickle.errors import TargetValueError, UnsupportedError
from spark_trickle.model.arrow import can_hold, choose_countable
from spark_trickle.model.table import TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, sql_name

Write = Callable[[Any], str]

_INTEGERS = ("byte", "short", "integer", "long")
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()


def quote_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def write_column(name: str, kind: ColumnType, values: pa.ChunkedArray) -> list[str]:
    """The JSON texts of a column."""
    write = make_writer(name, kind)
    return [write(v) for v in values.cast(choose_countable(values.type)).to_pylist()]


def require_types(columns: Sequence[TableColumn]) -> None:
    """Refuse columns whose values have no text that our own source would read as the same."""
    for column in columns:
        if not can_hold(column.type):
            raise UnsupportedError(
                f'{sql_name(column.type)} for column "{column.name}" of records', "Cast it in the query."
            )


def make_writer(name: str, kind: ColumnType) -> Write:
    """How the values of a column are written; NULL is null."""
    match kind:
        case Array(element):
            return _or_null(_write_list(make_writer(f"{name}[]", element)))
        case Struct(fields):
            return _or_null(_write_struct({f.name: make_writer(f"{name}.{f.name}", f.type) for f in fields}))
        case Scalar():
            return _or_null(_find_writer(name, kind))


def _find_writer(name: str, kind: Scalar) -> Write:
    if kind.name in _INTEGERS:
        return str
    if kind.name.startswith("decimal"):
        return _write_decimal
    if kind.name.startswith(("varchar", "char")):
        return quote_text
    match kind.name:
        case "float" | "double":
            return _write_float
        case "string":
            return quote_text
        case "boolean":
            return _write_boolean
        case "binary":
            return _write_bytes
        case "date":
            return _explain(name, kind, _write_day)
        case "timestamp":
            return _explain(name, kind, lambda micros: f'"{_show_moment(micros)}Z"')
        case "timestamp_ntz":
            return _explain(name, kind, lambda micros: f'"{_show_moment(micros)}"')
    raise UnsupportedError(f'{sql_name(kind)} for column "{name}" of records', "Cast it in the query.")


def _or_null(write: Write) -> Write:
    return lambda value: "null" if value is None else write(value)


def _explain(name: str, kind: Scalar, write: Write) -> Write:
    def attempt(value: Any) -> str:
        try:
            return write(value)
        except (ValueError, OverflowError):
            raise TargetValueError(
                name, f"a {sql_name(kind)} of a record", f"{value} since 1970, beyond the years 1 to 9999"
            ) from None

    return attempt


def _write_list(write: Write) -> Write:
    return lambda values: "[" + ",".join([write(v) for v in values]) + "]"


def _write_struct(inner: dict[str, Write]) -> Write:
    named = [(name, f"{quote_text(name)}:", write) for name, write in inner.items()]
    return lambda value: "{" + ",".join([start + write(value[name]) for name, start, write in named]) + "}"


def _write_decimal(value: Decimal) -> str:
    """As text, so that no reader makes a float of it."""
    return f'"{value:f}"'


def _write_float(value: float) -> str:
    """The number itself; a FLOAT is shown as the DOUBLE that it equals. JSON has no NaN and no infinity."""
    if math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def _write_boolean(value: bool) -> str:
    return "true" if value else "false"


def _write_bytes(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


def _write_day(days: int) -> str:
    return f'"{date.fromordinal(_EPOCH_DAY + days).isoformat()}"'


def _show_moment(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")

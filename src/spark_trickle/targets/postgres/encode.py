"""Arrow rows -> lines of CSV that PostgreSQL reads as the same values, exactly or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from spark_trickle.errors import TargetValueError
from spark_trickle.model.arrow import arrow_type, can_hold
from spark_trickle.model.table import TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, is_float
from spark_trickle.targets.postgres.target import Target, pg_type

_PIECE = 50_000  # rows that are texts at a time
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()
_ERA = 146_097  # days of 400 years, after which the calendar begins again
_COMMON = (
    1 - _EPOCH,
    date.max.toordinal() + 1 - _EPOCH,
)  # the years 1 to 9999, which Arrow writes as SQL does
_FIRST_DAY = -2_440_588  # 4714-11-24 BC, the first day of PostgreSQL
_LAST_DAY = 2_145_042_905  # 5874897-12-31
_NUMERIC = re.compile("byte|short|integer|long|boolean|decimal")


def to_csv(target: Target, rows: pa.Table) -> Iterator[bytes]:
    """NULL is nothing, an empty text is \"\"; columns in the order of the target, found by name."""
    for start in range(0, rows.num_rows, _PIECE):
        piece = rows.slice(start, _PIECE)
        texts = [to_text(c, _is_plain_column(piece.column(c.name))) for c in target.columns]
        output = pa.BufferOutputStream()
        options = csv.WriteOptions(include_header=False, quoting_style="needed")
        csv.write_csv(pa.table(texts, names=[str(n) for n in range(len(texts))]), output, options)
        yield output.getvalue().to_pybytes()


def _is_plain_column(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def to_text(column: TableColumn, values: pa.Array) -> pa.Array:
    """Values as texts; numbers and truth values may stay what they are, because CSV shows them exactly."""
    if can_hold(column.type):
        values = values.cast(arrow_type(column.type))
    return _write_values(column, column.type, values)


def _write_values(column: TableColumn, kind: ColumnType, values: pa.Array) -> pa.Array:
    match kind:
        case Array(Scalar() as element):
            return _write_lists(values, _write_values(column, element, values.values))
        case Array() | Struct():
            return pc.if_else(values.is_null(), None, _write_json(column, kind, values))
        case Scalar("string"):
            return _check_texts(column, values)
        case Scalar("binary"):
            return _cast_to_text(None if v is None else _write_hex(v) for v in values.to_pylist())
        case Scalar("date"):
            return _write_dates(column, values)
        case Scalar("timestamp" | "timestamp_ntz"):
            return _write_timestamps(column, values)
        case Scalar(name) if name.startswith(("decimal", "time(")):
            return values.cast(pa.string())
        case Scalar(name) if name.startswith("interval"):
            write = _write_months if "year" in name or "month" in name else _write_duration
            numbers = values.cast(pa.int64()).to_pylist()
            return _cast_to_text(None if v is None else write(v) for v in numbers)
        case Scalar():
            return _check_texts(column, values) if pa.types.is_string(values.type) else values


def _cast_to_text(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _check_texts(column: TableColumn, texts: pa.Array) -> pa.Array:
    """PostgreSQL has no place for the character 0, neither in texts nor in JSON."""
    bad = pc.match_substring(texts, "\0")
    if pc.any(bad).as_py():
        raise _make_refusal(column, repr(texts.filter(bad)[0].as_py()))
    return texts


def _make_refusal(column: TableColumn, value: str) -> TargetValueError:
    return TargetValueError(column.name, pg_type(column.type), value)


def _write_hex(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _write_months(value: int) -> str:
    return f"{value} months"


def _write_duration(value: int) -> str:
    """As hours, minutes and seconds: days of PostgreSQL need not have 24 hours."""
    seconds, micros = divmod(abs(value), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    sign = "-" if value < 0 else ""
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{micros:06}"


# --- arrays --------------------------------------------------------------------------------------


def _write_lists(lists: pa.ListArray, elements: pa.Array) -> pa.Array:
    """{"one","with \\" and \\\\",NULL}, all lists at once."""
    texts = elements.cast(pa.string())
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quoted = pc.fill_null(_enclose_texts('"', escaped, '"'), "NULL")
    return pc.if_else(lists.is_null(), None, _join_elements("{", lists, quoted, "}"))


def _join_elements(opening: str, lists: pa.ListArray, elements: pa.Array, closing: str) -> pa.Array:
    joined = pc.binary_join(pa.ListArray.from_arrays(lists.offsets, elements), ",")
    return _enclose_texts(opening, joined, closing)


def _enclose_texts(opening: str, texts: pa.Array, closing: str) -> pa.Array:
    return pc.binary_join_element_wise(opening, texts, closing, "")


# --- dates and times -----------------------------------------------------------------------------


def _write_dates(column: TableColumn, values: pa.Array) -> pa.Array:
    days = values.cast(pa.int32())
    _require_within(column, days, 1)
    if _is_within(days, *_COMMON):
        return values.cast(pa.string())
    return _cast_to_text(None if d is None else "".join(_write_day(d)) for d in days.to_pylist())


def _write_timestamps(column: TableColumn, values: pa.Array) -> pa.Array:
    """In UTC, the time zone of our connections. Both ways write the same, because JSON keeps the text."""
    micros = values.cast(pa.int64())
    _require_within(column, micros, _DAY)
    if _is_within(micros, _COMMON[0] * _DAY, _COMMON[1] * _DAY):
        return micros.cast(pa.timestamp("us")).cast(pa.string())
    return _cast_to_text(None if m is None else _write_moment(m) for m in micros.to_pylist())


def _write_moment(micros: int) -> str:
    days, rest = divmod(micros, _DAY)
    day, era = _write_day(days)
    return f"{day} {_write_duration(rest)}{era}"


def _write_day(days: int) -> tuple[str, str]:
    """A day as it is written, and " BC" if it needs that; Python's own calendar has only 9999 years."""
    cycles, rest = divmod(days + _EPOCH - 1, _ERA)
    found = date(1, 1, 1) + timedelta(rest)
    year = found.year + 400 * cycles
    shown = year if year > 0 else 1 - year
    return f"{shown:04}-{found.month:02}-{found.day:02}", "" if year > 0 else " BC"


def _require_within(column: TableColumn, values: pa.Array, unit: int) -> None:
    for value in pc.min_max(values).values():
        number = value.as_py()
        if number is not None and not _FIRST_DAY <= number // unit <= _LAST_DAY:
            raise _make_refusal(column, "".join(_write_day(number // unit)))


def _is_within(values: pa.Array, low: int, end: int) -> bool:
    least, most = (v.as_py() for v in pc.min_max(values).values())
    return least is None or (low <= least and most < end)


# --- JSON ----------------------------------------------------------------------------------------


def _write_json(column: TableColumn, kind: ColumnType, values: pa.Array) -> pa.Array:
    """Each value as a piece of JSON, null included; whole columns, so that no type of Python is between."""
    match kind:
        case Struct(fields):
            parts = [_write_json(column, f.type, v) for f, v in zip(fields, values.flatten(), strict=True)]
            names = [f"{json.dumps(f.name, ensure_ascii=False)}:" for f in fields]
            pairs = [pc.binary_join_element_wise(n, p, "") for n, p in zip(names, parts, strict=True)]
            written = _enclose_texts("{", pc.binary_join_element_wise(*pairs, ","), "}")
        case Array(element):
            written = _join_elements("[", values, _write_json(column, element, values.values), "]")
        case _:
            written = _json_scalar(column, kind, values)
    return pc.fill_null(pc.if_else(values.is_null(), None, written), "null")


def _json_scalar(column: TableColumn, kind: Scalar, values: pa.Array) -> pa.Array:
    texts = _write_values(column, kind, values).cast(pa.string())
    if is_float(kind):
        known = pc.is_finite(values)
        words = pc.replace_substring(pc.replace_substring(texts, "inf", "Infinity"), "nan", "NaN")
        return pc.if_else(known, texts, _enclose_texts('"', words, '"'))
    if _NUMERIC.match(kind.name):
        return texts
    return _cast_to_text(None if t is None else json.dumps(t, ensure_ascii=False) for t in texts.to_pylist())

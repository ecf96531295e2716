"""A JSON value and the type of its column -> the value for Arrow, exactly, or why it does not fit.

Numbers stay the text that was written until their type is known, so that no float stands in between.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

from spark_trickle.errors import UnsupportedError
from spark_trickle.errors.base import shorten_text
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, sql_name
from spark_trickle.sources.kafka.options import EpochUnit

Read = Callable[[Any], Any]

_RANGES = {"byte": 1 << 7, "short": 1 << 15, "integer": 1 << 31, "long": 1 << 63}
_INTEGER = re.compile(r"-?\d{1,19}")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)?", re.ASCII
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1)
_FIRST_DAY, _LAST_DAY = date.min.toordinal() - 719163, date.max.toordinal() - 719163
_DAY_MICROS = 86_400_000_000
_PER_SECOND = {
    EpochUnit.SECONDS: Decimal(1_000_000),
    EpochUnit.MILLISECONDS: Decimal(1_000),
    EpochUnit.MICROSECONDS: Decimal(1),
    EpochUnit.NANOSECONDS: Decimal("0.001"),
}
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])
_MOST_FLOAT = 3.4028235677973366e38  # the least that FLOAT takes for infinity
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # JSON has none of these


class Number(str):
    """A number as it was written."""


class MisfitError(ValueError):
    """A record that does not fit; its text is the reason."""


def parse_json(data: bytes) -> Any:
    """The value of a text; its numbers are `Number`."""
    try:
        return _DECODER.decode(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise MisfitError("it is not text in UTF-8") from None
    except RecursionError:
        raise MisfitError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise MisfitError(f"it is not JSON: {error.msg} at character {error.pos + 1}") from None


def _refuse_constant(text: str) -> Any:
    raise MisfitError(f"it is not JSON: {text} is not a number")


_DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=_refuse_constant)


def write_json(value: Any, sort: bool = True) -> str:
    """One text for equal values: the fields in order, no spaces, numbers as they were written."""
    match value:
        case Number():
            return str(value)
        case dict():
            names = sorted(value) if sort else value
            return "{" + ",".join(f"{_quote(k)}:{write_json(value[k], sort)}" for k in names) + "}"
        case list():
            return "[" + ",".join(write_json(v, sort) for v in value) + "]"
    return _quote(value)


def _quote(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def make_reader(name: str, kind: ColumnType, epoch: EpochUnit) -> Read:
    """How the values of a column are read; null is NULL."""
    match kind:
        case Array(element):
            return _or_null(_read_list(name, make_reader(f"{name}[]", element, epoch), kind))
        case Struct(fields):
            inner = {f.name: make_reader(f"{name}.{f.name}", f.type, epoch) for f in fields}
            return _or_null(_read_struct(name, inner, kind))
        case Scalar():
            return _or_null(_explain(name, kind, _find_reader(name, kind, epoch)))


def _find_reader(name: str, kind: Scalar, epoch: EpochUnit) -> Read:
    if kind.name in _RANGES:
        return lambda value: _read_integer(value, _RANGES[kind.name])
    if kind.name.startswith("decimal"):
        precision, scale = kind.name[len("decimal(") : -1].split(",")
        return lambda value: _read_decimal(value, int(precision), int(scale))
    match kind.name:
        case "float":
            return lambda value: _read_float(value, _MOST_FLOAT)
        case "double":
            return lambda value: _read_float(value, math.inf)
        case "string":
            return _read_text
        case "boolean":
            return _read_boolean
        case "binary":
            return _read_bytes
        case "date":
            return _read_day
        case "timestamp" | "timestamp_ntz":
            return lambda value: _read_moment(value, epoch, kind.name == "timestamp")
    raise UnsupportedError(f'{sql_name(kind)} for column "{name}" of records', "Use STRING.")


def _or_null(read: Read) -> Read:
    return lambda value: None if value is None else read(value)


def _explain(name: str, kind: ColumnType, read: Read) -> Read:
    def attempt(value: Any) -> Any:
        try:
            return read(value)
        except (ValueError, DecimalException, OverflowError):
            raise _misfit(name, value, kind) from None

    return attempt


def _misfit(name: str, value: Any, kind: ColumnType) -> MisfitError:
    shown = shorten_text(write_json(value)).encode("utf-8", "backslashreplace").decode()
    return MisfitError(f'"{name}" is {shown}, which is no {sql_name(kind)}')


def _read_list(name: str, read: Read, kind: ColumnType) -> Read:
    def read_all(value: Any) -> Any:
        if not isinstance(value, list):
            raise _misfit(name, value, kind)
        return [read(v) for v in value]

    return read_all


def _read_struct(name: str, inner: dict[str, Read], kind: ColumnType) -> Read:
    def read_all(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(name, value, kind)
        return {field: read(value.get(field)) for field, read in inner.items()}

    return read_all


def _read_integer(value: Any, limit: int) -> int:
    if not isinstance(value, Number) or not _INTEGER.fullmatch(value):
        raise ValueError
    number = int(value)
    if not -limit <= number < limit:
        raise ValueError
    return number


def _read_decimal(value: Any, precision: int, scale: int) -> Decimal:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise ValueError
    number = Decimal(value)
    if number and number.adjusted() >= precision - scale:
        raise ValueError
    return number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)


def _read_float(value: Any, limit: float) -> float:
    if isinstance(value, str) and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if not isinstance(value, Number):
        raise ValueError
    number = float(value)
    if abs(number) >= limit:
        raise ValueError
    return number


def _read_text(value: Any) -> str:
    """What is no text is shown as JSON, numbers as they were written."""
    text = str(value) if isinstance(value, str) else write_json(value)
    if not text.isascii():
        text.encode("utf-8")  # half of a pair of surrogates is no character
    return text


def _read_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _read_bytes(value: Any) -> bytes:
    if not isinstance(value, str) or isinstance(value, Number):
        raise ValueError
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise ValueError from None


def _read_day(value: Any) -> int:
    """Days since 1970, which is how Debezium and Avro write dates too."""
    if isinstance(value, Number):
        days = _read_integer(value, 1 << 31)
    elif isinstance(value, str) and _DAY.fullmatch(value):
        days = date.fromisoformat(value).toordinal() - 719163
    else:
        raise ValueError
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise ValueError
    return days


def _read_moment(value: Any, epoch: EpochUnit, has_zone: bool) -> int:
    """Microseconds since 1970; without an offset it is UTC."""
    if isinstance(value, Number):
        number = Decimal(value)
        if number and number.adjusted() > 20:
            raise ValueError
        micros = int(_EXACT.multiply(number, _PER_SECOND[epoch]).quantize(Decimal(1), context=_EXACT))
    elif isinstance(value, str) and (found := _MOMENT.fullmatch(value)):
        if found[8] and not has_zone:
            raise ValueError
        micros = _count_micros(found)
    else:
        raise ValueError
    if not _FIRST_DAY * _DAY_MICROS <= micros < (_LAST_DAY + 1) * _DAY_MICROS:
        raise ValueError
    return micros


def _count_micros(found: re.Match[str]) -> int:
    year, month, day, hour, minute = (int(found[n]) for n in range(1, 6))
    fraction = (found[7] or "").ljust(9, "0")
    if fraction[6:] != "000":
        raise ValueError  # finer than a microsecond
    moment = datetime(year, month, day, hour, minute, int(found[6] or 0), int(fraction[:6]))
    return (moment - _EPOCH) // timedelta(microseconds=1) - _count_offset(found[8])


def _count_offset(zone: str | None) -> int:
    if zone in (None, "Z"):
        return 0
    assert zone is not None
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 18 or minutes > 59:
        raise ValueError
    return (-1 if zone[0] == "-" else 1) * (hours * 60 + minutes) * 60_000_000

"""Arrow values -> the same values in the type that Spark would give them, where both agree to the last digit.

Whole numbers and decimals only grow wider here, and what does not fit is for Spark to say: it knows whether
that is an error. Nothing rounds.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.conditions import remove_brackets
from spark_trickle.algebra.expressions import Arithmetic, Expr, Interval, Literal, LiteralKind, Negate
from spark_trickle.arrow.decimals import MOST, compute_decimals, find_decimal_type, find_most_units, round_to
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.model.numbers import read_whole_number

Value: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar

_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 20}  # as Spark turns them into decimals
_WHOLE = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
}
_TURNED = 34  # digits beyond which Spark rounds a decimal that it negates
_NUMBER = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-zA-Z]*)")
_SUFFIXES = {"L": pa.int64(), "S": pa.int16(), "Y": pa.int8()}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_BOOLEANS = {"TRUE": True, "FALSE": False}
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")


def read_literal(written: Literal) -> pa.Scalar:
    match written.kind:
        case LiteralKind.NULL:
            return pa.scalar(None, pa.null())
        case LiteralKind.BOOLEAN:
            return pa.scalar(_BOOLEANS[written.text.upper()], pa.bool_())
        case LiteralKind.STRING:
            return _read_string(written.text)
        case LiteralKind.NUMBER:
            return _read_number(written.text)


def _read_string(text: str) -> pa.Scalar:
    if "\\" in text:  # how it was escaped is not for us to guess
        raise ForSpark
    return pa.scalar(text, pa.string())


def _read_number(text: str) -> pa.Scalar:
    written = _NUMBER.fullmatch(text)
    if written is None:  # 1e3 is a double
        raise ForSpark
    text, suffix = written[1], written[2].upper()
    if suffix == "D":
        return pa.scalar(float(text), pa.float64())
    if suffix and suffix != "BD" and suffix not in _SUFFIXES:
        raise ForSpark
    number = read_whole_number(text)
    if number is not None and suffix != "BD":
        kind = _SUFFIXES.get(suffix) or (pa.int32() if number < 2**31 else pa.int64())
        if number >= 2 ** (kind.bit_width - 1):
            raise ForSpark
        return pa.scalar(number, kind)
    whole, _, fraction = text.partition(".")
    digits = max(len((whole + fraction).lstrip("0")), len(fraction), 1)
    return _cast_safely(pa.scalar(text, pa.string()), pa.decimal128(digits, len(fraction)))


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_decimal128(kind))


def align_for_comparison(left: Expr, right: Expr, one: Value, other: Value) -> tuple[Value, Value]:
    """Two values and how they are written: a number beside a decimal has just its own digits."""
    if pa.types.is_decimal128(one.type) and pa.types.is_signed_integer(other.type):
        other = _cast_to_decimal(right, other)
    elif pa.types.is_decimal128(other.type) and pa.types.is_signed_integer(one.type):
        one = _cast_to_decimal(left, one)
    return make_comparable(one, other)


def make_comparable(one: Value, other: Value) -> tuple[Value, Value]:
    """Both in one type that compares alike here and there: texts compare byte by byte in both."""
    if is_number(one.type) and is_number(other.type):
        kind = _find_compared_type(one.type, other.type)
        return _cast_for_comparison(one, kind), _cast_for_comparison(other, kind)
    if pa.types.is_date32(one.type) and isinstance(other, pa.StringScalar):
        return one, _read_date(other.as_py())
    if pa.types.is_date32(other.type) and isinstance(one, pa.StringScalar):
        return _read_date(one.as_py()), other
    same = one.type == other.type
    if same and (
        pa.types.is_string(one.type)
        or pa.types.is_boolean(one.type)
        or pa.types.is_date(one.type)
        or pa.types.is_timestamp(one.type)
    ):
        return one, other
    raise ForSpark


def _find_compared_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Where not all digits have room, those of the fraction give way."""
    if pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other):
        return _choose_wider(one, other)
    (p1, s1), (p2, s2) = _count_digits(one), _count_digits(other)
    scale = max(s1, s2)
    whole = max(p1 - s1, p2 - s2)
    return pa.decimal128(min(whole + scale, MOST), min(scale, max(MOST - whole, 0)))


def _cast_for_comparison(value: Value, kind: pa.DataType) -> Value:
    if pa.types.is_decimal128(value.type) and value.type.scale > kind.scale:
        return round_to(value, kind)
    return cast_to(value, kind)


def find_common_type(kinds: list[pa.DataType]) -> pa.DataType:
    """The type of values that stand for each other, as in CASE; null has the type of the others."""
    known = [k for k in kinds if not pa.types.is_null(k)]
    if not known:
        raise ForSpark
    return reduce(_choose_wider, known)


def _choose_wider(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if one == other:
        return one
    if pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other):
        return max(one, other, key=lambda k: k.bit_width)
    if is_number(one) and is_number(other):
        (p1, s1), (p2, s2) = _count_digits(one), _count_digits(other)
        scale = max(s1, s2)
        return _make_decimal_type(max(p1 - s1, p2 - s2) + scale, scale)
    raise ForSpark


def _count_digits(kind: pa.DataType) -> tuple[int, int]:
    return (kind.precision, kind.scale) if pa.types.is_decimal128(kind) else (_DIGITS[kind], 0)


def _make_decimal_type(precision: int, scale: int) -> pa.DataType:
    """Beyond the widest decimal Spark gives up digits after the point."""
    if precision > MOST:
        raise ForSpark
    return pa.decimal128(precision, scale)


def cast_to(value: Value, kind: pa.DataType) -> Value:
    """The same value in a type that is as wide or wider."""
    if value.type == kind:
        return value
    if pa.types.is_null(value.type):
        return value.cast(kind)
    if pa.types.is_signed_integer(value.type) and pa.types.is_signed_integer(kind):
        return _cast_safely(value, kind)
    if pa.types.is_signed_integer(value.type) and pa.types.is_decimal128(kind):
        # First into one that holds every value of its type, as Arrow wants it.
        return _cast_safely(_cast_safely(value, pa.decimal128(_DIGITS[value.type], 0)), kind)
    if pa.types.is_decimal128(value.type):
        if pa.types.is_decimal128(kind) and kind.scale >= value.type.scale:
            return _cast_safely(value, kind)
        if value.type.scale == 0 and pa.types.is_signed_integer(kind):
            return _cast_safely(value, kind)
    raise ForSpark


def _cast_safely(value: Value, kind: pa.DataType) -> Value:
    if pa.types.is_decimal128(value.type) and pa.types.is_decimal128(kind):
        more = kind.scale - value.type.scale
        narrower = value.type.precision + more > kind.precision
        if (
            narrower and find_most_units(value) * 10**more >= 10**kind.precision
        ):  # Arrow does not always say so
            raise ForSpark
    try:
        return value.cast(kind)
    except pa.ArrowInvalid:  # does not fit
        raise ForSpark from None


def cast_as_spark(value: Value, to: str) -> Value:
    """CAST as Spark does it, for what loses nothing but digits behind the point."""
    target = to.upper()
    if target == "BIGINT" and pa.types.is_decimal128(value.type):
        return _cast_safely(value, pa.int64())  # which refuses to lose digits
    if target in _WHOLE:
        return cast_to(value, _WHOLE[target])
    if (decimal := _DECIMAL.fullmatch(target)) is not None:
        precision, scale = int(decimal[1]), int(decimal[2])
        if pa.types.is_decimal128(value.type) and value.type.scale > scale:
            return _round_decimal(value, pa.decimal128(precision, scale))
        return cast_to(value, pa.decimal128(precision, scale))
    if target == "DOUBLE" and is_number(value.type):
        return _cast_to_double(value)
    if target == "DATE" and pa.types.is_date(value.type):
        return value
    if target == "DATE" and isinstance(value, pa.StringScalar):
        return _read_date(value.as_py())
    raise ForSpark


def _round_decimal(value: Value, kind: pa.DataType) -> Value:
    narrow = pa.decimal128(MOST, kind.scale)  # first rounded, and then asked whether it fits
    if isinstance(value, pa.Scalar):
        raise ForSpark
    return _cast_safely(round_to(value, narrow), kind)


def _cast_to_double(value: Value) -> Value:
    """Whole numbers, rounded to the nearest double as in Java; how fractions round is for Spark to say."""
    if isinstance(value, pa.Scalar):
        raise ForSpark
    if pa.types.is_signed_integer(value.type):
        return value.cast(pa.float64(), safe=False)
    if value.type.scale:
        raise ForSpark
    return pa.array([None if v is None else float(int(v)) for v in value.to_pylist()], pa.float64())


def _read_date(text: str) -> pa.Scalar:
    if not _DATE.fullmatch(text):
        raise ForSpark
    try:
        return pa.scalar(datetime.date.fromisoformat(text), pa.date32())
    except ValueError:  # the thirtieth of February
        raise ForSpark from None


def shift_date(op: str, day: Value, interval: Interval) -> pa.Scalar:
    """A written date and so many years, months or days; a day that a month does not have is its last one."""
    count, unit = interval.count, interval.unit.upper().removesuffix("S")
    number = read_whole_number(count.text) if isinstance(count, Literal) else None
    if number is None or not isinstance(day, pa.Date32Scalar):
        raise ForSpark
    step = number if op == "+" else -number
    start = day.as_py()
    try:
        if unit == "DAY":
            return pa.scalar(start + datetime.timedelta(days=step), pa.date32())
        months = {"MONTH": step, "YEAR": 12 * step}[unit]
        year, month = divmod(12 * start.year + start.month - 1 + months, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return pa.scalar(datetime.date(year, month + 1, min(start.day, last)), pa.date32())
    except (KeyError, ValueError, OverflowError):
        raise ForSpark from None


DATE_PARTS: dict[str, Callable[..., Value]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "day": pc.day,
    "dayofmonth": pc.day,
}


def extract_part(part: str, value: Value) -> Value:
    """Of a day; that of an instant depends on where Spark is."""
    if part.lower() not in DATE_PARTS or not pa.types.is_date32(value.type):
        raise ForSpark
    return DATE_PARTS[part.lower()](value).cast(pa.int32())


def match_like(value: Value, pattern: pa.Scalar) -> Value:
    if not pa.types.is_string(value.type) or not pa.types.is_string(pattern.type):
        raise ForSpark
    return pc.match_like(value, pattern.as_py())


def take_substring(value: Value, start: Value | None, length: Value | None = None) -> Value:
    """Where both ends are written as numbers and lie within or behind the text."""
    first, count = (n.as_py() if isinstance(n, pa.Scalar) else None for n in (start, length))
    if not pa.types.is_string(value.type) or not isinstance(first, int) or first < 1:
        raise ForSpark
    if length is not None and not isinstance(count, int):
        raise ForSpark
    end = None if count is None else first - 1 + max(count, 0)
    return pc.utf8_slice_codeunits(value, first - 1, end)


def negate_number(value: Value) -> Value:
    if not is_number(value.type):
        raise ForSpark
    if isinstance(value, pa.Int64Scalar) and value.as_py() == 2**31:  # its negative is an INT
        raise ForSpark
    if pa.types.is_decimal128(value.type) and find_most_units(value) >= 10**_TURNED:
        raise ForSpark
    return _compute_checked(pc.negate_checked, value)


def compute_arithmetic(expr: Arithmetic, one: Value, other: Value) -> Value:
    """Sum, difference, product or quotient; doubles are rounded alike everywhere."""
    if expr.op == "/" and not (pa.types.is_decimal128(one.type) or pa.types.is_decimal128(other.type)):
        return _divide_doubles(one, other)
    if pa.types.is_float64(one.type) and pa.types.is_float64(other.type):
        return _DOUBLES[expr.op](one, other)
    if not (is_number(one.type) and is_number(other.type)):
        raise ForSpark
    if pa.types.is_signed_integer(one.type) and pa.types.is_signed_integer(other.type):
        wide = _choose_wider(one.type, other.type)
        return _compute_checked(_STEPS[expr.op], one.cast(wide), other.cast(wide))
    one, other = _cast_to_decimal(expr.left, one), _cast_to_decimal(expr.right, other)
    result = find_decimal_type(expr.op, one.type, other.type)
    if expr.op == "/" or result.precision == MOST:  # it may have to be rounded
        return compute_decimals(expr.op, one, other, result)
    return cast_to(_compute_checked(_STEPS[expr.op], one, other), result)


_DOUBLES: dict[str, Callable[..., Value]] = {
    "+": pc.add,
    "-": pc.subtract,
    "*": pc.multiply,
}
_STEPS: dict[str, Callable[..., Value]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}


def _cast_to_decimal(expr: Expr, value: Value) -> Value:
    """A written number has as many digits as it is written with, a column as many as its type can have."""
    if pa.types.is_decimal128(value.type):
        return value
    inner = remove_brackets(expr)
    written = inner.input if isinstance(inner, Negate) else inner  # -(3) is no number but a call, to Spark
    digits = len(str(abs(value.as_py()))) if isinstance(written, Literal) else _DIGITS[value.type]
    return cast_to(value, pa.decimal128(digits, 0))


def _divide_doubles(one: Value, other: Value) -> Value:
    if not pa.types.is_float64(one.type):
        raise ForSpark
    divisor = other if pa.types.is_float64(other.type) else _cast_to_double(other)
    zero = pc.equal(divisor, 0.0)
    if (zero if isinstance(zero, pa.Scalar) else pc.any(zero)).as_py():  # an error, unless ANSI is off
        raise ForSpark
    return pc.divide(one, divisor)


def compute_square_root(value: Value) -> Value:
    if not pa.types.is_float64(value.type):
        raise ForSpark
    return pc.sqrt(value)


def _compute_checked(step: Callable[..., Value], *values: Value) -> Value:
    try:
        return step(*values)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # an overflow, or no such types
        raise ForSpark from None

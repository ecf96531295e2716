"""Arithmetic with decimals that have more digits than fit: as Spark rounds it, number by number.

Spark computes a product exactly and a quotient to 39 digits after the point, and then gives up digits of the
fraction until the result has 38 digits in all, of which six or more stay behind the point.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.arrow.unsupported import ForSpark

Value: TypeAlias = pa.ChunkedArray | pa.Array | pa.Scalar

MOST = 38  # digits of a decimal
_LEAST_SCALE = 6
_MOST_ROWS = 20_000
_EXACT = Context(prec=2 * MOST)


def find_decimal_type(op: str, one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type of a sum, a difference, a product or a quotient of decimals."""
    p1, s1, p2, s2 = one.precision, one.scale, other.precision, other.scale
    if op == "*":
        return _limit_digits(p1 + p2 + 1, s1 + s2)
    if op == "/":
        scale = max(_LEAST_SCALE, s1 + p2 + 1)
        return _limit_digits(p1 - s1 + s2 + scale, scale)
    scale = max(s1, s2)
    return _limit_digits(max(p1 - s1, p2 - s2) + scale + 1, scale)


def _limit_digits(precision: int, scale: int) -> pa.DataType:
    if precision <= MOST:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MOST, max(MOST - whole, min(scale, _LEAST_SCALE)))


def compute_decimals(op: str, one: Value, other: Value, result: pa.DataType) -> Value:
    """Two columns of decimals, or a column and a number, and a type in which the result may be rounded."""
    count = max((len(v) for v in (one, other) if not isinstance(v, pa.Scalar)), default=1)
    if count > _MOST_ROWS:
        raise ForSpark
    step = _STEPS[op]
    left, right = (_read_units(v, count) for v in (one, other))
    scales = one.type.scale, other.type.scale
    found = [
        None if a is None or b is None else _fit_units(step(a, b, *scales), result)
        for a, b in zip(left, right, strict=True)
    ]
    values = pa.array([None if n is None else _format_units(n, result.scale) for n in found], pa.string())
    made = values.cast(result)
    return made[0] if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar) else made


def _read_units(value: Value, count: int) -> list[int | None]:
    """Decimals as whole numbers of their smallest unit."""
    values = [value.as_py()] * count if isinstance(value, pa.Scalar) else value.to_pylist()
    scale = value.type.scale
    return [None if v is None else int(_EXACT.scaleb(v, scale)) for v in values]


def find_most_units(value: Value) -> int:
    """The greatest number of smallest units that a decimal of a column has, whatever its sign."""
    ends = [value] if isinstance(value, pa.Scalar) else pc.min_max(value).values()
    return max((abs(n) for end in ends for n in _read_units(end, 1) if n is not None), default=0)


def _fit_units(made: tuple[int, int], result: pa.DataType) -> int:
    number, scale = made
    rounded = _divide_rounded(number, 10 ** (scale - result.scale)) if scale > result.scale else number
    if scale < result.scale:
        rounded *= 10 ** (result.scale - scale)
    if abs(rounded) >= 10**result.precision:
        raise ForSpark  # an overflow
    return rounded


def _format_units(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}".rstrip(".")


def _divide_rounded(number: int, divisor: int) -> int:
    """Rounded half up, away from zero."""
    whole, rest = divmod(abs(number), abs(divisor))
    whole += 2 * rest >= abs(divisor)
    return whole if (number < 0) == (divisor < 0) else -whole


def _multiply_units(a: int, b: int, s1: int, s2: int) -> tuple[int, int]:
    if abs(a * b) >= 10**MOST:
        raise ForSpark
    return a * b, s1 + s2


def _divide_units(a: int, b: int, s1: int, s2: int) -> tuple[int, int]:
    if b == 0:
        raise ForSpark  # an error
    whole = abs(a) * 10 ** (MOST + 1 + s2 - s1) // abs(b)  # Spark cuts off here, and rounds afterwards
    return whole if (a < 0) == (b < 0) else -whole, MOST + 1


def _add_units(a: int, b: int, s1: int, s2: int) -> tuple[int, int]:
    scale = max(s1, s2)
    total = a * 10 ** (scale - s1) + b * 10 ** (scale - s2)
    if abs(total) >= 10**MOST:
        raise ForSpark
    return total, scale


_STEPS: dict[str, Callable[[int, int, int, int], tuple[int, int]]] = {
    "*": _multiply_units,
    "/": _divide_units,
    "+": _add_units,
    "-": lambda a, b, s1, s2: _add_units(a, -b, s1, s2),
}


def round_to(value: Value, kind: pa.DataType) -> Value:
    """A decimal with fewer digits behind the point, rounded half up."""
    if find_most_units(value) >= 10 ** (MOST - 1):  # Arrow does not notice a carry beyond the last digit
        raise ForSpark
    rounded = pc.round(value, ndigits=kind.scale, round_mode="half_towards_infinity")
    try:
        return rounded.cast(kind)
    except pa.ArrowInvalid:
        raise ForSpark from None

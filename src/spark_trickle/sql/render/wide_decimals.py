"""SQL that adds, negates and divides the widest decimals without rounding them.

A sum of decimals has up to 38 digits, and Spark makes room for a carry in each result: of DECIMAL(38, s) with
more than six digits behind the point it drops the last one. A minus sign rounds to 34 digits, and a literal 0
beside a decimal widens it to ten digits before the point. So operands are narrowed to 37 digits first; a
number that needs the 38th fails, which is better than a wrong last digit.
"""

from __future__ import annotations

import re

_DECIMAL = re.compile(r"decimal\(\s*38\s*,\s*(\d+)\s*\)", re.IGNORECASE)
_KEPT_SCALE = 6  # digits behind the point that Spark never gives up


def write_zero(kind: str) -> str:
    return f"CAST(0 AS {kind})" if _DECIMAL.fullmatch(kind) else "0"


def write_minus(value: str, kind: str) -> str:
    return f"0 - {_write_narrow(value, kind)}" if _DECIMAL.fullmatch(kind) else f"-({value})"


def write_plus(one: str, other: str, kind: str) -> str:
    return f"{_write_narrow(one, kind)} + {_write_narrow(other, kind)}"


def can_add(scale: int) -> bool:
    """A digit is for the carry, and one for the zero before the point."""
    return scale <= 36


def has_mean(precision: int, scale: int) -> bool:
    return precision + 10 <= _count_mean_digits(scale)


def write_mean(total: str, count: str, precision: int, scale: int) -> str:
    """The mean of decimals as avg() rounds it: once, to four digits more than they have.

    The quotient of a DECIMAL(34, s) and a count has just these four digits more, but never fewer than six.
    For s < 2 a sum of 20 digits leaves 18 behind the point, and then no mean of less than 10^14 numbers comes
    so near to the middle of two results that it would be rounded to it first.
    """
    divided = (
        f"CAST({total} AS DECIMAL({_count_mean_digits(scale)}, {scale})) / CAST({count} AS DECIMAL(20, 0))"
    )
    return f"CAST({divided} AS DECIMAL({precision + 4}, {scale + 4}))"


def _count_mean_digits(scale: int) -> int:
    return 34 if scale >= _KEPT_SCALE - 4 else 20


def _write_narrow(value: str, kind: str) -> str:
    wide = _DECIMAL.fullmatch(kind)
    if wide is None or int(wide[1]) <= _KEPT_SCALE:
        return f"({value})"
    return f"CAST({value} AS DECIMAL(37, {wide[1]}))"

"""Texts that users write -> numbers; a text that is none, or that no use has room for, is no number."""

from __future__ import annotations

import re

_WHOLE = re.compile("[0-9]{1,1000}")
_DECIMAL = re.compile(r"(?:[0-9]{1,300}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?")


def read_whole_number(text: str) -> int | None:
    """The number that digits write: no sign, no blanks, and no digits of other scripts."""
    return int(text) if _WHOLE.fullmatch(text) else None


def read_decimal_number(text: str) -> float | None:
    """The same with a fraction or an exponent, as in 1.5 or 1e3."""
    return float(text) if _DECIMAL.fullmatch(text) else None

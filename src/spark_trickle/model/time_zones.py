"""The name of a time zone -> one name for all equal ones: UTC, and fixed offsets."""

from __future__ import annotations

import re

_UTC = {"z", "utc", "uct", "gmt", "gmt0", "ut", "zulu", "universal", "greenwich"}
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")
_ETC = re.compile(r"Etc/GMT([+-])(\d{1,2})")


def canonical_zone(name: str) -> str:
    """`Etc/UTC`, `GMT` and `+00:00` are UTC; regions keep their names, for their past may differ."""
    if name.removeprefix("Etc/").lower() in _UTC:
        return "UTC"
    if by_sign := _ETC.fullmatch(name):  # the signs of these names are those of POSIX: west is positive
        return _format_offset("-" if by_sign[1] == "+" else "+", by_sign[2], "0", "0")
    if offset := _OFFSET.fullmatch(name):
        return _format_offset(offset[1], offset[2], offset[3] or "0", offset[4] or "0")
    return name


def _format_offset(sign: str, hours: str, minutes: str, seconds: str) -> str:
    parts = [int(hours), int(minutes), int(seconds)]
    return f"{sign}{parts[0]:02}:{parts[1]:02}:{parts[2]:02}" if any(parts) else "UTC"

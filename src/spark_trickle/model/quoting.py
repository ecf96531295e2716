"""A name -> the same name in backticks, for SQL."""

from __future__ import annotations


def quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"

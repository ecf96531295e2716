"""The text of a PostgreSQL array -> the texts of its elements."""

from __future__ import annotations

import re

# "quoted, with \\ before any character", or a plain word; NULL without quotes is no value.
_ELEMENT = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",{}\\]+))(,|\}$)', re.DOTALL)
_BOUNDS = re.compile(r"(?:\[[+-]?\d+:[+-]?\d+\])=(?=\{)")


def parse_array(text: str) -> list[str | None] | None:
    """The elements, or None if the array has several dimensions; where it starts to count is forgotten."""
    bounds = _BOUNDS.match(text)
    at = bounds.end() if bounds else 0
    if not text.startswith("{", at):
        return None  # bounds of several dimensions
    if text == "{}":
        return []
    found: list[str | None] = []
    at += 1
    while at < len(text):
        match = _ELEMENT.match(text, at)
        if match is None:
            return None
        quoted, plain, _ = match.groups()
        found.append(_unescape_text(quoted) if quoted is not None else None if plain == "NULL" else plain)
        at = match.end()
    return found


def _unescape_text(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text

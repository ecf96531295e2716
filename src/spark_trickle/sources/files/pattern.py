"""The path of a source of files -> the folder to list, and which of its files are meant."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spark_trickle.errors import InvalidDefinitionError

TABLE = "{table}"
_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class PathPattern:
    """`matcher` is for paths below the folder; it has a group `table` where the name of the table is."""

    folder: str
    matcher: re.Pattern[str]
    is_deep: bool  # also files in folders of the folder
    has_table: bool


def parse_path(path: str) -> PathPattern:
    """A path without a pattern is a folder, and means all files below it."""
    start, parts = _split_path(path)
    first = next((n for n, part in enumerate(parts) if _is_special(part)), len(parts))
    rest = parts[first:]
    if not rest or rest[-1] == TABLE:
        rest = [*rest, "**"]
    deep = len(rest) > 1 or rest[0] == "**"
    try:
        matcher = re.compile("".join(_translate(rest)), re.DOTALL)
    except re.error as error:
        raise InvalidDefinitionError(
            f'"{path}" is not a pattern: {error}', "Correct what is in brackets, and write {table} once."
        ) from None
    return PathPattern(start + "/".join(parts[:first]), matcher, deep, TABLE in rest)


def literal_folder(path: str) -> PathPattern:
    """All files of a folder whose name may look like a pattern."""
    return PathPattern(path.rstrip("/") or "/", re.compile(".+", re.DOTALL), True, False)


def literal_file(path: str) -> PathPattern:
    folder, _, name = path.rpartition("/")
    return PathPattern(folder or "/", re.compile(re.escape(name)), False, False)


def _split_path(path: str) -> tuple[str, list[str]]:
    scheme, found, rest = path.rpartition("://")
    start = scheme + found + ("/" if rest.startswith("/") else "")
    return start, [part for part in rest.split("/") if part]


def _is_special(part: str) -> bool:
    return part == TABLE or bool(_SPECIAL.search(part))


def _translate(parts: list[str]) -> list[str]:
    found = []
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        if part == "**":
            found.append(".+" if last else "(?:.+/)?")
        elif part == TABLE:
            found.append("(?P<table>[^/]+)/")
        else:
            found.append(_translate_part(part) + ("" if last else "/"))
    return found


def _translate_part(part: str) -> str:
    text, place = "", 0
    while place < len(part):
        letter, end = part[place], part.find("]", place + 2)
        if letter == "[" and end > 0:
            inner = part[place + 1 : end].replace("\\", "\\\\")
            text += f"[{'^' + inner[1:] if inner.startswith('!') else inner}]"
            place = end + 1
            continue
        text += {"*": "[^/]*", "?": "[^/]"}.get(letter, re.escape(letter))
        place += 1
    return text

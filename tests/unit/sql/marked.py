"""Queries that carry their own answer, so that a test of references is one line of data.

`«t»` is a reference that must be found and replaced, with the clause of it: `«t VERSION AS OF 3»`.
`·` is the place where an alias must be added, so that columns stay reachable by the name of the table.
Everything else must stay as it is.
"""

from __future__ import annotations

import re

import pytest

from spark_trickle.sql.lexer.words import split_words
from spark_trickle.sql.names.references import Reference
from spark_trickle.sql.names.replace_references import replace_references

_MARKED = re.compile(r"«(?P<source>[^»]*)»|·")
_PART = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<plain>\w+))\s*(?P<dot>\.?)")


def question(marked: str) -> str:
    return re.sub("[«»·]", "", marked)


def expected(marked: str) -> str:
    """The marked text with the aliases written out."""
    alias = ""

    def written(found: re.Match[str]) -> str:
        nonlocal alias
        if found["source"] is None:
            return f" AS {alias}"
        alias = _last_part(found["source"])
        return found[0]

    return _MARKED.sub(written, marked)


def answer(marked: str) -> str:
    """What the code makes of the question, each reference replaced by itself in marks."""
    sql = question(marked)
    words = split_words(sql)

    def keep(reference: Reference) -> str:
        return f"«{sql[words[reference.start].start : words[reference.end - 1].end]}»"

    return replace_references(sql, keep)


def _last_part(source: str) -> str:
    source, at = re.sub(r"/\*.*?\*/", "", source), 0
    while found := _PART.match(source, at):
        name, at = found["quoted"] or found["plain"], found.end()
        if not found["dot"]:
            return f"`{name}`"
    raise AssertionError(source)


def bug(*values: object, reason: str) -> object:
    """A case that once went wrong; the reason tells how."""
    return pytest.param(*values)

"""A text of several statements -> the statements, each with the line it starts on."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.sql.lexer.words import split_words


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a script."""

    sql: str
    line: int


def split_script(text: str) -> list[ScriptStatement]:
    """Cut at semicolons; those inside texts, quoted names and comments are no words of their own."""
    entries: list[ScriptStatement] = []
    first = None
    end = 0
    for word in split_words(text):
        if word.upper == ";":
            if first is not None:
                entries.append(ScriptStatement(text[first.start : end], first.line))
            first = None
            continue
        first = first or word
        end = word.end
    if first is not None:
        entries.append(ScriptStatement(text[first.start : end], first.line))
    return entries

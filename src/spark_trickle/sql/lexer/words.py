"""SQL text -> words with their places, so that a statement can be cut up without being rewritten.

The rules are those of Spark's own lexer. A general SQL tokenizer differs from it in details that
matter here: doubled quotes, numbers such as 5L, comments that go on after a backslash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.model.quoting import quote


class WordKind(Enum):
    NAME = "name"  # a bare word: a keyword or an identifier
    QUOTED = "quoted"  # `an identifier in backticks`
    STRING = "string"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True)
class Word:
    text: str
    start: int
    end: int
    kind: WordKind
    line: int
    column: int

    @property
    def upper(self) -> str:
        """The word as a keyword; a quoted name or a string never is one."""
        return self.text.upper() if self.kind in (WordKind.NAME, WordKind.SYMBOL) else ""

    @property
    def is_identifier(self) -> bool:
        return self.kind in (WordKind.NAME, WordKind.QUOTED)


_LEXER = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--(?:\\\r?\n|[^\n])*)
  | (?P<block>/\*)
  | (?P<raw>[rR](?:'[^']*'|"[^"]*"))
  | (?P<string>[xX]?'(?:[^'\\]|\\.|'')*'|[xX]?"(?:[^"\\]|\\.|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:\d+\.\d*|(?<![\w`)\]])\.\d+|\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[LlSsYyDdFf])?(?!\w))
  | (?P<name>\w+)
  | (?P<symbol><=>|<=|>=|<>|!=|==|\|\||\|>|->|=>|::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
__all__ = ["Word", "WordKind", "quote", "quote_literal", "split_words"]
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def split_words(sql: str) -> tuple[Word, ...]:
    words: list[Word] = []
    at = 0
    while at < len(sql):
        found = _LEXER.match(sql, at)
        assert found is not None, "the last rule takes any character"
        kind = found.lastgroup or ""
        if kind == "block":
            at = _after_comment(sql, at)
            continue
        if kind == "symbol" and found[0] in "'\"`":
            raise _make_unclosed_error(sql, at, "quote")
        if kind not in ("space", "comment"):
            words.append(_read_word(sql, found[0], at, kind))
        at = found.end()
    return tuple(words)


def _after_comment(sql: str, at: int) -> int:
    """Comments in brackets may hold others."""
    depth, place = 0, at
    while place < len(sql):
        if sql.startswith("/*", place):
            depth, place = depth + 1, place + 2
        elif sql.startswith("*/", place):
            depth, place = depth - 1, place + 2
            if depth == 0:
                return place
        else:
            place += 1
    raise _make_unclosed_error(sql, at, "comment")


def _make_unclosed_error(sql: str, at: int, what: str) -> SqlSyntaxError:
    line, column = _find_place(sql, at)
    return SqlSyntaxError(
        f"the {what} that begins here is not closed",
        line,
        column,
        "Check quotes and comments: one is not closed.",
    )


def _find_place(sql: str, at: int) -> tuple[int, int]:
    return sql.count("\n", 0, at) + 1, at - (sql.rfind("\n", 0, at) + 1) + 1


def _read_word(sql: str, text: str, start: int, kind: str) -> Word:
    line, column = _find_place(sql, start)
    value, meaning = text, WordKind(kind if kind != "raw" else "string")
    if kind == "quoted":
        value = text[1:-1].replace("``", "`")
    elif kind == "raw":
        value = text[2:-1]
    elif kind == "string":
        value = _unescape_text(text.lstrip("xX"))
    return Word(value, start, start + len(text), meaning, line, column)


def _unescape_text(text: str) -> str:
    quote_mark, inside = text[0], text[1:-1]
    pattern = re.compile(rf"\\u([0-9a-fA-F]{{4}})|\\(.)|{quote_mark}{quote_mark}", re.DOTALL)

    def replace_escape(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _ESCAPES.get(found[2], found[2]) if found[2] else quote_mark

    return pattern.sub(replace_escape, inside)


def quote_literal(text: str) -> str:
    """A string constant that Spark reads back as the same text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

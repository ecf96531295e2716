"""SQL text -> words with their places, so that a statement can be cut up without being rewritten."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from spark_trickle.errors import SqlSyntaxError


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


class _Plain(Spark):
    """Spark's words. sqlglot would take the rest of SHOW or VACUUM as one text; here all are split."""

    class Tokenizer(Spark.Tokenizer):
        COMMANDS: ClassVar[set[TokenType]] = set()


_STRINGS = {
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
    TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING,
}
_PIECE = re.compile(r"\S+")
_NAME = re.compile(r"[^\W\d]\w*|\d+\w*[^\W\d]\w*", re.UNICODE)


def split_words(sql: str) -> tuple[Word, ...]:
    try:
        tokens = _Plain().tokenize(sql)
    except SqlglotError as error:
        raise SqlSyntaxError(
            _first_line(error), advice="Check quotes and brackets: one is not closed."
        ) from None
    words: list[Word] = []
    for token in tokens:
        start, end = token.start, token.end + 1
        if words and start < words[-1].end:
            continue  # sqlglot reads 5L as 5 :: BIGINT; the first of these covers the text
        if token.token_type in _STRINGS:
            words.append(_word(sql, token.text, start, end, WordKind.STRING))
        elif token.token_type == TokenType.IDENTIFIER:
            words.append(_word(sql, token.text, start, end, WordKind.QUOTED))
        else:
            words += _plain(sql, start, end)
    return tuple(words)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _plain(sql: str, start: int, end: int) -> list[Word]:
    """Keywords such as GROUP BY come as one token; here every word stands alone."""
    pieces = [(start + m.start(), start + m.end()) for m in _PIECE.finditer(sql[start:end])]
    return [_word(sql, sql[a:b], a, b, _kind(sql[a:b])) for a, b in pieces]


def _kind(text: str) -> WordKind:
    if _NAME.fullmatch(text):
        return WordKind.NAME
    return WordKind.NUMBER if text[0].isdigit() or (text[0] == "." and len(text) > 1) else WordKind.SYMBOL


def _word(sql: str, text: str, start: int, end: int, kind: WordKind) -> Word:
    line = sql.count("\n", 0, start) + 1
    return Word(text, start, end, kind, line, start - (sql.rfind("\n", 0, start) + 1) + 1)


def quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A string constant that Spark reads back as the same text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

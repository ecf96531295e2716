"""A place in a list of words: the small vocabulary that all statement parsers share."""

from __future__ import annotations

from typing import NoReturn

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.words import Word, WordKind, split_words

_OPEN, _CLOSE = ("(", "["), (")", "]")


class Cursor:
    """Reads the words of one statement from left to right."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.words = split_words(sql)
        while self.words and self.words[-1].upper == ";":
            self.words = self.words[:-1]
        self.at = 0
        if not self.words:
            raise SqlSyntaxError("the statement is empty", advice="Write a statement, for example SELECT 1.")
        for word in self.words:
            if word.upper == ";":
                raise SqlSyntaxError(
                    "more than one statement", word.line, word.column, "Run one statement at a time."
                )

    @property
    def done(self) -> bool:
        return self.at >= len(self.words)

    def peek(self, ahead: int = 0) -> str:
        """The keyword or symbol at this place, or an empty text."""
        place = self.at + ahead
        return self.words[place].upper if place < len(self.words) else ""

    def accept(self, *keywords: str) -> bool:
        """Pass these words if they come next."""
        if all(self.peek(n) == k for n, k in enumerate(keywords)):
            self.at += len(keywords)
            return True
        return False

    def expect(self, *keywords: str) -> None:
        if not self.accept(*keywords):
            self.fail(f"expected {' '.join(keywords)}")

    def next(self) -> Word:
        if self.done:
            self.fail("the statement ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def fail(self, detail: str, advice: str = "Check the statement at this place.") -> NoReturn:
        if self.done:
            last = self.words[-1]
            raise SqlSyntaxError(f"{detail} at the end", last.line, last.column + len(last.text), advice)
        word = self.words[self.at]
        found = self.sql[word.start : word.end]
        raise SqlSyntaxError(f"{detail}, found {found}", word.line, word.column, advice)

    def identifier(self) -> str:
        if self.done or not self.words[self.at].is_identifier:
            self.fail("expected a name")
        return self.next().text

    def name(self) -> tuple[str, ...]:
        """A dotted name."""
        parts = [self.identifier()]
        while self.accept("."):
            parts.append(self.identifier())
        return tuple(parts)

    def string(self) -> str:
        if self.done or self.words[self.at].kind is not WordKind.STRING:
            self.fail("expected a text in quotes")
        return self.next().text

    def until(self, *stops: str) -> str:
        """The text up to one of these words outside brackets and CASE … END, or to the end."""
        first = self.at
        depth = 0
        while not self.done:
            here = self.peek()
            if depth == 0 and (here in stops or here in _CLOSE):
                break
            if here in _OPEN or here == "CASE":
                depth += 1
            elif here in _CLOSE or (here == "END" and depth):
                depth -= 1
            self.at += 1
        return self.slice(first, self.at)

    def rest(self) -> str:
        first, self.at = self.at, len(self.words)
        return self.slice(first, self.at)

    def slice(self, first: int, last: int) -> str:
        if first >= last:
            return ""
        return self.sql[self.words[first].start : self.words[last - 1].end]

    def bracketed(self) -> list[str]:
        """The texts between commas inside ( … )."""
        self.expect("(")
        parts: list[str] = []
        while not self.accept(")"):
            parts.append(self.until(","))
            if not self.accept(",") and self.peek() != ")":
                self.fail("expected ) or a comma")
        return parts

    def names_in_brackets(self) -> tuple[str, ...]:
        self.expect("(")
        names = [self.identifier()]
        while self.accept(","):
            names.append(self.identifier())
        self.expect(")")
        return tuple(names)

    def end(self) -> None:
        if not self.done:
            self.fail("unexpected text after the statement")

"""A place in a list of words: the small vocabulary that all statement parsers share."""

from __future__ import annotations

from typing import NoReturn

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.lexer.words import Word, WordKind, split_words

_PAIRS = {")": "(", "]": "["}
# What comes after CASE where it is only the name of a column.
_AFTER_NAME = ("AND", "OR", "IS", "LIKE", "BETWEEN", "IN", "THEN", "ELSE", "END")
# After these END is the name of a column, not the end of a CASE.
_BEFORE_OPERAND = {
    ".", "CASE", "WHEN", "THEN", "ELSE", "AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "(", ",", "=",
    "==", "<=>", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/", "%", "||",
}  # fmt: skip


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
        if self.is_script:
            return
        for word in self.words:
            if word.upper == ";":
                raise SqlSyntaxError(
                    "more than one statement", word.line, word.column, "Run one statement at a time."
                )

    @property
    def is_script(self) -> bool:
        """BEGIN … END is a program in Spark's SQL; BEGIN alone starts a transaction."""
        return self.peek() == "BEGIN" and self.peek(1) not in ("", ";", "TRANSACTION", "WORK")

    @property
    def done(self) -> bool:
        return self.at >= len(self.words)

    def peek(self, ahead: int = 0) -> str:
        """The keyword or symbol at this place, or an empty text."""
        place = self.at + ahead
        return self.words[place].upper if 0 <= place < len(self.words) else ""

    def accept(self, *keywords: str) -> bool:
        """Pass these words if they come next."""
        if all(self.peek(n) == k for n, k in enumerate(keywords)):
            self.at += len(keywords)
            return True
        return False

    def expect(self, *keywords: str) -> None:
        if not self.accept(*keywords):
            self.fail(f"expected {' '.join(keywords)}")

    def read_word(self) -> Word:
        if self.done:
            self.fail("the statement ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def fail(self, detail: str, advice: str = "Check the statement at this place.") -> NoReturn:
        if self.done:
            last = self.words[-1]
            column = last.column + last.end - last.start
            raise SqlSyntaxError(f"{detail} at the end", last.line, column, advice)
        word = self.words[self.at]
        found = self.sql[word.start : word.end]
        raise SqlSyntaxError(f"{detail}, found {found}", word.line, word.column, advice)

    def read_identifier(self) -> str:
        if not self.done and self.words[self.at].kind is WordKind.STRING:
            self.fail("expected a name", "Put names in backquotes, as in `my table`; quotes make a string.")
        if self.done or not self.words[self.at].is_identifier:
            self.fail("expected a name")
        return self.read_word().text

    def read_name(self) -> tuple[str, ...]:
        """A dotted name."""
        parts = [self.read_identifier()]
        while self.accept("."):
            parts.append(self.read_identifier())
        return tuple(parts)

    def read_string(self) -> str:
        if self.done or self.words[self.at].kind is not WordKind.STRING:
            self.fail("expected a string in quotes")
        return self.read_word().text

    def read_until(self, *stops: str) -> str:
        """The text up to one of these words outside brackets and CASE … END, or to the end.

        A stop of two words, such as NOT NULL, is met only by both.
        """
        first = self.at
        open_: list[str] = []
        while not self.done:
            here = self.peek()
            if not open_ and (here in _PAIRS or self._stops(stops)):
                break
            if here in ("(", "[") or (here == "CASE" and self._is_case()):
                open_.append(here)
            elif here in _PAIRS and _PAIRS[here] in open_:
                while open_.pop() != _PAIRS[here]:
                    pass
            elif here == "END" and open_ and open_[-1] == "CASE" and self.peek(-1) not in _BEFORE_OPERAND:
                open_.pop()
            self.at += 1
        return self.slice(first, self.at)

    def _stops(self, stops: tuple[str, ...]) -> bool:
        if self.peek(-1) == ".":
            return False
        if self.peek() == "FROM" and self.peek(-1) == "DISTINCT" and self.peek(-2) in ("IS", "NOT"):
            return False
        return any(all(self.peek(n) == w for n, w in enumerate(stop.split())) for stop in stops)

    def _is_case(self) -> bool:
        """CASE opens an expression, unless it is the name of a column."""
        if self.peek(-1) == ".":
            return False
        if self.at + 1 >= len(self.words):
            return False
        after = self.words[self.at + 1]
        if after.kind is WordKind.SYMBOL:
            return after.upper in ("(", "-")
        return after.upper not in _AFTER_NAME

    def read_rest(self) -> str:
        first, self.at = self.at, len(self.words)
        return self.slice(first, self.at)

    def slice(self, first: int, last: int) -> str:
        if first >= last:
            return ""
        return self.sql[self.words[first].start : self.words[last - 1].end]

    def skip_brackets(self) -> None:
        self.expect("(")
        self.read_until()
        while not self.accept(")"):
            if self.done:
                self.fail("expected )")
            self.at += 1
            self.read_until()

    def read_brackets(self) -> list[str]:
        """The texts between commas inside ( … )."""
        self.expect("(")
        parts: list[str] = []
        if self.accept(")"):
            return parts
        while True:
            parts.append(self.read_until(","))
            if not parts[-1]:
                self.fail("expected a value")
            if self.accept(")"):
                return parts
            if not self.accept(","):
                self.fail("expected ) or a comma")

    def read_names_in_brackets(self) -> tuple[str, ...]:
        self.expect("(")
        names = [self.read_identifier()]
        while self.accept(","):
            names.append(self.read_identifier())
        self.expect(")")
        return tuple(names)

    def ahead_are_names_in_brackets(self) -> bool:
        """Whether ( name, name, … ) comes next, with something after it."""
        place = self.at + 1
        if self.peek() != "(":
            return False
        while place + 1 < len(self.words) and self.words[place].is_identifier:
            after = self.words[place + 1].upper
            if after == ")":
                return place + 2 < len(self.words)
            if after != ",":
                return False
            place += 2
        return False

    def expect_end(self) -> None:
        if not self.done:
            self.fail("unexpected text after the statement")

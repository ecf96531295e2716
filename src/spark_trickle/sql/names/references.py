"""Query text -> the places where it names a table, found by reading words, not by rewriting the query.

Spark understands far more SQL than any other parser. So a query is handed to Spark as it is, and
only the words that name our tables are replaced.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.lexer.words import Word, WordKind, split_words


@dataclass(frozen=True)
class VersionAsOf:
    value: str  # SQL text


@dataclass(frozen=True)
class TimestampAsOf:
    value: str


@dataclass(frozen=True)
class ChangesBetween:
    """CHANGES FROM … TO …; bounds are SQL texts, of versions or of timestamps."""

    start: str
    end: str | None
    by_time: bool
    start_inclusive: bool
    end_inclusive: bool


At = VersionAsOf | TimestampAsOf | ChangesBetween


@dataclass(frozen=True)
class Reference:
    """A relation that a query reads: words[start:end] of its text."""

    parts: tuple[str, ...]
    start: int
    end: int
    at: At | None = None
    arguments: tuple[str, ...] | None = None  # of a table function
    alias_at: int | None = None  # where an alias must be added so that columns stay reachable by name

    @property
    def is_function(self) -> bool:
        return self.arguments is not None


@dataclass
class _Frame:
    """What is known at one depth of brackets."""

    is_query: bool
    expecting: bool = False  # a relation comes next
    takes_alias: bool = True  # … and it may have an alias: TABLE t takes none
    in_from: bool = False
    in_values: bool = False  # among the rows of FROM VALUES
    lateral_view: bool = False
    ctes: set[str] = field(default_factory=set)
    recursive: bool = False
    defining: str | None = None  # the CTE whose body is being read
    after_cte: bool = False


_ENDS_FROM = {
    "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW",
    "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT", "|>", "SET",
}  # fmt: skip
_STARTS_QUERY = {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"}
_BEFORE_TABLE = {
    "", "(", "ALL", "DISTINCT", "UNION", "EXCEPT", "INTERSECT", "MINUS", "AS", "EXPLAIN", "EXTENDED",
    "FORMATTED", "COST", "CODEGEN", "QUERY",
}  # fmt: skip
_NOT_AN_ALIAS = {
    "ON", "USING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "SEMI", "ANTI", "NATURAL", "WHERE",
    "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY",
    "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WHEN",
    "SET", "VALUES", "FOR", "THEN", "AND", "OR", "OUTER", "ASOF", "MATCH_CONDITION", "WITH",
}  # fmt: skip
_UNITS = re.compile("(?:YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?")
_VERSION, _TIME = ("VERSION", "SYSTEM_VERSION"), ("TIMESTAMP", "SYSTEM_TIME")


def find_references(sql: str) -> tuple[Reference, ...]:
    return _Finder(sql, split_words(sql)).find_all()


class _Finder:
    def __init__(self, sql: str, words: tuple[Word, ...]) -> None:
        self._sql = sql
        self._words = words
        self._frames = [_Frame(is_query=True)]
        self._found: list[Reference] = []

    def find_all(self) -> tuple[Reference, ...]:
        at = 0
        while at < len(self._words):
            at = self._read_step(at)
        return tuple(self._found)

    def _read_upper(self, at: int) -> str:
        return self._words[at].upper if 0 <= at < len(self._words) else ""

    def _is_name(self, at: int) -> bool:
        return at < len(self._words) and self._words[at].is_identifier

    def _read_step(self, at: int) -> int:
        frame, word = self._frames[-1], self._read_upper(at)
        if frame.after_cte:
            frame.after_cte = False
            if word == "," and self._find_body(at + 1) is not None:
                return self._define_cte(at + 1)
        if word == "(":
            return self._open_bracket(at)
        if word == ")":
            self._close_bracket()
            return at + 1
        if frame.in_values:
            self._read_values(at, frame)
        elif frame.expecting and self._is_name(at) and word not in ("LATERAL", "VALUES", "SELECT"):
            return self._read_relation(at)
        elif word == "WITH" and frame.is_query and (start := self._find_first_cte(at)) is not None:
            frame.recursive = start > at + 1
            return self._define_cte(start)
        elif frame.is_query and not self._is_only_a_name(at):
            self._read_clause(at, frame, word)
        return at + 1

    def _is_only_a_name(self, at: int) -> bool:
        """Whether a keyword stands where only a name can: after a dot, or as an alias."""
        before, after = self._read_upper(at - 1), self._read_upper(at + 1)
        if before == ".":
            return True
        if before != "AS" or self._read_upper(at) not in _ENDS_FROM | {
            "FROM",
            "TABLE",
            "VALUES",
            "JOIN",
            "WITH",
        }:
            return False
        joins = ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "LATERAL")
        return after in ("", ",", ")", "FROM", "ON", *joins) or after in _ENDS_FROM

    # --- brackets ----------------------------------------------------------------------------------

    def _open_bracket(self, at: int) -> int:
        frame = self._frames[-1]
        inside = self._starts_query(at)
        relation = frame.expecting and self._read_upper(at + 1) not in _STARTS_QUERY
        argument = self._read_upper(at - 1) == "TABLE" and not frame.is_query and not inside
        frame.expecting = False
        self._frames.append(
            _Frame(
                is_query=relation or argument or inside,
                expecting=relation or argument,
                takes_alias=not argument,
                in_from=relation,
            )
        )
        return at + 1

    def _starts_query(self, at: int) -> bool:
        """Whether a query begins in the bracket here, maybe after more brackets."""
        while self._read_upper(at) == "(":
            at += 1
        no_query = (",", ")", "=", ".") + (("(",) if self._read_upper(at) == "TABLE" else ())
        return self._read_upper(at) in _STARTS_QUERY and self._read_upper(at + 1) not in no_query

    def _close_bracket(self) -> None:
        if len(self._frames) == 1:
            return  # Spark will complain of the bracket better than we can
        self._frames.pop()
        frame = self._frames[-1]
        if frame.defining is not None:
            frame.ctes.add(frame.defining)
            frame.defining, frame.after_cte = None, True

    # --- WITH ----------------------------------------------------------------------------------------

    def _find_first_cte(self, at: int) -> int | None:
        """The place of the first name after WITH [RECURSIVE], if a list of CTEs is there."""
        if self._find_body(at + 1) is not None:
            return at + 1
        if self._read_upper(at + 1) == "RECURSIVE" and self._find_body(at + 2) is not None:
            return at + 2
        return None

    def _find_body(self, at: int) -> int | None:
        """`name [(columns)] [MAX RECURSION LEVEL n] [AS] (`: the place of the bracket around the query."""
        if not self._is_name(at):
            return None
        at += 1
        if self._read_upper(at) == "(" and not self._starts_query(at):
            at = self._skip_brackets(at)
        if self._read_upper(at) == "MAX":
            at += 4
        if self._read_upper(at) == "AS":
            at += 1
        return at if self._read_upper(at) == "(" and self._starts_query(at) else None

    def _define_cte(self, at: int) -> int:
        """A CTE is known after its body, a recursive one in it."""
        frame, name = self._frames[-1], self._words[at].text.lower()
        body = self._find_body(at)
        assert body is not None
        if frame.recursive:
            frame.ctes.add(name)
        frame.defining, frame.expecting = name, False
        return body

    # --- clauses -------------------------------------------------------------------------------------

    def _read_clause(self, at: int, frame: _Frame, word: str) -> None:
        before = self._read_upper(at - 1)
        if word == "FROM":
            if not (before == "DISTINCT" and self._read_upper(at - 2) in ("IS", "NOT")):
                frame.expecting, frame.in_from, frame.lateral_view, frame.takes_alias = (
                    True,
                    True,
                    False,
                    True,
                )
        elif word == "JOIN" or (word == "," and frame.in_from and not frame.lateral_view):
            frame.expecting = frame.takes_alias = True
        elif word == "LATERAL" and self._read_upper(at + 1) == "VIEW":
            frame.lateral_view, frame.expecting = True, False
        elif word == "TABLE" and self._is_name(at + 1) and (before in _BEFORE_TABLE or self._after_ctes(at)):
            frame.expecting, frame.takes_alias = True, False
        elif word == "VALUES":
            frame.in_values, frame.expecting = frame.expecting, False
        elif word in _ENDS_FROM or (word in ("MAP", "REDUCE") and frame.in_from and self._is_name(at + 1)):
            frame.in_from = frame.expecting = False

    def _after_ctes(self, at: int) -> bool:
        frame = self._frames[-1]
        return self._read_upper(at - 1) == ")" and bool(frame.ctes) and not frame.in_from

    def _read_values(self, at: int, frame: _Frame) -> None:
        """The rows of FROM VALUES end with an alias, or with the next clause."""
        before = self._words[at - 1]
        follows_value = before.upper == ")" or before.kind in (WordKind.NUMBER, WordKind.STRING)
        follows_value = follows_value or before.upper in ("TRUE", "FALSE", "NULL")
        if self._read_upper(at) == "AS" or (follows_value and self._is_name(at)):
            frame.in_values = False
            if self._read_upper(at) in _NOT_AN_ALIAS:
                self._read_clause(at, frame, self._read_upper(at))

    # --- relations -----------------------------------------------------------------------------------

    def _read_relation(self, at: int) -> int:
        frame = self._frames[-1]
        frame.expecting = False
        first, parts = at, [self._words[at].text]
        at += 1
        while self._read_upper(at) == "." and self._is_name(at + 1):
            parts.append(self._words[at + 1].text)
            at += 2
        if self._read_upper(at) == "(":
            return self._read_function(first, at, tuple(parts))
        if len(parts) == 1 and any(parts[0].lower() in f.ctes for f in self._frames):
            return at
        clause, at = self._read_temporal(self._skip_options(at))
        at = self._skip_options(at)
        alias_at = self._find_alias_place(at) if frame.takes_alias else None
        self._found.append(Reference(tuple(parts), first, at, clause, None, alias_at))
        return at

    def _skip_options(self, at: int) -> int:
        """WITH (…) holds options for a data source: our tables have none."""
        given = self._read_upper(at) == "WITH" and self._read_upper(at + 1) == "("
        return self._skip_brackets(at + 1) if given else at

    def _read_function(self, first: int, at: int, parts: tuple[str, ...]) -> int:
        if len(parts) != 2 or parts[0].lower() != "trickle":
            return at  # Spark's own; its arguments may hold queries
        end = self._skip_brackets(at)
        arguments = self._split_arguments(at + 1, end - 1)
        self._found.append(Reference(parts, first, end, None, arguments, self._find_alias_place(end)))
        return end

    def _split_arguments(self, first: int, last: int) -> tuple[str, ...]:
        texts, start, depth = [], first, 0
        for at in range(first, last):
            if self._read_upper(at) == "(":
                depth += 1
            elif self._read_upper(at) == ")":
                depth -= 1
            elif self._read_upper(at) == "," and depth == 0:
                texts.append(self._read_text(start, at))
                start = at + 1
        return (*texts, self._read_text(start, last)) if last > first else ()

    def _read_text(self, first: int, last: int) -> str:
        return self._sql[self._words[first].start : self._words[last - 1].end] if last > first else ""

    def _skip_brackets(self, at: int) -> int:
        depth = 0
        while at < len(self._words):
            depth += {"(": 1, ")": -1}.get(self._read_upper(at), 0)
            at += 1
            if depth == 0:
                break
        return at

    def _find_alias_place(self, at: int) -> int | None:
        """Where an alias belongs if the query gives none: after a TABLESAMPLE (…)."""
        if self._read_upper(at) == "TABLESAMPLE":
            while at < len(self._words) and self._read_upper(at) != "(":
                at += 1
            at = self._skip_brackets(at)
            if self._read_upper(at) == "REPEATABLE":
                at = self._skip_brackets(at + 1)
        if self._is_name(at):
            word = self._read_upper(at)
            if word == "AS" or word not in _NOT_AN_ALIAS:
                return None
        return at

    # --- VERSION AS OF, TIMESTAMP AS OF, CHANGES -------------------------------------------------------

    def _read_temporal(self, at: int) -> tuple[At | None, int]:
        start = at + 1 if self._read_upper(at) == "FOR" else at
        if self._read_upper(start + 1) == "AS" and self._read_upper(start + 2) == "OF":
            if self._read_upper(start) in _VERSION:
                text, end = self._read_value_text(start + 3)
                return VersionAsOf(text), end
            if self._read_upper(start) in _TIME:
                text, end = self._read_value_text(start + 3)
                return TimestampAsOf(text), end
        if self._read_upper(at) == "CHANGES" and self._read_upper(at + 1) == "FROM":
            return self._read_changes(at + 2)
        return None, at

    def _read_changes(self, at: int) -> tuple[ChangesBetween, int]:
        by_time = self._read_upper(at) in _TIME
        if self._read_upper(at) not in _VERSION + _TIME:
            self._raise_error(at, "expected VERSION or TIMESTAMP after CHANGES FROM")
        start_text, at = self._read_value_text(at + 1)
        start_inclusive, at = self._read_inclusive(at, default=False)
        end_text, end_inclusive = None, True
        if self._read_upper(at) == "TO":
            if self._read_upper(at + 1) not in (_TIME if by_time else _VERSION):
                self._raise_error(at + 1, "both bounds of CHANGES must be versions, or both timestamps")
            end_text, at = self._read_value_text(at + 2)
            end_inclusive, at = self._read_inclusive(at, default=True)
        return ChangesBetween(start_text, end_text, by_time, start_inclusive, end_inclusive), at

    def _read_inclusive(self, at: int, default: bool) -> tuple[bool, int]:
        if self._read_upper(at) in ("INCLUSIVE", "EXCLUSIVE"):
            return self._read_upper(at) == "INCLUSIVE", at + 1
        return default, at

    def _read_value_text(self, at: int) -> tuple[str, int]:
        """One value: a constant, a call, brackets, an interval; joined by operators or cast by ::."""
        end = self._skip_primary(at)
        while self._read_upper(end) in ("+", "-", "*", "/", "%", "::"):
            end = self._skip_primary(end + 1)
        return self._read_text(at, end), end

    def _skip_primary(self, at: int) -> int:
        if at >= len(self._words):
            self._raise_error(at, "expected a value")
        if self._read_upper(at) in ("-", "+"):
            return self._skip_primary(at + 1)
        if self._read_upper(at) == "(":
            return self._skip_brackets(at)
        if self._read_upper(at) == "INTERVAL":
            return self._skip_interval(at + 1)
        at += 1
        if at < len(self._words) and self._words[at].kind is WordKind.STRING and self._is_name(at - 1):
            return at + 1  # TIMESTAMP '…'
        return self._skip_brackets(at) if self._read_upper(at) == "(" else at

    def _skip_interval(self, at: int) -> int:
        """INTERVAL '1 hour', INTERVAL 1 DAY 2 HOURS, INTERVAL '1 02:00' DAY TO MINUTE."""
        while at < len(self._words):
            signed = at + 1 if self._read_upper(at) in ("-", "+") else at
            if self._words[signed].kind not in (WordKind.NUMBER, WordKind.STRING):
                break
            at = signed + 1
            if not _UNITS.fullmatch(self._read_upper(at)):
                break
            at += 1
            if self._read_upper(at) == "TO" and _UNITS.fullmatch(self._read_upper(at + 1)):
                return at + 2
        return at

    def _raise_error(self, at: int, detail: str) -> NoReturn:
        word = self._words[min(at, len(self._words) - 1)]
        raise SqlSyntaxError(detail, word.line, word.column)

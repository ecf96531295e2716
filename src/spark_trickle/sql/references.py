"""Query text -> the places where it names a table, found by reading words, not by rewriting the query.

Spark understands far more SQL than any other parser. So a query is handed to Spark as it is, and
only the words that name our tables are replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from spark_trickle.errors import SqlSyntaxError
from spark_trickle.sql.words import Word, WordKind, quote, split_words


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
    in_from: bool = False
    lateral_view: bool = False
    ctes: set[str] = field(default_factory=set)
    with_clause: bool = False
    defining: str | None = None  # the CTE whose body is being read


_ENDS_FROM = {
    "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW",
    "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT", "|>", "SET", "WHEN",
}  # fmt: skip
_STARTS_QUERY = {"SELECT", "WITH", "FROM", "VALUES", "TABLE"}
_NOT_AN_ALIAS = {
    "ON", "USING", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "SEMI", "ANTI", "NATURAL", "WHERE",
    "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY",
    "UNION", "INTERSECT", "EXCEPT", "MINUS", "SELECT", "LATERAL", "PIVOT", "UNPIVOT", "TABLESAMPLE", "WHEN",
    "SET", "VALUES", "CHANGES", "FOR", "VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME", "THEN",
    "AND", "OR", "OUTER", "ASOF", "MATCH_RECOGNIZE",
}  # fmt: skip


def find_references(sql: str) -> tuple[Reference, ...]:
    return _Finder(sql, split_words(sql)).run()


class _Finder:
    def __init__(self, sql: str, words: tuple[Word, ...]) -> None:
        self._sql = sql
        self._words = words
        self._frames = [_Frame(is_query=True)]
        self._found: list[Reference] = []

    def run(self) -> tuple[Reference, ...]:
        at = 0
        while at < len(self._words):
            at = self._step(at)
        return tuple(self._found)

    def _upper(self, at: int) -> str:
        return self._words[at].upper if 0 <= at < len(self._words) else ""

    def _step(self, at: int) -> int:
        frame, word = self._frames[-1], self._upper(at)
        if word == "(":
            return self._open(at)
        if word == ")":
            self._close()
            return at + 1
        if frame.with_clause and frame.defining is None and self._words[at].is_identifier:
            return self._define_cte(at)
        if frame.expecting and self._words[at].is_identifier and word not in ("LATERAL", "VALUES", "SELECT"):
            return self._relation(at)
        if frame.is_query:
            self._clause(at, frame, word)
        return at + 1

    def _open(self, at: int) -> int:
        frame, inside = self._frames[-1], self._upper(at + 1)
        relation = frame.expecting and inside not in _STARTS_QUERY
        table_argument = self._upper(at - 1) == "TABLE" and inside not in _STARTS_QUERY
        frame.expecting = False
        is_query = relation or table_argument or inside in _STARTS_QUERY
        nested = _Frame(is_query=is_query, expecting=relation or table_argument, in_from=relation)
        self._frames.append(nested)
        return at + 1

    def _close(self) -> None:
        if len(self._frames) == 1:
            return  # Spark will complain of the bracket better than we can
        self._frames.pop()
        frame = self._frames[-1]
        if frame.with_clause and frame.defining is not None and frame.defining.startswith("+"):
            frame.ctes.add(frame.defining[1:])
            frame.with_clause, frame.defining = False, None

    def _define_cte(self, at: int) -> int:
        """name [(columns)] [MAX RECURSION LEVEL n] AS ( body ): the name is known after its body."""
        frame = self._frames[-1]
        if self._upper(at) == "RECURSIVE" and self._upper(at + 1) not in ("AS", "("):
            frame.defining = None
            recursive = True
            at += 1
        else:
            recursive = self._upper(at - 1) == "RECURSIVE"
        name = self._words[at].text.lower()
        if recursive:
            frame.ctes.add(name)
        at += 1
        while at < len(self._words) and self._upper(at) != "AS":
            at = self._after_brackets(at) if self._upper(at) == "(" else at + 1
        frame.defining = f"+{name}"
        return at + 1

    def _clause(self, at: int, frame: _Frame, word: str) -> None:
        before = self._upper(at - 1)
        if word == "WITH" and before in (
            "",
            "(",
            "AS",
            "EXPLAIN",
            "EXTENDED",
            "FORMATTED",
            "COST",
            "CODEGEN",
        ):
            frame.with_clause, frame.defining = True, None
        elif word == "," and not frame.with_clause and frame.ctes and not frame.in_from and before == ")":
            # after a CTE's body: another one, unless this is a comma of the select list
            frame.with_clause = self._starts_cte(at + 1)
        elif word == "FROM":
            if before == "DISTINCT" and self._upper(at - 2) in ("IS", "NOT"):
                return
            frame.expecting, frame.in_from, frame.lateral_view = True, True, False
        elif word == "JOIN" or (word == "," and frame.in_from and not frame.lateral_view):
            frame.expecting = True
        elif word == "LATERAL" and self._upper(at + 1) == "VIEW":
            frame.lateral_view, frame.expecting = True, False
        elif word == "TABLE" and before in (
            "",
            "(",
            "ALL",
            "DISTINCT",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "MINUS",
            "AS",
        ):
            frame.expecting = self._upper(at + 1) != "("
        elif word in _ENDS_FROM:
            frame.in_from = frame.expecting = False
        elif word == "VALUES":
            frame.expecting = False

    def _starts_cte(self, at: int) -> bool:
        """Whether `name [(…)] AS (` stands here."""
        if at >= len(self._words) or not self._words[at].is_identifier:
            return False
        at += 1
        if self._upper(at) == "(":
            at = self._after_brackets(at)
        return self._upper(at) == "AS" and self._upper(at + 1) == "("

    def _relation(self, at: int) -> int:
        frame = self._frames[-1]
        frame.expecting = False
        first, parts = at, [self._words[at].text]
        at += 1
        while self._upper(at) == "." and at + 1 < len(self._words) and self._words[at + 1].is_identifier:
            parts.append(self._words[at + 1].text)
            at += 2
        if self._upper(at) == "(":
            return self._function(first, at, tuple(parts))
        if len(parts) == 1 and any(parts[0].lower() in f.ctes for f in self._frames):
            return at
        clause, at = self._temporal(at)
        table_word = self._upper(first - 1) == "TABLE" or self._upper(first - 2) == "TABLE"
        alias_at = None if table_word else self._alias_place(at)  # TABLE t takes no alias
        self._found.append(Reference(tuple(parts), first, at, clause, None, alias_at))
        return at

    def _function(self, first: int, at: int, parts: tuple[str, ...]) -> int:
        if len(parts) != 2 or parts[0].lower() != "trickle":
            return at  # Spark's own; its arguments may hold queries
        end = self._after_brackets(at)
        arguments = self._split(at + 1, end - 1)
        self._found.append(Reference(parts, first, end, None, arguments, self._alias_place(end)))
        return end

    def _split(self, first: int, last: int) -> tuple[str, ...]:
        texts, start, depth = [], first, 0
        for at in range(first, last):
            if self._upper(at) == "(":
                depth += 1
            elif self._upper(at) == ")":
                depth -= 1
            elif self._upper(at) == "," and depth == 0:
                texts.append(self._text(start, at))
                start = at + 1
        return (*texts, self._text(start, last)) if last > first else ()

    def _text(self, first: int, last: int) -> str:
        return self._sql[self._words[first].start : self._words[last - 1].end] if last > first else ""

    def _after_brackets(self, at: int) -> int:
        depth = 0
        while at < len(self._words):
            depth += {"(": 1, ")": -1}.get(self._upper(at), 0)
            at += 1
            if depth == 0:
                break
        return at

    # --- VERSION AS OF, TIMESTAMP AS OF, CHANGES --------------------------------------------------

    def _temporal(self, at: int) -> tuple[At | None, int]:
        start = at + 1 if self._upper(at) == "FOR" else at
        if self._upper(start + 1) == "AS" and self._upper(start + 2) == "OF":
            if self._upper(start) in ("VERSION", "SYSTEM_VERSION"):
                end = self._value(start + 3)
                return VersionAsOf(self._text(start + 3, end)), end
            if self._upper(start) in ("TIMESTAMP", "SYSTEM_TIME"):
                end = self._value(start + 3)
                return TimestampAsOf(self._text(start + 3, end)), end
        if self._upper(at) == "CHANGES" and self._upper(at + 1) == "FROM":
            return self._changes(at + 2)
        return None, at

    def _changes(self, at: int) -> tuple[ChangesBetween, int]:
        by_time = self._upper(at) == "TIMESTAMP"
        if self._upper(at) not in ("VERSION", "TIMESTAMP"):
            self._fail(at, "expected VERSION or TIMESTAMP after CHANGES FROM")
        start_text, at = self._bound(at + 1)
        start_inclusive, at = self._inclusive(at, default=False)
        end_text, end_inclusive = None, True
        if self._upper(at) == "TO":
            if self._upper(at + 1) != ("TIMESTAMP" if by_time else "VERSION"):
                self._fail(at + 1, "both bounds of CHANGES must be versions, or both timestamps")
            end_text, at = self._bound(at + 2)
            end_inclusive, at = self._inclusive(at, default=True)
        return ChangesBetween(start_text, end_text, by_time, start_inclusive, end_inclusive), at

    def _bound(self, at: int) -> tuple[str, int]:
        end = self._value(at)
        return self._text(at, end), end

    def _inclusive(self, at: int, default: bool) -> tuple[bool, int]:
        if self._upper(at) in ("INCLUSIVE", "EXCLUSIVE"):
            return self._upper(at) == "INCLUSIVE", at + 1
        return default, at

    def _value(self, at: int) -> int:
        """Pass one value: a constant, a call, brackets, an interval; joined by + and −."""
        at = self._primary(at)
        while self._upper(at) in ("+", "-"):
            at = self._primary(at + 1)
        return at

    def _primary(self, at: int) -> int:
        if at >= len(self._words):
            self._fail(at, "expected a value")
        if self._upper(at) == "(":
            return self._after_brackets(at)
        if self._upper(at) == "INTERVAL":
            return at + 2 if self._upper(at + 2) == "" else at + 3
        at += 1
        if (
            at < len(self._words)
            and self._words[at].kind is WordKind.STRING
            and self._upper(at - 1) in ("TIMESTAMP", "DATE")
        ):
            at += 1
        return self._after_brackets(at) if self._upper(at) == "(" else at

    def _alias_place(self, at: int) -> int | None:
        """Where an alias belongs if the query gives none: after a TABLESAMPLE (…)."""
        if self._upper(at) == "TABLESAMPLE":
            at = self._after_brackets(at + 1)
            if self._upper(at) == "REPEATABLE":
                at = self._after_brackets(at + 1)
        if at < len(self._words):
            word = self._words[at]
            if word.upper == "AS" or (word.is_identifier and word.upper not in _NOT_AN_ALIAS):
                return None
        return at

    def _fail(self, at: int, detail: str) -> NoReturn:
        word = self._words[min(at, len(self._words) - 1)]
        raise SqlSyntaxError(detail, word.line, word.column)


def replace_references(sql: str, replacement: Callable[[Reference], str | None]) -> str:
    """The query with each reference replaced by the text given for it; None leaves it to Spark."""
    words = split_words(sql)
    inserts: list[tuple[int, int, str]] = []  # start, end, text
    qualified: dict[tuple[str, ...], str] = {}
    taken: set[int] = set()
    for reference in find_references(sql):
        text = replacement(reference)
        if text is None:
            continue
        inserts.append((words[reference.start].start, words[reference.end - 1].end, text))
        taken.update(range(reference.start, reference.end))
        alias = reference.parts[-1]
        if reference.alias_at is not None:
            place = words[reference.alias_at - 1].end
            inserts.append((place, place, f" AS {quote(alias)}"))
        if len(reference.parts) > 1:
            qualified[tuple(p.lower() for p in reference.parts)] = alias
    inserts += _shortened_qualifiers(words, qualified, taken)
    return _apply(sql, inserts)


def _shortened_qualifiers(
    words: tuple[Word, ...], qualified: dict[tuple[str, ...], str], taken: set[int]
) -> list[tuple[int, int, str]]:
    """`s.t.column` becomes `t.column`: an alias has only one part."""
    found = []
    for parts, alias in qualified.items():
        span = 2 * len(parts)
        for at in range(len(words) - span):
            names = [w.text.lower() for w in words[at : at + span : 2]]
            dots = [w.text for w in words[at + 1 : at + span : 2]]
            inner = at > 0 and words[at - 1].text == "."
            if tuple(names) == parts and set(dots) == {"."} and at not in taken and not inner:
                found.append((words[at].start, words[at + span - 2].end, quote(alias)))
    return found


def _apply(sql: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, text in sorted(edits, key=lambda e: (e[0], e[1]), reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql

"""The expressions over columns of a tree: what they are made of, and their text for Spark.

Each class is one form of Spark SQL that some step of ours understands, such as a key that is found or a
value that is computed at the driver. Whatever else a query says is `Opaque`: a text that only Spark reads.
A text is made of the parts as they stand: what needs brackets has them as a part of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import ClassVar

from spark_trickle.model.quoting import quote

_ESCAPES = str.maketrans(
    {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\0": "\\0"}
)


@dataclass(frozen=True, eq=False)
class Expr:
    """An expression; two with the same text over the same columns are equal."""

    @cached_property
    def sql(self) -> str:
        return self._write_sql()

    def _write_sql(self) -> str:
        raise NotImplementedError

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.columns for part in self.parts))

    @cached_property
    def parts(self) -> tuple[Expr, ...]:
        """The expressions that it is made of."""
        values = (getattr(self, name) for name in self.__dataclass_fields__)  # fields() takes much longer
        return tuple(part for value in values for part in _expressions_in(value))

    @cached_property
    def depth(self) -> int:
        return 1 + max((part.depth for part in self.parts), default=0)

    @property
    def meaning(self) -> Expr:
        """The same expression by its parts."""
        return self

    @property
    def column(self) -> str | None:
        """The column that it is, if it is nothing but one."""
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expr):
            return NotImplemented
        return self is other or (self.sql == other.sql and self.columns == other.columns)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.sql, self.columns))


def _expressions_in(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for v in value:
            yield from _expressions_in(v)


# --- values ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Column(Expr):
    """A column of the tree."""

    name: str

    def _write_sql(self) -> str:
        return quote(self.name)

    @cached_property
    def columns(self) -> frozenset[str]:
        return frozenset((self.name,))

    @property
    def column(self) -> str | None:
        return self.name


@dataclass(frozen=True, eq=False)
class Field(Expr):
    """A field of a struct."""

    input: Expr
    name: str

    def _write_sql(self) -> str:
        return f"{self.input.sql}.{quote(self.name)}"


class LiteralKind(StrEnum):
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    NULL = "null"


@dataclass(frozen=True, eq=False)
class Literal(Expr):
    """A constant: a string by its value, all others as they are written."""

    text: str
    kind: LiteralKind = LiteralKind.NUMBER

    def _write_sql(self) -> str:
        return f"'{self.text.translate(_ESCAPES)}'" if self.kind is LiteralKind.STRING else self.text


@dataclass(frozen=True, eq=False)
class Interval(Expr):
    """So many years, months, days: INTERVAL '3' DAY."""

    count: Expr
    unit: str

    def _write_sql(self) -> str:
        return f"INTERVAL {self.count.sql}{' ' if self.unit else ''}{self.unit}"


@dataclass(frozen=True, eq=False)
class Brackets(Expr):
    input: Expr

    def _write_sql(self) -> str:
        return f"({self.input.sql})"


@dataclass(frozen=True, eq=False)
class Negate(Expr):
    input: Expr

    def _write_sql(self) -> str:
        inner = self.input.sql
        return f"- {inner}" if inner.startswith("-") else f"-{inner}"  # two of them would begin a comment


@dataclass(frozen=True, eq=False)
class Arithmetic(Expr):
    """A sum, a difference, a product or a quotient: + - * /."""

    op: str
    left: Expr
    right: Expr

    def _write_sql(self) -> str:
        return f"{self.left.sql} {self.op} {self.right.sql}"


@dataclass(frozen=True, eq=False)
class Cast(Expr):
    """A value in another type; `safe` gives null for what does not fit."""

    input: Expr
    type: str
    safe: bool = False

    def _write_sql(self) -> str:
        return f"{'TRY_' if self.safe else ''}CAST({self.input.sql} AS {self.type})"


@dataclass(frozen=True, eq=False)
class Extract(Expr):
    """EXTRACT(YEAR FROM d)."""

    part: str
    input: Expr

    def _write_sql(self) -> str:
        return f"EXTRACT({self.part} FROM {self.input.sql})"


@dataclass(frozen=True, eq=False)
class Function(Expr):
    """A function of values, under the name that the query has for it."""

    name: str
    arguments: tuple[Expr, ...]

    def _write_sql(self) -> str:
        return f"{self.name}({', '.join(a.sql for a in self.arguments)})"


@dataclass(frozen=True, eq=False)
class Case(Expr):
    """The value of the first branch whose test is true, or is the operand."""

    branches: tuple[tuple[Expr, Expr], ...]  # (test, value)
    default: Expr | None = None
    operand: Expr | None = None

    def _write_sql(self) -> str:
        start = f"CASE {self.operand.sql}" if self.operand is not None else "CASE"
        tests = "".join(f" WHEN {test.sql} THEN {value.sql}" for test, value in self.branches)
        end = f" ELSE {self.default.sql} END" if self.default is not None else " END"
        return f"{start}{tests}{end}"


# --- conditions --------------------------------------------------------------------------------------

_NULL_SAFE = ("<=>", "IS NOT DISTINCT FROM")


@dataclass(frozen=True, eq=False)
class Comparison(Expr):
    """= <> < <= > >=, and <=> or IS NOT DISTINCT FROM, for which null equals null."""

    op: str
    left: Expr
    right: Expr

    @property
    def is_null_safe(self) -> bool:
        return self.op in _NULL_SAFE

    @property
    def is_equality(self) -> bool:
        return self.op == "=" or self.is_null_safe

    def _write_sql(self) -> str:
        return f"{self.left.sql} {self.op} {self.right.sql}"


@dataclass(frozen=True, eq=False)
class _Connected(Expr):
    tests: tuple[Expr, ...]
    word: ClassVar[str]

    def _write_sql(self) -> str:
        return f" {self.word} ".join(t.sql for t in self.tests)


@dataclass(frozen=True, eq=False)
class And(_Connected):
    """All tests, two or more, are true."""

    word = "AND"


@dataclass(frozen=True, eq=False)
class Or(_Connected):
    """One of two or more tests is true."""

    word = "OR"


@dataclass(frozen=True, eq=False)
class Not(Expr):
    input: Expr

    def _write_sql(self) -> str:
        return f"NOT {self.input.sql}"


@dataclass(frozen=True, eq=False)
class Is(Expr):
    """IS NULL, IS TRUE, IS FALSE, or IS NOT one of them."""

    input: Expr
    value: Literal
    negated: bool = False

    def _write_sql(self) -> str:
        return f"{self.input.sql} IS {'NOT ' if self.negated else ''}{self.value.sql}"


@dataclass(frozen=True, eq=False)
class InList(Expr):
    input: Expr
    values: tuple[Expr, ...]

    def _write_sql(self) -> str:
        return f"{self.input.sql} IN ({', '.join(v.sql for v in self.values)})"


@dataclass(frozen=True, eq=False)
class Between(Expr):
    input: Expr
    low: Expr
    high: Expr

    def _write_sql(self) -> str:
        return f"{self.input.sql} BETWEEN {self.low.sql} AND {self.high.sql}"


@dataclass(frozen=True, eq=False)
class Like(Expr):
    input: Expr
    pattern: Expr
    negated: bool = False

    def _write_sql(self) -> str:
        return f"{self.input.sql} {'NOT ' if self.negated else ''}LIKE {self.pattern.sql}"


# --- texts -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Opaque(Expr):
    """A text that only Spark reads, and the columns in it."""

    text: str
    names: frozenset[str] = frozenset()

    def _write_sql(self) -> str:
        return self.text

    @cached_property
    def columns(self) -> frozenset[str]:
        return self.names


@dataclass(frozen=True, eq=False)
class Written(Expr):
    """A text that we may read as well, once somebody asks what it means.

    So are the expressions of plans that were stored as text, and those whose words are not how we write it.
    """

    text: str
    names: frozenset[str]
    read: Callable[[str, frozenset[str]], Expr]

    def _write_sql(self) -> str:
        return self.text

    @cached_property
    def columns(self) -> frozenset[str]:
        return self.names

    @cached_property
    def meaning(self) -> Expr:
        return self.read(self.text, self.names)

    @property
    def column(self) -> str | None:
        return next((c for c in self.names if self.text == quote(c)), None)


# --- often made ----------------------------------------------------------------------------------------

NULL = Literal("NULL", LiteralKind.NULL)
TRUE, FALSE = (Literal(text, LiteralKind.BOOLEAN) for text in ("true", "false"))


def integer(value: int) -> Literal:
    return Literal(str(value))


def is_not_null(value: Expr) -> Expr:
    return Is(Brackets(value), NULL, negated=True)

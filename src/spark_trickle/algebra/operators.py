"""The operators that queries and their deltas are made of.

Every column of a tree has a name of its own, so an expression never needs a qualifier, and the same
subtree may stand several times in a delta: read before the change, after it, or as the change itself.
A tree is either *content*, a bag of rows, or *weighted*: rows with a weight of +1 or −1 in `_w`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import ClassVar, Self

from spark_trickle.algebra.expressions import Column, Expr
from spark_trickle.algebra.references import Reference, RoundRef


class At(StrEnum):
    """Which rows of a table a scan reads."""

    OLD = "old"  # as the stream table last saw them
    NEW = "new"  # as they are now
    DELTA = "delta"  # what changed between, with weights
    LOG = "log"  # as OLD, but as the rows of all its changes, with weights


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"
    MARK = "mark"  # every left row once, and whether it has a match


@dataclass(frozen=True)
class Output:
    """A named expression."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Operator:
    """A node of the tree; its inputs are those of its fields that are operators.

    It never changes, so what a walk finds is kept: planning a change asks for it again and again.
    """

    keeps_rows: ClassVar[bool] = False  # in a table of its own, from which its change is computed

    @property
    def columns(self) -> tuple[str, ...]:
        raise NotImplementedError

    @cached_property
    def inputs(self) -> tuple[Operator, ...]:
        found: list[Operator] = []
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Operator):
                found.append(value)
            elif isinstance(value, tuple):
                found += [v for v in value if isinstance(v, Operator)]
        return tuple(found)

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        """The same operator over other inputs, given in the order of `inputs`."""
        rest = iter(inputs)
        changed: dict[str, object] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Operator):
                changed[f.name] = next(rest)
            elif isinstance(value, tuple) and any(isinstance(v, Operator) for v in value):
                changed[f.name] = tuple(next(rest) if isinstance(v, Operator) else v for v in value)
        return replace(self, **changed)

    def walk(self) -> Iterator[Operator]:
        """Every part once, however often it stands in the tree."""
        seen: set[int] = set()
        rest: list[Operator] = [self]
        while rest:
            op = rest.pop()
            if id(op) not in seen:
                seen.add(id(op))
                yield op
                rest += reversed(op.inputs)

    def __init_subclass__(cls) -> None:
        cls.__hash__ = Operator.__hash__  # type: ignore[method-assign]  # a dataclass makes its own

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((type(self), *(getattr(self, f.name) for f in fields(self))))

    @cached_property
    def weighted(self) -> bool:
        return any(child.weighted for child in self.inputs)

    @cached_property
    def sources(self) -> frozenset[Reference]:
        """The tables and nodes that are read; within a recursion also the rows found last."""
        return frozenset(op.source for op in self.walk() if isinstance(op, Scan))

    def at(self, when: At) -> Operator:
        """The tree with all its scans reading at one moment."""
        return self.with_inputs(tuple(child.at(when) for child in self.inputs))


@dataclass(frozen=True)
class Scan(Operator):
    """Columns of what a reference names, under the names of this tree."""

    source: Reference
    names: tuple[tuple[str, str], ...]  # (name in the tree, name in the table)
    moment: At = At.NEW

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.names)

    @property
    def weighted(self) -> bool:
        return self.moment in (At.DELTA, At.LOG)

    def at(self, when: At) -> Operator:
        return replace(self, moment=when)


@dataclass(frozen=True)
class Constant(Operator):
    """Rows that never change: VALUES, or the one row of a SELECT without FROM."""

    names: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True)
class Project(Operator):
    """Each row of the input as new columns."""

    input: Operator
    outputs: tuple[Output, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.outputs)


@dataclass(frozen=True)
class Filter(Operator):
    """The rows of the input whose predicate is true; null counts as false."""

    input: Operator
    predicate: Expr

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class KeyPair:
    """One expression of each side that must be equal; `null_safe` says that null equals null."""

    left: Expr
    right: Expr
    null_safe: bool = False


@dataclass(frozen=True)
class Join(Operator):
    """Pairs of rows whose keys are equal and for which the residual is true."""

    left: Operator
    right: Operator
    kind: JoinKind
    keys: tuple[KeyPair, ...] = ()
    residual: Expr | None = None
    mark: str | None = None  # the column that a MARK join adds
    broadcast: bool = False  # the left side of an inner join is few rows, and goes to every task

    @property
    def columns(self) -> tuple[str, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        if self.kind is JoinKind.MARK:
            return (*self.left.columns, self.mark or "")
        return self.left.columns + self.right.columns


@dataclass(frozen=True)
class Call(Output):
    """An aggregate function: the expression is the call as Spark understands it.

    An algebraic one is a sum over rows: `term` is what each row adds (see `Fold`). For an extremum `term`
    is the value of a row, and `pick` says which of them is wanted: min or max. Beside it stands a call that
    tells how many rows are known to have that value, `ties_of` it: at least one, more once they were counted.

    Some values do not fit into exact sums. `again_if` names the call that counts them: while a group has any,
    this call is computed from all of its rows, otherwise it is null.
    """

    term: Expr | None = None
    type: str = ""  # of the sum or the extremum
    pick: str = ""
    ties_of: str = ""
    again_if: str = ""
    combine: str = "sum"  # or bit_xor, which takes a row away as it adds it

    @property
    def is_total(self) -> bool:
        """Whether the stored value and that of the change make the new value."""
        return self.term is not None and not self.pick and not self.ties_of and not self.again_if

    @property
    def inexact(self) -> bool:
        """Whether the sum depends on the order of what is added."""
        return self.type.lower() in ("float", "double") and not self.again_if

    @property
    def gone(self) -> str:
        """In a partial aggregate: the extremum of what goes, beside that of what comes."""
        return f"{self.name}_gone"


@dataclass(frozen=True)
class Aggregate(Operator):
    """One row for each different key; without keys exactly one row."""

    keeps_rows = True
    input: Operator
    keys: tuple[Output, ...]
    calls: tuple[Call, ...]
    count: str  # the column that holds how many rows a group has

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(k.name for k in self.keys), *(c.name for c in self.calls), self.count)

    @property
    def algebraic(self) -> bool:
        """Whether the change of a group follows from the change of its rows alone."""
        return all(c.is_total for c in self.calls)

    @property
    def foldable(self) -> bool:
        """The same, but for groups that lose an extremum or have values that no exact sum holds."""
        return all(c.term is not None for c in self.calls)


@dataclass(frozen=True)
class UnionAll(Operator):
    """All rows of all inputs; the columns are those of the first, by position."""

    parts: tuple[Operator, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.parts[0].columns


class SetKind(StrEnum):
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"


@dataclass(frozen=True)
class SetOperation(Operator):
    left: Operator
    right: Operator
    kind: SetKind

    @property
    def columns(self) -> tuple[str, ...]:
        return self.left.columns


@dataclass(frozen=True)
class Window(Operator):
    """Every row of the input with values computed over the rows of its partition."""

    keeps_rows = True
    input: Operator
    partition: tuple[Expr, ...]
    outputs: tuple[Output, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + tuple(o.name for o in self.outputs)


@dataclass(frozen=True)
class SortKey:
    expr: Expr
    descending: bool
    nulls_first: bool

    @property
    def sql(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"{self.expr.sql} {direction} NULLS {'FIRST' if self.nulls_first else 'LAST'}"


@dataclass(frozen=True)
class TopK(Operator):
    """The rows from `offset` on, at most `limit` of them, in an order."""

    keeps_rows = True
    input: Operator
    order: tuple[SortKey, ...]
    limit: int | None
    offset: int = 0
    buffered: bool = False  # the input is a buffer, which is small

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Buffer(Operator):
    """The first `keep` rows in an order of everything, and all that equal the last of them.

    It holds more than the `need` rows that are wanted of it, so that some may go without a look at the rest.
    """

    keeps_rows = True
    input: Operator
    order: tuple[SortKey, ...]
    need: int
    keep: int

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns

    @property
    def most(self) -> int:
        """Rows beyond which it is made anew: those that come are never taken out otherwise."""
        return 4 * self.keep


@dataclass(frozen=True)
class Generate(Operator):
    """Each row of the input with every row that a generator such as explode makes of it."""

    input: Operator
    generator: Expr
    names: tuple[str, ...]
    outer: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + self.names


@dataclass(frozen=True)
class Materialized(Operator):
    """The rows of the input, kept in a table of their own: whoever reads them sees only net changes."""

    keeps_rows = True
    input: Operator

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Settled(Operator):
    """The rows of the input; in a delta, without what cancels out."""

    input: Operator

    @property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns


@dataclass(frozen=True)
class Recursive(Operator):
    """The least set, or the bag level by level, that holds `base` and everything `step` derives from it.

    `step` reads the rows found last through a scan of `source`.
    """

    keeps_rows = True
    base: Operator
    step: Operator
    source: RoundRef
    distinct: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return self.base.columns


def column(name: str) -> Expr:
    return Column(name)

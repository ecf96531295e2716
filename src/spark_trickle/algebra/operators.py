"""The operators that queries and their deltas are made of.

Every column of a tree has a name of its own, so an expression never needs a qualifier, and the same
subtree may stand several times in a delta: read before the change, after it, or as the change itself.
A tree is either *content*, a bag of rows, or *weighted*: rows with a weight of +1 or −1 in `_w`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from operator import is_
from typing import ClassVar, Self

from spark_trickle.algebra.expressions import Column, Expr
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.require import require, require_different, require_unused


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


class Rows(StrEnum):
    """What an operator reads or gives."""

    CONTENT = "content"
    CHANGE = "change"  # with weights
    ANY = "any"  # read: both; given: a change if it reads one


@dataclass(frozen=True)
class Operator:
    """A node of the tree; its inputs are those of its fields that are operators.

    It never changes, so what a walk finds is kept: planning a change asks for it again and again. One that
    makes no sense over its inputs is refused when it is built. Only whether an expression of a query finds
    its columns is known later: while a query is bound, a part of it may use those of the query around.

    Passes ask for the traits of an operator; they hold no lists of classes. A trait is a claim: a pass leaves
    an operator that does not make it as it is.
    """

    # What comes in and out.
    reads: ClassVar[Rows] = Rows.ANY  # from its first input; what it reads of others is content
    gives: ClassVar[Rows] = Rows.ANY
    row_by_row: ClassVar[bool] = False  # each row is treated by itself: f(A + B) = f(A) + f(B)
    maps_changes: ClassVar[bool] = False  # over the change of its input it is its own change
    passes_rows: ClassVar[bool] = False  # rows of its input, none twice, perhaps with more columns
    passes_columns: ClassVar[bool] = False  # those of its input by name, so that unused ones may be left out
    narrows_changes: ClassVar[bool] = False  # it may leave nothing of a change
    rows_differ: ClassVar[bool] = False  # no two of its rows are equal
    gives_keys: ClassVar[bool] = False  # touched keys, by which `Touched` looks rows up

    # What is done with it.
    keeps_rows: ClassVar[bool] = False  # in a table of its own, from which its change is computed
    shares_table: ClassVar[bool] = False  # with the result, if that shows the whole table
    runs_at_driver: ClassVar[bool] = False  # Arrow computes it as Spark does, if it can its expressions
    read_twice: ClassVar[bool] = False  # it stands in a change more than once, so that its rows are kept
    takes_rounds: ClassVar[bool] = False  # its rows are found round by round, never by one query

    @property
    def empty_without_input(self) -> bool:
        """Whether it has no rows if its first input has none."""
        return False

    def __post_init__(self) -> None:
        self._check_rows()
        self._check_shape()

    def _check_rows(self) -> None:
        """No change is read as content, nor content as a change; weights come from the first input alone."""
        if not self.inputs:
            return
        first, *others = self.inputs
        if self.reads is not Rows.ANY:
            require(self.reads is Rows.CHANGE or not first.weighted, self, "reads a change as content")
            require(self.reads is Rows.CONTENT or first.weighted, self, "reads content as a change")
        require(not any(o.weighted for o in others), self, "reads a change beside its first input")

    def _check_shape(self) -> None:
        """What else a class asks of its fields."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Those of the first input, unless an operator has others."""
        return self.inputs[0].columns

    @property
    def _field_names(self) -> tuple[str, ...]:
        return self.__match_args__  # `fields` would look for them each time

    @cached_property
    def inputs(self) -> tuple[Operator, ...]:
        found: list[Operator] = []
        for name in self._field_names:
            value = getattr(self, name)
            if isinstance(value, Operator):
                found.append(value)
            elif isinstance(value, tuple):
                found += [v for v in value if isinstance(v, Operator)]
        return tuple(found)

    def with_inputs(self, inputs: tuple[Operator, ...]) -> Self:
        """The same operator over other inputs, given in the order of `inputs`."""
        if all(map(is_, inputs, self.inputs)):
            return self
        rest = iter(inputs)
        changed: dict[str, object] = {}
        for name in self._field_names:
            value = getattr(self, name)
            if isinstance(value, Operator):
                changed[name] = next(rest)
            elif isinstance(value, tuple) and any(isinstance(v, Operator) for v in value):
                changed[name] = tuple(next(rest) if isinstance(v, Operator) else v for v in value)
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
        return hash((type(self), *(getattr(self, name) for name in self._field_names)))

    @cached_property
    def weighted(self) -> bool:
        if self.gives is Rows.ANY:
            return any(child.weighted for child in self.inputs)
        return self.gives is Rows.CHANGE

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

    row_by_row = True
    runs_at_driver = True

    source: Reference
    names: tuple[tuple[str, str], ...]  # (name in the tree, name in the table)
    moment: At = At.NEW

    def _check_shape(self) -> None:
        require_different(self, self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.names)

    @property
    def weighted(self) -> bool:
        return self.moment in (At.DELTA, At.LOG)

    def at(self, when: At) -> Operator:
        return self if self.moment is when else replace(self, moment=when)


@dataclass(frozen=True)
class Constant(Operator):
    """Rows that never change: VALUES, or the one row of a SELECT without FROM."""

    row_by_row = True

    names: tuple[str, ...]
    rows: tuple[tuple[Expr, ...], ...]

    def _check_shape(self) -> None:
        require_different(self, self.names)
        require(bool(self.names and self.rows), self, "has no rows, or rows of nothing")
        require(all(len(row) == len(self.names) for row in self.rows), self, "has rows of another width")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.names


@dataclass(frozen=True)
class Project(Operator):
    """Each row of the input as new columns."""

    row_by_row = maps_changes = empty_without_input = True
    runs_at_driver = True

    input: Operator
    outputs: tuple[Output, ...]

    def _check_shape(self) -> None:
        require_different(self, self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.outputs)


@dataclass(frozen=True)
class Filter(Operator):
    """The rows of the input whose predicate is true; null counts as false."""

    row_by_row = maps_changes = passes_rows = passes_columns = empty_without_input = True
    narrows_changes = runs_at_driver = True

    input: Operator
    predicate: Expr


@dataclass(frozen=True)
class KeyPair:
    """One expression of each side that must be equal; `null_safe` says that null equals null."""

    left: Expr
    right: Expr
    null_safe: bool = False


@dataclass(frozen=True)
class Join(Operator):
    """Pairs of rows whose keys are equal and for which the residual is true."""

    narrows_changes = runs_at_driver = True

    left: Operator
    right: Operator
    kind: JoinKind
    keys: tuple[KeyPair, ...] = ()
    residual: Expr | None = None
    mark: str | None = None  # the column that a MARK join adds
    broadcast: bool = False  # the left side of an inner join is few rows, and goes to every task

    def _check_shape(self) -> None:
        marked = () if self.mark is None else (self.mark,)
        require_different(self, self.left.columns + self.right.columns + marked)
        require_unused(self, (k.left for k in self.keys), self.right.columns)
        require_unused(self, (k.right for k in self.keys), self.left.columns)
        require(
            (self.mark is not None) == (self.kind is JoinKind.MARK), self, "has a mark for nothing, or none"
        )
        require(self.kind is JoinKind.INNER or not self.broadcast, self, "would broadcast what it keeps")

    def _check_rows(self) -> None:
        weighted = [side.weighted for side in self.inputs]
        if self.kind is JoinKind.INNER:
            require(not all(weighted), self, "joins a change with a change")
        elif self.kind is JoinKind.FULL:
            require(not any(weighted), self, "keeps rows of both sides of a change")
        else:
            super()._check_rows()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.columns
        if self.kind is JoinKind.MARK:
            return (*self.left.columns, self.mark or "")
        return self.left.columns + self.right.columns


@dataclass(frozen=True)
class UnionAll(Operator):
    """All rows of all inputs; the columns are those of the first, by position."""

    row_by_row = True
    runs_at_driver = True

    parts: tuple[Operator, ...]

    def _check_shape(self) -> None:
        require(bool(self.parts), self, "has no parts")
        require(len({len(p.columns) for p in self.parts}) == 1, self, "has parts of different widths")

    def _check_rows(self) -> None:
        require(len({p.weighted for p in self.parts}) < 2, self, "adds content to a change")


class SetKind(StrEnum):
    INTERSECT = "INTERSECT"
    INTERSECT_ALL = "INTERSECT ALL"
    EXCEPT = "EXCEPT"
    EXCEPT_ALL = "EXCEPT ALL"


@dataclass(frozen=True)
class SetOperation(Operator):
    reads = Rows.CONTENT

    left: Operator
    right: Operator
    kind: SetKind

    def _check_shape(self) -> None:
        require(len(self.left.columns) == len(self.right.columns), self, "has sides of different widths")


@dataclass(frozen=True)
class Generate(Operator):
    """Each row of the input with every row that a generator such as explode makes of it."""

    row_by_row = maps_changes = passes_columns = empty_without_input = True

    input: Operator
    generator: Expr
    names: tuple[str, ...]
    outer: bool = False

    def _check_shape(self) -> None:
        require_different(self, self.columns)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return self.input.columns + self.names


@dataclass(frozen=True)
class Settled(Operator):
    """The rows of the input; in a delta, without what cancels out."""

    row_by_row = passes_rows = passes_columns = empty_without_input = True
    runs_at_driver = True

    input: Operator


def column(name: str) -> Expr:
    return Column(name)

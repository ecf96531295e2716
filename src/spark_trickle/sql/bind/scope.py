"""Names in a query -> columns of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Filter, Operator
from spark_trickle.algebra.references import TableRef
from spark_trickle.errors import ColumnNotFoundError, UnsupportedError


@dataclass(frozen=True)
class Bound:
    """A query as a tree: what users call its columns, and what the tree calls them."""

    plan: Operator
    outputs: tuple[tuple[str, str], ...]
    given: tuple[str, ...] = ()  # columns that carry the values of the query around it
    single: bool = False  # exactly one row, or one for each of these values
    source: Relation | None = None  # of a SELECT: the rows of its FROM

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(c for _, c in self.outputs)


@dataclass(frozen=True)
class ReadableTable:
    """A table that a query may read."""

    source: TableRef
    columns: tuple[str, ...]
    stored: tuple[str, ...] = ()  # what the plan calls them, where the query has other names for them

    @property
    def scanned(self) -> tuple[tuple[str, str], ...]:
        """Each column as the query and as the plan calls it."""
        return tuple(zip(self.columns, self.stored or self.columns, strict=True))


@dataclass(frozen=True)
class SourceView:
    """A view that a query may read: its text, and what names mean in it."""

    sql: str
    columns: tuple[str, ...]
    source_columns: tuple[str, ...]
    home: str
    find: Find | None = None  # what names mean in its text, if not what they mean around it


Find = Callable[[tuple[str, ...], str], ReadableTable | SourceView | None]
# Spark's word on types: of the columns of a tree that are asked for, in Spark's own notation.
Types = Callable[[Operator], Mapping[str, str]]


@dataclass(frozen=True)
class Named:
    """A column of the tree under the name that a query has for it."""

    alias: tuple[str, ...]  # lower case; a table without alias is known by all parts of its name
    name: str
    column: str

    def belongs_to(self, qualifier: tuple[str, ...]) -> bool:
        return bool(self.alias) and self.alias[-len(qualifier) :] == qualifier

    def matches(self, parts: tuple[str, ...]) -> bool:
        """Whether a dotted name in lower case means it."""
        return self.name.lower() == parts[-1] and (len(parts) == 1 or self.belongs_to(parts[:-1]))


@dataclass(frozen=True)
class Scope:
    """What names mean at one level of a query; `outer` is the level around a subquery."""

    columns: tuple[Named, ...] = ()  # what * shows, in its order
    hidden: tuple[Named, ...] = ()  # copies of the columns of USING: only t.k and t.* reach them
    outer: Scope | None = None
    renamed: Mapping[str, str] | None = None  # after GROUP BY: what is left of the columns

    @property
    def everything(self) -> tuple[Named, ...]:
        return self.hidden + self.columns

    def join_scope(self, other: Scope) -> Scope:
        """The names of both sides of a join."""
        return replace(self, columns=self.columns + other.columns, hidden=self.hidden + other.hidden)

    def find(self, parts: tuple[str, ...]) -> str | None:
        """The column that a dotted name means at this level, or None."""
        lowered = tuple(p.lower() for p in parts)
        candidates = self.columns if len(lowered) == 1 else self.everything
        columns = {n.column for n in candidates if n.matches(lowered)}
        if len(columns) > 1:
            raise UnsupportedError(
                f'the ambiguous name "{".".join(parts)}"', "Write the table before it, as in t.x."
            )
        return next(iter(columns), None)

    def names(self) -> tuple[str, ...]:
        return tuple(n.name for n in self.columns)

    def expand_star(self, qualifier: tuple[str, ...] = ()) -> list[Named]:
        """The columns of `*` or `t.*`; those that USING hides come first in the latter, as Spark has it."""
        if not qualifier:
            return list(self.columns)
        lowered = tuple(p.lower() for p in qualifier)
        columns = [n for n in self.everything if n.belongs_to(lowered)]
        if not columns:
            raise ColumnNotFoundError(f"{'.'.join(qualifier)}.*", self.names())
        return columns

    def list_levels(self) -> Iterator[Scope]:
        """This level and those around it, from the inside out."""
        level: Scope | None = self
        while level is not None:
            yield level
            level = level.outer

    @cached_property
    def shape(self) -> tuple[tuple[tuple[tuple[str, ...], str], ...], ...]:
        """The names of all levels: where they are the same, a query inside means the same columns."""
        return tuple(tuple((n.alias, n.name) for n in level.everything) for level in self.list_levels())

    @cached_property
    def reachable(self) -> tuple[str, ...]:
        """What a query inside may use: the columns of all levels, in the order of their names."""
        return tuple(
            n.column if level.renamed is None else level.renamed.get(n.column, n.column)
            for level in self.list_levels()
            for n in level.everything
        )

    def list_star(self) -> list[tuple[str, str]]:
        """What `*` shows: each name, and what the tree calls it."""
        return [(n.name, n.column) for n in self.columns]


def make_scope(
    alias: tuple[str, ...], outputs: tuple[tuple[str, str], ...], outer: Scope | None = None
) -> Scope:
    """What a table, subquery or view in FROM is called: its columns under its alias."""
    return Scope(tuple(Named(alias, name, column) for name, column in outputs), outer=outer)


@dataclass(frozen=True)
class Relation:
    """Rows while a query is bound: their tree, and what names mean in it.

    `given` are the columns that carry the values of the outer query, if they stand beside each row already.
    """

    plan: Operator
    scope: Scope
    given: tuple[str, ...] = ()

    def with_plan(self, plan: Operator) -> Relation:
        """The same names in another tree that has their columns."""
        return replace(self, plan=plan)

    def filter_rows(self, test: Expr) -> Relation:
        return self.with_plan(Filter(self.plan, test))

    def with_outer(self, outer: Scope | None) -> Relation:
        """The same rows inside another query, whose names count where these have none."""
        return replace(self, scope=replace(self.scope, outer=outer))

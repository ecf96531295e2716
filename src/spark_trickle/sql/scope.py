"""Names in a query -> columns of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from spark_trickle.algebra.operator import Operator
from spark_trickle.errors import ColumnNotFoundError, UnsupportedError


@dataclass(frozen=True)
class Bound:
    """A query as a tree: what users call its columns, and what the tree calls them."""

    plan: Operator
    outputs: tuple[tuple[str, str], ...]
    given: tuple[str, ...] = ()  # columns that carry the values of the query around it
    single: bool = False  # exactly one row, or one for each of these values

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(c for _, c in self.outputs)


@dataclass(frozen=True)
class SourceTable:
    """A table that a query may read."""

    source: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class SourceView:
    sql: str
    columns: tuple[str, ...]
    source_columns: tuple[str, ...]
    home: str


Find = Callable[[tuple[str, ...], str], SourceTable | SourceView | None]
# Spark's word on types: of the columns of a tree that are asked for, in Spark's own notation.
Types = Callable[[Operator], Mapping[str, str]]


@dataclass(frozen=True)
class Relation:
    """A table, subquery or view in FROM under its alias."""

    alias: tuple[str, ...]  # lower case; a table without alias is known by all parts of its name
    columns: tuple[tuple[str, str], ...]  # (name, column of the tree)

    def matches(self, qualifier: tuple[str, ...]) -> bool:
        return bool(self.alias) and self.alias[-len(qualifier) :] == qualifier


@dataclass(frozen=True)
class Scope:
    """What names mean at one level of a query; `outer` is the level around a subquery."""

    relations: tuple[Relation, ...] = ()
    merged: Mapping[str, str] = field(default_factory=dict)  # columns of USING, by lower-case name
    hidden: frozenset[str] = frozenset()  # copies of them that * leaves out
    outer: Scope | None = None
    renamed: Mapping[str, str] | None = None  # after GROUP BY: what is left of the columns

    def joined(self, other: Scope) -> Scope:
        return replace(
            self,
            relations=self.relations + other.relations,
            merged={**self.merged, **other.merged},
            hidden=self.hidden | other.hidden,
        )

    def find(self, parts: tuple[str, ...]) -> str | None:
        """The column that a dotted name means here, or None."""
        lowered = tuple(p.lower() for p in parts)
        if len(lowered) == 1 and lowered[0] in self.merged:
            return self.merged[lowered[0]]
        found = [
            column
            for relation in self.relations
            if len(lowered) == 1 or relation.matches(lowered[:-1])
            for name, column in relation.columns
            if name.lower() == lowered[-1]
        ]
        if len(found) > 1:
            found = [c for c in found if c not in self.hidden] or found
        if len(set(found)) > 1:
            raise UnsupportedError(
                f'the ambiguous name "{".".join(parts)}"', "Write the table before it, as in t.x."
            )
        return found[0] if found else None

    def names(self) -> tuple[str, ...]:
        return tuple(n for r in self.relations for n, _ in r.columns)

    def star(self, qualifier: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        """The columns of `*` or `t.*`; those of USING come first and once."""
        lowered = tuple(p.lower() for p in qualifier)
        if qualifier:
            chosen = [r for r in self.relations if r.matches(lowered)]
            if not chosen:
                raise ColumnNotFoundError(f"{'.'.join(qualifier)}.*", self.names())
            return [pair for r in chosen for pair in r.columns]
        merged = [(n, c) for n, c in self._merged_names()]
        rest = [
            (n, c)
            for r in self.relations
            for n, c in r.columns
            if n.lower() not in self.merged and c not in self.hidden
        ]
        return merged + rest

    def _merged_names(self) -> Iterator[tuple[str, str]]:
        for lowered, column in self.merged.items():
            written = next(n for r in self.relations for n, _ in r.columns if n.lower() == lowered)
            yield written, column


@dataclass(frozen=True)
class From:
    """Relations joined so far: their rows and the names in them."""

    plan: Operator
    scope: Scope
    carries: bool = False  # whether each row has the given values of the outer query beside it

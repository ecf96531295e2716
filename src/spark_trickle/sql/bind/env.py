"""What surrounds a part of a query while it is bound: tables, CTEs, the outer query, the other binders."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from sqlglot import exp

from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.prune import find_free_columns
from spark_trickle.sql.bind.scope import Bound, Find, Relation, Scope, Types


class Binder(Protocol):
    """One function for each part of a query that may contain any other part.

    A query has relations in FROM and subqueries in its expressions, and these have queries inside. The
    module of one part binds the others through this value, so that modules do not import each other.
    """

    def bind_query(self, query: exp.Query, env: Env) -> Bound:
        """A whole query as a tree."""

    def bind_from(self, select: exp.Select, env: Env) -> Relation:
        """The rows of FROM, before any condition."""

    def filter_by_subquery(self, condition: exp.Expr, rows: Relation, env: Env) -> Relation:
        """The rows for which a condition with subqueries holds."""

    def compute_subqueries(self, node: exp.Expr, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
        """An expression with a column in place of each subquery, and the rows with these columns."""


@dataclass(frozen=True)
class Given:
    """What a correlated subquery may know of the rows around it: all different values of some columns."""

    plan: Operator
    columns: Mapping[str, str]  # column of the outer query -> column of `plan`


@dataclass(frozen=True)
class Attempt:
    """A query whose tree lacks the columns of `outer` that it uses."""

    body: Bound
    outer: Scope


@dataclass(frozen=True)
class Unbound:
    """A CTE that uses columns of the query around: it is bound wherever it is read."""

    query: exp.Query
    names: list[str]
    env: Env
    attempt: Bound | None = None  # which stands for it on trial


@dataclass(frozen=True)
class Env:
    """What surrounds a query: tables, CTEs, and the query it is a part of."""

    find: Find
    types: Types
    home: str
    binder: Binder
    numbers: Iterator[int] = field(default_factory=count)
    ctes: Mapping[str, Bound | Unbound] = field(default_factory=dict)
    outer: Scope | None = None
    given: Given | None = None
    depth: int = 0  # of views in views
    exact_floats: bool = False  # sums of doubles are computed again, not added to
    trial: bool = False  # only to find out which columns of the outer query are used
    queries: Iterator[int] = field(default_factory=count)  # numbers for the queries of a text
    attempts: dict[object, Attempt] = field(default_factory=dict)  # a cache: see `attempts`

    @property
    def given_columns(self) -> Mapping[str, str]:
        """Columns of the outer query, and the columns that carry their values."""
        return {} if self.given is None else self.given.columns

    def fresh(self, hint: str) -> str:
        """A column name that no other has."""
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', hint).strip('_')[:30] or 'c'}_{next(self.numbers)}"

    def inner(self) -> Env:
        """For a query that sees nothing of the rows around it."""
        return replace(self, outer=None, given=None)

    def without_values(self) -> Env:
        """For a query that uses nothing of the rows around it, though it might."""
        return replace(self, given=None)

    def for_subquery(self, outer: Scope, given: Given | None = None) -> Env:
        """For a query in an expression over the rows of `outer`."""
        return replace(self, outer=outer, given=given)

    def on_trial(self) -> Env:
        """To bind a query only for the outer columns that it uses: they are left open in its tree."""
        return replace(self, given=None, trial=True)

    def find_types(self, op: Operator) -> Mapping[str, str]:
        """The types of the columns. On trial a tree may lack columns, and any type will do."""
        return dict.fromkeys(op.columns, "int") if self.trial else self.types(op)

    def find_exact_types(self, op: Operator) -> Mapping[str, str] | None:
        """The same where names follow from types; None on trial, if the tree lacks columns."""
        return None if self.trial and find_free_columns(op) else self.types(op)

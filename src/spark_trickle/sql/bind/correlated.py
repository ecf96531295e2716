"""A subquery -> rows, and what ties them to the rows of the query around.

Either they are joined on the conditions that mention columns of the outer query, or, where that is not
possible, the subquery is computed for all different values of these columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.conditions import join_conjuncts
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import Join, JoinKind, KeyPair, Operator, Project, column
from spark_trickle.sql.bind.aggregates import is_aggregated
from spark_trickle.sql.bind.env import Env, Given
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    contains,
    is_subquery,
    list_conjuncts,
    to_expr,
)
from spark_trickle.sql.bind.generate import is_generator
from spark_trickle.sql.bind.key_types import align_types, read_key_pair
from spark_trickle.sql.bind.plans import distinct_rows, find_free_columns, keep_columns
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Relation, Scope


@dataclass(frozen=True)
class Side:
    """A subquery as the right side of a join: its rows, and what ties them to a row of the left."""

    plan: Operator
    outputs: tuple[Expr, ...]
    keys: tuple[KeyPair, ...] = ()
    residual: tuple[Expr, ...] = ()

    def join_to(self, left: Operator, kind: JoinKind, mark: str | None = None) -> Join:
        return Join(left, self.plan, kind, self.keys, join_conjuncts(list(self.residual)), mark)

    def add_conditions(self, keys: tuple[KeyPair, ...] = (), residual: tuple[Expr, ...] = ()) -> Side:
        return replace(self, keys=self.keys + keys, residual=self.residual + residual)

    @property
    def free_standing(self) -> bool:
        return not self.keys and not self.residual


class NotSimpleError(Exception):
    """The subquery uses columns of the outer query where a join condition cannot reach."""


def bind_side(query: exp.Query, rows: Relation, env: Env, values: bool) -> Side:
    """A subquery whose rows are looked at, not counted: for EXISTS, IN, ANY and ALL."""
    try:
        return _bind_conditions(query, rows, env, values)
    except NotSimpleError:
        body, keys = bind_dependent(query, rows, env)
        return Side(body.plan, tuple(column(c) for c in body.columns), keys)


def _bind_conditions(query: exp.Query, rows: Relation, env: Env, values: bool) -> Side:
    """FROM and WHERE alone: what mentions the outer query becomes the condition of the join."""
    if not isinstance(query, exp.Select) or any(query.args.get(k) for k in MORE_THAN_ROWS):
        raise NotSimpleError
    if is_aggregated(query, list(query.expressions), query.args.get("having")):
        raise NotSimpleError
    inner, keys, residual = bind_rows_and_conditions(query, rows, env)
    listed = _bind_list(query, inner, env.for_subquery(rows.scope)) if values else ()
    return Side(inner.plan, listed, keys, residual)


def bind_rows_and_conditions(
    query: exp.Select, rows: Relation, env: Env
) -> tuple[Relation, tuple[KeyPair, ...], tuple[Expr, ...]]:
    """The rows of FROM and WHERE, without the conditions that mention the outer query; and these."""
    inside = env.for_subquery(rows.scope)
    if find_free_columns(inside.binder.bind_from(query, inside.on_trial()).plan):
        raise NotSimpleError
    inner = inside.binder.bind_from(query, inside)
    clause = query.args.get("where")
    keys, residual = [], []
    for part in list_conjuncts(clause.this if clause is not None else None):
        if contains(part, is_subquery):
            inner = _filter_alone(part, inner, inside)
            continue
        whole = resolve(part, inner.scope, inside)
        used = find_outer_columns(whole, inner)
        if not used:
            inner = inner.filter_rows(to_expr(whole))
        elif not used <= set(rows.plan.columns):
            raise NotSimpleError
        elif pair := read_key_pair(whole, frozenset(rows.plan.columns), frozenset(inner.plan.columns)):
            keys.append(pair)
        else:
            residual.append(to_expr(whole))
    return inner, align_types(tuple(keys), rows.plan, inner.plan, inside), tuple(residual)


def _filter_alone(condition: exp.Expr, inner: Relation, env: Env) -> Relation:
    """The rows for which a condition with subqueries holds, if it uses no columns of the outer query."""
    if find_free_columns(env.binder.filter_by_subquery(condition, inner, env.on_trial()).plan):
        raise NotSimpleError
    return env.binder.filter_by_subquery(condition, inner, env)


def find_outer_columns(node: exp.Expr, inner: Relation) -> frozenset[str]:
    """The columns that a resolved expression over the rows of a subquery takes from the queries around it."""
    return to_expr(node).columns - frozenset(inner.plan.columns)


MORE_THAN_ROWS = ("with_", "limit", "offset", "qualify", "laterals", "windows")


def _bind_list(query: exp.Select, inner: Relation, env: Env) -> tuple[Expr, ...]:
    """The list of the subquery as expressions over its rows."""
    for node in query.expressions:
        if contains(node, lambda n: isinstance(n, (*SUBQUERIES, exp.Star, exp.Window)) or is_generator(n)):
            raise NotSimpleError
    nodes = [resolve(e.unalias(), inner.scope, env) for e in query.expressions]
    if any(find_outer_columns(n, inner) for n in nodes):
        raise NotSimpleError
    return tuple(to_expr(n) for n in nodes)


def find_used_columns(node: exp.Expr, scope: Scope, env: Env) -> frozenset[str]:
    """The columns of a query, or given to it, that an expression with subqueries uses, in them or beside."""
    trial, known = env.for_subquery(scope).on_trial(), env.given_columns
    free = (
        c
        for query in _find_queries(node)
        for c in find_free_columns(env.binder.bind_query(query, trial).plan)
    )
    used = to_expr(node).columns.union(known.get(c, c) for c in free)
    return used & {*(n.column for n in scope.everything), *known.values()}


def _find_queries(node: exp.Expr) -> Iterator[exp.Query]:
    if isinstance(node, exp.Query):
        yield node
    else:
        for child in node.iter_expressions():
            yield from _find_queries(child)


def bind_dependent(query: exp.Query, rows: Relation, env: Env) -> tuple[Bound, tuple[KeyPair, ...]]:
    """A subquery computed for all different values of the outer columns that it uses, and how to join it."""
    bind_query, known = env.binder.bind_query, env.given_columns
    body = bind_query(query, env.for_subquery(rows.scope).on_trial())
    used = {c: known.get(c, c) for c in sorted(find_free_columns(body.plan))}
    mine = {c: carried for c, carried in used.items() if carried in rows.plan.columns}
    if env.trial or (used and not mine):
        return body, ()  # columns of a query further out stay open: it comes back with their values
    if not used:
        return bind_query(query, env.for_subquery(rows.scope)), ()
    distinct = distinct_rows(Project(rows.plan, keep_columns(tuple(mine.values()))), env)
    given = Given(distinct, dict(zip(mine, distinct.columns, strict=True)))
    found = bind_query(query, env.for_subquery(rows.scope, given))
    pairs = tuple(
        KeyPair(column(m), column(g), True) for m, g in zip(mine.values(), found.given, strict=True)
    )
    return found, pairs

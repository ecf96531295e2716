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
from spark_trickle.algebra.prune import find_free_columns
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind.aggregates import is_aggregated
from spark_trickle.sql.bind.attempts import find_attempt, find_outer_columns, try_query
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
from spark_trickle.sql.bind.plans import distinct_rows, keep_columns
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Relation, Scope
from spark_trickle.sql.dialect.spark import sql_of


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


def bind_side(query: exp.Query, rows: Relation, env: Env, values: bool) -> Side:
    """A subquery whose rows are looked at, not counted: for EXISTS, IN, ANY and ALL."""
    if not _can_be_joined(query, rows, env, values):
        body, keys = bind_dependent(query, rows, env)
        return Side(body.plan, tuple(column(c) for c in body.columns), keys)
    assert isinstance(query, exp.Select)
    inner, keys, residual = bind_rows_and_conditions(query, rows, env)
    listed = _read_list(query, inner, env.for_subquery(rows.scope)) if values else ()
    return Side(inner.plan, listed or (), keys, residual)


def _can_be_joined(query: exp.Query, rows: Relation, env: Env, values: bool) -> bool:
    """Whether FROM and WHERE are all there is to it, and what mentions the outer query can be joined on."""
    if env.trial or not isinstance(query, exp.Select) or any(query.args.get(k) for k in MORE_THAN_ROWS):
        return False
    if is_aggregated(query, list(query.expressions), query.args.get("having")):
        return False
    tried = try_conditions(query, rows, env)
    return tried is not None and (not values or _read_list(query, tried.source, tried.env) is not None)


# --- conditions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Conditions:
    """WHERE in a subquery: what it asks of the rows of FROM alone, and what ties them to the rows around."""

    own: tuple[exp.Expr, ...]  # with columns of the tree, or as written if they have subqueries
    keys: tuple[KeyPair, ...]
    residual: tuple[Expr, ...]


@dataclass(frozen=True)
class Tried:
    """The conditions of a subquery in its attempt, the rows of FROM there, and what surrounds it."""

    conditions: Conditions
    source: Relation
    env: Env


def try_conditions(query: exp.Select, rows: Relation, env: Env) -> Tried | None:
    """None if the subquery uses columns of the outer query where the condition of a join cannot reach."""
    inside = env.for_subquery(rows.scope)
    attempt = find_attempt(query, inside)
    source, tried = attempt.body.source, env.on_trial().for_subquery(attempt.outer)
    assert source is not None
    if find_free_columns(source.plan):
        return None
    pairs = zip(attempt.outer.reachable, rows.scope.reachable, strict=True)
    around = frozenset(then for then, now in pairs if now in rows.plan.columns)
    conditions = _read_conditions(query, source, around, tried)
    return None if conditions is None else Tried(conditions, source, tried)


def _read_conditions(
    query: exp.Select, inner: Relation, around: frozenset[str], env: Env
) -> Conditions | None:
    """The conditions over the rows of FROM, and the columns around that a join reaches."""
    clause, columns = query.args.get("where"), frozenset(inner.plan.columns)
    own, keys, residual = [], [], []
    for part in list_conjuncts(clause.this if clause is not None else None):
        whole = resolve(part, inner.scope, env)
        used = find_used_columns(whole, inner.scope, env) - columns
        if contains(part, is_subquery):
            if used:
                return None
            own.append(part)
        elif not used:
            own.append(whole)
        elif not used <= around:
            return None
        elif pair := read_key_pair(whole, around, columns):
            keys.append(pair)
        else:
            residual.append(to_expr(whole))
    return Conditions(tuple(own), tuple(keys), tuple(residual))


def bind_rows_and_conditions(
    query: exp.Select, rows: Relation, env: Env
) -> tuple[Relation, tuple[KeyPair, ...], tuple[Expr, ...]]:
    """The rows of FROM and WHERE, without the conditions that mention the outer query; and these."""
    inside = env.for_subquery(rows.scope)
    inner = env.binder.bind_from(query, inside)
    found = _read_conditions(query, inner, frozenset(rows.plan.columns), inside)
    assert found is not None, "it was tried before"
    for part in found.own:
        if contains(part, is_subquery):
            inner = env.binder.filter_by_subquery(part, inner, inside)
        else:
            inner = inner.filter_rows(to_expr(part))
    return inner, align_types(found.keys, rows.plan, inner.plan, inside), found.residual


def find_outer_columns_of(node: exp.Expr, inner: Relation) -> frozenset[str]:
    """The columns that a resolved expression over the rows of a subquery takes from the queries around it."""
    return to_expr(node).columns - frozenset(inner.plan.columns)


MORE_THAN_ROWS = ("with_", "limit", "offset", "qualify", "laterals", "windows")


def _read_list(query: exp.Select, inner: Relation, env: Env) -> tuple[Expr, ...] | None:
    """The list of the subquery as expressions over its rows; None if it needs more than them."""
    for node in query.expressions:
        if contains(node, lambda n: isinstance(n, (*SUBQUERIES, exp.Star, exp.Window)) or is_generator(n)):
            return None
    nodes = [resolve(e.unalias(), inner.scope, env) for e in query.expressions]
    if any(find_outer_columns_of(n, inner) for n in nodes):
        return None
    return tuple(to_expr(n) for n in nodes)


# --- all different values ----------------------------------------------------------------------------


def find_used_columns(node: exp.Expr, scope: Scope, env: Env) -> frozenset[str]:
    """The columns that an expression over a scope uses, in its subqueries or beside them."""
    inside, known = env.for_subquery(scope), env.given_columns
    used = (c for query in _find_queries(node) for c in find_outer_columns(query, inside))
    return to_expr(node).columns.union(known.get(c, c) for c in used)


def _find_queries(node: exp.Expr) -> Iterator[exp.Query]:
    if isinstance(node, exp.Exists):
        yield read_existence(node)
    elif isinstance(node, exp.Query):
        yield read_subquery(node)
    else:
        for child in node.iter_expressions():
            yield from _find_queries(child)


def read_subquery(node: exp.Expr) -> exp.Query:
    """The query in brackets."""
    while isinstance(node, exp.Subquery) and not any(node.args.get(k) for k in ("with_", "order", "limit")):
        node = node.this
    if not isinstance(node, exp.Query):
        raise UnsupportedError(f"{type(node).__name__} as a subquery", "Write a SELECT.")
    return node


def read_existence(node: exp.Exists) -> exp.Query:
    """The query of an EXISTS, for which neither order nor a limit matters, unless it is 0."""
    query = read_subquery(node.this).copy()
    limit = query.args.get("limit")
    if limit is not None and not query.args.get("offset") and sql_of(limit.expression) not in ("0", "ALL"):
        query.set("limit", None)
    query.set("order", None)
    return query


def bind_dependent(query: exp.Query, rows: Relation, env: Env) -> tuple[Bound, tuple[KeyPair, ...]]:
    """A subquery computed for all different values of the outer columns that it uses, and how to join it."""
    inside, known = env.for_subquery(rows.scope), env.given_columns
    if env.trial:
        return try_query(query, inside).body, ()
    used = {c: known.get(c, c) for c in sorted(find_outer_columns(query, inside))}
    mine = {c: carried for c, carried in used.items() if carried in rows.plan.columns}
    assert bool(used) == bool(mine), "what is around carries its values"
    if not used:
        return env.binder.bind_query(query, inside), ()
    distinct = distinct_rows(Project(rows.plan, keep_columns(tuple(mine.values()))), env)
    given = Given(distinct, dict(zip(mine, distinct.columns, strict=True)))
    found = env.binder.bind_query(query, env.for_subquery(rows.scope, given))
    pairs = tuple(
        KeyPair(column(m), column(g), True) for m, g in zip(mine.values(), found.given, strict=True)
    )
    return found, pairs

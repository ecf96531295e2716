"""A subquery -> rows, and what ties them to the rows of the query around.

Either they are joined on the conditions that mention columns of the outer query, or, where that is not
possible, the subquery is computed for all different values of these columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlglot import exp

from spark_trickle.algebra.operators import Expr, Filter, Join, JoinKind, KeyPair, Operator, Project, column
from spark_trickle.sql.bind.aggregates import is_aggregated
from spark_trickle.sql.bind.block import Block
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    conjunction,
    conjuncts,
    contains,
    is_subquery,
    to_expr,
)
from spark_trickle.sql.bind.generate import is_generator
from spark_trickle.sql.bind.join import key_pair
from spark_trickle.sql.bind.key_types import align_types
from spark_trickle.sql.bind.query import Env, Given, bind_query, distinct_rows, outputs
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Scope
from spark_trickle.sql.bind.select import start

_T = TypeVar("_T")


@dataclass(frozen=True)
class Side:
    """A subquery as the right side of a join: its rows, and what ties them to a row of the left."""

    plan: Operator
    outputs: tuple[Expr, ...]
    keys: tuple[KeyPair, ...] = ()
    residual: tuple[Expr, ...] = ()

    def join(self, left: Operator, kind: JoinKind, mark: str | None = None) -> Join:
        return Join(left, self.plan, kind, self.keys, conjunction(list(self.residual)), mark)

    def also(self, keys: tuple[KeyPair, ...] = (), residual: tuple[Expr, ...] = ()) -> Side:
        return replace(self, keys=self.keys + keys, residual=self.residual + residual)

    @property
    def free_standing(self) -> bool:
        return not self.keys and not self.residual


class NotSimpleError(Exception):
    """The subquery uses columns of the outer query where a join condition cannot reach."""


def bind_side(query: exp.Query, block: Block, values: bool) -> Side:
    """A subquery whose rows are looked at, not counted: for EXISTS, IN, ANY and ALL."""
    try:
        return _joined_on_conditions(query, block, values)
    except NotSimpleError:
        body, keys = dependent(query, block.plan, block.scope, block.env)
        return Side(body.plan, tuple(column(c) for c in body.columns), keys)


def _joined_on_conditions(query: exp.Query, block: Block, values: bool) -> Side:
    """FROM and WHERE alone: what mentions the outer query becomes the condition of the join."""
    if not isinstance(query, exp.Select) or any(query.args.get(k) for k in MORE_THAN_ROWS):
        raise NotSimpleError
    if is_aggregated(query, list(query.expressions), query.args.get("having")):
        raise NotSimpleError
    inner, keys, residual = rows_and_conditions(query, block)
    found = _listed(query, inner, inner.env) if values else ()
    return Side(inner.plan, found, keys, residual)


def rows_and_conditions(
    query: exp.Select, block: Block
) -> tuple[Block, tuple[KeyPair, ...], tuple[Expr, ...]]:
    """The rows of FROM and WHERE, without the conditions that mention the outer query; and these."""
    from spark_trickle.sql.bind.subquery import filter_by_subquery

    env = replace(block.env, outer=block.scope, given=None, free=set())
    trial = env.on_trial()
    start(query, trial)
    if trial.free:
        raise NotSimpleError
    inner = start(query, env)
    clause = query.args.get("where")
    keys, residual = [], []
    for part in conjuncts(clause.this if clause is not None else None):
        if contains(part, is_subquery):
            trial = env.on_trial()
            filter_by_subquery(part, replace(inner, env=trial))
            if trial.free:
                raise NotSimpleError
            filter_by_subquery(part, inner)
            continue
        whole, used = watch_outer_columns(env, lambda part=part: resolve(part, inner.scope, env))  # type: ignore[misc]
        if not used:
            inner.plan = Filter(inner.plan, to_expr(whole))
        elif not used <= set(block.plan.columns):
            raise NotSimpleError
        elif pair := key_pair(whole, frozenset(block.plan.columns), frozenset(inner.plan.columns)):
            keys.append(pair)
        else:
            residual.append(to_expr(whole))
    return inner, align_types(tuple(keys), block.plan, inner.plan, env), tuple(residual)


MORE_THAN_ROWS = ("with_", "limit", "offset", "qualify", "laterals", "windows")


def _listed(query: exp.Select, inner: Block, env: Env) -> tuple[Expr, ...]:
    """The list of the subquery as expressions over its rows."""
    for node in query.expressions:
        if contains(node, lambda n: isinstance(n, (*SUBQUERIES, exp.Star, exp.Window)) or is_generator(n)):
            raise NotSimpleError
    nodes, used = watch_outer_columns(
        env, lambda: [resolve(e.unalias(), inner.scope, env) for e in query.expressions]
    )
    if used:
        raise NotSimpleError
    return tuple(to_expr(n) for n in nodes)


def columns_used(node: exp.Expr, scope: Scope, env: Env) -> frozenset[str]:
    """The columns of a query, or given to it, that an expression with subqueries uses, in them or beside."""
    found = set(to_expr(node).columns)
    known = env.given.columns if env.given is not None else {}
    for query in _queries(node):
        trial = replace(env, outer=scope).on_trial()
        bind_query(query, trial)
        found |= {known.get(c, c) for c in trial.free}
    here = {n.column for n in scope.everything}
    return frozenset(found & (here | set(known.values())))


def _queries(node: exp.Expr) -> Iterator[exp.Query]:
    if isinstance(node, exp.Query):
        yield node
    else:
        for child in node.iter_expressions():
            yield from _queries(child)


def watch_outer_columns(env: Env, action: Callable[[], _T]) -> tuple[_T, set[str]]:
    """What an action gives, and the columns of the outer query that it used."""
    before = set(env.free)
    env.free.clear()
    result = action()
    used = set(env.free)
    env.free.update(before)
    return result, used


def dependent(query: exp.Query, plan: Operator, scope: Scope, env: Env) -> tuple[Bound, tuple[KeyPair, ...]]:
    """A subquery computed for all different values of the outer columns that it uses, and how to join it."""
    trial = replace(env, outer=scope).on_trial()
    body = bind_query(query, trial)
    known = env.given.columns if env.given is not None else {}
    used = {c: known.get(c, c) for c in sorted(trial.free)}
    mine = {c: here for c, here in used.items() if here in plan.columns}
    # Columns of a query still further out: note them, so that it asks for them too.
    env.free.update(c for c in used if c not in mine)
    if env.trial or (used and not mine):
        return body, ()  # the query further out will come back with what it was asked for
    if not used:
        return bind_query(query, replace(env, outer=scope, given=None, free=set())), ()
    distinct = distinct_rows(Project(plan, outputs(tuple(mine.values()))), env)
    given = Given(distinct, dict(zip(mine, distinct.columns, strict=True)))
    found = bind_query(query, replace(env, outer=scope, given=given, free=set()))
    pairs = tuple(
        KeyPair(column(m), column(g), True) for m, g in zip(mine.values(), found.given, strict=True)
    )
    return found, pairs

"""Queries and values in FROM -> trees: they see the rows around their query, but not their neighbours."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.algebra.operators import Constant
from spark_trickle.sql.bind.attempts import find_outer_columns, keep_number, try_query
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import to_expr
from spark_trickle.sql.bind.plans import with_names
from spark_trickle.sql.bind.relations import read_column_names
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Scope


def bind_derived(query: exp.Query, env: Env) -> Bound:
    """A query in FROM, alone or, if it uses columns of the outer query, for the values that are given."""
    if env.outer is None:
        return env.binder.bind_query(query, env.inner())
    if env.trial:
        return try_query(query, env).body
    return env.binder.bind_query(query, env if find_outer_columns(query, env) else env.without_values())


def bind_values(node: exp.Values, env: Env) -> Bound:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    written = read_column_names(node.args.get("alias"))
    labels = [f"col{n + 1}" for n in range(len(rows[0]))]
    if env.outer is not None and any(v.find(exp.Column, exp.Query) for row in rows for v in row):
        return with_names(bind_derived(keep_number(node, _write_as_union(rows)), env), written or labels)
    names = tuple(env.fresh(n) for n in labels)
    constants = tuple(tuple(to_expr(resolve(v, Scope(), env)) for v in row) for row in rows)
    body = Bound(Constant(names, constants), tuple(zip(labels, names, strict=True)))
    return with_names(body, written)


def _write_as_union(rows: list[list[exp.Expr]]) -> exp.Query:
    """Values that name columns of the outer query are computed like any others."""
    query: exp.Query = exp.select(*(v.copy() for v in rows[0]))
    for row in rows[1:]:
        query = exp.Union(this=query, expression=exp.select(*(v.copy() for v in row)), distinct=False)
    return query

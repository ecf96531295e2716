"""WITH -> the queries that it names, and these where they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import Project
from spark_trickle.algebra.prune import find_free_columns
from spark_trickle.sql.bind.attempts import find_outer_columns, try_query
from spark_trickle.sql.bind.derived import bind_derived
from spark_trickle.sql.bind.env import Env, Unbound
from spark_trickle.sql.bind.plans import keep_columns, rename_apart, with_names
from spark_trickle.sql.bind.recursive import bind_recursive
from spark_trickle.sql.bind.relations import read_column_names
from spark_trickle.sql.bind.scope import Bound


def bind_ctes(clause: exp.With | None, env: Env) -> Env:
    """The surroundings of a query with what its WITH names; each of these sees those before it."""
    if clause is None:
        return env
    ctes: Mapping[str, Bound | Unbound] = env.ctes
    for cte in clause.expressions:
        inside = replace(env, ctes=ctes)
        ctes = {**ctes, cte.alias_or_name.lower(): _bind_cte(cte, bool(clause.args.get("recursive")), inside)}
    return replace(env, ctes=ctes)


def _bind_cte(cte: exp.CTE, recursive: bool, env: Env) -> Bound | Unbound:
    name, names, inside = cte.alias_or_name, read_column_names(cte.args["alias"]), env.inner()
    if recursive and _reads_table(cte.this, name):
        return bind_recursive(name, cte.this, names, inside)
    if env.outer is None:
        return with_names(env.binder.bind_query(cte.this, inside), names)
    return _bind_inner_cte(cte.this, names, env.without_values())


def _bind_inner_cte(query: exp.Query, names: list[str], env: Env) -> Bound | Unbound:
    """A CTE in a subquery, which may use columns of the query around."""
    if env.trial:
        body = try_query(query, env).body
        return Unbound(query, names, env, body) if find_free_columns(body.plan) else with_names(body, names)
    if find_outer_columns(query, env):
        return Unbound(query, names, env)
    return with_names(env.binder.bind_query(query, env), names)


def _reads_table(query: exp.Expr, name: str) -> bool:
    return any(t.name.lower() == name.lower() and not t.db for t in query.find_all(exp.Table))


def read_cte(cte: Bound | Unbound, env: Env) -> Bound:
    """A CTE as one of the relations of FROM, where it may stand several times."""
    if isinstance(cte, Unbound):
        if cte.attempt is not None:
            return _read_again(with_names(cte.attempt, cte.names), env)
        inside = replace(env, ctes=cte.env.ctes, outer=cte.env.outer)
        return with_names(bind_derived(cte.query, inside), cte.names)
    return _read_again(cte, env)


def _read_again(cte: Bound, env: Env) -> Bound:
    columns = tuple(dict.fromkeys(cte.columns))
    plan = rename_apart(Project(cte.plan, keep_columns(columns)), env)
    new = dict(zip(columns, plan.columns, strict=True))
    return Bound(plan, tuple((n, new[c]) for n, c in cte.outputs))

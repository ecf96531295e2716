"""WITH -> the queries that it names, and these where they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import Project
from spark_trickle.sql.bind.derived import bind_derived, uses_outer_columns
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
    with_outer = replace(inside, outer=env.outer)
    if uses_outer_columns(cte.this, with_outer):
        return Unbound(cte.this, names, with_outer)
    return with_names(env.binder.bind_query(cte.this, inside), names)


def _reads_table(query: exp.Expr, name: str) -> bool:
    return any(t.name.lower() == name.lower() and not t.db for t in query.find_all(exp.Table))


def read_cte(cte: Bound | Unbound, env: Env) -> Bound:
    """A CTE as one of the relations of FROM, where it may stand several times."""
    if isinstance(cte, Unbound):
        inside = replace(env, ctes=cte.env.ctes, outer=cte.env.outer)
        return with_names(bind_derived(cte.query, inside), cte.names)
    columns = tuple(dict.fromkeys(cte.columns))
    plan = rename_apart(Project(cte.plan, keep_columns(columns)), env)
    new = dict(zip(columns, plan.columns, strict=True))
    return Bound(plan, tuple((n, new[c]) for n, c in cte.outputs))

"""JOIN LATERAL -> each row so far with the rows that a query or a function makes of it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import JoinKind
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind.correlated import bind_dependent
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import list_conjuncts
from spark_trickle.sql.bind.generate import bind_generator
from spark_trickle.sql.bind.given import carry_values, mentions_given
from spark_trickle.sql.bind.join import filter_each, join_on
from spark_trickle.sql.bind.join_kinds import How
from spark_trickle.sql.bind.relations import name_relation, strip_relation
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Relation


def join_lateral(rows: Relation, node: exp.Join, how: How, env: Env) -> Relation:
    """The rows with what stands after LATERAL, which sees their columns."""
    inner, alias, on = node.this.this, node.this.args.get("alias"), node.args.get("on")
    plain = on is None or (isinstance(on.unnest(), exp.Boolean) and on.unnest().this)
    if how.swapped or how.kind is JoinKind.FULL:
        raise UnsupportedError(
            "LATERAL in a RIGHT or FULL JOIN", "Its rows depend on the left side: use LEFT."
        )
    if not isinstance(inner, exp.Subquery) and (plain or how.kind is JoinKind.INNER):
        made = bind_generator(rows, inner, alias, how.kind is JoinKind.LEFT, env)
        return made if on is None or plain else _filter_on(made, on, env)
    if not isinstance(inner, exp.Subquery):
        inner = exp.Subquery(this=exp.select("*").from_(exp.Table(this=inner.copy())))
    rows = carry_values(rows, env)
    body, keys = bind_dependent(strip_relation(inner), rows.with_outer(env.outer), env)
    return join_on(rows, name_relation(replace(body, given=()), alias, env), how, keys, on, env)


def _filter_on(rows: Relation, on: exp.Expr, env: Env) -> Relation:
    """The condition of an inner join with what a function makes of each row."""
    inside = rows.with_outer(env.outer)
    if any(mentions_given(resolve(p, inside.scope, env), env) for p in list_conjuncts(on)):
        inside = carry_values(inside, env)
    return replace(filter_each(inside, list_conjuncts(on), env), scope=rows.scope)

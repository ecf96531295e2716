"""The values that a correlated subquery is computed for -> columns beside the rows of its relations.

Where only one side of a join needs them, it alone has them; where both have them, they are a part of the key.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.expressions import Function
from spark_trickle.algebra.operators import Join, JoinKind, KeyPair, Operator, Output, Project, column
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import contains, is_subquery, to_expr
from spark_trickle.sql.bind.join_kinds import How
from spark_trickle.sql.bind.scope import Bound, Relation


def carry_values(rows: Relation, env: Env) -> Relation:
    """Every row once for all given values."""
    if env.given is None or rows.given:
        return rows
    plan = Join(env.given.plan, rows.plan, JoinKind.INNER)
    return Relation(plan, rows.scope, tuple(env.given.columns.values()))


def repeat_for_values(body: Bound, env: Env) -> Bound:
    """The rows of a query that uses none of the given values, once for all of them."""
    if env.given is None or body.given:
        return body
    plan = Join(env.given.plan, body.plan, JoinKind.INNER)
    return replace(body, plan=plan, given=tuple(env.given.columns.values()))


def mentions_given(node: exp.Expr, env: Env) -> bool:
    """Whether an expression uses given values; of what a subquery uses nothing is known yet."""
    if env.given is None:
        return False
    return contains(node, is_subquery) or not to_expr(node).columns.isdisjoint(env.given.columns.values())


def tie_sides(
    one: Relation, two: Relation, how: How, env: Env
) -> tuple[Relation, Relation, tuple[KeyPair, ...]]:
    """Both sides of a join so that the values are on the kept one; what ties them if they are on both."""
    one, two = _carry_on_kept(one, two, how, env)
    if not (one.given and two.given):
        return one, two, ()
    names = tuple(env.given_columns.values())
    new = {n: env.fresh("g") for n in names}
    if how.swapped:
        ties = tuple(KeyPair(column(new[n]), column(n), True) for n in names)
        return _rename_columns(one, new), two, ties
    return one, _rename_columns(two, new), tuple(KeyPair(column(n), column(new[n]), True) for n in names)


def _carry_on_kept(one: Relation, two: Relation, how: How, env: Env) -> tuple[Relation, Relation]:
    if not (one.given or two.given):
        return one, two
    first = how.kind is JoinKind.FULL or (not how.swapped and how.kind is not JoinKind.INNER)
    second = how.kind is JoinKind.FULL or how.swapped
    return carry_values(one, env) if first else one, carry_values(two, env) if second else two


def _rename_columns(side: Relation, new: dict[str, str]) -> Relation:
    shown = tuple(Output(new.get(c, c), column(c)) for c in side.plan.columns)
    return replace(side, plan=Project(side.plan, shown))


def merge_ties(plan: Join, ties: tuple[KeyPair, ...]) -> Operator:
    """After a FULL JOIN the given values are on one side or the other."""
    both = {next(iter(t.left.columns)): Function("coalesce", (t.left, t.right)) for t in ties}
    dropped = frozenset[str]().union(*(t.right.columns for t in ties))
    kept = (c for c in plan.columns if c not in dropped)
    return Project(plan, tuple(Output(c, both.get(c) or column(c)) for c in kept))

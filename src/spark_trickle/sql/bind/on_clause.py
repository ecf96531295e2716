"""Subqueries in the ON of an outer, semi or anti join -> columns beside one of its sides, or pairs of both.

The condition decides which rows are partners, not which rows there are, so it must not filter the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.expressions import NULL, Cast, Expr
from spark_trickle.algebra.operators import (
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    UnionAll,
    column,
)
from spark_trickle.sql.bind.correlated import find_used_columns
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import is_bound, rewrite, rewrite_with, write_column
from spark_trickle.sql.bind.join_kinds import How
from spark_trickle.sql.bind.plans import distinct_rows, keep_columns
from spark_trickle.sql.bind.scope import Relation, Scope
from spark_trickle.sql.bind.subquery import compute_subqueries, filter_by_subquery, is_subquery_value


@dataclass(frozen=True)
class _Sides:
    """The trees of both sides with what is computed beside them; `mixed` if something needs both."""

    plans: tuple[Operator, ...]
    mixed: bool = False


def compute_on_sides(
    part: exp.Expr, one: Relation, two: Relation, scope: Scope, env: Env
) -> tuple[Relation, Relation, exp.Expr | None]:
    """The condition over columns, if each of its subqueries needs the rows of one side only."""

    def compute_part(node: exp.Expr, sides: _Sides) -> tuple[exp.Expr, _Sides] | None:
        if not is_subquery_value(node):
            return None
        used = find_used_columns(node, scope, env)
        at = next((n for n, plan in enumerate(sides.plans) if used <= frozenset(plan.columns)), None)
        if at is None:
            return node, replace(sides, mixed=True)
        value, rows = compute_subqueries(node, Relation(sides.plans[at], scope), env)
        plans = tuple(rows.plan if n == at else plan for n, plan in enumerate(sides.plans))
        return value, replace(sides, plans=plans)

    whole, sides = rewrite_with(part, _Sides((one.plan, two.plan)), compute_part)
    if sides.mixed:
        return one, two, None
    first, second = sides.plans
    return one.with_plan(first), two.with_plan(second), whole


Plain = tuple[tuple[KeyPair, ...], Expr | None]  # the conditions without subqueries


@dataclass(frozen=True)
class Partners:
    """The pairs of values for which the subqueries in a condition hold; `names` maps columns to theirs."""

    plan: Operator
    names: Mapping[str, str]
    one: tuple[str, ...]  # columns of each side that the subqueries use
    two: tuple[str, ...]

    def join_to(self, side: Relation, used: tuple[str, ...]) -> Relation:
        """Each row of a side with the values of the other that are its partners."""
        return side.with_plan(Join(side.plan, self.plan, JoinKind.INNER, self.tie_keys(used)))

    def tie_keys(self, used: tuple[str, ...]) -> tuple[KeyPair, ...]:
        """What ties the rows of a side to these values."""
        return tuple(KeyPair(column(c), column(self.names[c]), True) for c in used)


def find_partners(
    parts: list[exp.Expr], one: Relation, two: Relation, scope: Scope, plain: Plain, env: Env
) -> Partners:
    """Conditions on both sides at once: they are tested for all different pairs of values that they use."""
    used = frozenset[str]().union(*(find_used_columns(p, scope, env) for p in parts))
    mine, theirs = (tuple(c for c in side.plan.columns if c in used) for side in (one, two))
    pairs = Join(one.plan, two.plan, JoinKind.INNER, *plain)
    distinct = distinct_rows(Project(pairs, keep_columns((*mine, *theirs))), env)
    new = dict(zip((*mine, *theirs), distinct.columns, strict=True))
    rows, inside = Relation(distinct, replace(scope, renamed=new)), _add_given(env, new)
    for part in parts:
        condition = rewrite(part, lambda n: write_column(new[n.name]) if is_bound(n) else None)
        rows = filter_by_subquery(condition, rows, inside)
    return Partners(Project(rows.plan, keep_columns(tuple(new.values()))), new, mine, theirs)


def join_by_subqueries(
    found: Partners, one: Relation, two: Relation, how: How
) -> tuple[Relation, Relation, tuple[KeyPair, ...]]:
    """The side whose rows need not be kept gets the values of its partners beside each row."""
    if how.swapped:
        turned = tuple(KeyPair(k.right, k.left, True) for k in found.tie_keys(found.two))
        return found.join_to(one, found.one), two, turned
    return one, found.join_to(two, found.two), found.tie_keys(found.one)


def full_join_by_subqueries(
    found: Partners, one: Relation, two: Relation, plain: Plain, env: Env
) -> Operator:
    """All rows of the left with their partners, and the rows of the right that have none."""
    keys, residual = plain
    left = Join(
        one.plan,
        found.join_to(two, found.two).plan,
        JoinKind.LEFT,
        (*keys, *found.tie_keys(found.one)),
        residual,
    )
    turned = tuple(KeyPair(k.right, k.left, k.null_safe) for k in keys)
    lonely = Join(
        two.plan,
        found.join_to(one, found.one).plan,
        JoinKind.ANTI,
        (*turned, *found.tie_keys(found.two)),
        residual,
    )
    kinds = env.find_types(one.plan)
    nulls = tuple(Output(env.fresh(c), Cast(NULL, kinds[c])) for c in one.plan.columns)
    shown = keep_columns((*one.plan.columns, *two.plan.columns))
    return UnionAll((Project(left, shown), Project(lonely, (*nulls, *keep_columns(two.plan.columns)))))


def _add_given(env: Env, new: dict[str, str]) -> Env:
    if env.given is None:
        return env
    here = {outer: new.get(c, c) for outer, c in env.given.columns.items()}
    return replace(env, given=replace(env.given, columns=here))

"""Subqueries in the ON of an outer, semi or anti join -> columns beside one of its sides, or pairs of both.

The condition decides which rows are partners, not which rows there are, so it must not filter the result.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operator import Expr, Join, JoinKind, KeyPair, Project, column
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind import Env, distinct_rows, outputs
from spark_trickle.sql.bind_correlated import columns_used
from spark_trickle.sql.bind_join import How
from spark_trickle.sql.bind_subquery import filter_by_subquery, is_subquery_value, subqueries_computed
from spark_trickle.sql.block import Block
from spark_trickle.sql.expressions import bound, is_bound, rewritten
from spark_trickle.sql.scope import From, Scope


def computed_beside(
    part: exp.Expr, one: From, two: From, scope: Scope, env: Env
) -> tuple[From, From, exp.Expr | None]:
    """The condition over columns, if each of its subqueries needs the rows of one side only."""
    blocks = [Block(side.plan, scope, env) for side in (one, two)]
    mixed = False

    def change(node: exp.Expr) -> exp.Expr | None:
        nonlocal mixed
        if not is_subquery_value(node):
            return None
        used = columns_used(node, scope, env)
        block = next((b for b in blocks if used <= frozenset(b.plan.columns)), None)
        if block is None:
            mixed = True
            return node
        return subqueries_computed(node, block)

    whole = rewritten(part, change)
    if mixed:
        return one, two, None
    return replace(one, plan=blocks[0].plan), replace(two, plan=blocks[1].plan), whole


def by_subqueries(
    parts: list[exp.Expr],
    one: From,
    two: From,
    scope: Scope,
    how: How,
    plain: tuple[tuple[KeyPair, ...], Expr | None],
    env: Env,
) -> tuple[From, From, tuple[KeyPair, ...]]:
    """Conditions on both sides at once: they are tested for all different pairs of values that they use.

    The side whose rows need not be kept gets the values of the other that are its partners beside each row.
    """
    if how.kind is JoinKind.FULL:
        raise UnsupportedError(
            "a subquery in the ON of a FULL JOIN that uses both sides",
            "Write a LEFT JOIN and a UNION ALL with the rows of the right side that have no match.",
        )
    used = frozenset[str]().union(*(columns_used(p, scope, env) for p in parts))
    mine, theirs = (tuple(c for c in side.plan.columns if c in used) for side in (one, two))
    pairs = Join(one.plan, two.plan, JoinKind.INNER, *plain)
    distinct = distinct_rows(Project(pairs, outputs((*mine, *theirs))), env)
    new = dict(zip((*mine, *theirs), distinct.columns, strict=True))
    block = Block(distinct, replace(scope, renamed=new), _with_given(env, new))
    for part in parts:
        filter_by_subquery(rewritten(part, lambda n: bound(new[n.name]) if is_bound(n) else None), block)
    partners = Project(block.plan, outputs(tuple(new.values())))
    kept, other, seen, own = (two, one, theirs, mine) if how.swapped else (one, two, mine, theirs)
    joined = Join(
        other.plan, partners, JoinKind.INNER, tuple(KeyPair(column(c), column(new[c]), True) for c in own)
    )
    other = replace(other, plan=joined)
    if how.swapped:
        return other, kept, tuple(KeyPair(column(new[c]), column(c), True) for c in seen)
    return kept, other, tuple(KeyPair(column(c), column(new[c]), True) for c in seen)


def _with_given(env: Env, new: dict[str, str]) -> Env:
    if env.given is None:
        return env
    here = {outer: new.get(c, c) for outer, c in env.given.columns.items()}
    return replace(env, given=replace(env.given, columns=here))

"""JOIN -> a Join of what is there so far and one relation more.

In a subquery, rows may carry the values of the outer columns that it is computed for: see `given`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.conditions import join_conjuncts
from spark_trickle.algebra.expressions import Expr, Function
from spark_trickle.algebra.operators import Join, JoinKind, KeyPair, Operator, Output, column
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import contains, is_subquery, list_conjuncts, to_expr
from spark_trickle.sql.bind.given import carry_values, mentions_given, merge_ties, tie_sides
from spark_trickle.sql.bind.join_kinds import How
from spark_trickle.sql.bind.key_types import align_equalities, align_types, read_key_pair
from spark_trickle.sql.bind.on_clause import (
    compute_on_sides,
    find_partners,
    full_join_by_subqueries,
    join_by_subqueries,
)
from spark_trickle.sql.bind.plans import add_outputs
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Named, Relation, Scope
from spark_trickle.sql.bind.subquery import filter_by_subquery


def join_relations(one: Relation, two: Relation, node: exp.Join, how: How, env: Env) -> Relation:
    """Two relations as USING, NATURAL or ON says."""
    names = [i.name for i in node.args.get("using") or ()]
    if str(node.method or "").upper() == "NATURAL":
        theirs = {n.lower() for n in two.scope.names()}
        names = [n for n in dict.fromkeys(map(str.lower, one.scope.names())) if n in theirs]
    if names:
        return _join_using(one, two, how, names, env)
    return join_on(one, two, how, (), node.args.get("on"), env)


def _build_join(
    one: Relation,
    two: Relation,
    how: How,
    ties: tuple[KeyPair, ...],
    keys: tuple[KeyPair, ...],
    residual: Expr | None,
) -> Operator:
    keys = (*ties, *keys)
    if how.swapped:
        turned = tuple(KeyPair(k.right, k.left, k.null_safe) for k in keys)
        return Join(two.plan, one.plan, how.kind, turned, residual)
    plan = Join(one.plan, two.plan, how.kind, keys, residual)
    return merge_ties(plan, ties) if how.kind is JoinKind.FULL and ties else plan


# --- ON ----------------------------------------------------------------------------------------------


def join_on(
    one: Relation, two: Relation, how: How, keys: tuple[KeyPair, ...], on: exp.Expr | None, env: Env
) -> Relation:
    """Equalities between one side and the other are keys, the rest is tested on every pair."""
    scope = replace(one.scope.join_scope(two.scope), outer=env.outer)
    parts = [resolve(p, scope, env) for p in list_conjuncts(on)]
    if any(mentions_given(p, env) for p in parts) and not two.given:
        one = carry_values(one, env)
    one, two, ties = tie_sides(one, two, how, env)
    plain = [p for p in parts if not contains(p, is_subquery)]
    later: list[exp.Expr] = []
    for part in (p for p in parts if contains(p, is_subquery)):
        if how.kind is JoinKind.INNER or env.trial:
            later.append(part)
            continue
        one, two, done = compute_on_sides(part, one, two, scope, env)
        (plain if done is not None else later).append(done if done is not None else part)
    one, two, plain = _filter_before(plain, one, two, how)
    found, residual = _read_conditions(plain, one, two, env)
    keys, given = (*keys, *found), one.given or two.given
    if later and how.kind is not JoinKind.INNER and not env.trial:
        pairs = find_partners(later, one, two, scope, (keys, residual), env)
        if how.kind is JoinKind.FULL:
            _refuse_ties(ties)
            return Relation(full_join_by_subqueries(pairs, one, two, (keys, residual), env), scope, given)
        one, two, more = join_by_subqueries(pairs, one, two, how)
        keys, later = (*keys, *more), []
    joined = Relation(_build_join(one, two, how, ties, keys, residual), scope, given)
    kept = one.scope if how.kind in (JoinKind.SEMI, JoinKind.ANTI) else scope
    return replace(filter_each(joined, later, env), scope=kept)


def _refuse_ties(ties: tuple[KeyPair, ...]) -> None:
    if ties:
        raise UnsupportedError(
            "a subquery in the ON of a FULL JOIN that uses both sides and the query around",
            "Write a LEFT JOIN and a UNION ALL with the rows of the right side that have no match.",
        )


def filter_each(rows: Relation, conditions: list[exp.Expr], env: Env) -> Relation:
    """The rows for which all conditions hold, which may have subqueries."""
    for condition in conditions:
        rows = filter_by_subquery(condition, rows, env)
    return rows


def _read_conditions(
    parts: list[exp.Expr], one: Relation, two: Relation, env: Env
) -> tuple[tuple[KeyPair, ...], Expr | None]:
    keys, rest = [], []
    for part in parts:
        pair = read_key_pair(part, frozenset(one.plan.columns), frozenset(two.plan.columns))
        if pair is not None:
            keys.append(pair)
        else:
            rest.append(part)
    rest = align_equalities(rest, Join(one.plan, two.plan, JoinKind.INNER), env)
    return align_types(tuple(keys), one.plan, two.plan, env), join_conjuncts([to_expr(p) for p in rest])


def _filter_before(
    parts: list[exp.Expr], one: Relation, two: Relation, how: How
) -> tuple[Relation, Relation, list[exp.Expr]]:
    """What is asked of rows that are not kept, and of them alone, is asked first: fewer keys are touched."""
    if how.kind not in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
        return one, two, parts
    side = one if how.swapped else two
    exprs, inside = [to_expr(part) for part in parts], frozenset(side.plan.columns)
    own = [bool(e.columns) and e.columns <= inside for e in exprs]
    predicate = join_conjuncts([e for e, is_own in zip(exprs, own, strict=True) if is_own])
    if predicate is None:
        return one, two, parts
    side = side.filter_rows(predicate)
    rest = [part for part, is_own in zip(parts, own, strict=True) if not is_own]
    return (side, two, rest) if how.swapped else (one, side, rest)


# --- USING -------------------------------------------------------------------------------------------


def _join_using(one: Relation, two: Relation, how: How, names: list[str], env: Env) -> Relation:
    mine, theirs = (tuple(_find_first(side.scope, name) for name in names) for side in (one, two))
    keys = tuple(KeyPair(column(m.column), column(t.column)) for m, t in zip(mine, theirs, strict=True))
    one, two, ties = tie_sides(one, two, how, env)
    plan = _build_join(one, two, how, ties, align_types(keys, one.plan, two.plan, env), None)
    shared = _Shared(mine, theirs, how)
    made: tuple[Output, ...] = ()
    if how.kind is JoinKind.FULL:
        made = tuple(Output(env.fresh(m.name), _choose_present(m, t)) for m, t in shared.pairs)
    scope = shared.scope(one.scope, two.scope, made)
    return Relation(add_outputs(plan, made), scope, one.given or two.given)


def _find_first(scope: Scope, name: str) -> Named:
    """Of several columns with the name Spark takes the first."""
    found = next((n for n in scope.columns if n.matches((name.lower(),))), None)
    if found is None:
        raise InvalidDefinitionError(f'column "{name}" of USING is not in both tables', "Use ON.")
    return found


def _choose_present(mine: Named, theirs: Named) -> Expr:
    return Function("coalesce", (column(mine.column), column(theirs.column)))


@dataclass(frozen=True)
class _Shared:
    """The columns of USING on both sides: one of each pair is shown, before all others."""

    mine: tuple[Named, ...]
    theirs: tuple[Named, ...]
    how: How

    @property
    def pairs(self) -> Iterator[tuple[Named, Named]]:
        return zip(self.mine, self.theirs, strict=True)

    def scope(self, one: Scope, two: Scope, made: tuple[Output, ...]) -> Scope:
        """`made` are what a FULL JOIN shows: they belong to neither side."""
        mine = tuple(n for n in one.columns if n not in self.mine)
        if self.how.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return replace(one, columns=self.mine + mine)
        if made:
            shown = tuple(Named((), m.name, o.name) for m, o in zip(self.mine, made, strict=True))
            copies = self.mine + self.theirs
        else:
            shown, copies = (self.theirs, self.mine) if self.how.swapped else (self.mine, self.theirs)
        rest = mine + tuple(n for n in two.columns if n not in self.theirs)
        return replace(one, columns=shown + rest, hidden=copies + one.hidden + two.hidden)

"""JOIN -> a Join of what is there so far and one relation more.

In a subquery, rows may carry the values of the outer columns that it is computed for. Where only one side of
a join needs them, it alone has them; where both have them, they are a part of the key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.operators import (
    Expr,
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    column,
)
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.block import Block
from spark_trickle.sql.bind.expressions import conjunction, conjuncts, contains, is_subquery, to_expr
from spark_trickle.sql.bind.from_clause import bare, name_relation, relation, with_joins
from spark_trickle.sql.bind.generate import bind_generator
from spark_trickle.sql.bind.key_types import align_types, equalities_aligned
from spark_trickle.sql.bind.query import Env, outputs
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import From, Named, Scope

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.LEFT,  # with its sides swapped
    ("RIGHT", "OUTER"): JoinKind.LEFT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    ("", "ANTI"): JoinKind.ANTI,
}


@dataclass(frozen=True)
class How:
    """What a join does with the rows of its sides: those of `first` are kept, unless it is INNER."""

    kind: JoinKind
    swapped: bool  # a RIGHT JOIN: what is written second is kept


def bind_join(found: From, node: exp.Join, env: Env) -> From:
    side, kind = str(node.side or "").upper(), str(node.kind or "").upper()
    if (side, kind) not in _KINDS or str(node.method or "").upper() == "ASOF":
        words = f"{node.method or ''} {side} {kind} JOIN in a stream table"
        raise UnsupportedError(" ".join(words.split()), "Use another join.")
    how = How(_KINDS[side, kind], side == "RIGHT")
    if isinstance(node.this, exp.Lateral):
        return _lateral(found, node, how, env)
    other = with_joins(relation(node.this, env), node.this, env)
    names = [i.name for i in node.args.get("using") or ()]
    if str(node.method or "").upper() == "NATURAL":
        theirs = {n.lower() for n in other.scope.names()}
        names = [n for n in dict.fromkeys(map(str.lower, found.scope.names())) if n in theirs]
    if names:
        return _using(found, other, how, names, env)
    return _on(found, other, how, (), node.args.get("on"), env)


# --- the given values of a subquery ------------------------------------------------------------------


def carry_values(found: From, env: Env) -> From:
    """Every row once for all given values."""
    if env.given is None or found.carries:
        return found
    return From(Join(env.given.plan, found.plan, JoinKind.INNER), found.scope, True)


def mentions_given(node: exp.Expr, env: Env) -> bool:
    """Whether an expression uses given values; of what a subquery uses nothing is known yet."""
    if env.given is None:
        return False
    return contains(node, is_subquery) or not to_expr(node).columns.isdisjoint(env.given.columns.values())


def _tied(one: From, two: From, how: How, env: Env) -> tuple[From, From, tuple[KeyPair, ...]]:
    """Both sides so that the values are on the kept one; what ties them if they are on both."""
    if one.carries or two.carries:
        first = how.kind is JoinKind.FULL or (not how.swapped and how.kind is not JoinKind.INNER)
        second = how.kind is JoinKind.FULL or how.swapped
        one = carry_values(one, env) if first else one
        two = carry_values(two, env) if second else two
    if not (one.carries and two.carries) or env.given is None:
        return one, two, ()
    names = tuple(env.given.columns.values())
    new = {n: env.fresh("g") for n in names}

    def aside(side: From) -> From:
        shown = tuple(Output(new.get(c, c), column(c)) for c in side.plan.columns)
        return replace(side, plan=Project(side.plan, shown))

    if how.swapped:
        return aside(one), two, tuple(KeyPair(column(new[n]), column(n), True) for n in names)
    return one, aside(two), tuple(KeyPair(column(n), column(new[n]), True) for n in names)


def _joined(
    one: From,
    two: From,
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
    return _either(plan, ties) if how.kind is JoinKind.FULL and ties else plan


def _either(plan: Join, ties: tuple[KeyPair, ...]) -> Operator:
    """After a FULL JOIN the given values are on one side or the other."""
    both = {
        next(iter(t.left.columns)): Expr(
            f"coalesce({t.left.sql}, {t.right.sql})", t.left.columns | t.right.columns
        )
        for t in ties
    }
    gone = frozenset[str]().union(*(t.right.columns for t in ties))
    return Project(plan, tuple(Output(c, both.get(c) or column(c)) for c in plan.columns if c not in gone))


# --- ON ----------------------------------------------------------------------------------------------


def _on(one: From, two: From, how: How, keys: tuple[KeyPair, ...], on: exp.Expr | None, env: Env) -> From:
    """Equalities between one side and the other are keys, the rest is tested on every pair."""
    from spark_trickle.sql.bind.on_clause import (
        by_subqueries,
        compute_subqueries,
        full_by_subqueries,
        partners,
    )

    scope = replace(one.scope.joined(two.scope), outer=env.outer)
    parts = [resolve(p, scope, env) for p in conjuncts(on)]
    if any(mentions_given(p, env) for p in parts) and not two.carries:
        one = carry_values(one, env)
    one, two, ties = _tied(one, two, how, env)
    nested = [p for p in parts if contains(p, is_subquery)]
    later: list[exp.Expr] = []
    for part in nested:
        if how.kind is JoinKind.INNER:
            later.append(part)
            continue
        one, two, done = compute_subqueries(part, one, two, scope, env)
        (parts if done is not None else later).append(done if done is not None else part)
    one, two, plain = _asked_before([p for p in parts if p not in nested], one, two, how)
    found, residual = _conditions(plain, one, two, env)
    keys = (*keys, *found)
    carries = one.carries or two.carries
    if later and how.kind is not JoinKind.INNER:
        pairs = partners(later, one, two, scope, (keys, residual), env)
        if how.kind is JoinKind.FULL:
            _refuse_ties(ties)
            return From(full_by_subqueries(pairs, one, two, (keys, residual), env), scope, carries)
        one, two, more = by_subqueries(pairs, one, two, how)
        keys, later = (*keys, *more), []
    plan = _joined(one, two, how, ties, keys, residual)
    if later:
        plan = _filtered(plan, later, scope, env)
    kept = one.scope if how.kind in (JoinKind.SEMI, JoinKind.ANTI) else scope
    return From(plan, kept, carries)


def _refuse_ties(ties: tuple[KeyPair, ...]) -> None:
    if ties:
        raise UnsupportedError(
            "a subquery in the ON of a FULL JOIN that uses both sides and the query around",
            "Write a LEFT JOIN and a UNION ALL with the rows of the right side that have no match.",
        )


def _filtered(plan: Operator, parts: list[exp.Expr], scope: Scope, env: Env) -> Operator:
    from spark_trickle.sql.bind.subquery import filter_by_subquery

    block = Block(plan, scope, env)
    for part in parts:
        filter_by_subquery(part, block)
    return block.plan


def _conditions(
    parts: list[exp.Expr], one: From, two: From, env: Env
) -> tuple[tuple[KeyPair, ...], Expr | None]:
    keys, rest = [], []
    for part in parts:
        pair = key_pair(part, frozenset(one.plan.columns), frozenset(two.plan.columns))
        if pair is not None:
            keys.append(pair)
        else:
            rest.append(part)
    rest = equalities_aligned(rest, Join(one.plan, two.plan, JoinKind.INNER), env)
    return align_types(tuple(keys), one.plan, two.plan, env), conjunction([to_expr(p) for p in rest])


def _asked_before(parts: list[exp.Expr], one: From, two: From, how: How) -> tuple[From, From, list[exp.Expr]]:
    """What is asked of rows that are not kept, and of them alone, is asked first: fewer keys are touched."""
    if how.kind not in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI):
        return one, two, parts
    side = one if how.swapped else two
    exprs, inside = [to_expr(part) for part in parts], frozenset(side.plan.columns)
    own = [bool(e.columns) and e.columns <= inside for e in exprs]
    predicate = conjunction([e for e, is_own in zip(exprs, own, strict=True) if is_own])
    if predicate is None:
        return one, two, parts
    side = replace(side, plan=Filter(side.plan, predicate))
    rest = [part for part, is_own in zip(parts, own, strict=True) if not is_own]
    return (side, two, rest) if how.swapped else (one, side, rest)


def key_pair(node: exp.Expr, left: frozenset[str], right: frozenset[str]) -> KeyPair | None:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return None
    one, two = to_expr(node.left), to_expr(node.right)
    if not one.columns or not two.columns:
        return None
    safe = isinstance(node, exp.NullSafeEQ)
    if one.columns <= left and two.columns <= right:
        return KeyPair(one, two, safe)
    if one.columns <= right and two.columns <= left:
        return KeyPair(two, one, safe)
    return None


# --- USING -------------------------------------------------------------------------------------------


def _using(one: From, two: From, how: How, names: list[str], env: Env) -> From:
    mine, theirs = (tuple(_first(side.scope, name) for name in names) for side in (one, two))
    keys = tuple(KeyPair(column(m.column), column(t.column)) for m, t in zip(mine, theirs, strict=True))
    one, two, ties = _tied(one, two, how, env)
    plan = _joined(one, two, how, ties, align_types(keys, one.plan, two.plan, env), None)
    shared = _Shared(mine, theirs, how)
    made: tuple[Output, ...] = ()
    if how.kind is JoinKind.FULL:
        made = tuple(Output(env.fresh(m.name), _one_or_other(m, t)) for m, t in shared.pairs)
        plan = Project(plan, (*outputs(plan.columns), *made))
    return From(plan, shared.scope(one.scope, two.scope, made), one.carries or two.carries)


def _first(scope: Scope, name: str) -> Named:
    """Of several columns with the name Spark takes the first."""
    found = next((n for n in scope.columns if n.matches((name.lower(),))), None)
    if found is None:
        raise InvalidDefinitionError(f'column "{name}" of USING is not in both tables', "Use ON.")
    return found


def _one_or_other(mine: Named, theirs: Named) -> Expr:
    return Expr(f"coalesce(`{mine.column}`, `{theirs.column}`)", frozenset((mine.column, theirs.column)))


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


# --- LATERAL -----------------------------------------------------------------------------------------


def _lateral(found: From, node: exp.Join, how: How, env: Env) -> From:
    from spark_trickle.sql.bind.correlated import dependent

    inner, alias, on = node.this.this, node.this.args.get("alias"), node.args.get("on")
    plain = on is None or (isinstance(on.unnest(), exp.Boolean) and on.unnest().this)
    if how.swapped or how.kind is JoinKind.FULL:
        raise UnsupportedError(
            "LATERAL in a RIGHT or FULL JOIN", "Its rows depend on the left side: use LEFT."
        )
    if not isinstance(inner, exp.Subquery) and (plain or how.kind is JoinKind.INNER):
        made = bind_generator(found, inner, alias, how.kind is JoinKind.LEFT, env)
        return made if on is None or plain else _where(made, on, env)
    if not isinstance(inner, exp.Subquery):
        inner = exp.Subquery(this=exp.select("*").from_(exp.Table(this=inner.copy())))
    if env.given is not None:
        found = carry_values(found, env)
    scope = replace(found.scope, outer=env.outer)
    body, keys = dependent(bare(inner), found.plan, scope, env)
    return _on(found, name_relation(replace(body, given=()), alias, env), how, keys, on, env)


def _where(found: From, on: exp.Expr, env: Env) -> From:
    """The condition of an inner join with what a function makes of each row."""
    scope = replace(found.scope, outer=env.outer)
    if any(mentions_given(resolve(p, scope, env), env) for p in conjuncts(on)):
        found = carry_values(found, env)
    return replace(found, plan=_filtered(found.plan, conjuncts(on), scope, env))

"""Inner joins and filters -> the relations and conditions that they are made of, and joins in another order.

An inner join may be computed in any order. A definition joins what has a condition in common, so that
equality becomes a key; a change is joined from its few rows on, each time with the smallest table that
they are connected to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from spark_trickle.algebra.conditions import join_conjuncts, split_shared_conjuncts
from spark_trickle.algebra.expressions import Comparison, Expr
from spark_trickle.algebra.memo import memoize
from spark_trickle.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    column,
)
from spark_trickle.plan.sizes import DistinctCounts, RowEstimate, Sizes


@dataclass(frozen=True)
class _Condition:
    """A test; `pair` are both sides if it asks for equality."""

    expr: Expr
    pair: KeyPair | None = None


@dataclass(frozen=True)
class _Web:
    relations: tuple[Operator, ...]
    conditions: tuple[_Condition, ...]


def connect_joins(plan: Operator) -> Operator:
    """Every table joined, where it can be, with one that it has a key in common with, and filtered first."""

    @memoize
    def visit(op: Operator) -> Operator:
        web = _read_web(op)
        if web is None:
            return op.with_inputs(tuple(visit(child) for child in op.inputs))
        web = replace(web, relations=tuple(visit(r) for r in web.relations))
        if len(web.relations) == 1:
            assert isinstance(op, Filter)
            return (
                replace(op, input=web.relations[0])
                if not isinstance(op.input, Filter)
                else _filter_relation(web)
            )
        return _restore_columns(op.columns, _join_web(web, 0))

    return visit(plan)


def order_joins(plan: Operator, sizes: Sizes) -> Operator:
    """Changes first; what they have become so far is sent to every task while it is few rows."""
    different = DistinctCounts(plan, sizes)

    @memoize
    def visit(op: Operator) -> Operator:
        web = _read_web(op) if op.weighted else None
        if web is None or len(web.relations) == 1:
            return op.with_inputs(tuple(visit(child) for child in op.inputs))
        web = replace(web, relations=tuple(visit(r) for r in web.relations))
        changes = [n for n, r in enumerate(web.relations) if r.weighted]
        if len(changes) != 1:
            return op.with_inputs(tuple(visit(child) for child in op.inputs))
        return _restore_columns(op.columns, _join_web(web, changes[0], different))

    return visit(plan)


def _restore_columns(columns: tuple[str, ...], made: Operator) -> Operator:
    """Whoever reads by position finds the columns where they were."""
    return made if made.columns == columns else Project(made, tuple(Output(c, column(c)) for c in columns))


def _filter_relation(web: _Web) -> Operator:
    predicate = join_conjuncts([c.expr for c in web.conditions])
    return web.relations[0] if predicate is None else Filter(web.relations[0], predicate)


# --- apart -------------------------------------------------------------------------------------------


def _read_web(op: Operator) -> _Web | None:
    match op:
        case Filter():
            inner = _read_web(op.input) or _Web((op.input,), ())
            return replace(inner, conditions=inner.conditions + _read_conditions(op.predicate))
        case Join(kind=JoinKind.INNER):
            left, right = (_read_web(side) or _Web((side,), ()) for side in (op.left, op.right))
            own = tuple(_read_key_pair(k) for k in op.keys)
            rest = () if op.residual is None else _read_conditions(op.residual)
            conditions = left.conditions + right.conditions + own + rest
            return _Web(left.relations + right.relations, conditions)
    return None


def _read_key_pair(pair: KeyPair) -> _Condition:
    return _Condition(Comparison("<=>" if pair.null_safe else "=", pair.left, pair.right), pair)


def _read_conditions(predicate: Expr) -> tuple[_Condition, ...]:
    tests = split_shared_conjuncts(predicate)
    if len(tests) == 1:
        return (_Condition(predicate, _read_equality(tests[0])),)
    return tuple(_Condition(t, _read_equality(t)) for t in tests)


def _read_equality(test: Expr) -> KeyPair | None:
    """Both sides of an equality of columns."""
    if not isinstance(test, Comparison) or not test.is_equality:
        return None
    if not (test.left.columns and test.right.columns):
        return None
    return KeyPair(test.left, test.right, test.is_null_safe)


# --- together ----------------------------------------------------------------------------------------


def _join_web(web: _Web, first: int, different: DistinctCounts | None = None) -> Operator:
    """One relation after the other, those with a key in common and few rows before the others."""
    left = list(web.conditions)
    relations = [_filter_by_own(r, left) for r in web.relations]
    start = relations.pop(first)
    made = start
    guess = None if different is None else RowEstimate(start, different)
    while relations:
        shared = [_find_keys(made, r, left) for r in relations]
        rank = [
            (not keys, (0, 0) if guess is None else guess.estimate_cost(r, tuple(keys.values())), n)
            for n, (r, keys) in enumerate(zip(relations, shared, strict=True))
        ]
        chosen = min(rank)[2]
        other, keys = relations.pop(chosen), shared[chosen]
        broadcast = guess is not None and guess.is_few
        made = _join_next(made, other, keys, left, broadcast)
        if guess is not None:
            guess.add_join(other, tuple(keys.values()))
    rest = join_conjuncts([c.expr for c in left])
    return made if rest is None else Filter(made, rest)


def _filter_by_own(relation: Operator, left: list[_Condition]) -> Operator:
    """A relation after the conditions that are about it alone."""
    inside = frozenset(relation.columns)
    own = [c for c in left if c.expr.columns and c.expr.columns <= inside]
    for c in own:
        left.remove(c)
    predicate = join_conjuncts([c.expr for c in own])
    return relation if predicate is None else Filter(relation, predicate)


def _find_keys(one: Operator, other: Operator, left: Sequence[_Condition]) -> dict[_Condition, KeyPair]:
    """The conditions that are keys of a join, turned so that they fit its sides."""
    ones, others = frozenset(one.columns), frozenset(other.columns)
    found = {}
    for c in left:
        if c.pair is None:
            continue
        for a, b in ((c.pair.left, c.pair.right), (c.pair.right, c.pair.left)):
            if a.columns <= ones and b.columns <= others:
                found[c] = KeyPair(a, b, c.pair.null_safe)
                break
    return found


def _join_next(
    one: Operator,
    other: Operator,
    keys: dict[_Condition, KeyPair],
    left: list[_Condition],
    broadcast: bool,
) -> Operator:
    for c in keys:
        left.remove(c)
    inside = frozenset(one.columns + other.columns)
    rest = [c for c in left if c.expr.columns and c.expr.columns <= inside]
    for c in rest:
        left.remove(c)
    residual = join_conjuncts([c.expr for c in rest])
    return Join(one, other, JoinKind.INNER, tuple(keys.values()), residual, broadcast=broadcast)

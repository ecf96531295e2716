"""UNION, INTERSECT and EXCEPT -> both sides in common types, and what their rows become together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.expressions import NULL, Cast
from spark_trickle.algebra.keys import unique_key
from spark_trickle.algebra.operators import (
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    SetKind,
    SetOperation,
    UnionAll,
    column,
)
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.limit import bind_order_and_limit
from spark_trickle.sql.bind.plans import distinct_rows, keep_columns, rename_apart
from spark_trickle.sql.bind.scope import Bound


def bind_set_operation(node: exp.SetOperation, env: Env) -> Bound:
    if isinstance(node, exp.Union) and not node.args.get("by_name"):
        return bind_order_and_limit(node, _bind_union(node, env), env)
    left, right = env.binder.bind_query(node.left, env), env.binder.bind_query(node.right, env)
    if node.args.get("by_name"):
        left, right = _align_by_name(left, right, env)
    _refuse_other_width(left, right)
    first, second = _align_types(env, _show_columns(left), _show_columns(right))
    distinct = node.args.get("distinct") is not False
    plan: Operator
    if isinstance(node, exp.Union):
        plan = UnionAll((first, second))
        plan = distinct_rows(plan, env) if distinct else plan
    elif distinct:
        plan = _match_rows(first, second, isinstance(node, exp.Intersect), env)
    else:
        kind = SetKind.INTERSECT_ALL if isinstance(node, exp.Intersect) else SetKind.EXCEPT_ALL
        plan = SetOperation(first, second, kind)
    return bind_order_and_limit(node, _restore_names(left, plan), env)


def _refuse_other_width(left: Bound, right: Bound) -> None:
    if len(left.outputs) != len(right.outputs):
        raise InvalidDefinitionError(
            f"{len(left.outputs)} columns on one side and {len(right.outputs)} on the other",
            "Both sides of a set operation need the same number of columns.",
        )


def _restore_names(side: Bound, plan: Operator) -> Bound:
    """Rows that have the columns of a side, under its names."""
    given = len(side.given)
    names = (n for n, _ in side.outputs)
    return Bound(plan, tuple(zip(names, plan.columns[given:], strict=True)), plan.columns[:given])


def _bind_union(node: exp.Union, env: Env) -> Bound:
    """A chain of unions as one of all its parts: side by side it is not as deep as it is long."""
    distinct = node.args.get("distinct") is not False
    first, *others = (env.binder.bind_query(part, env) for part in _split_chain(node, distinct))
    together = [rename_apart(_show_columns(first), env)]
    types = list(env.find_types(together[0]).values())
    for other in others:
        _refuse_other_width(first, other)
        together, types = _add_part(together, types, rename_apart(_show_columns(other), env), env)
    plan: Operator = UnionAll(tuple(together))
    return _restore_names(first, distinct_rows(plan, env) if distinct else plan)


def _split_chain(node: exp.Union, distinct: bool) -> list[exp.Query]:
    """The parts, from left to right; what is made distinct in the end need not be so before."""
    parts = [node.right]
    left = node.left
    while isinstance(left, exp.Union) and _goes_on(left, distinct):
        parts.append(left.right)
        left = left.left
    return [left, *reversed(parts)]


def _goes_on(union: exp.Union, distinct: bool) -> bool:
    if union.args.get("distinct") is not False and not distinct:
        return False
    return not any(union.args.get(clause) for clause in ("by_name", "with_", "order", "limit", "offset"))


def _add_part(
    together: list[Operator], have: list[str], part: Operator, env: Env
) -> tuple[list[Operator], list[str]]:
    """One more part; if the common types become others, all before are cast as one, as Spark does."""
    if list(env.find_types(part).values()) == have:
        return [*together, part], have
    before = together[0] if len(together) == 1 else UnionAll(tuple(together))
    both = list(env.find_types(UnionAll((before, part))).values())
    if both == have:
        return [*together, _cast_columns(part, both, env)], have
    return [_cast_columns(before, both, env), _cast_columns(part, both, env)], both


def _match_rows(first: Operator, second: Operator, both: bool, env: Env) -> Operator:
    """INTERSECT and EXCEPT: the different rows of one side that the other has, or has not.

    As a semi join or an anti join, a change reads only what it touches, where a set operation would be
    computed by Spark for all touched rows.
    """
    left = first if _is_distinct(first, env) else distinct_rows(first, env)
    pairs = zip(left.columns, second.columns, strict=True)
    keys = tuple(KeyPair(column(one), column(other), True) for one, other in pairs)
    return Join(left, second, JoinKind.SEMI if both else JoinKind.ANTI, keys)


def _is_distinct(op: Operator, env: Env) -> bool:
    """Whether no row repeats for sure, as after DISTINCT, which would also turn −0.0 into 0.0."""
    plain = not any(re.search("float|double", kind, re.IGNORECASE) for kind in env.find_types(op).values())
    return plain and bool(unique_key(op, lambda _: ()))


def _align_by_name(left: Bound, right: Bound, env: Env) -> tuple[Bound, Bound]:
    """Both sides with the same columns in the same order; what one of them lacks is NULL there."""
    names = dict[str, str]()
    for name, _ in (*left.outputs, *right.outputs):
        names.setdefault(name.lower(), name)
    return _add_missing(left, names, env), _add_missing(right, names, env)


def _add_missing(side: Bound, names: Mapping[str, str], env: Env) -> Bound:
    own = {n.lower(): c for n, c in side.outputs}
    if len(own) != len(side.outputs):
        raise InvalidDefinitionError(
            "two columns with the same name in a set operation BY NAME", "Give each column a name of its own."
        )
    lacking = {lowered: env.fresh(lowered) for lowered in names if lowered not in own}
    nulls = tuple(Output(c, NULL) for c in lacking.values())
    plan = Project(side.plan, (*keep_columns(side.plan.columns), *nulls)) if nulls else side.plan
    return replace(side, plan=plan, outputs=tuple((n, {**own, **lacking}[k]) for k, n in names.items()))


def _show_columns(side: Bound) -> Operator:
    return Project(side.plan, keep_columns((*side.given, *side.columns)))


def _align_types(env: Env, left: Operator, right: Operator) -> tuple[Operator, Operator]:
    """Both sides in their common types: a part of a union may later be read without the others."""
    left, right = rename_apart(left, env), rename_apart(right, env)
    both = list(env.find_types(UnionAll((left, right))).values())
    return _cast_columns(left, both, env), _cast_columns(right, both, env)


def _cast_columns(op: Operator, wanted: list[str], env: Env) -> Operator:
    found = list(env.find_types(op).values())
    if found == wanted:
        return op
    return Project(
        op,
        tuple(
            Output(env.fresh("u"), column(c) if a == b else Cast(column(c), b))
            for c, a, b in zip(op.columns, found, wanted, strict=True)
        ),
    )

"""UNION, INTERSECT and EXCEPT -> both sides in common types, and what their rows become together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.keys import unique_key
from spark_trickle.algebra.operator import (
    Expr,
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
from spark_trickle.sql.bind import Env, bind_query, distinct_rows, ordered_and_limited, outputs, renamed
from spark_trickle.sql.scope import Bound


def bind_set_operation(node: exp.SetOperation, env: Env) -> Bound:
    left, right = bind_query(node.left, env), bind_query(node.right, env)
    if node.args.get("by_name"):
        left, right = _by_name(left, right, env)
    if len(left.outputs) != len(right.outputs):
        raise InvalidDefinitionError(
            f"{len(left.outputs)} columns on one side and {len(right.outputs)} on the other",
            "Both sides of a set operation need the same number of columns.",
        )
    distinct = node.args.get("distinct") is not False
    names = [n for n, _ in left.outputs]
    keep = _kept(left), _kept(right)
    first, second = _same_types(
        env, *(Project(b.plan, outputs(k)) for b, k in zip((left, right), keep, strict=True))
    )
    plan: Operator
    if isinstance(node, exp.Union):
        plan = UnionAll((first, second))
        plan = distinct_rows(plan, env) if distinct else plan
    elif distinct:
        plan = _matched(first, second, isinstance(node, exp.Intersect), env)
    else:
        kind = SetKind.INTERSECT_ALL if isinstance(node, exp.Intersect) else SetKind.EXCEPT_ALL
        plan = SetOperation(first, second, kind)
    found = plan.columns
    given = len(left.given)
    return ordered_and_limited(
        node, Bound(plan, tuple(zip(names, found[given:], strict=True)), found[:given]), env
    )


def _matched(first: Operator, second: Operator, both: bool, env: Env) -> Operator:
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
    plain = not any(re.search("float|double", kind, re.IGNORECASE) for kind in env.types(op).values())
    return plain and bool(unique_key(op, lambda _: ()))


def _by_name(left: Bound, right: Bound, env: Env) -> tuple[Bound, Bound]:
    """Both sides with the same columns in the same order; what one of them lacks is NULL there."""
    names = dict[str, str]()
    for name, _ in (*left.outputs, *right.outputs):
        names.setdefault(name.lower(), name)
    return _with_all(left, names, env), _with_all(right, names, env)


def _with_all(side: Bound, names: Mapping[str, str], env: Env) -> Bound:
    own = {n.lower(): c for n, c in side.outputs}
    if len(own) != len(side.outputs):
        raise InvalidDefinitionError(
            "two columns of one name in a set operation BY NAME", "Give each column a name of its own."
        )
    lacking = {lowered: env.fresh(lowered) for lowered in names if lowered not in own}
    nulls = tuple(Output(c, Expr("NULL")) for c in lacking.values())
    plan = Project(side.plan, (*outputs(side.plan.columns), *nulls)) if nulls else side.plan
    return replace(side, plan=plan, outputs=tuple((n, {**own, **lacking}[k]) for k, n in names.items()))


def _kept(side: Bound) -> tuple[str, ...]:
    return (*side.given, *side.columns)


def _same_types(env: Env, left: Operator, right: Operator) -> tuple[Operator, Operator]:
    """Both sides in their common types: a part of a union may later be read without the others."""
    left, right = renamed(left, env), renamed(right, env)
    both = list(env.types(UnionAll((left, right))).values())
    return _cast(left, both, env), _cast(right, both, env)


def _cast(op: Operator, wanted: list[str], env: Env) -> Operator:
    found = list(env.types(op).values())
    if found == wanted:
        return op
    return Project(
        op,
        tuple(
            Output(env.fresh("u"), column(c) if a == b else Expr(f"CAST(`{c}` AS {b})", frozenset((c,))))
            for c, a, b in zip(op.columns, found, wanted, strict=True)
        ),
    )

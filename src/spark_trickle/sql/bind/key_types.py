"""Join keys -> join keys of one type on both sides, where = would convert one of them.

Touched keys and groups are compared among themselves. '1' and '01' are different texts, yet both equal the
number 1; so they are compared as numbers everywhere, or not as keys at all.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.expressions import Cast, Expr
from spark_trickle.algebra.operators import Join, KeyPair, Operator, Output, Project
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import parse_expression, rewrite, to_expr
from spark_trickle.sql.dialect.spark import sql_of

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_FLOATS = ("float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}  # as Spark turns them into decimals
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_MOST = 38


def read_key_pair(node: exp.Expr, left: frozenset[str], right: frozenset[str]) -> KeyPair | None:
    """An equality between one side and the other as a key of their join; none of anything else."""
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


def align_types(keys: tuple[KeyPair, ...], left: Operator, right: Operator, env: Env) -> tuple[KeyPair, ...]:
    if not keys or env.trial:
        return keys
    ones = _find_types([k.left for k in keys], left, env)
    twos = _find_types([k.right for k in keys], right, env)
    found = []
    for key, one, two in zip(keys, ones, twos, strict=True):
        common = _find_common_type(one, two)
        if common is not None:
            key = replace(key, left=_make_cast(key.left, common), right=_make_cast(key.right, common))
        found.append(key)
    return tuple(found)


def align_equalities(parts: list[exp.Expr], plan: Operator, env: Env) -> list[exp.Expr]:
    """Conditions on joined rows, in which = is between values of one type: it may become a key later."""
    if not any(isinstance(op, Join) for op in plan.walk()):
        return parts
    pairs = {}
    for node in (n for part in parts for n in part.find_all(exp.EQ, exp.NullSafeEQ)):
        pair = KeyPair(to_expr(node.left), to_expr(node.right))
        if pair.left.columns and pair.right.columns:
            pairs[sql_of(node)] = pair
    found = dict(zip(pairs, align_types(tuple(pairs.values()), plan, plan, env), strict=True))

    def align_equality(node: exp.Expr) -> exp.Expr | None:
        text = sql_of(node) if isinstance(node, exp.EQ | exp.NullSafeEQ) else ""
        if text not in pairs or found[text] == pairs[text]:
            return None
        left, right = (
            parse_expression(side.sql, side.columns) for side in (found[text].left, found[text].right)
        )
        return type(node)(this=left, expression=right)

    return [rewrite(part, align_equality) for part in parts]


def _find_types(exprs: list[Expr], plan: Operator, env: Env) -> list[str]:
    outputs = tuple(Output(env.fresh("probe"), e) for e in exprs)
    return list(env.find_types(Project(plan, outputs)).values())


def _make_cast(expr: Expr, kind: str) -> Expr:
    return Cast(expr, kind)


def _find_common_type(one: str, two: str) -> str | None:
    """The type that = compares in, if a value of one type may equal several of the other."""
    if one == two:
        return None
    for text, other in ((one, two), (two, one)):
        if text == "string" and other != "string":
            if other in _WHOLE:
                return "bigint"
            return "double" if other in _FLOATS or other.startswith("decimal") else other
        if text in _FLOATS and other not in _FLOATS:
            return "double"
        if text == "timestamp" and other in ("timestamp_ntz", "date"):
            return "timestamp"  # a clock put forward gives two local times one instant
    return _find_rounded_type(one, two)


def _find_rounded_type(one: str, two: str) -> str | None:
    """The decimal that two numbers are compared as, if it has no room for all digits of their fractions."""
    mine, theirs = _count_digits(one), _count_digits(two)
    if mine is None or theirs is None:
        return None
    whole, scale = max(mine[0] - mine[1], theirs[0] - theirs[1]), max(mine[1], theirs[1])
    return f"decimal({_MOST}, {max(_MOST - whole, 0)})" if whole + scale > _MOST else None


def _count_digits(kind: str) -> tuple[int, int] | None:
    if found := _DECIMAL.fullmatch(kind):
        return int(found[1]), int(found[2])
    return (_DIGITS[kind], 0) if kind in _DIGITS else None

"""The expressions of a plan mean what their texts say, whether they were bound, loaded or read again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from spark_trickle.algebra.contents import list_expressions
from spark_trickle.algebra.expressions import Expr, Is, Literal, Not, Opaque
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.arrow.expressions import may_evaluate
from spark_trickle.sql.bind.translate import read_expression


def check_expressions(plans: Iterable[Operator]) -> None:
    plans = tuple(plans)
    loaded = load(dump(plans), read_expression)
    assert loaded == plans
    for one, other in zip(_expressions(plans), _expressions(loaded), strict=True):
        again = read_expression(one.sql, one.columns)
        for found in (other, again):
            assert say_the_same(one, found), one.sql
            assert may_evaluate(one) == may_evaluate(found), one.sql


def _expressions(plans: Iterable[Operator]) -> list[Expr]:
    return [e for plan in plans for op in plan.walk() for e in list_expressions(op)]


def say_the_same(one: Expr, other: Expr) -> bool:
    """Whatever the words are: COALESCE or coalesce, x IS NOT NULL or NOT x IS NULL."""
    one, other = _plain(one), _plain(other)
    if isinstance(one, Opaque) or isinstance(other, Opaque):
        return True
    same = type(one) is type(other) and _words(one) == _words(other) and one.columns == other.columns
    return same and all(say_the_same(a, b) for a, b in zip(one.parts, other.parts, strict=True))


def _plain(expr: Expr) -> Expr:
    expr = expr.meaning
    return Not(replace(expr, negated=False)) if isinstance(expr, Is) and expr.negated else expr


def _words(expr: Expr) -> list[str]:
    values = [getattr(expr, f.name) for f in fields(expr)]
    words = [str(v) for v in values if not isinstance(v, Expr | tuple)]
    if isinstance(expr, Literal):
        return [w.lower() for w in words]
    known = {"<=>": "isnotdistinctfrom"}
    return [known.get(w, w.lower().replace(" ", "")) for w in words]

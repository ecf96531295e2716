"""Aggregate functions that are sums over rows -> the sums, and the function as an expression over them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from spark_trickle.algebra.conditions import all_of
from spark_trickle.algebra.expressions import (
    FALSE,
    TRUE,
    Brackets,
    Case,
    Cast,
    Comparison,
    Expr,
    Function,
    Literal,
    LiteralKind,
    Negate,
    Not,
    Opaque,
    integer,
    is_not_null,
)
from spark_trickle.algebra.operators import Operator, Output, Project
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import bound, parse_expression
from spark_trickle.sql.bind.plans import outputs
from spark_trickle.sql.bind.translate import keep_text
from spark_trickle.sql.render.wide_decimals import can_add, has_mean, mean_of, zero

_ORDERED = re.compile(
    r"tinyint|smallint|int|bigint|decimal\(\d+,\s*\d+\)|float|double|string|boolean|date|timestamp(_ntz)?",
    re.I,
)
_WHOLE = re.compile(r"tinyint|smallint|int|bigint", re.I)
_INFINITY = Cast(Literal("Infinity", LiteralKind.STRING), "DOUBLE")
_EXACT = re.compile(r"(tinyint|smallint|int|bigint|decimal\((\d+),\s*(\d+)\))", re.I)
_MOST_ADDED = 28  # digits of decimals whose sum fits into 38, however many they are


class Sums:
    """The calls of one Aggregate; a call that is asked for twice is there once."""

    def __init__(self, plan: Operator, env: Env) -> None:
        self._plan, self._env = plan, env
        self._calls: dict[str, Call] = {}
        self._derived: dict[str, Output] = {}

    @property
    def calls(self) -> tuple[Call, ...]:
        return tuple(self._calls.values())

    @property
    def exact_floats(self) -> bool:
        return self._env.exact_floats

    def fresh(self, name: str) -> str:
        return self._env.fresh(name)

    def type_of(self, arg: Expr) -> str:
        """What Spark says the type of an expression over the rows is."""
        probe = self.fresh("probe")
        return self._env.types(Project(self._plan, (Output(probe, arg),)))[probe].lower()

    def add(self, call: Call) -> str:
        key = f"{call.expr.sql}|{call.term.sql if call.term else ''}"
        return self._calls.setdefault(key, call).name

    def sum_of(self, term: Expr, kind: str, value: str = "") -> str:
        """`value` is the term in a type that Spark adds faster; its sum fits into `kind` as well."""
        return self.total_of(term, kind, f"sum({value or term.sql})")

    def total_of(self, term: Expr, kind: str, total: str) -> str:
        """The sum of a term, and how Spark computes it from all rows of a group."""
        call = Opaque(f"CAST(coalesce({total}, {zero(kind)}) AS {kind})", term.columns)
        return self.add(Call(self.fresh("s"), call, term, kind))

    def derive(self, name: str, value: str, columns: Iterable[str]) -> str:
        """A value over the calls that several functions need: a column beside them."""
        made = Output(self.fresh(name), keep_text(value, frozenset(columns)))
        return self._derived.setdefault(value, made).name

    def with_derived(self, op: Operator) -> Operator:
        return Project(op, (*outputs(op.columns), *self._derived.values())) if self._derived else op

    def count_of(self, test: Expr) -> str:
        return self.sum_of(Case(((test, integer(1)),), integer(0)), "BIGINT")


def sql_over(text: str, *columns: str) -> exp.Expr:
    return parse_expression(text, frozenset(columns))


def only_if(allowed: Expr, value: Expr) -> Expr:
    """A value of the rows that a FILTER lets through; null for others."""
    return value if allowed == TRUE else Case(((allowed, value),))


def truth(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr:
    """Whether all or some of the values are true: none is false, or one is true."""
    present = sums.count_of(all_of([allowed, is_not_null(arg)]))
    wanted = name in ("bool_or", "some", "any")
    is_hit = Brackets(arg) if wanted else Not(Brackets(arg))
    hits = sums.count_of(all_of([allowed, is_hit]))
    return sql_over(
        f"CASE WHEN `{present}` > 0 THEN `{hits}` {'> 0' if wanted else '= 0'} END", present, hits
    )


def exclusive_or(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    """A value that goes is combined once more, which undoes it."""
    kind = sums.type_of(arg).upper()
    if _WHOLE.fullmatch(kind) is None:
        return None
    present = sums.count_of(all_of([allowed, is_not_null(arg)]))
    term = only_if(allowed, arg)
    call = Opaque(f"CAST(coalesce(bit_xor({term.sql}), 0) AS {kind})", term.columns)
    bits = sums.add(Call(sums.fresh("bits"), call, term, kind, combine="bit_xor"))
    return sql_over(f"CASE WHEN `{present}` > 0 THEN `{bits}` END", present, bits)


def extremum(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    kind = sums.type_of(arg)
    if _ORDERED.fullmatch(kind) is None:
        return None
    term = only_if(allowed, arg)
    call = Function(name, (term,))
    best = sums.add(Call(sums.fresh(name), call, term, kind, name))
    one = Opaque(f"CAST({call.sql} IS NOT NULL AS BIGINT)", call.columns)
    sums.add(Call(sums.fresh("ties"), one, term, "BIGINT", ties_of=best))
    return bound(best)


def sum_or_average(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    kind, is_sum = sums.type_of(arg), name in ("sum", "try_sum")
    exact = _EXACT.fullmatch(kind)
    if exact is None and (kind not in ("float", "double") or sums.exact_floats):
        return None
    is_decimal = exact is not None and exact[2] is not None
    precision, scale = (int(exact[2]), int(exact[3])) if exact is not None and is_decimal else (38, 0)
    if is_decimal and not (can_add(scale) if is_sum else has_mean(precision, scale)):
        return None
    if is_decimal and name.startswith("try_") and precision > _MOST_ADDED:
        return None  # null for a sum beyond 38 digits, which the stored one cannot have either
    present = sums.count_of(all_of([allowed, is_not_null(arg)]))
    value = only_if(allowed, arg)
    if exact is None:
        return _float_sum(sums, is_sum, Cast(value, "DOUBLE"), present)
    wide = f"DECIMAL(38, {scale})"
    # Numbers of 64 bits may have a mean, or go beyond the end and come back, where they have no sum.
    quick = "" if name != "sum" and kind == "bigint" else value.sql
    total = sums.sum_of(Cast(value, wide), wide, quick)
    if is_sum:
        kind = f"DECIMAL({min(38, precision + 10)}, {scale})" if is_decimal else "BIGINT"
        made = f"{'TRY_CAST' if name == 'try_sum' else 'CAST'}(`{total}` AS {kind})"
    elif is_decimal:
        made = mean_of(f"`{total}`", f"`{present}`", precision, scale)
    else:
        made = f"CAST(`{total}` AS DOUBLE) / `{present}`"
    return sql_over(f"CASE WHEN `{present}` > 0 THEN {made} END", total, present)


def _float_sum(sums: Sums, is_sum: bool, value: Expr, present: str) -> exp.Expr:
    """A sum that can be taken apart again: doubles that are short decimals are added as decimals.

    What is left over is added as doubles. NaN and infinity would never leave a sum, so they are counted.
    """
    special = {
        word: sums.count_of(test)
        for word, test in (
            ("nan", Function("isnan", (value,))),
            ("above", Comparison("=", value, _INFINITY)),
            ("below", Comparison("=", value, Negate(_INFINITY))),
        )
    }
    size = Function("abs", (value,))
    short = Cast(Case(((Comparison("<", size, Literal("1e12D")), value),)), "DECIMAL(38, 18)")
    is_short = Function("coalesce", (Comparison("=", Cast(short, "DOUBLE"), value), FALSE))
    is_long = all_of([Not(is_short), Comparison("<", size, _INFINITY)])
    exact = sums.sum_of(Case(((is_short, short),)), "DECIMAL(38, 18)")
    longs = sums.count_of(is_long)
    rest = sums.sum_of(Case(((is_long, value),)), "DOUBLE")
    total = f"CAST(`{exact}` AS DOUBLE) + CASE WHEN `{longs}` > 0 THEN `{rest}` ELSE 0.0D END"
    whole = (
        f"CASE WHEN `{special['nan']}` > 0 OR (`{special['above']}` > 0 AND `{special['below']}` > 0) "
        f"THEN CAST('NaN' AS DOUBLE) WHEN `{special['above']}` > 0 THEN {_INFINITY.sql} "
        f"WHEN `{special['below']}` > 0 THEN -{_INFINITY.sql} ELSE {total} END"
    )
    divided = whole if is_sum else f"({whole}) / `{present}`"
    used = (present, exact, longs, rest, *special.values())
    return sql_over(f"CASE WHEN `{present}` > 0 THEN {divided} END", *used)

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
from spark_trickle.sql.bind.expressions import parse_expression, write_column
from spark_trickle.sql.bind.plans import keep_columns
from spark_trickle.sql.bind.translate import keep_text
from spark_trickle.sql.render.wide_decimals import can_add, has_mean, write_mean, write_zero

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

    def find_type(self, arg: Expr) -> str:
        """What Spark says the type of an expression over the rows is."""
        probe = self.fresh("probe")
        return self._env.find_types(Project(self._plan, (Output(probe, arg),)))[probe].lower()

    def add_call(self, call: Call) -> str:
        key = f"{call.expr.sql}|{call.term.sql if call.term else ''}"
        return self._calls.setdefault(key, call).name

    def add_sum(self, term: Expr, kind: str, value: str = "") -> str:
        """`value` is the term in a type that Spark adds faster; its sum fits into `kind` as well."""
        return self.add_total(term, kind, f"sum({value or term.sql})")

    def add_total(self, term: Expr, kind: str, total: str) -> str:
        """The sum of a term, and how Spark computes it from all rows of a group."""
        call = Opaque(f"CAST(coalesce({total}, {write_zero(kind)}) AS {kind})", term.columns)
        return self.add_call(Call(self.fresh("s"), call, term, kind))

    def derive_value(self, name: str, value: str, columns: Iterable[str]) -> str:
        """A value over the calls that several functions need: a column beside them."""
        made = Output(self.fresh(name), keep_text(value, frozenset(columns)))
        return self._derived.setdefault(value, made).name

    def add_derived(self, op: Operator) -> Operator:
        return Project(op, (*keep_columns(op.columns), *self._derived.values())) if self._derived else op

    def add_count(self, test: Expr) -> str:
        return self.add_sum(Case(((test, integer(1)),), integer(0)), "BIGINT")


def read_sql(text: str, *columns: str) -> exp.Expr:
    return parse_expression(text, frozenset(columns))


def keep_if(allowed: Expr, value: Expr) -> Expr:
    """A value of the rows that a FILTER lets through; null for others."""
    return value if allowed == TRUE else Case(((allowed, value),))


def write_truth(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr:
    """Whether all or some of the values are true: none is false, or one is true."""
    present = sums.add_count(all_of([allowed, is_not_null(arg)]))
    wanted = name in ("bool_or", "some", "any")
    is_hit = Brackets(arg) if wanted else Not(Brackets(arg))
    hits = sums.add_count(all_of([allowed, is_hit]))
    return read_sql(
        f"CASE WHEN `{present}` > 0 THEN `{hits}` {'> 0' if wanted else '= 0'} END", present, hits
    )


def write_exclusive_or(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    """A value that goes is combined once more, which undoes it."""
    kind = sums.find_type(arg).upper()
    if _WHOLE.fullmatch(kind) is None:
        return None
    present = sums.add_count(all_of([allowed, is_not_null(arg)]))
    term = keep_if(allowed, arg)
    call = Opaque(f"CAST(coalesce(bit_xor({term.sql}), 0) AS {kind})", term.columns)
    bits = sums.add_call(Call(sums.fresh("bits"), call, term, kind, combine="bit_xor"))
    return read_sql(f"CASE WHEN `{present}` > 0 THEN `{bits}` END", present, bits)


def write_extremum(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    kind = sums.find_type(arg)
    if _ORDERED.fullmatch(kind) is None:
        return None
    term = keep_if(allowed, arg)
    call = Function(name, (term,))
    best = sums.add_call(Call(sums.fresh(name), call, term, kind, name))
    one = Opaque(f"CAST({call.sql} IS NOT NULL AS BIGINT)", call.columns)
    sums.add_call(Call(sums.fresh("ties"), one, term, "BIGINT", ties_of=best))
    return write_column(best)


def write_sum_or_average(sums: Sums, name: str, arg: Expr, allowed: Expr) -> exp.Expr | None:
    kind, is_sum = sums.find_type(arg), name in ("sum", "try_sum")
    exact = _EXACT.fullmatch(kind)
    if exact is None and (kind not in ("float", "double") or sums.exact_floats):
        return None
    is_decimal = exact is not None and exact[2] is not None
    precision, scale = (int(exact[2]), int(exact[3])) if exact is not None and is_decimal else (38, 0)
    if is_decimal and not (can_add(scale) if is_sum else has_mean(precision, scale)):
        return None
    if is_decimal and name.startswith("try_") and precision > _MOST_ADDED:
        return None  # null for a sum beyond 38 digits, which the stored one cannot have either
    present = sums.add_count(all_of([allowed, is_not_null(arg)]))
    value = keep_if(allowed, arg)
    if exact is None:
        return _write_float_sum(sums, is_sum, Cast(value, "DOUBLE"), present)
    wide = f"DECIMAL(38, {scale})"
    # Numbers of 64 bits may have a mean, or go beyond the end and come back, where they have no sum.
    quick = "" if name != "sum" and kind == "bigint" else value.sql
    total = sums.add_sum(Cast(value, wide), wide, quick)
    if is_sum:
        kind = f"DECIMAL({min(38, precision + 10)}, {scale})" if is_decimal else "BIGINT"
        made = f"{'TRY_CAST' if name == 'try_sum' else 'CAST'}(`{total}` AS {kind})"
    elif is_decimal:
        made = write_mean(f"`{total}`", f"`{present}`", precision, scale)
    else:
        made = f"CAST(`{total}` AS DOUBLE) / `{present}`"
    return read_sql(f"CASE WHEN `{present}` > 0 THEN {made} END", total, present)


def _write_float_sum(sums: Sums, is_sum: bool, value: Expr, present: str) -> exp.Expr:
    """A sum that can be taken apart again: doubles that are short decimals are added as decimals.

    What is left over is added as doubles. NaN and infinity would never leave a sum, so they are counted.
    """
    special = {
        word: sums.add_count(test)
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
    exact = sums.add_sum(Case(((is_short, short),)), "DECIMAL(38, 18)")
    longs = sums.add_count(is_long)
    rest = sums.add_sum(Case(((is_long, value),)), "DOUBLE")
    total = f"CAST(`{exact}` AS DOUBLE) + CASE WHEN `{longs}` > 0 THEN `{rest}` ELSE 0.0D END"
    whole = (
        f"CASE WHEN `{special['nan']}` > 0 OR (`{special['above']}` > 0 AND `{special['below']}` > 0) "
        f"THEN CAST('NaN' AS DOUBLE) WHEN `{special['above']}` > 0 THEN {_INFINITY.sql} "
        f"WHEN `{special['below']}` > 0 THEN -{_INFINITY.sql} ELSE {total} END"
    )
    divided = whole if is_sum else f"({whole}) / `{present}`"
    used = (present, exact, longs, rest, *special.values())
    return read_sql(f"CASE WHEN `{present}` > 0 THEN {divided} END", *used)

"""Aggregate functions that are sums over rows -> the sums, and the function as an expression over them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from spark_trickle.algebra.operators import Expr, Operator, Output, Project
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import bound, parse_expression
from spark_trickle.sql.bind.plans import outputs
from spark_trickle.sql.render.wide_decimals import can_add, has_mean, mean_of, zero

_ORDERED = re.compile(
    r"tinyint|smallint|int|bigint|decimal\(\d+,\s*\d+\)|float|double|string|boolean|date|timestamp(_ntz)?",
    re.I,
)
_WHOLE = re.compile(r"tinyint|smallint|int|bigint", re.I)
_INFINITY = "CAST('Infinity' AS DOUBLE)"
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
        call = Expr(f"CAST(coalesce({total}, {zero(kind)}) AS {kind})", term.columns)
        return self.add(Call(self.fresh("s"), call, term, kind))

    def derive(self, name: str, value: str, columns: Iterable[str]) -> str:
        """A value over the calls that several functions need: a column beside them."""
        made = Output(self.fresh(name), Expr(value, frozenset(columns)))
        return self._derived.setdefault(value, made).name

    def with_derived(self, op: Operator) -> Operator:
        return Project(op, (*outputs(op.columns), *self._derived.values())) if self._derived else op

    def count_of(self, test: str, columns: frozenset[str]) -> str:
        return self.sum_of(Expr(f"CASE WHEN {test} THEN 1 ELSE 0 END", columns), "BIGINT")


def sql_over(text: str, *columns: str) -> exp.Expr:
    return parse_expression(text, frozenset(columns))


def only_if(allowed: str, value: str) -> str:
    """A value of the rows that a FILTER lets through; null for others."""
    return value if allowed == "true" else f"CASE WHEN {allowed} THEN {value} END"


def truth(sums: Sums, name: str, arg: Expr, allowed: str, columns: frozenset[str]) -> exp.Expr:
    """Whether all or some of the values are true: none is false, or one is true."""
    present = sums.count_of(f"{allowed} AND ({arg.sql}) IS NOT NULL", columns)
    wanted = name in ("bool_or", "some", "any")
    hits = sums.count_of(f"{allowed} AND {'' if wanted else 'NOT '}({arg.sql})", columns)
    return sql_over(
        f"CASE WHEN `{present}` > 0 THEN `{hits}` {'> 0' if wanted else '= 0'} END", present, hits
    )


def exclusive_or(sums: Sums, name: str, arg: Expr, allowed: str, columns: frozenset[str]) -> exp.Expr | None:
    """A value that goes is combined once more, which undoes it."""
    kind = sums.type_of(arg).upper()
    if _WHOLE.fullmatch(kind) is None:
        return None
    present = sums.count_of(f"{allowed} AND ({arg.sql}) IS NOT NULL", columns)
    term = Expr(only_if(allowed, arg.sql), columns)
    call = Expr(f"CAST(coalesce(bit_xor({term.sql}), 0) AS {kind})", columns)
    bits = sums.add(Call(sums.fresh("bits"), call, term, kind, combine="bit_xor"))
    return sql_over(f"CASE WHEN `{present}` > 0 THEN `{bits}` END", present, bits)


def extremum(sums: Sums, name: str, arg: Expr, allowed: str, columns: frozenset[str]) -> exp.Expr | None:
    kind = sums.type_of(arg)
    if _ORDERED.fullmatch(kind) is None:
        return None
    value = only_if(allowed, arg.sql)
    call, term = Expr(f"{name}({value})", columns), Expr(value, columns)
    best = sums.add(Call(sums.fresh(name), call, term, kind, name))
    one = Expr(f"CAST({call.sql} IS NOT NULL AS BIGINT)", columns)
    sums.add(Call(sums.fresh("ties"), one, term, "BIGINT", ties_of=best))
    return bound(best)


def sum_or_average(
    sums: Sums, name: str, arg: Expr, allowed: str, columns: frozenset[str]
) -> exp.Expr | None:
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
    present = sums.count_of(f"{allowed} AND ({arg.sql}) IS NOT NULL", columns)
    value = only_if(allowed, arg.sql)
    if exact is None:
        return _float_sum(sums, is_sum, Expr(f"CAST({value} AS DOUBLE)", columns), present)
    wide = f"DECIMAL(38, {scale})"
    # Numbers of 64 bits may have a mean, or go beyond the end and come back, where they have no sum.
    quick = "" if name != "sum" and kind == "bigint" else value
    total = sums.sum_of(Expr(f"CAST({value} AS {wide})", columns), wide, quick)
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
    v, columns = value.sql, value.columns
    special = {
        word: sums.count_of(f"{test}", columns)
        for word, test in (
            ("nan", f"isnan({v})"),
            ("above", f"{v} = {_INFINITY}"),
            ("below", f"{v} = -{_INFINITY}"),
        )
    }
    short = f"CAST(CASE WHEN abs({v}) < 1e12D THEN {v} END AS DECIMAL(38, 18))"
    is_short = f"coalesce(CAST({short} AS DOUBLE) = {v}, false)"
    is_long = f"NOT {is_short} AND abs({v}) < {_INFINITY}"
    exact = sums.sum_of(Expr(f"CASE WHEN {is_short} THEN {short} END", columns), "DECIMAL(38, 18)")
    longs = sums.count_of(is_long, columns)
    rest = sums.sum_of(Expr(f"CASE WHEN {is_long} THEN {v} END", columns), "DOUBLE")
    total = f"CAST(`{exact}` AS DOUBLE) + CASE WHEN `{longs}` > 0 THEN `{rest}` ELSE 0.0D END"
    whole = (
        f"CASE WHEN `{special['nan']}` > 0 OR (`{special['above']}` > 0 AND `{special['below']}` > 0) "
        f"THEN CAST('NaN' AS DOUBLE) WHEN `{special['above']}` > 0 THEN {_INFINITY} "
        f"WHEN `{special['below']}` > 0 THEN -{_INFINITY} ELSE {total} END"
    )
    divided = whole if is_sum else f"({whole}) / `{present}`"
    used = (present, exact, longs, rest, *special.values())
    return sql_over(f"CASE WHEN `{present}` > 0 THEN {divided} END", *used)

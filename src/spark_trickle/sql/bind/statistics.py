"""Variances, covariances, correlations and regressions -> exact sums, and expressions over them.

Numbers are added as whole numbers of their smallest unit, with their squares and products, so that what was
added can be taken away again without a trace. Then the middle of the values, rounded to a whole unit, is
subtracted from all of them at once: Σ(x − c)² = Σx² − c·(Σx + Σ(x − c)) is exact as well. What is left to
subtract from it, (Σ(x − c))² ÷ n, is at most half of it, because |Σ(x − c)| ≤ n ÷ 2 and Σ(x − c)² is a
sum of whole numbers. So nothing cancels out when it goes on with doubles, however far from zero the values
are.

A number of more than 14 digits does not fit: with its square, the sums would not have room for many rows. It
is counted instead, and Spark's own function computes the groups that have one from all of their rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.algebra.conditions import all_of
from spark_trickle.algebra.expressions import (
    FALSE,
    NULL,
    Arithmetic,
    Between,
    Brackets,
    Case,
    Cast,
    Comparison,
    Expr,
    Function,
    Literal,
    Negate,
    Not,
    Opaque,
    integer,
    is_not_null,
)
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.sql.bind.sums import Sums, keep_if, read_sql

_DIGITS = 14  # of a number in units: sums of products have 38, which leaves room for ten billion rows
_SCALE = 6  # digits behind the point that count, of numbers that may have more
_NARROW = 9  # digits of numbers whose products fit into 64 bits
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SUM = "DECIMAL(38, 0)"


@dataclass(frozen=True)
class Units:
    """A number as a whole number of its smallest unit."""

    value: Expr  # a BIGINT, of rows where it fits
    scale: int
    fits: Expr | None = None  # the test for that; none if all numbers of the type fit
    narrow: bool = False  # a product of two is a BIGINT too


def read_units(arg: Expr, kind: str, exact_floats: bool = False) -> Units | None:
    """None for types whose numbers are never added up, but always computed again."""
    if kind in ("tinyint", "smallint", "int"):
        return Units(Cast(arg, "BIGINT"), 0, narrow=True)
    if kind == "bigint":
        most = integer(10**_DIGITS - 1)
        return Units(Brackets(arg), 0, Between(Brackets(arg), Negate(most), most))
    if found := _DECIMAL.fullmatch(kind):
        precision, scale = int(found[1]), int(found[2])
        if precision <= _DIGITS:
            return Units(_cast_to_whole(Brackets(arg), scale), scale, narrow=precision <= _NARROW)
        return _short_decimal(arg, min(scale, _SCALE))
    if kind in ("float", "double") and not exact_floats:
        return _short_double(Cast(arg, "DOUBLE"))
    return None


def _short_decimal(arg: Expr, scale: int) -> Units:
    end = integer(10 ** (_DIGITS - scale) - 1)  # what is rounded to this scale fits too
    value = Brackets(arg)
    is_near = all_of([Comparison(">", value, Negate(end)), Comparison("<", value, end)])
    short = Cast(Case(((is_near, arg),)), f"DECIMAL({_DIGITS}, {scale})")
    return Units(_cast_to_whole(short, scale), scale, _is_true(Comparison("=", short, value)))


def _short_double(value: Expr) -> Units:
    end = Literal(f"{10 ** (_DIGITS - _SCALE) - 1}e0D")
    is_near = Comparison("<", Function("abs", (value,)), end)
    short = Cast(Case(((is_near, value),)), f"DECIMAL({_DIGITS}, {_SCALE})")
    return Units(
        _cast_to_whole(short, _SCALE), _SCALE, _is_true(Comparison("=", Cast(short, "DOUBLE"), value))
    )


def _is_true(test: Expr) -> Expr:
    return Function("coalesce", (test, FALSE))


def _cast_to_whole(decimal: Expr, scale: int) -> Expr:
    wide = Cast(decimal, f"DECIMAL(20, {scale})")
    return Cast(Arithmetic("*", wide, integer(10**scale)) if scale else decimal, "BIGINT")


# --- sums ----------------------------------------------------------------------------------------------


class _Moments:
    """What the functions are made of, over the rows in which no argument is null and all of them fit."""

    def __init__(self, sums: Sums, test: Expr, units: list[Units]) -> None:
        self._sums, self._test, self._units = sums, test, units
        count = sums.add_count(test)
        self.used, self._columns_of_sums = [count], {count}
        self.n = f"`{count}`"

    def write_mean(self, at: int) -> str:
        value = f"CAST({self._add_sum(at)} AS DOUBLE) / {self.n}{_write_divisor(self._units[at].scale)}"
        return self._derive_value("mean", value)

    def write_differ(self, at: int) -> str:
        """Whether not all values are equal."""
        return self._derive_value("differ", f"{self._write_shifted(at, at)} > 0")

    def write_moment(self, one: int, other: int) -> str:
        """The sum of the products of what the values are off their means."""
        rests = " * ".join(f"CAST({self._write_rest(at)} AS DOUBLE)" for at in (one, other))
        scale = self._units[one].scale + self._units[other].scale
        exact = f"CAST({self._write_shifted(one, other)} AS DOUBLE)"
        return self._derive_value("moment", f"({exact} - {rests} / {self.n}){_write_divisor(scale)}")

    def _derive_value(self, name: str, value: str) -> str:
        found = self._sums.derive_value(
            name, f"CASE WHEN {self.n} > 0 THEN {value} END", self._columns_of_sums
        )
        self.used.append(found)
        return f"`{found}`"

    def _write_shifted(self, one: int, other: int) -> str:
        """The sum of the products of what the values are off their middles."""
        rest, sums = self._write_rest(one), [self._add_sum(at) for at in (one, other)]
        products = self._use_column(self._add_products(self._units[one], self._units[other]))
        return f"({products} - {self._write_middle(one)} * {sums[1]} - {self._write_middle(other)} * {rest})"

    def _write_rest(self, at: int) -> str:
        """The sum of what the values are off their middle."""
        return f"({self._add_sum(at)} - {self._write_middle(at)} * {self._wide_count})"

    def _write_middle(self, at: int) -> str:
        return f"CAST({self._add_sum(at)} / {self._wide_count} AS DECIMAL(20, 0))"

    @property
    def _wide_count(self) -> str:
        return f"CAST({self.n} AS DECIMAL(20, 0))"

    def _use_column(self, name: str) -> str:
        self._columns_of_sums.add(name)
        return f"`{name}`"

    def _add_sum(self, at: int) -> str:
        one = self._units[at]
        value = self._count_if_fits(one.value).sql if one.narrow else ""
        return self._use_column(self._sums.add_sum(self._make_term(one.value), _SUM, value))

    def _add_products(self, one: Units, other: Units) -> str:
        if not (one.narrow and other.narrow):
            wide = Cast(one.value, "DECIMAL(20, 0)"), Cast(other.value, "DECIMAL(15, 0)")
            return self._sums.add_sum(self._make_term(Arithmetic("*", *wide)), _SUM)
        made = Arithmetic("*", one.value, other.value)
        # The upper and the lower half by themselves have sums of 64 bits, which Spark adds much faster.
        upper = f"sum(shiftright({self._count_if_fits(made).sql}, 31))"
        lower = f"sum(({self._count_if_fits(made).sql}) & 2147483647)"
        total = f"CAST({upper} AS DECIMAL(20, 0)) * 2147483648 + {lower}"
        return self._sums.add_total(self._make_term(made), _SUM, total)

    def _make_term(self, value: Expr) -> Expr:
        return self._count_if_fits(Cast(value, _SUM))

    def _count_if_fits(self, value: Expr) -> Expr:
        return Case(((self._test, value),))


def _write_divisor(scale: int) -> str:
    """From units back to numbers."""
    return f" / {10**scale}D" if scale else ""


# --- functions -----------------------------------------------------------------------------------------


def write_statistic(sums: Sums, name: str, args: list[Expr], allowed: Expr) -> exp.Expr | None:
    """The function over exact sums; None if numbers of these types are always computed again."""
    units = [u for a in args if (u := read_units(a, sums.find_type(a), sums.exact_floats)) is not None]
    if len(units) < len(args):
        return None
    present = [allowed, *(is_not_null(a) for a in args)]
    fits = [u.fits for u in units if u.fits is not None]
    moments = _Moments(sums, all_of([*present, *fits]), units)
    made = _FUNCTIONS[name](moments)
    if not fits:
        return read_sql(f"CASE {made} END", *moments.used)
    is_left_out = all_of([*present, Not(Brackets(all_of(fits)))])
    left_out = Case(((is_left_out, integer(1)),), integer(0))
    others = sums.add_sum(left_out, "BIGINT")
    call = Function(name, (keep_if(allowed, args[0]), *args[1:]))
    again = Opaque(f"CASE WHEN sum({left_out.sql}) > 0 THEN {call.sql} END", left_out.columns)
    spare = Call(sums.fresh(name), again, Cast(NULL, "DOUBLE"), "DOUBLE", again_if=others)
    spared = sums.add_call(spare)
    return read_sql(f"CASE WHEN `{others}` > 0 THEN `{spared}` {made} END", others, spared, *moments.used)


def _write_variance(m: _Moments) -> str:
    return f"WHEN {m.n} > 0 THEN {m.write_moment(0, 0)} / {m.n}"


def _write_sample_variance(m: _Moments) -> str:
    return f"WHEN {m.n} > 1 THEN {m.write_moment(0, 0)} / ({m.n} - 1)"


def _write_deviation(m: _Moments) -> str:
    return f"WHEN {m.n} > 0 THEN sqrt({m.write_moment(0, 0)} / {m.n})"


def _write_sample_deviation(m: _Moments) -> str:
    return f"WHEN {m.n} > 1 THEN sqrt({m.write_moment(0, 0)} / ({m.n} - 1))"


def _write_covariance(m: _Moments) -> str:
    return f"WHEN {m.n} > 0 THEN {m.write_moment(0, 1)} / {m.n}"


def _write_sample_covariance(m: _Moments) -> str:
    return f"WHEN {m.n} > 1 THEN {m.write_moment(0, 1)} / ({m.n} - 1)"


def _write_correlation(m: _Moments) -> str:
    made = f"{m.write_moment(0, 1)} / sqrt({m.write_moment(0, 0)} * {m.write_moment(1, 1)})"
    return f"WHEN {m.write_differ(0)} AND {m.write_differ(1)} THEN {made}"


# Of a regression the first argument is what depends on the second.


def _write_r_squared(m: _Moments) -> str:
    both = m.write_moment(0, 1)
    made = f"{both} * {both} / ({m.write_moment(1, 1)} * {m.write_moment(0, 0)})"
    return f"WHEN {m.write_differ(1)} AND {m.write_differ(0)} THEN {made} WHEN {m.write_differ(1)} THEN 1D"


def _write_slope(m: _Moments) -> str:
    return f"WHEN {m.write_differ(1)} THEN {m.write_moment(0, 1)} / {m.write_moment(1, 1)}"


def _write_intercept(m: _Moments) -> str:
    made = f"{m.write_mean(0)} - {m.write_moment(0, 1)} / {m.write_moment(1, 1)} * {m.write_mean(1)}"
    return f"WHEN {m.write_differ(1)} THEN {made}"


def _write_squares(at: int) -> Callable[[_Moments], str]:
    return lambda m: f"WHEN {m.n} > 0 THEN {m.write_moment(at, at)}"


_FUNCTIONS: dict[str, Callable[[_Moments], str]] = {
    "var_pop": _write_variance,
    **dict.fromkeys(("var_samp", "variance"), _write_sample_variance),
    "stddev_pop": _write_deviation,
    **dict.fromkeys(("stddev_samp", "stddev", "std"), _write_sample_deviation),
    "covar_pop": _write_covariance,
    "covar_samp": _write_sample_covariance,
    "corr": _write_correlation,
    "regr_r2": _write_r_squared,
    "regr_slope": _write_slope,
    "regr_intercept": _write_intercept,
    "regr_sxx": _write_squares(1),
    "regr_syy": _write_squares(0),
    "regr_sxy": lambda m: f"WHEN {m.n} > 0 THEN {m.write_moment(0, 1)}",
}
_OF_ONE = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std")
STATISTICS = {name: 1 if name in _OF_ONE else 2 for name in _FUNCTIONS}  # how many arguments each has

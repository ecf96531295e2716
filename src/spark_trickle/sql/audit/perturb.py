"""A query -> the same query, in which aggregate functions see numbers that are off in the last digits.

How far its results move tells how far rounding may have moved them: hardly at all, or, where large numbers
cancel out, by all that is left.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from spark_trickle.sql.dialect.spark import name_of, parse_expression, parse_query, sql_of

SENSITIVE = frozenset(
    """
    sum avg mean try_sum try_avg var_pop var_samp variance stddev_pop stddev_samp stddev std skewness kurtosis
    covar_pop covar_samp corr regr_slope regr_intercept regr_r2 regr_sxx regr_syy regr_sxy regr_avgx regr_avgy
    """.split()  # noqa: SIM905
)

_SCALE_FREE = frozenset(("skewness", "kurtosis", "corr", "regr_r2"))


def is_scale_free(sql: str) -> bool:
    """Whether a result may be noise around zero whatever its numbers are: two values have no skewness."""
    return any(name_of(call) in _SCALE_FREE for call in _find_calls(parse_query(sql)))


def count_sensitive(sql: str) -> int:
    """How many calls of a query may round."""
    return len(_find_calls(parse_query(sql)))


def perturb_query(sql: str, chosen: Collection[int], amount: float, seed: int) -> str:
    """Some of these calls with arguments that are off by a share of themselves, equal ones alike."""
    query = parse_query(sql)
    calls = _find_calls(query)
    for n in sorted(chosen, reverse=True):  # inner calls come later, and are changed first
        lists = [calls[n], *(a for a in calls[n].expressions if isinstance(a, exp.Distinct))]
        for part in lists:
            values = [_shift_value(a, amount, seed) for a in part.expressions]
            part.set("expressions", values)
    return sql_of(query)


def _find_calls(query: exp.Expr) -> list[exp.Anonymous]:
    return [node for node in query.find_all(exp.Anonymous) if name_of(node) in SENSITIVE]


def _shift_value(value: exp.Expr, amount: float, seed: int) -> exp.Expr:
    if isinstance(value, exp.Distinct):
        return value
    number = f"CAST({sql_of(value)} AS DOUBLE)"
    made = parse_expression(f"({number} * (1D + (xxhash64({number}, {seed}) % 1024) / 1024D * {amount!r}D))")
    assert made is not None
    return made

"""Variances, regressions and the like are kept from sums: no group is read again, and Spark says the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.spark.test_stream_aggregates import bag

ONE = ("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "std")
TWO = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2", "regr_sxx", "regr_syy")
KINDS = ("i INT", "l BIGINT", "d DECIMAL(12, 2)", "w DECIMAL(38, 18)", "f DOUBLE")


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("statistics") / "warehouse") as made:
        made.sql(f"CREATE TABLE a (id INT, k INT, {', '.join(KINDS)}, b BOOLEAN)")
        made.sql(
            "INSERT INTO a SELECT id, id % 4, id * id - 50, IF(id % 5 = 0, NULL, 1000000 + id), id * 1.25, "
            "id / 8.0, IF(id % 7 = 0, NULL, id / 10.0D), IF(id % 8 = 0, NULL, id % 3 = 0) FROM range(60)"
        )
        yield made


def _calls(one: str, other: str) -> str:
    calls = [f"{f}({one}) AS {f}" for f in ONE] + [f"{f}({other}, {one}) AS {f}" for f in TWO]
    return ", ".join(calls)


QUERIES = {
    **{kind.split()[0] + "_stats": f"SELECT k, {_calls(kind.split()[0], 'i')} FROM a GROUP BY k" for kind in KINDS},
    "others": "SELECT k, bit_xor(i) AS x, bit_xor(l) AS y, any(b) AS a, some(b) AS s, every(b) AS e, "
    "any(b) FILTER (WHERE i > 0) AS f, try_sum(l) AS t, try_sum(d) AS u, try_avg(i) AS v, regr_avgx(i, d) AS ax, "
    "regr_avgy(l, i) AS ay, regr_count(l, f) AS n, min(DISTINCT i) AS least, var_pop(DISTINCT i) AS d FROM a GROUP BY k",
}  # fmt: skip
STEPS = (
    "INSERT INTO a VALUES (100, 1, 7, 7, 7.25, 0.5, 0.125, true), (101, 9, NULL, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE a SET i = i + 1, l = l - 3, d = d + 0.01, w = w + 1, f = f + 0.5, b = NOT b WHERE id % 9 = 1",
    "DELETE FROM a WHERE k = 2 OR id = 101",
)


def define(tr: Trickle, *names: str) -> None:
    for name in names:
        tr.sql(f"CREATE STREAM TABLE IF NOT EXISTS {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("part", range(3))
def test_no_group_is_read_again(tr: Trickle, part: int) -> None:
    names = list(QUERIES)[2 - part :: 3]
    define(tr, *names)
    for step in STEPS:
        tr.sql(step)
        for name in names:
            report = tr.refresh(name)
            assert report.action is Action.DIFFERENTIAL
            assert "read again" not in report.reason, (name, report.reason)
            if name not in ("f_stats", "others"):  # doubles are for Spark
                assert "spark" not in report.phases, name
            check(tr, name)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("name", "column", "value"),
    [("l_stats", "l", "1000000000000000"), ("w_stats", "w", "0.123456789"), ("f_stats", "f", "1D / 3"), ("f_stats", "f", "double('NaN')")],
)  # fmt: skip
def test_numbers_that_no_sum_holds_are_read_again(tr: Trickle, name: str, column: str, value: str) -> None:
    define(tr, name)
    reasons = []
    for k, change in (
        (3, f"{column} = {value}"),
        (1, f"{column} = 7"),
        (3, "i = i + 1"),
        (3, f"{column} = 7"),
    ):
        tr.sql(f"UPDATE a SET {change} WHERE k = {k} AND id IN (3, 5, 7)")
        reasons.append(tr.refresh(name).reason)
        check(tr, name)
    assert ["read again" in r for r in reasons] == [True, False, True, False], reasons


def check(tr: Trickle, name: str) -> None:
    """What Spark says, to nine digits."""
    found, wanted = (sorted(map(tuple, f.collect())) for f in (tr.table(name), tr.sql(QUERIES[name])))
    assert [r[0] for r in found] == [r[0] for r in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert all(map(is_near, one, other)), (name, one, other)


def is_near(one: Any, other: Any) -> bool:
    if not isinstance(one, float) or not isinstance(other, float):
        return bool(one == other)
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))


def test_a_sum_that_is_too_large_comes_back(tr: Trickle) -> None:
    define(tr, "others")
    tr.refresh("others")
    top = 2**63 - 1
    for statement, wanted in (
        (f"INSERT INTO a VALUES (200, 77, 0, {top}, 0, 0, 0, true)", top),
        (f"INSERT INTO a VALUES (201, 77, 0, {top}, 0, 0, 0, true)", None),
        ("DELETE FROM a WHERE id = 200", top),
    ):
        tr.sql(statement)
        assert "read again" not in tr.refresh("others").reason
        assert tr.sql("SELECT t FROM others WHERE k = 77").collect()[0][0] == wanted


def test_exact_floats_are_computed_again(tr: Trickle) -> None:
    query = "SELECT k, var_pop(f) AS v, corr(f, i) AS c FROM a GROUP BY k"
    tr.sql(f"CREATE STREAM TABLE again REFRESH MODE DIFFERENTIAL WITH (exact_floats = true) AS {query}")
    tr.sql("UPDATE a SET f = f + 0.1 WHERE id = 11")
    assert tr.refresh("again").action is Action.DIFFERENTIAL
    assert bag(tr.table("again").collect()) == bag(tr.sql(query).collect())
    text = "\n".join(r[0] for r in tr.sql("EXPLAIN STREAM TABLE again").collect())
    assert "touched groups are computed again because of corr, var_pop" in text

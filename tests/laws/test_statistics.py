"""Variances and regressions from exact sums: equal to what fractions say, however rows come and go."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from spark_trickle.algebra.operators import At, Scan
from spark_trickle.algebra.references import TableRef
from spark_trickle.algebra.stateful_operators import Aggregate
from tests.laws.duck import Row, Table, World

ONE = ["var_pop", "var_samp", "stddev_pop", "stddev_samp"]
TWO = [
    "covar_pop",
    "covar_samp",
    "corr",
    "regr_slope",
    "regr_intercept",
    "regr_r2",
    "regr_sxx",
    "regr_syy",
    "regr_sxy",
]
VALUES: dict[str, tuple[Any, ...]] = {  # numbers that fit into exact sums, and such that do not
    "int": (None, 1, 2, -5, 2**31 - 1, -(2**31)),
    "bigint": (None, 3, 10**14 - 1, 10**14 - 2, 10**14, -(2**62)),
    "double": (None, 0.1, 0.2, -3.25, 12345678.000001, 1 / 3, 1e15),
    "DECIMAL(9,2)": (None, *map(Decimal, ("0.01", "-9999999.99", "5"))),
    "DECIMAL(14,14)": (None, *map(Decimal, ("0.1", "-0.00000000000001", "0.99999999999999"))),
    "DECIMAL(30,8)": (None, *map(Decimal, ("0.5", "99999998", "99999999", "0.00000001", "-7.25"))),
}
ALWAYS_FIT = ("int", "DECIMAL(9,2)", "DECIMAL(14,14)")


def functions(kind: str) -> list[str]:
    """All of them; where groups are read again those that DuckDB never answers with NaN."""
    return [
        *ONE,
        *(f for f in TWO if kind in ALWAYS_FIT or (f.startswith(("covar", "regr_s")) and f != "regr_slope")),
    ]


def query(kind: str, others: str = "") -> str:
    calls = [f"{f}(x) AS {f}" if f in ONE else f"{f}(x, y) AS {f}" for f in functions(kind)]
    return f"SELECT k, {', '.join(calls)}{others} FROM t GROUP BY k"


def rows(chance: random.Random, kind: str, count: int) -> Counter[Row]:
    value = VALUES[kind]
    return Counter((chance.randrange(3), chance.choice(value), chance.choice(value)) for _ in range(count))


def next_change(chance: random.Random, kind: str, now: Counter[Row]) -> Counter[Row]:
    there = list(now.elements())
    change = rows(chance, kind, chance.randrange(4))
    change.subtract(Counter(chance.sample(there, min(len(there), chance.randrange(5)))))
    return Counter({row: n for row, n in change.items() if n})


OTHERS = ", min(x) AS least, count(*) AS n"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "others"), [*((kind, "") for kind in VALUES), ("int", OTHERS), ("bigint", OTHERS)]
)
def test_as_fractions_say(kind: str, others: str) -> None:
    chance = random.Random(kind)
    columns = (("k", "int"), ("x", kind), ("y", kind))
    world = World({"t": Table(columns, rows(chance, kind, 6))}, query(kind, others))
    for _ in range(12):
        world.refresh({"t": next_change(chance, kind, world.tables["t"].rows)})
        check(world, functions(kind))
    assert world.here > 6 or kind == "double"  # the driver computes the same, but for doubles


@pytest.mark.parametrize("kind", VALUES)
def test_groups_are_read_again_only_if_numbers_do_not_fit(kind: str) -> None:
    world = World({"t": Table((("k", "int"), ("x", kind), ("y", kind)))}, query(kind))
    node = world.nodes[0]
    assert isinstance(node.plan, Aggregate)
    assert node.plan.foldable
    assert node.plan.algebraic == (kind in ALWAYS_FIT)
    plan = world.delta_plan(node, frozenset(world.ids.values()))
    assert plan is not None
    again = [
        op for op in plan.walk() if isinstance(op, Scan) and (op.source, op.moment) == (TableRef(1), At.NEW)
    ]
    assert bool(again) == (kind not in ALWAYS_FIT)


def check(world: World, names: list[str]) -> None:
    found = {row[0]: row[1:] for row in world.result.elements()}
    groups: dict[int, list[Row]] = {}
    for k, *values in world.tables["t"].rows.elements():
        groups.setdefault(k, []).append(tuple(values))
    assert found.keys() == groups.keys()
    for k, pairs in groups.items():
        for name, value in zip(names, found[k], strict=False):
            wanted = expected(name, pairs)
            assert is_near(value, wanted, name, pairs), (name, k, pairs, value, wanted)


def is_near(value: float | None, wanted: float | None, name: str, pairs: list[Row]) -> bool:
    """To nine digits; functions of numbers that no exact sum holds cancel out as doubles do."""
    if value is None or wanted is None:
        return value is wanted
    if math.isclose(value, wanted, rel_tol=1e-9):
        return True
    most = max(abs(float(v)) for pair in pairs for v in pair if v is not None)
    return math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-12 * max(most, 1) ** 2)


def expected(name: str, pairs: list[Row]) -> float | None:
    """What Spark's function is, by exact arithmetic."""
    if name in ONE:
        xs = ys = [Fraction(x) for x, _ in pairs if x is not None]
    else:
        both = [(Fraction(x), Fraction(y)) for x, y in pairs if x is not None and y is not None]
        xs, ys = [x for x, _ in both], [y for _, y in both]
    n = len(xs)
    if not n:
        return None
    mx, my = sum(xs) / n, sum(ys) / n
    xx = sum((x - mx) ** 2 for x in xs)
    yy = sum((y - my) ** 2 for y in ys)
    xy = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True))
    sample = name in ("var_samp", "stddev_samp", "covar_samp")
    if sample and n == 1:
        return None
    divisor = n - 1 if sample else n
    match name:
        case "var_pop" | "var_samp":
            return float(xx / divisor)
        case "stddev_pop" | "stddev_samp":
            return math.sqrt(xx / divisor)
        case "covar_pop" | "covar_samp":
            return float(xy / divisor)
        case "corr":
            return float(xy) / math.sqrt(xx) / math.sqrt(yy) if xx and yy else None
        case "regr_slope":
            return float(xy / yy) if yy else None
        case "regr_intercept":
            return float(mx - xy / yy * my) if yy else None
        case "regr_r2":
            return None if not yy else float(xy * xy / xx / yy) if xx else 1.0
        case "regr_sxx":
            return float(yy)
        case "regr_syy":
            return float(xx)
    assert name == "regr_sxy"
    return float(xy)

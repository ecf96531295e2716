"""The number of rows a WHERE can meet is never guessed too low; a missing guess (None) is always allowed."""

from __future__ import annotations

import itertools

import pytest

from spark_trickle.sql.statements.bounds import count_most_key_rows
from tests.unit.sql.marked import bug


def most(where: str, *key: str) -> int | None:
    """The bound for a table t with this key."""
    return count_most_key_rows(where, key, ("t",))


FIXED = [
    ("id = 1", 1),
    ("id == 1", 1),
    ("id = -1", 1),
    ("id = 'a'", 1),
    ("ID = 1", 1),
    ("`Id` = 1", 1),
    ("t.id = 1", 1),
    ("`t`.`id` = 1", 1),
    ("id IN (1, 2, 3)", 3),
    ("id IN (1, -2)", 2),
    ("id IN ('a, b', 'c')", 2),
    ("id = 1 AND a > 2", 1),
    ("a > 2 AND id = 1", 1),
    ("a BETWEEN 1 AND 2 AND id = 1", 1),
    ("id = 1 AND a BETWEEN 1 AND 2", 1),
    ("id = 1 AND (a = 1 OR b = 2)", 1),
    ("id = 1 AND NOT (a OR b)", 1),
    ("id = 1 AND CASE WHEN a OR b THEN c END", 1),
    ("id = 1 AND a IN (SELECT b FROM u WHERE c OR d)", 1),
    ("id = 1 AND f(a, b)", 1),
    ("id = 1 AND a = 'x OR y'", 1),
    ("id = 1 /* OR true */ AND b -- OR c", 1),
    ("id IN (1, 2, 3) AND id = 2", 1),
    ("id = 1 AND id = 1", 1),
    ("id IN (1, 1)", 2),
]


@pytest.mark.parametrize(("where", "rows"), FIXED)
def test_a_fixed_key_bounds_the_rows(where: str, rows: int) -> None:
    assert most(where, "id") == rows


CASE = "CASE opens a depth, also as the name of a column"
UNBOUNDED = [
    "a = 1",
    "id > 1",
    "id <> 1",
    "id LIKE 'a'",
    "id NOT IN (1)",
    "NOT id = 1",
    "! id = 1",
    "NOT id IN (1, 2)",
    "id = 1 OR true",
    "true OR id = 1",
    "id = 1 OR id = 2",
    "id = 1 AND a = 1 OR b = 2",
    "a OR b AND id = 1",
    "id = 1 AND a BETWEEN 1 AND 2 OR b",
    "id = 1 AND NOT CASE WHEN a THEN b END OR true",
    "(id = 1 OR true)",
    "NOT (id = 1)",
    "id = a",
    "id = f(1)",
    "id = 1 + a",
    "id = 1 - a",
    "id = - a",
    "id IN (SELECT a FROM u)",
    "id IN (1, a)",
    "id IN (f(1))",
    "id = 1 IS NULL",
    "id = 1 = false",
    "id = 1 <=> false",
    "id = 1 || a",
    "id = 'a' COLLATE unicode_ci",
    "id + 1 = 2",
    "f(id) = 1",
    "x.y.id = 1",
    "id = 1 AND end = 2 OR true",
    "id = 1 AND (end = 2) OR true",
    "id = 1 AND a = 'it''s' OR true",
    bug("id = 1 AND case = 2 OR true", reason=CASE),
    bug("id = 1 AND t.case OR true", reason=CASE),
    bug("flag BETWEEN false AND id = 1", reason="what follows the AND of BETWEEN belongs to it"),
    bug("id = 0x1F", reason="0x1F is the name of a column in Spark, not a number"),
]


@pytest.mark.parametrize("where", UNBOUNDED)
def test_anything_else_bounds_nothing(where: str) -> None:
    assert most(where, "id") is None


@pytest.mark.parametrize("where", ["other.id = 1", "struct_column.id = 1"])
def test_the_key_of_something_else_bounds_nothing(where: str) -> None:
    """`DELETE FROM t USING other WHERE other.id = 1` meets every row of t."""
    assert most(where, "id") is None


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("a = 1 AND b = 2", 1),
        ("b IN (1, 2) AND a IN (1, 2, 3)", 6),
        ("a = 1", None),
        ("a = 1 AND b > 2", None),
        ("a = 1 AND c = 2", None),
        ("a = 1 AND (b = 2)", None),
        ("a IN (1, 2) AND b IN (3, 4) AND a = 1", 2),
    ],
)
def test_a_key_of_two_columns(where: str, rows: int | None) -> None:
    assert most(where, "A", "b") == rows


def test_no_bound_is_below_the_truth() -> None:
    """All pairs of conditions over a table of 12 rows with the key (x, y), joined by AND and by OR."""
    rows = {(x, y) for x in range(4) for y in range(3)}
    conditions = {
        "x = 1": {r for r in rows if r[0] == 1},
        "y = 2": {r for r in rows if r[1] == 2},
        "x IN (0, 3)": {r for r in rows if r[0] in (0, 3)},
        "y IN (0, 1, 2)": rows,
        "NOT x = 1": {r for r in rows if r[0] != 1},
        "x NOT IN (1, 2)": {r for r in rows if r[0] not in (1, 2)},
        "x BETWEEN 1 AND 2": {r for r in rows if 1 <= r[0] <= 2},
        "(x = 1 OR y = 2)": {r for r in rows if r[0] == 1 or r[1] == 2},
        "x = y": {r for r in rows if r[0] == r[1]},
        "x = 0 + 1": {r for r in rows if r[0] == 1},
        "true": rows,
    }
    for left, right, third in itertools.product(conditions, repeat=3):
        truth = {
            f"{left} AND {right} AND {third}": conditions[left] & conditions[right] & conditions[third],
            f"{left} AND {right} OR {third}": (conditions[left] & conditions[right]) | conditions[third],
            f"{left} OR {right} AND {third}": conditions[left] | (conditions[right] & conditions[third]),
        }
        for where, met in truth.items():
            bound = most(where, "x", "y")
            assert bound is None or bound >= len(met), where

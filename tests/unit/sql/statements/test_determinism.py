"""Only conditions that look at nothing but values may treat equal rows as one."""

from __future__ import annotations

import pytest

from spark_trickle.sql.statements.determinism import judges_lastingly, judges_values

BY_VALUE = [
    "a = 1",
    "a IN (1, 2) AND NOT (b > 3 OR c IS NULL)",
    "upper(a) = 'X' AND b BETWEEN 1 AND 2",
    "CASE WHEN (a > 1) THEN coalesce(b, c) ELSE (2) END",
    "a IN (SELECT b FROM u WHERE u.c = t.c GROUP BY b HAVING count(*) > 1)",
    "EXISTS (SELECT 1 FROM u)",
    "CAST(a AS DECIMAL(10, 2)) > -(b)",
    "a = 'rand()' AND `LIMIT` = 1",
    "VALUES (1, 2) AS s (a, b)",
]
BY_CHANCE = [
    "rand() < 0.5",
    "RAND ( ) < 0.5",
    "a = 1 AND uuid() = b",
    "my_function(a)",
    "`abs`(a) = 1",
    "s.f(a)",
    "a IN (SELECT b FROM u LIMIT 1)",
    "a IN (SELECT b FROM u TABLESAMPLE (10 PERCENT))",
    "_metadata.file_name = 'x'",
    "monotonically_increasing_id() = 0",
    "a = (SELECT first(b) FROM u)",
    "exists(a, x -> f(x))",
    "sum(a) OVER (ORDER BY b ROWS UNBOUNDED PRECEDING) > 1",
]


@pytest.mark.parametrize("condition", BY_VALUE)
def test_values_alone(condition: str) -> None:
    assert judges_values(condition)
    assert judges_values(None, "", condition)


@pytest.mark.parametrize("condition", BY_CHANCE)
def test_what_may_differ_from_row_to_row(condition: str) -> None:
    assert not judges_values(condition)
    assert not judges_values("a = 1", condition)


@pytest.mark.parametrize(
    ("condition", "lasts"),
    [
        ("a = 1", True),
        ("day(a) = 1 AND b = 'now'", True),
        ("a < now()", False),
        ("a < current_timestamp", False),
        ("a = current_date()", False),
        ("a < rand()", False),
        ("a < TIMESTAMP 'now'", False),
        ("a < date'Today'", False),
        ("a < DATE '2026-01-01'", True),
    ],
)
def test_what_means_the_same_later(condition: str, lasts: bool) -> None:
    assert judges_lastingly(None, condition) is lasts

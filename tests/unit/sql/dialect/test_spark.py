"""Reading and writing an expression gives what the user wrote, or the same in other words."""

from __future__ import annotations

import pytest
from sqlglot import exp

from spark_trickle.errors import SqlSyntaxError, UnsupportedError
from spark_trickle.sql.dialect.spark import DEEPEST, parse_query, sql_of

SAME = """
percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC)
count(DISTINCT a, b)
count(*) FILTER(WHERE a > 1)
first(a) IGNORE NULLS
a || b
a DIV b
a % b
a <=> b
a[0]
m['k']
s.f
ARRAY(1, 2)[1]
TRANSFORM(arr, (x, i) -> x + i)
CAST(a AS DECIMAL(10, 2))
TRY_CAST(a AS ARRAY<STRUCT<x: INT, y: STRING>>)
CASE a WHEN 1 THEN 2 END
a BETWEEN 1 AND 2
date_add(d, 1)
dateadd(day, 1, d)
timestampdiff(MONTH, a, b)
to_timestamp(a, 'yyyy')
nvl(a, b)
any(a)
listagg(a, ',') WITHIN GROUP (ORDER BY b)
a IN (1, 2)
sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)
lag(a, 1, 0) IGNORE NULLS OVER (ORDER BY b)
window(ts, '10 seconds')
approx_percentile(x, 0.5)
unix_timestamp(d, 'x')
max_by(a, b)
string_agg(a, '-')
decode(a, 1, 2)
1.50BD
a / 3L
-128Y
-9223372036854775808L
a LIKE ANY ('a%', '%b')
interval + 1
INTERVAL '1 day' + '2020-01-01'
INTERVAL '1 2' DAY TO HOUR
CAST(a AS TIME)
CAST(a AS TIME(3))
CAST(a AS STRUCT<t: TIME(0)>)
CAST(a AS INTERVAL DAY TO SECOND)
""".strip().splitlines()

OTHER = {
    ".5BD": "0.5BD",
    "+a": "POSITIVE(a)",
    "date '2020-01-01'": "CAST('2020-01-01' AS DATE)",
    "'it''s'": "'it\\'s'",
    "r'a\\d'": "'a\\\\d'",
    "a IS NOT NULL": "NOT a IS NULL",
    "a::int": "CAST(a AS INT)",
    "TIME '09:00:00'": "CAST('09:00:00' AS TIME)",
    "CAST(a AS TIMESTAMP WITHOUT TIME ZONE)": "CAST(a AS TIMESTAMP_NTZ)",
    "CAST(a AS TIMESTAMP)": "CAST(a AS TIMESTAMP)",
    "ts - INTERVAL 1 DAY 2 HOURS": "ts - (INTERVAL '1' DAY + INTERVAL '2' HOURS)",
    "INTERVAL 1 DAY - 2 HOURS": "(INTERVAL '1' DAY + INTERVAL '-2' HOURS)",
    "INTERVAL '1' DAY '2' HOUR - '3' MINUTE": "(INTERVAL '1' DAY + INTERVAL '2' HOUR + INTERVAL -'3' MINUTE)",
    "INTERVAL +1 DAY - 2": "INTERVAL '1' DAY - 2",
    "INTERVAL -1.5 SECONDS": "INTERVAL '-1.5' SECONDS",
    "a & 1 << 3": "a & SHIFTLEFT(1, 3)",
    "a | b >> 1 & c": "a | SHIFTRIGHT(b, 1) & c",
    "a << 1 + 2 >> b": "SHIFTRIGHT(SHIFTLEFT(a, 1 + 2), b)",
    "a >>> 2 << 1": "SHIFTLEFT(SHIFTRIGHTUNSIGNED(a, 2), 1)",
    "a || b << 1": "SHIFTLEFT(a || b, 1)",
}


def written(expression: str) -> str:
    return (
        sql_of(parse_query(f"SELECT {expression} AS z FROM t"))
        .removeprefix("SELECT ")
        .removesuffix(" AS z FROM t")
    )


@pytest.mark.parametrize("expression", SAME)
def test_what_stays(expression: str) -> None:
    assert written(expression).lower() == expression.replace("<=>", "IS NOT DISTINCT FROM").lower()


@pytest.mark.parametrize("expression", OTHER)
def test_what_is_said_in_other_words(expression: str) -> None:
    assert written(expression) == OTHER[expression]


@pytest.mark.parametrize(
    "query", ["FROM t |> LIMIT 3 |> AGGREGATE sum(v) AS s", "SELECT k FROM (FROM t |> WHERE v > 1)"]
)
def test_steps_are_refused(query: str) -> None:
    with pytest.raises(UnsupportedError, match="nested queries") as caught:
        parse_query(query)
    assert caught.value.place == (1, query.index("|>") + 1)


def test_operators_bind_as_in_spark() -> None:
    """The text would be the same whatever binds tighter."""
    found = parse_query("SELECT a | b ^ c & d || e").expressions[0]
    assert [type(found), type(found.expression), type(found.expression.expression)] == [
        exp.BitwiseOr,
        exp.BitwiseXor,
        exp.BitwiseAnd,
    ]
    assert isinstance(found.expression.expression.expression, exp.DPipe)


def test_what_is_no_query() -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        parse_query("SELECT a FROM t WHERE")
    assert (caught.value.line, caught.value.column) == (1, 21)
    with pytest.raises(SqlSyntaxError):
        parse_query("DELETE FROM t")
    with pytest.raises(UnsupportedError, match="WITH"):
        parse_query(f"SELECT {'(' * (DEEPEST + 1)}1{')' * (DEEPEST + 1)}")


@pytest.mark.parametrize("unit", ["day", "MONTH"])
def test_units_are_no_columns(unit: str) -> None:
    query = parse_query(
        f"SELECT dateadd({unit}, {unit}, d), date_add(d, {unit}), dateadd(`{unit}`, 1, d) FROM t"
    )
    assert [c.name for c in query.find_all(exp.Column) if c.name == unit] == [unit] * 3


LONG = {
    "or": "SELECT k FROM t WHERE " + " OR ".join(f"v = {n}" for n in range(2000)),
    "and": "SELECT k FROM t WHERE " + " AND ".join(f"v <> {n} OR k = {n}" for n in range(2000)),
}


@pytest.mark.parametrize("query", LONG.values(), ids=LONG)
def test_long_conditions_are_not_deep(query: str) -> None:
    parsed = parse_query(query)
    assert max(node.depth for node in parsed.walk()) < 30
    assert " ".join(sql_of(parsed).split()) == query


DEEP = {
    "signs": f"SELECT {'- ' * 100_000}1",
    "negations": f"SELECT {'NOT ' * 100_000}true",
    "cases": f"SELECT {'CASE WHEN a THEN 1 ELSE ' * 10_000}2{' END' * 10_000}",
    "brackets": f"SELECT {'(' * 100_000}1{')' * 100_000}",
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("query", DEEP.values(), ids=DEEP)
def test_what_is_too_deep_is_refused(query: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        parse_query(query)
    assert "nest" in caught.value.message
    assert caught.value.hint


def test_the_level_of_a_recursion_is_left_to_a_setting() -> None:
    found = parse_query("WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT 1) SELECT max AS level FROM r")
    assert sql_of(found) == "WITH RECURSIVE r(n) AS (SELECT 1) SELECT max AS level FROM r"

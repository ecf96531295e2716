"""Expressions that are evaluated at the driver mean what DuckDB and Spark mean by them; all others are refused."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.algebra.operator import Expr
from spark_trickle.sql.here import evaluate

NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**31 - 1, -(2**31)]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "A", "ab", "é", "z", "😀", " a"]))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, TEXTS, TEXTS, st.one_of(st.none(), st.booleans())), max_size=12)

COLUMNS = {"i": pa.int32(), "l": pa.int64(), "s": pa.string(), "t": pa.string(), "b": pa.bool_()}

_number = st.sampled_from(["`i`", "`l`", "0", "2", "2147483647"])
_text = st.sampled_from(["`s`", "`t`", "'a'", "''", "'é'", "'it''s'"])
_operator = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
_leaf = st.one_of(
    st.builds("{} {} {}".format, _number, _operator, _number),
    st.builds("{} {} {}".format, _text, _operator, _text),
    st.builds("{} IN ({}, {})".format, _number, _number, _number),
    st.builds("{} NOT IN ({}, {})".format, _text, _text, _text),
    st.builds("{} BETWEEN {} AND {}".format, _number, _number, _number),
    st.builds("{} IS NULL".format, st.sampled_from(["`i`", "`s`", "`b`"])),
    st.builds("{} IS NOT NULL".format, st.sampled_from(["`l`", "`t`"])),
    st.sampled_from(["`b`", "NOT `b`", "true", "`b` = false"]),
)
CONDITIONS = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=400, deadline=None)
@given(CONDITIONS, ROWS)
def test_conditions_mean_what_duckdb_means(condition: str, rows: list[tuple[object, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(COLUMNS)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, COLUMNS.values(), strict=True)]
    table = pa.table(arrays, names=list(COLUMNS))
    found = evaluate(Expr(condition), table)
    assert found is not None
    text = condition.replace("`", '"')
    connection = duckdb.connect()
    connection.register("rows_here", table)
    assert found.to_pylist() == [v for (v,) in connection.sql(f"SELECT {text} FROM rows_here").fetchall()]


@pytest.mark.parametrize(
    "text",
    [
        "`i` + 1",
        "`i` > 1.5",
        "`s` > 1",
        "`d` > 1",
        "abs(`i`) > 1",
        "`s` LIKE 'a%'",
        "`s` = 'a\\\\b'",
        "`i` = NULL",
        "CAST(`i` AS BIGINT) = 1",
        "`x`.`i` = 1",
        "-1 < `i`",
        "`i` <=> 1",
        "99999999999999999999 > `l`",
        "`i` IN (SELECT 1)",
        "CASE WHEN `b` THEN 1 ELSE 2 END",
        "`i` AND `b`",
        "DATE '2020-01-01' = `s`",
    ],
)
def test_what_only_spark_can_tell(text: str) -> None:
    table = pa.table(
        [*(pa.array([None], kind) for kind in COLUMNS.values()), pa.array([1.0])], names=[*COLUMNS, "d"]
    )
    assert evaluate(Expr(text), table) is None

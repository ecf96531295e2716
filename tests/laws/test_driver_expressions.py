"""Expressions that are evaluated at the driver mean what DuckDB means by them; all others are refused.

tests/spark/test_driver_expressions.py asks Spark the same.
"""

from __future__ import annotations

import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from spark_trickle.arrow.expressions import evaluate, may_evaluate
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.sql.bind.translate import keep_text
from tests.laws import driver_phrases as phrases

COLUMNS = frozenset((*phrases.COLUMNS, "d", "big"))


@pytest.mark.parametrize("seed", range(8))
def test_conditions_mean_what_duckdb_means(seed: int) -> None:
    chance = random.Random(seed)
    connection = duckdb.connect()
    checked = 0
    for _ in range(100):
        table = phrases.rows(chance, chance.choice((0, 1, 8)), tame=True)
        text = phrases.condition(chance)
        try:
            found = evaluate(keep_text(text, COLUMNS), table)
        except ForSpark:
            continue
        if phrases.SPARKS_OWN.search(text):
            continue
        connection.register("rows_here", table)
        try:
            asked = connection.sql(f"SELECT {text.replace('`', chr(34))} FROM rows_here").fetchall()
        except duckdb.OutOfRangeException:  # its decimals are narrower than Spark's
            continue
        assert found.to_pylist() == [v for (v,) in asked], text
        checked += 1
    assert checked > 50


def test_a_branch_is_computed_only_for_its_rows() -> None:
    table = pa.table({"i": pa.array([0, 2, None], pa.int32()), "l": pa.array([6, 6, 6], pa.int64())})
    text = "CASE WHEN `i` > 0 THEN CAST(`l` AS DOUBLE) / `i` ELSE NULL END"
    found = evaluate(keep_text(text, COLUMNS), table)
    assert found.to_pylist() == [None, 3.0, None]


@pytest.mark.parametrize(
    "text",
    [
        "`i` > 1.5e0",
        "`s` > 1",
        "`d` > 1",
        "abs(`i`) > 1",
        "`s` LIKE `t`",
        "`s` LIKE 'a!%' ESCAPE '!'",
        "substring(`s`, -1)",
        "substring(`s`, `i`)",
        "`s` = 'a\\\\b'",
        "`x`.`i` = 1",
        "`i` <=> 1",
        "99999999999999999999 > `l`",
        "`i` IN (SELECT 1)",
        "`i` AND `b`",
        "DATE '2020-01-01' = `s`",
        "DATE '2020-02-30' = `y`",
        "CASE `i` WHEN 1 THEN 2 END",
        "CASE WHEN `b` THEN 1 ELSE 'a' END",
        "CAST(`m` AS INT)",  # loses the digits after the point
        "CAST(`m` AS DOUBLE)",
        "CAST(`s` AS INT)",
        "CAST(`i` AS STRING)",
        "`i` / 2",
        "`big` + 1",  # overflows
        "CAST(`big` AS INT)",
        "CAST(`w` AS BIGINT)",
        "`d` > 1D",  # NaN is the greatest, to Spark
        "1D / 0D",
        "`w` * `w`",  # more digits than a decimal has
    ],
)
def test_what_only_spark_can_tell(text: str) -> None:
    columns = {n: pa.array([None], kind) for n, kind in phrases.COLUMNS.items()}
    columns |= {
        "d": pa.array([1.0]),
        "big": pa.array([2**63 - 1]),
        "w": pa.array([10**30], pa.decimal128(38, 2)),
    }
    with pytest.raises(ForSpark):
        evaluate(keep_text(text, COLUMNS), pa.table(columns))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("CAST(`w` AS DECIMAL(15, 1))", [1.3, -1.3, None]),
        ("CAST(`w` AS DECIMAL(15, 0))", [1, -1, None]),
        ("CAST(`w` * 100 AS BIGINT)", [125, -125, None]),
        ("CAST(`big` AS DOUBLE)", [2.0**63, 3.0, None]),
        ("CAST(CAST(`big` AS DECIMAL(38, 0)) * `big` AS DOUBLE)", [float((2**63 - 1) ** 2), 9.0, None]),
        ("sqrt(`d` * 2D - `d`) / 100D", [0.015, 0.0, None]),
    ],
)
def test_numbers_are_rounded_as_in_java(text: str, wanted: list[float | None]) -> None:
    table = pa.table(
        {
            "w": pa.array([Decimal("1.25"), Decimal("-1.25"), None], pa.decimal128(20, 2)),
            "big": pa.array([2**63 - 1, 3, None], pa.int64()),
            "d": pa.array([2.25, 0.0, None]),
        }
    )
    found = evaluate(keep_text(text, COLUMNS), table).to_pylist()
    assert [None if v is None else float(v) for v in found] == wanted


def test_most_is_ruled_out_by_its_form() -> None:
    assert may_evaluate(keep_text("CASE WHEN `i` > 1 THEN 1 ELSE 0 END", COLUMNS))
    assert not may_evaluate(keep_text("abs(`i`)", COLUMNS))
    assert not may_evaluate(keep_text("sum(`i`)", COLUMNS))

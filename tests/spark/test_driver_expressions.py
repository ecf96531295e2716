"""What is evaluated at the driver is what Spark says, and Spark has no error to report where we have a value."""

from __future__ import annotations

import random

from spark_trickle.arrow.expressions import evaluate
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.session import Trickle
from spark_trickle.sql.bind.translate import keep_text
from tests.laws import driver_phrases as phrases


def test_spark_says_the_same(tr: Trickle) -> None:
    chance = random.Random(7)
    checked = 0
    for tame in (True, False):
        table = phrases.rows(chance, 24, tame)
        values = {}
        for _ in range(400):
            text = phrases.value(chance)
            try:
                values[text] = evaluate(keep_text(text, frozenset(phrases.COLUMNS)), table)
            except ForSpark:
                continue
        tr.spark.createDataFrame(table).createOrReplaceTempView("rows_here")
        listed = ", ".join(f"{text} AS c{n}" for n, text in enumerate(values))
        asked = tr.spark.sql(f"SELECT {listed} FROM rows_here").toArrow()
        for n, (text, found) in enumerate(values.items()):
            assert found.to_pylist() == asked.column(n).to_pylist(), text
            assert found.type == asked.column(n).type, text
            checked += 1
    assert checked > 200

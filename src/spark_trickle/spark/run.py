"""SQL text with DataFrames in it -> a DataFrame; and a DataFrame -> rows at the driver, never too many."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.spark.errors import explained

_QUOTED = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)""", re.S)  # braces in here are text


def run_sql(
    spark: SparkSession, text: str, /, *, available: tuple[str, ...] = (), **frames: Any
) -> DataFrame:
    """Spark's answer to a text in which `{name}` stands for a DataFrame; other braces are just text."""
    if not frames:
        with explained(text, available):
            return spark.sql(text)
    formatted = text.replace("{", "{{").replace("}", "}}")
    parts = _QUOTED.split(formatted)
    for name in frames:
        parts[::2] = [p.replace(f"{{{{{name}}}}}", f"{{{name}}}") for p in parts[::2]]
    formatted = "".join(parts)
    with explained(text, available):
        return spark.sql(formatted, **frames)


def collect(frame: DataFrame) -> pa.Table:
    """All rows of a frame that is known to be small."""
    with explained(""):
        return frame.toArrow()


def collect_at_most(frame: DataFrame, rows: int) -> pa.Table | None:
    """The rows of a frame, or None if there are more than allowed."""
    found = collect(frame.limit(rows + 1))
    return found if found.num_rows <= rows else None

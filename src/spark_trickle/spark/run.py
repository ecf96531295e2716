"""SQL text with DataFrames in it -> a DataFrame; and a DataFrame -> its rows at the driver."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from spark_trickle.spark.errors import explain_errors

_LONG_TEXT = 10_000
# Comments, which may hold another one, and what is quoted: braces in there are text, and so are quotes.
_TEXT = re.compile(
    r"""
    ( --(?:\\\r?\n|[^\n])*
    | /\*(?:(?!\*/|/\*).|/\*(?:(?!\*/).)*\*/)*\*/
    | (?<!\w)[rR](?:'[^']*'|"[^"]*")
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
    )
    """,
    re.DOTALL | re.VERBOSE,
)


def run_sql(
    spark: SparkSession, text: str, /, *, available: tuple[str, ...] = (), **frames: Any
) -> DataFrame:
    """Spark's answer to a text in which `{name}` stands for a DataFrame, or a view of that name.

    Other braces are just text.
    """
    views = {name: view for name, view in frames.items() if isinstance(view, str)}
    frames = {name: frame for name, frame in frames.items() if name not in views}
    if views:
        parts = _TEXT.split(text)
        for name, view in views.items():
            parts[::2] = [p.replace(f"{{{name}}}", view) for p in parts[::2]]
        text = "".join(parts)
    if not frames:
        with explain_errors(text, available):
            return spark.sql(text)
    formatted = text.replace("{", "{{").replace("}", "}}")
    parts = _TEXT.split(formatted)
    for name in frames:
        parts[::2] = [p.replace(f"{{{{{name}}}}}", f"{{{name}}}") for p in parts[::2]]
    formatted = "".join(parts)
    with explain_errors(text, available):
        return spark.sql(formatted, **frames)


def plan_long_query(frame: DataFrame, text: str) -> DataFrame:
    """The same frame, which Spark can plan if its text is long.

    A plan that is too deep kills the thread that would hand over its rows, and whoever asked waits for ever.
    """
    if len(text) > _LONG_TEXT and not text.lstrip().upper().startswith("VALUES"):
        with explain_errors(text):
            frame.inputFiles()
    return frame


def select_columns(frame: DataFrame, *expressions: str) -> DataFrame:
    """Expressions in SQL over the columns of a frame."""
    with explain_errors(", ".join(expressions)):
        return frame.selectExpr(*expressions)


def collect(frame: DataFrame) -> pa.Table:
    """All rows of a frame that is known to be small."""
    with explain_errors(""):
        return frame.toArrow()


def collect_rows(frame: DataFrame) -> list[Row]:
    """All rows of a frame as Spark shows them."""
    with explain_errors(""):
        return frame.collect()


def count(frame: DataFrame) -> int:
    """How many rows there are, without what is only shown of them."""
    with explain_errors(""):
        return frame.count()

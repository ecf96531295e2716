"""Counts that a job takes of its rows while it runs, so that no second job is needed."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from spark_trickle.spark.errors import SPARK_ERRORS


def observe_counts(
    frame: DataFrame, counts: dict[str, str]
) -> tuple[DataFrame, Callable[[], dict[str, int]]]:
    """The same frame, and a function that tells the counts once it was computed."""
    observation = Observation()
    watched = frame.observe(observation, *[F.expr(sql).alias(name) for name, sql in counts.items()])

    def read_counts() -> dict[str, int]:
        try:
            found = observation.get
        except SPARK_ERRORS:
            found = {}  # Spark saw that there are no rows, and observed nothing
        return {name: int(found.get(name) or 0) for name in counts}

    return watched, read_counts

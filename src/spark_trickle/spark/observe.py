"""Counts that a job takes of its rows while it runs, so that no second job is needed."""

from __future__ import annotations

from collections.abc import Callable

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F


def observed(frame: DataFrame, counts: dict[str, str]) -> tuple[DataFrame, Callable[[], dict[str, int]]]:
    """The same frame, and a function that tells the counts once it was computed."""
    observation = Observation()
    watched = frame.observe(observation, *[F.expr(sql).alias(name) for name, sql in counts.items()])

    def read() -> dict[str, int]:
        try:
            found = observation.get
        except Py4JJavaError:
            found = {}  # Spark saw that there are no rows, and observed nothing
        return {name: int(found.get(name) or 0) for name in counts}

    return watched, read

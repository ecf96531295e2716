"""Counts that a job takes of its rows while it runs, so that no second job is needed."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F


def observed(frame: DataFrame, counts: dict[str, str]) -> tuple[DataFrame, Callable[[], dict[str, int]]]:
    """The same frame, and a function that tells the counts once it was computed."""
    observation = Observation()
    watched = frame.observe(observation, *[F.expr(sql).alias(name) for name, sql in counts.items()])
    return watched, lambda: {name: int(observation.get[name] or 0) for name in counts}

"""A file that the driver wrote -> how many tasks on the executors find it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession, is_remote

from spark_trickle.spark.errors import explain_errors
from spark_trickle.spark.launch import is_local

# Spark deals them out to its cores; for more, it would look for the files themselves by a job of its own.
_LOOKS = 32


@dataclass(frozen=True)
class Sighting:
    """How often a file was looked for by tasks, and how often it was there."""

    looks: int
    found: int


def runs_elsewhere(session: SparkSession) -> bool:
    """Whether tasks may run on machines with another disk than this process has."""
    master = session.conf.get("spark.master", "") or ""
    return is_remote() or not is_local(master)


def look_for_file(session: SparkSession, address: str) -> Sighting:
    """Let tasks on all executors look for a file of one line.

    A missing file is skipped, not an error: a failed task would be tried again where the file is there.
    """
    reader = session.read.schema("line STRING").option("ignoreMissingFiles", "true")
    with explain_errors(""):
        return Sighting(_LOOKS, reader.text([address] * _LOOKS).count())

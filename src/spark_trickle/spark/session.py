"""A SparkSession for us: the one that is given, or one started as the user or the machine suggests."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession, is_remote

from spark_trickle.errors import WarehouseError
from spark_trickle.spark.child_session import TIME_ZONE
from spark_trickle.spark.launch import Machine, choose_settings, given_settings, is_submitted

# What our files need, on any session: columns match by field id, and instants are stored as such.
_NEEDED = {
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # How decimals with too many digits are rounded; what is computed at the driver rounds alike.
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    # A UNION that says how its rows are partitioned may do it otherwise when it runs with a reused exchange:
    # a sum over it then counts in two places, and our tables and changes are sums over unions (decision 22).
    "spark.sql.unionOutputPartitioning": "false",
    # Many files would be listed by a job, and a file that an executor does not see is then left out silently.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # Hadoop 3.5 remembers how long a file of S3 was: one that was overwritten since would be cut off.
    "fs.s3a.input.stream.type": "classic",
}
# It loses the columns of a correlated subquery in a SELECT list over a UNION, and our tables are unions.
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_BROKEN_RULE = "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion"


def open_session(given: SparkSession | None) -> SparkSession:
    session = given or SparkSession.getActiveSession() or _start()
    _silence_failed_queries()
    require_ansi(session)
    for name, value in _NEEDED.items():
        session.conf.set(name, value)
    excluded = session.conf.get(_EXCLUDED, "") or ""
    if _BROKEN_RULE not in excluded:
        session.conf.set(_EXCLUDED, ",".join(filter(None, (excluded, _BROKEN_RULE))))
    return session


def _silence_failed_queries() -> None:
    """PySpark prints every query that fails with its Java stack trace, although it raises the error as well.

    We ask Spark about queries that it may refuse, and tell users ourselves what is wrong with theirs. These
    loggers belong to the process: who has given them another level than PySpark's own keeps it.
    """
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)  # a plain logger would not take what PySpark hands to it
        if logger.level == logging.WARNING:
            logger.setLevel(logging.CRITICAL)


def time_zone(session: SparkSession) -> str:
    return str(session.conf.get(TIME_ZONE))


@contextmanager
def in_time_zone(session: SparkSession, zone: str) -> Iterator[None]:
    before = time_zone(session)
    session.conf.set(TIME_ZONE, zone)
    try:
        yield
    finally:
        session.conf.set(TIME_ZONE, before)


def require_ansi(session: SparkSession) -> None:
    """Without ANSI mode a CAST does not fail where a value does not fit, and we store values by CAST."""
    if session.conf.get("spark.sql.ansi.enabled") != "true":
        raise WarehouseError(
            "spark.sql.ansi.enabled is off in this Spark session: a value that does not fit its column "
            "would be stored as another one",
            'Set it: spark.conf.set("spark.sql.ansi.enabled", "true").',
        )


def _start() -> SparkSession:
    """Where and how the user said, else one process with all cores; it lives as long as this process."""
    builder, given = SparkSession.builder, given_settings(os.environ)
    chosen = {} if is_submitted(os.environ) else choose_settings(given, _machine())
    for name, value in chosen.items():
        builder = builder.config(name, value)
    if "spark.master" in chosen:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers are whatever python3 there is
    try:
        with warnings.catch_warnings():
            # A server of our own takes them when it starts; its session cannot set them once more.
            warnings.filterwarnings("ignore", "Failed to set spark")
            return builder.getOrCreate()
    except Exception as error:
        raise WarehouseError(
            f"Spark does not start: {str(error).strip().splitlines()[0]}", _start_advice(given)
        ) from error


def _start_advice(given: Mapping[str, str]) -> str:
    if place := given.get("spark.remote") or given.get("spark.master"):
        return f"Check that {place} can be reached, and that it runs the same version of Spark."
    if is_remote():
        return "Name a server of Spark Connect in SPARK_REMOTE, for example sc://localhost."
    return "Install Java 17 or newer (Debian: openjdk-17-jre-headless), and point JAVA_HOME to it."


def _machine() -> Machine:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    return Machine(os.cpu_count() or 2, int(max(1, min(8, total // 2))))


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Jobs of the block carry a description, where Spark is not behind a server that keeps it to itself."""
    context = getattr(session, "_sc", None)
    if context is None:
        yield
        return
    context.setJobDescription(text)
    context.setLocalProperty("spark.scheduler.pool", "trickle")
    try:
        yield
    finally:
        context.setJobDescription(None)
        context.setLocalProperty("spark.scheduler.pool", None)

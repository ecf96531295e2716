"""One JVM for many processes: a child joins the Spark of the test process instead of starting its own.

Starting Spark takes ten seconds, and these tests need dozens of processes. What is killed, what commits and
what holds locks is Python; the JVM only computes, so sharing it changes nothing that is tested here. The
slow variants start one JVM in each process.
"""

from __future__ import annotations

import os

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


def address_of(spark: SparkSession) -> dict[str, str]:
    """What a child needs in its environment to join this session's JVM."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    found = gateway.gateway_parameters
    return {_PORT: str(found.port), _SECRET: found.auth_token}


def open_spark() -> SparkSession | None:
    """A session in the JVM that the environment names; None if it names none: then start one."""
    if _PORT not in os.environ:
        return None
    gateway = launch_gateway()
    scala = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    context = gateway.jvm.JavaSparkContext.fromSparkContext(scala)
    own = SparkContext(gateway=gateway, jsc=context, conf=SparkConf(_jconf=context.getConf()))
    shared = gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
    return SparkSession(own, shared.newSession())

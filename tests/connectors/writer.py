"""A Spark with the official jars of Delta Lake and Iceberg, in a process and an environment of its own.

It reads statements as JSON lines and answers each with a JSON line: the rows, or the error.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)


def open_spark(folder: str) -> SparkSession:
    settings = {
        "spark.jars.packages": ",".join(PACKAGES),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "jdbc",
        "spark.sql.catalog.ice.uri": f"jdbc:sqlite:{folder}/iceberg.db",
        "spark.sql.catalog.ice.warehouse": f"{folder}/iceberg",
        "spark.sql.warehouse.dir": f"{folder}/spark",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.memory": "2g",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    # What Java prints on its standard output is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = open_spark(sys.argv[1])
    print(json.dumps({"rows": []}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            frame = spark.sql(json.loads(line))
            answer = {
                "rows": [row[0] for row in frame.selectExpr("to_json(struct(*))").collect()]
                if frame.columns
                else []
            }
        except Exception as error:
            answer = {"error": str(error)[:2000]}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

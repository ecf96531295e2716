"""A Spark with the official jars of Delta Lake and Iceberg, in a process and an environment of its own.

It reads requests as JSON lines and answers each with a JSON line: the rows, or the error. A request is a
statement, or, as Spark writes no equality deletes, a table, a column and the value whose rows one deletes.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

PACKAGES = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.54.1.0",
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
        "spark.sql.catalog.ice.jdbc.schema-version": "V1",
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


def answer_statement(spark: SparkSession, statement: str) -> list[str]:
    frame = spark.sql(statement)
    return [row[0] for row in frame.selectExpr("to_json(struct(*))").collect()] if frame.columns else []


def write_equality_delete(spark: SparkSession, name: str, column: str, value: int) -> None:
    """What Flink does: a file that names a value, and no row."""
    jvm = spark._jvm
    iceberg = jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    schema = table.schema().select([column])
    ids = spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = table.schema().findField(column).fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    output = iceberg.io.OutputFileFactory.builderFor(table, 1, 1).build().newOutputFile()
    writer = factory.newEqualityDeleteWriter(output, table.spec(), None)
    record = iceberg.data.GenericRecord.create(schema)
    record.setField(column, value)
    writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


def main() -> None:
    # What Java prints on its standard output is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = open_spark(sys.argv[1])
    print(json.dumps({"rows": []}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            match json.loads(line):
                case str(statement):
                    answer = {"rows": answer_statement(spark, statement)}
                case [name, column, value]:
                    write_equality_delete(spark, name, column, value)
                    answer = {"rows": []}
        except Exception as error:
            answer = {"error": str(error)[:2000]}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""Loading and reading many rows, against Spark's own Parquet writer and reader."""

from __future__ import annotations

import itertools
import shutil
import tempfile

from pyspark.sql import DataFrame, SparkSession

import spark_trickle
from benchmarks.timing import Ratio, race, ratio, save


def sample(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(rows).selectExpr(
        "id",
        "cast(id % 1000 as int) as customer",
        "cast(id * 0.37 as double) as amount",
        "concat('item ', id % 5000) as item",
        "timestamp_seconds(1700000000 + id % 10000000) as at",
    )


def _read_all(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def run(rows: int, rounds: int) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"auto_compact": False}
        with spark_trickle.connect(f"{folder}/warehouse", settings=settings) as tr:
            lines = _load(tr, folder, rows, rounds) + _read(tr, folder, rows, rounds)
    save("bulk", lines)
    return lines


def _load(tr: spark_trickle.Trickle, folder: str, rows: int, rounds: int) -> list[Ratio]:
    """Each round loads into a new table and a new folder; the old ones are removed outside the clock."""
    columns = "id BIGINT, customer INT, amount DOUBLE, item STRING, at TIMESTAMP"
    number = itertools.count()
    source = sample(tr.spark, rows)

    def spark_only() -> None:
        source.write.option("compression", "zstd").parquet(f"{folder}/plain{next(number)}")

    def keyless() -> None:
        name = f"load{next(number)}"
        tr.sql(f"CREATE TABLE {name} ({columns})")
        tr.append(name, source)

    def keyed() -> None:
        name = f"keyed{next(number)}"
        tr.sql(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (id))")
        tr.append(name, source)

    measured = race(
        {"df.write.parquet": spark_only, "append": keyless, "append, key enforced": keyed}, rounds
    )
    for (name,) in tr.sql("SELECT table_name FROM trickle.tables()").collect():
        tr.sql(f"DROP TABLE {name}")
    tr.sql("VACUUM RETAIN 0 HOURS")
    for n in range(next(number)):
        shutil.rmtree(f"{folder}/plain{n}", ignore_errors=True)
    plain = measured["df.write.parquet"]
    return [
        ratio(f"load {rows:,} rows", measured["append"], plain, 1.3),
        ratio(f"load {rows:,} rows", measured["append, key enforced"], plain, None),
    ]


def _read(tr: spark_trickle.Trickle, folder: str, rows: int, rounds: int) -> list[Ratio]:
    columns = "id BIGINT, customer INT, amount DOUBLE, item STRING, at TIMESTAMP"
    source = sample(tr.spark, rows)
    source.write.option("compression", "zstd").parquet(f"{folder}/plain")
    contenders = {"spark.read.parquet": lambda: _read_all(tr.spark.read.parquet(f"{folder}/plain"))}
    for name, key in (("keyed", ", PRIMARY KEY (id)"), ("keyless", "")):
        tr.sql(f"CREATE TABLE {name} ({columns}{key})")
        tr.append(name, source)
        tr.sql(f"CREATE TABLE {name}_changed ({columns}{key})")
        tr.append(f"{name}_changed", source)
        tr.sql(f"UPDATE {name}_changed SET amount = amount + 1 WHERE id % 10 = 3")
    for table in ("keyed", "keyless", "keyed_changed", "keyless_changed"):
        contenders[table] = lambda table=table: _read_all(tr.table(table))
    measured = race(contenders, rounds)
    plain = measured["spark.read.parquet"]
    bars = {"keyed": 1.2, "keyless": 1.2, "keyed_changed": 2.0, "keyless_changed": 2.0}
    return [ratio(f"read {rows:,} rows", measured[name], plain, bar) for name, bar in bars.items()]

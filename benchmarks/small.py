"""Ten rows in a table of a million: INSERT, UPDATE and DELETE by key against the bare Spark floor."""

from __future__ import annotations

import itertools
import tempfile

import spark_trickle
from benchmarks.bulk import sample
from benchmarks.timing import Ratio, race, ratio, save

COLUMNS = "id BIGINT, customer INT, amount DOUBLE, item STRING, at TIMESTAMP"


def run(rows: int, rounds: int) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        source = sample(tr.spark, rows)
        source.coalesce(1).write.parquet(f"{folder}/plain")
        tr.sql(f"CREATE TABLE t ({COLUMNS}, PRIMARY KEY (id))")
        tr.append("t", source.coalesce(1))
        plain = f"{folder}/plain"
        schema = source.schema
        number = itertools.count()

        def ids() -> str:
            start = (next(number) * 7919) % (rows - 20)
            return ", ".join(str(start + n) for n in range(10))

        def floor() -> None:
            frame = tr.spark.read.schema(schema).parquet(plain).where(f"id IN ({ids()})")
            assert frame.toArrow().num_rows == 10

        def insert_new() -> None:
            start = rows + 10 * next(number)
            values = ", ".join(f"({start + n}, 1, 1.5D, 'x', now())" for n in range(10))
            tr.sql(f"INSERT INTO t VALUES {values}")

        def insert_between() -> None:
            start = -(rows + 10 * next(number)) if next(number) % 2 else 10 * rows + 10 * next(number)
            values = ", ".join(f"({start + n}, 1, 1.5D, 'x', now())" for n in range(10))
            tr.sql(f"INSERT INTO t VALUES {values}")

        def update() -> None:
            tr.sql(f"UPDATE t SET amount = amount + 1 WHERE id IN ({ids()})")

        def delete() -> None:
            tr.sql(f"DELETE FROM t WHERE id IN ({ids()})")

        contenders = {
            "SELECT from Parquet": floor,
            "INSERT of new keys": insert_new,
            "INSERT between keys": insert_between,
            "UPDATE by key": update,
            "DELETE by key": delete,
        }
        measured = race(contenders, rounds * 3, warm_up=3)
        base = measured["SELECT from Parquet"]
        lines = [
            ratio(f"10 rows of {rows:,}", measured[name], base, 3.0)
            for name in contenders
            if name != base.name
        ]
    save("small", lines)
    return lines

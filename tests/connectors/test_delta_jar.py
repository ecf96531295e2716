"""Delta tables that the official jar writes: deletion vectors, column mapping, checkpoints, type widening."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from spark_trickle.errors import OutsideFileError
from spark_trickle.session import Trickle
from tests.connectors.conftest import Writer, show_rows
from tests.connectors.duck import count_ours, count_rows

FEATURES = {
    "deletion vectors": {"delta.enableDeletionVectors": "true"},
    "rewritten files": {"delta.enableDeletionVectors": "false"},
    "column mapping": {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
    "checkpoints of version 2": {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointPolicy": "v2",
        "delta.checkpointInterval": "2",
    },
    "change data feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
}
COLUMNS = (
    "id INT, region STRING, amount DECIMAL(10, 2), at TIMESTAMP, tags ARRAY<STRUCT<k: STRING, v: BIGINT>>, "
    "place STRUCT<x: DOUBLE, y: STRING>"
)
_ROWS = """SELECT CAST(id AS INT), CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a b' ELSE 'ü=/' END,
    CAST(id * 1.25 AS DECIMAL(10, 2)), timestamp_micros(id * 1000001),
    array(named_struct('k', 'n', 'v', id)), named_struct('x', id / 2, 'y', CAST(id AS STRING)) FROM range({}, {})"""


@dataclass
class Table:
    """A Delta table of the other Spark, which a table of ours follows."""

    writer: Writer
    tr: Trickle
    path: Path

    @classmethod
    def make(
        cls, writer: Writer, tr: Trickle, tmp_path: Path, features: dict[str, str], rows: int = 60
    ) -> Table:
        made = cls(writer, tr, tmp_path / "lake" / "orders")
        given = ", ".join(f"'{k}' = '{v}'" for k, v in features.items())
        made.run(
            f"CREATE TABLE {made.name} ({COLUMNS}) USING delta PARTITIONED BY (region) TBLPROPERTIES ({given})"
        )
        made.insert(0, rows)
        tr.attach_source("lake", "delta", path=str(made.path.parent))
        tr.sql("CREATE TABLE orders FROM SOURCE lake.orders")
        tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM orders")
        tr.sql(
            "CREATE STREAM TABLE sums AS SELECT region, count(*) AS n, sum(amount) AS s FROM orders GROUP BY region"
        )
        return made

    @property
    def name(self) -> str:
        return f"delta.`{self.path}`"

    def run(self, statement: str) -> None:
        self.writer.run(
            statement.replace("orders", self.name)
            if "orders" in statement and self.name not in statement
            else statement
        )

    def insert(self, first: int, last: int) -> None:
        self.run(f"INSERT INTO {self.name} {_ROWS.format(first, last)}")

    def check(self) -> None:
        """Our rows are those that the other Spark reads, and stream tables follow."""
        assert show_rows(self.tr, "SELECT * FROM orders") == Counter(
            self.writer.run(f"SELECT * FROM {self.name}")
        )
        first = "SELECT id, region, amount, at, tags, place FROM"  # a stream table keeps its columns
        assert show_rows(self.tr, f"{first} kept") == Counter(self.writer.run(f"{first} {self.name}"))
        full = self.tr.sql("SELECT region, count(*) AS n, sum(amount) AS s FROM orders GROUP BY region")
        assert Counter(map(tuple, self.tr.table("sums").collect())) == Counter(map(tuple, full.collect()))

    def follow(self) -> tuple[int, int]:
        report = self.tr.sync("lake")
        assert not report.problems
        self.tr.refresh_all()
        self.check()
        return report.rows_inserted, report.rows_deleted


OPERATIONS = [
    "DELETE FROM orders WHERE id IN (1, 2, 3, 30)",
    "DELETE FROM orders WHERE id % 7 = 0",
    "UPDATE orders SET amount = amount + 1 WHERE id BETWEEN 10 AND 12",
    "MERGE INTO orders t USING (SELECT CAST(id AS INT) AS id FROM range(50, 70)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET t.amount = 0 WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 1)",
    "OPTIMIZE orders",
    "OPTIMIZE orders ZORDER BY (id)",
    "REORG TABLE orders APPLY (PURGE)",
    "DELETE FROM orders WHERE region = 'a b'",
    "INSERT OVERWRITE orders SELECT * FROM orders WHERE id < 20",
    "RESTORE TABLE orders TO VERSION AS OF 3",
    "ALTER TABLE orders ADD COLUMNS (note STRING)",
    "UPDATE orders SET note = 'n' WHERE id = 5",
    "DELETE FROM orders",
]


@pytest.mark.parametrize("features", list(FEATURES))
@pytest.mark.shows(
    "delta", "written by the official writers", "rows deleted by masks (deletion vectors, position deletes)"
)
def test_operations(
    writer: Writer, tr: Trickle, duck: duckdb.DuckDBPyConnection, tmp_path: Path, features: str
) -> None:
    table = Table.make(writer, tr, tmp_path, FEATURES[features])
    before = Counter(table.writer.run(f"SELECT * FROM {table.name}"))
    for statement in OPERATIONS:
        table.run(statement)
        changed = table.follow()
        after = Counter(table.writer.run(f"SELECT * FROM {table.name}"))
        assert changed == ((after - before).total(), (before - after).total()), statement
        if features != "column mapping":  # there DuckDB 1.5.5 reads null for the column of the partitions
            assert count_ours(tr, "orders") == count_rows(duck, f"delta_scan('{table.path}')"), statement
        before = after


@pytest.mark.shows("delta", "renamed and dropped columns")
def test_columns_renamed_and_dropped(writer: Writer, tr: Trickle, tmp_path: Path) -> None:
    table = Table.make(writer, tr, tmp_path, FEATURES["column mapping"])
    for statement in (
        "ALTER TABLE orders RENAME COLUMN amount TO price",
        "ALTER TABLE orders RENAME COLUMN place.x TO z",
        "ALTER TABLE orders DROP COLUMN at",
        "ALTER TABLE orders ADD COLUMNS (at STRING)",  # another column of that name
        "UPDATE orders SET at = 'later' WHERE id < 3",
        "ALTER TABLE orders ADD COLUMNS (place.w INT)",
        "DELETE FROM orders WHERE id = 7",
    ):
        table.run(statement)
        tr.sync("lake")
        theirs = Counter(writer.run(f"SELECT * FROM {table.name}"))
        assert show_rows(tr, "SELECT * FROM orders") == theirs, statement
    tr.refresh("sums")  # a renamed column is still the one that it sums
    full = tr.sql("SELECT region, count(*) AS n, sum(price) AS s FROM orders GROUP BY region")
    assert Counter(map(tuple, tr.table("sums").collect())) == Counter(map(tuple, full.collect()))


@pytest.mark.shows("delta", "widened types")
def test_a_wider_type(writer: Writer, tr: Trickle, tmp_path: Path) -> None:
    table = Table.make(writer, tr, tmp_path, {"delta.enableTypeWidening": "true"})
    table.run("ALTER TABLE orders ALTER COLUMN id TYPE BIGINT")
    table.run("INSERT INTO orders (id) VALUES (10000000000)")
    table.follow()


def test_many_deleted_rows_of_one_file(writer: Writer, tr: Trickle, tmp_path: Path) -> None:
    """Bitmaps with lists, bits and runs, in more blocks than one."""
    path = tmp_path / "lake" / "big"
    name = f"delta.`{path}`"
    writer.run(
        f"CREATE TABLE {name} (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    writer.run(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id FROM range(300000)")
    tr.attach_source("lake", "delta", path=str(path))
    tr.sql("CREATE TABLE big FROM SOURCE lake.big")
    for condition in (
        "id = 299999",
        "id % 3 = 1",
        "id BETWEEN 70000 AND 200000",
        "id % 1000 = 0",
        "id < 65536",
    ):
        writer.run(f"DELETE FROM {name} WHERE {condition}")
        before = tr.snapshot
        tr.sync("lake")
        theirs = writer.run(f"SELECT count(*) AS n, sum(id) AS s, sum(hash(id)) AS h FROM {name}")
        query = "SELECT count(*) AS n, sum(id) AS s, sum(hash(id)) AS h FROM"
        assert list(show_rows(tr, f"{query} big")) == theirs
        gone = tr.changes("big", before).where("_change_type = 'delete'").count()
        assert gone == tr.table("big", before).count() - tr.table("big").count()


Step = Callable[["Walk"], None]


class Walk:
    """A random walk of the official writer and of ours."""

    def __init__(self, table: Table, seed: int) -> None:
        self.table, self.random, self.next = table, random.Random(seed), 100

    def pick(self) -> int:
        return self.random.randrange(self.next)

    def insert(self) -> None:
        more = self.random.choice([1, 5, 400])
        self.table.insert(self.next, self.next + more)
        self.next += more

    def delete(self) -> None:
        self.table.run(f"DELETE FROM orders WHERE id % {self.random.choice([3, 50])} = {self.pick() % 50}")

    def update(self) -> None:
        self.table.run(
            f"UPDATE orders SET amount = amount * 2 WHERE id = {self.pick()} OR region IS NULL AND id < 9"
        )

    def move(self) -> None:
        self.table.run(f"UPDATE orders SET region = 'c' WHERE id = {self.pick()}")

    def merge(self) -> None:
        self.table.run(
            f"MERGE INTO orders t USING (SELECT CAST(id AS INT) AS id FROM range({self.pick()}, {self.next + 2})) s "
            "ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = 7 "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        )

    def optimize(self) -> None:
        self.table.run(self.random.choice(["OPTIMIZE orders", "REORG TABLE orders APPLY (PURGE)"]))

    def restore(self) -> None:
        with suppress(RuntimeError):  # its files may be gone
            self.table.run(f"RESTORE TABLE orders TO VERSION AS OF {self.random.randrange(1, 4)}")

    def vacuum(self) -> None:
        self.table.run("VACUUM orders RETAIN 0 HOURS")

    def sync(self) -> None:
        assert not self.table.tr.sync("lake").problems

    def refresh(self) -> None:
        with suppress(OutsideFileError):  # the version that we pinned is gone: only a sync helps
            self.table.tr.refresh_all()

    STEPS = (
        insert,
        insert,
        delete,
        delete,
        update,
        update,
        move,
        merge,
        optimize,
        restore,
        vacuum,
        sync,
        sync,
        sync,
        refresh,
        refresh,
    )

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(self.STEPS)(self)
        self.table.follow()


@pytest.mark.parametrize("seed", range(4))
def test_a_walk(writer: Writer, tr: Trickle, tmp_path: Path, seed: int) -> None:
    features = list(FEATURES.values())[seed % len(FEATURES)]
    Walk(Table.make(writer, tr, tmp_path, features), seed).run(40)

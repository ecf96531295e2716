"""Iceberg tables that the official jar writes: copy-on-write, merge-on-read, procedures, branches, partitions."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass

import duckdb
import pytest

from spark_trickle.errors import ChangesUnknownError, OutsideFileError, TrickleError
from spark_trickle.session import Trickle
from tests.connectors.conftest import Writer, show_rows
from tests.connectors.duck import count_ours, count_rows


def set_mode(mode: str, version: int, **more: str) -> dict[str, str]:
    return {
        "format-version": str(version),
        **{f"write.{name}.mode": mode for name in ("delete", "update", "merge")},
        **{name.replace("_", "."): value for name, value in more.items()},
    }


FEATURES = {
    "version 1": {"format-version": "1"},
    "copy-on-write": set_mode("copy-on-write", 2),
    "position deletes": set_mode("merge-on-read", 2),
    "position deletes of partitions": set_mode("merge-on-read", 2, write_delete_granularity="partition"),
    "deletion vectors": set_mode("merge-on-read", 3),
    "copy-on-write of version 3": set_mode("copy-on-write", 3),
}
COLUMNS = (
    "id INT, region STRING, amount DECIMAL(10, 2), at TIMESTAMP, local TIMESTAMP_NTZ, "
    "tags ARRAY<STRUCT<k: STRING, v: BIGINT>>, place STRUCT<x: FLOAT, y: STRING>"
)
_ROWS = """SELECT CAST(id AS INT), CASE id % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a b' ELSE 'ü=/' END,
    CAST(id * 1.25 AS DECIMAL(10, 2)), timestamp_micros(id * 1000000001),
    CAST(timestamp_micros(id * 1000000001) AS TIMESTAMP_NTZ), array(named_struct('k', 'n', 'v', id), NULL),
    named_struct('x', CAST(id / 2 AS FLOAT), 'y', CAST(id AS STRING)) FROM range({}, {})"""
FIRST = "id, region, amount, at, local, tags, place"  # a stream table keeps its columns
SUMS = "SELECT region, count(*) AS n, sum(amount) AS s, max(local) AS last FROM {} GROUP BY region"

_numbers = itertools.count()


@dataclass
class Table:
    """An Iceberg table of the other Spark, which a table of ours follows."""

    writer: Writer
    tr: Trickle
    namespace: str

    @classmethod
    def make(
        cls,
        writer: Writer,
        tr: Trickle,
        features: dict[str, str],
        columns: str = COLUMNS,
        partitioned: str = "PARTITIONED BY (region)",
    ) -> Table:
        made = cls(writer, tr, f"shop{next(_numbers)}")
        writer.run(f"CREATE NAMESPACE ice.{made.namespace}")
        given = ", ".join(f"'{k}' = '{v}'" for k, v in features.items())
        made.run(f"CREATE TABLE orders ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({given})")
        return made

    @classmethod
    def fill(cls, writer: Writer, tr: Trickle, features: dict[str, str]) -> Table:
        """Also followed, with stream tables over it."""
        made = cls.make(writer, tr, features)
        made.insert(0, 60)
        made.attach()
        tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM orders")
        tr.sql(f"CREATE STREAM TABLE sums AS {SUMS.format('orders')}")
        return made

    @property
    def name(self) -> str:
        return f"ice.{self.namespace}.orders"

    def attach(self) -> None:
        self.tr.attach_source(
            "ice",
            "iceberg",
            catalog="sql",
            catalog_name="ice",
            uri=f"sqlite:///{self.writer.folder}/iceberg.db",
        )
        self.tr.sql(f"CREATE TABLE orders FROM SOURCE ice.{self.namespace}.orders")

    def run(self, statement: str) -> list[str]:
        """`orders` is the table, and {snapshot} its first snapshot."""
        if "{snapshot}" in statement:
            statement = statement.replace("{snapshot}", str(self.list_snapshots()[0]))
        return self.writer.run(statement.replace("orders", self.name))

    def list_snapshots(self) -> list[int]:
        found = self.writer.run(f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at")
        return [int(text.rpartition(":")[2].rstrip("}")) for text in found]

    def find_metadata(self) -> str:
        """Where the metadata of the newest version are."""
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ?"
        with closing(sqlite3.connect(self.writer.folder / "iceberg.db")) as connection:
            return str(connection.execute(query, [self.namespace]).fetchone()[0])

    def insert(self, first: int, last: int) -> None:
        self.run(f"INSERT INTO orders ({FIRST}) {_ROWS.format(first, last)}")

    def read(self, query: str = "SELECT * FROM {}") -> Counter[str]:
        return Counter(self.writer.run(query.format(self.name)))

    def check(self) -> None:
        """Our rows are those that the other Spark reads, and stream tables follow."""
        assert show_rows(self.tr, "SELECT * FROM orders") == self.read()
        assert show_rows(self.tr, "SELECT * FROM kept") == self.read(f"SELECT {FIRST} FROM {{}}")
        assert show_rows(self.tr, "SELECT * FROM sums") == self.read(SUMS)

    def follow(self) -> tuple[int, int]:
        """How many rows came and went; (0, 0) if nobody knows that any more."""
        report = self.tr.sync("ice")
        assert not report.problems
        self.tr.refresh_all()
        self.check()
        return report.rows_inserted, report.rows_deleted


EXPIRY = "CALL ice.system.expire_snapshots(table => 'orders', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
REWRITE = "CALL ice.system.rewrite_data_files(table => 'orders', options => map('rewrite-all', 'true'))"
OPERATIONS = [
    "DELETE FROM orders WHERE id IN (1, 2, 3, 30)",
    "DELETE FROM orders WHERE id % 7 = 0",
    "UPDATE orders SET amount = amount + 1 WHERE id BETWEEN 10 AND 12",
    "MERGE INTO orders t USING (SELECT CAST(id AS INT) AS id FROM range(50, 70)) s ON t.id = s.id "
    "WHEN MATCHED AND t.id % 5 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = 0 "
    "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 1)",
    "CALL ice.system.rewrite_position_delete_files(table => 'orders', options => map('rewrite-all', 'true'))",
    "DELETE FROM orders WHERE id % 11 = 0",
    REWRITE,
    "CALL ice.system.rewrite_manifests('orders')",
    "DELETE FROM orders WHERE region = 'a b'",  # whole files
    "UPDATE orders SET region = 'new' WHERE id > 60",
    "CALL ice.system.rollback_to_snapshot('orders', {snapshot})",
    "INSERT OVERWRITE orders SELECT * FROM orders WHERE id < 20",
    "ALTER TABLE orders CREATE BRANCH dev",
    "INSERT INTO orders.branch_dev SELECT * FROM orders",
    "DELETE FROM orders.branch_dev WHERE id < 4",
    "CALL ice.system.fast_forward('orders', 'main', 'dev')",
    "CALL ice.system.rewrite_data_files(table => 'orders', strategy => 'sort', sort_order => 'zorder(id, at)', "
    "options => map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))",
    EXPIRY,
    "ALTER TABLE orders ADD COLUMNS (note STRING)",
    "UPDATE orders SET note = 'n' WHERE id = 5",
    "CREATE OR REPLACE TABLE orders USING iceberg PARTITIONED BY (bucket(3, id)) AS "
    "SELECT * FROM orders WHERE id % 2 = 0",
    "TRUNCATE TABLE orders",
]


@pytest.mark.parametrize("features", list(FEATURES))
@pytest.mark.shows("iceberg", "written by the official writers")
def test_operations(writer: Writer, tr: Trickle, duck: duckdb.DuckDBPyConnection, features: str) -> None:
    """As many rows come and go as the other Spark's answers before and after differ by; DuckDB reads the same."""
    table = Table.fill(writer, tr, FEATURES[features])
    before = table.read()
    for statement in OPERATIONS:
        table.run(statement)
        changed = table.follow()
        after = table.read()
        assert changed == ((after - before).total(), (before - after).total()), statement
        assert count_ours(tr, "orders") == count_rows(duck, f"iceberg_scan('{table.find_metadata()}')"), (
            statement
        )
        before = after


@pytest.mark.parametrize("features", ["copy-on-write", "position deletes", "deletion vectors"])
def test_operations_of_one_sync(writer: Writer, tr: Trickle, features: str) -> None:
    """What several snapshots did with the same files, as long as these are there."""
    table = Table.fill(writer, tr, FEATURES[features])
    lasting = [statement for statement in OPERATIONS if "expire_snapshots" not in statement]
    for start in range(0, len(lasting), 5):
        before = table.read()
        for statement in lasting[start : start + 5]:
            table.run(statement)
        came, went = table.follow()
        assert came - went == table.read().total() - before.total(), lasting[start : start + 5]


def test_files_that_are_gone(writer: Writer, tr: Trickle) -> None:
    """What changed is unknown, so stream tables are rebuilt, and the feed says why it is silent."""
    table = Table.fill(writer, tr, FEATURES["copy-on-write"])
    pinned = tr.snapshot
    table.run("UPDATE orders SET amount = 0 WHERE id < 20")
    table.run("DELETE FROM orders WHERE id = 30")
    table.run(EXPIRY)
    with pytest.raises(OutsideFileError):
        tr.sql("SELECT * FROM orders").collect()
    assert table.follow() == (0, 0)
    with pytest.raises(ChangesUnknownError):
        tr.changes("orders", pinned).collect()
    table.insert(100, 110)
    assert table.follow() == (10, 0)


# Statements about columns, and what the other Spark then shows must be what we show.
COLUMN_CHANGES = [
    "ALTER TABLE orders RENAME COLUMN amount TO price",
    "ALTER TABLE orders RENAME COLUMN place.x TO z",
    "ALTER TABLE orders RENAME COLUMN tags.element.k TO key",
    "UPDATE orders SET price = 7 WHERE id = 8",
    "ALTER TABLE orders DROP COLUMN at",
    "ALTER TABLE orders ADD COLUMNS (at STRING)",  # another column of that name
    "UPDATE orders SET at = 'later' WHERE id < 3",
    "ALTER TABLE orders ADD COLUMNS (place.w INT)",
    "ALTER TABLE orders ALTER COLUMN place.w AFTER z",
    "ALTER TABLE orders ALTER COLUMN id TYPE BIGINT",
    "ALTER TABLE orders ALTER COLUMN place.z TYPE DOUBLE",
    "ALTER TABLE orders ALTER COLUMN price TYPE DECIMAL(20, 2)",
    "INSERT INTO orders (id, price, at) VALUES (10000000000, 123456789012345678.25, 'x')",
    "DELETE FROM orders WHERE id = 7",
    "ALTER TABLE orders DROP COLUMN place.y",
    "ALTER TABLE orders ADD COLUMNS (place.y BIGINT)",  # another field of that name
    REWRITE,
    "ALTER TABLE orders ALTER COLUMN local FIRST",
]


@pytest.mark.parametrize("features", ["copy-on-write", "deletion vectors"])
def test_columns_change(writer: Writer, tr: Trickle, features: str) -> None:
    table = Table.make(writer, tr, FEATURES[features])
    table.insert(0, 60)
    table.attach()
    tr.sql(
        "CREATE STREAM TABLE sums AS SELECT region, count(*) AS n, sum(amount) AS s FROM orders GROUP BY region"
    )
    for statement in COLUMN_CHANGES:
        table.run(statement)
        assert not tr.sync("ice").problems
        assert show_rows(tr, "SELECT * FROM orders") == table.read(), statement
        tr.refresh("sums")  # a renamed column is still the one that it sums
        price = "price" if "price" in tr.table("orders").columns else "amount"
        full = f"SELECT region, count(*) AS n, sum({price}) AS s FROM {{}} GROUP BY region"
        assert show_rows(tr, "SELECT * FROM sums") == table.read(full), statement
        assert show_rows(tr, "SELECT id FROM orders WHERE id > 50") == table.read(
            "SELECT id FROM {} WHERE id > 50"
        )


TYPED = (
    "id INT, far BIGINT, kind STRING, price DECIMAL(20, 3), day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, "
    "raw BINARY, ok BOOLEAN, ratio DOUBLE"
)
_TYPED_ROWS = """INSERT INTO orders SELECT CAST(id AS INT), id * 10000000000 - 7, concat('k', id % 7, ' é/=%'),
    CAST(id * 1000000.125 - 5 AS DECIMAL(20, 3)), date_add(DATE'1969-12-20', CAST(id AS INT) * 3),
    timestamp_micros(id * 7200000001 - 5), CAST(timestamp_micros(id * 86400000001 - 5) AS TIMESTAMP_NTZ),
    CAST(CAST(id AS STRING) AS BINARY), id % 3 = 0, CASE WHEN id % 5 = 0 THEN double('NaN') ELSE id / 3 END
    FROM range({}, {})
    UNION ALL SELECT CAST({} AS INT), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"""
PARTITIONS = [
    "PARTITIONED BY (day, ok)",
    "PARTITIONED BY (kind)",
    "PARTITIONED BY (price, raw)",
    "PARTITIONED BY (at)",
    "PARTITIONED BY (local)",
    "PARTITIONED BY (bucket(4, id), bucket(3, kind))",
    "PARTITIONED BY (truncate(10, id), truncate(2, kind), truncate(1000, price))",
    "PARTITIONED BY (years(day), months(at))",
    "PARTITIONED BY (days(local), hours(at))",
]
_TYPED_FILTERS = [
    "id = 17",
    "far > 200000000000",
    "kind = 'k3 é/=%'",
    "price < 0",
    "day < DATE'1970-01-01'",
    "at >= TIMESTAMP'1970-01-02 00:00:00'",
    "local IS NULL",
    "ok",
    "ratio > 10 AND NOT isnan(ratio)",  # files with nothing but NaN are left out by Iceberg, though NaN > 10
]


@pytest.mark.parametrize("partitioned", PARTITIONS)
def test_partitions(writer: Writer, tr: Trickle, partitioned: str) -> None:
    table = Table.make(writer, tr, FEATURES["deletion vectors"], TYPED, partitioned)
    table.run(_TYPED_ROWS.format(0, 40, 1))
    table.attach()
    check_typed(table)
    table.run(_TYPED_ROWS.format(30, 50, 2))
    table.run("DELETE FROM orders WHERE id % 6 = 1")
    assert not tr.sync("ice").problems
    check_typed(table)


def check_typed(table: Table) -> None:
    assert show_rows(table.tr, "SELECT * FROM orders") == table.read()
    for test in _TYPED_FILTERS:
        query = f"SELECT id, kind, at FROM {{}} WHERE {test}"
        assert show_rows(table.tr, query.format("orders")) == table.read(query), test


PARTITION_CHANGES = [
    "ADD PARTITION FIELD bucket(4, id)",
    "ADD PARTITION FIELD truncate(2, kind)",
    "DROP PARTITION FIELD bucket(4, id)",
    "ADD PARTITION FIELD years(day)",
    "REPLACE PARTITION FIELD years(day) WITH days(day)",
    "ADD PARTITION FIELD hours(at)",
    "ADD PARTITION FIELD ok",
    "DROP PARTITION FIELD hours(at)",
    "ADD PARTITION FIELD months(local)",
    "RENAME COLUMN kind TO sort",
]


@pytest.mark.parametrize(
    "features", ["version 1", "copy-on-write", "position deletes of partitions", "deletion vectors"]
)
def test_partitioning_changes(writer: Writer, tr: Trickle, features: str) -> None:
    table = Table.make(writer, tr, FEATURES[features], TYPED, "")
    table.run(_TYPED_ROWS.format(0, 20, 100))
    table.attach()
    tr.sql("CREATE STREAM TABLE days AS SELECT day, count(*) AS n, sum(price) AS s FROM orders GROUP BY day")
    for n, change in enumerate(PARTITION_CHANGES):
        table.run(f"ALTER TABLE orders {change}")
        table.run(_TYPED_ROWS.format(20 + n, 24 + n, 200 + n))
        table.run(f"DELETE FROM orders WHERE id % 10 = {n}")
        table.run(f"UPDATE orders SET price = price + 1, ok = NOT ok WHERE id % 9 = {n}")
        assert not tr.sync("ice").problems
        assert show_rows(tr, "SELECT * FROM orders") == table.read(), change
        tr.refresh_all()
        full = "SELECT day, count(*) AS n, sum(price) AS s FROM {} GROUP BY day"
        assert show_rows(tr, "SELECT * FROM days") == table.read(full), change


def test_many_deleted_rows_of_one_file(writer: Writer, tr: Trickle) -> None:
    """Bitmaps with lists, bits and runs, in more blocks than one."""
    table = Table.make(writer, tr, FEATURES["deletion vectors"], "id BIGINT", "")
    table.run("INSERT INTO orders SELECT /*+ COALESCE(1) */ id FROM range(300000)")
    table.attach()
    sums = "SELECT count(*) AS n, sum(id) AS s, sum(hash(id)) AS h FROM {}"
    for condition in (
        "id = 299999",
        "id % 3 = 1",
        "id BETWEEN 70000 AND 200000",
        "id % 1000 = 0",
        "id < 65536",
    ):
        table.run(f"DELETE FROM orders WHERE {condition}")
        before = tr.snapshot
        tr.sync("ice")
        assert show_rows(tr, sums.format("orders")) == table.read(sums)
        gone = tr.changes("orders", before).where("_change_type = 'delete'").count()
        assert gone == tr.table("orders", before).count() - tr.table("orders").count()


def test_a_table_of_a_newer_version(writer: Writer, tr: Trickle) -> None:
    """Position deletes stay beside the deletion vectors of version 3, which take their place."""
    table = Table.fill(writer, tr, FEATURES["position deletes of partitions"])
    for statement in (
        "DELETE FROM orders WHERE id % 5 = 1",
        "ALTER TABLE orders SET TBLPROPERTIES ('format-version' = '3')",
        "DELETE FROM orders WHERE id % 5 = 2",
        "UPDATE orders SET amount = 0 WHERE id % 5 = 3 AND id < 30",
        "CALL ice.system.rewrite_position_delete_files(table => 'orders', options => map('rewrite-all', 'true'))",
        REWRITE,
    ):
        before = table.read()
        table.run(statement)
        changed = table.follow()
        after = table.read()
        assert changed == ((after - before).total(), (before - after).total()), statement


def test_what_was_staged_is_seen_when_it_is_picked(writer: Writer, tr: Trickle) -> None:
    table = Table.fill(writer, tr, FEATURES["copy-on-write"])
    table.run("ALTER TABLE orders SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
    writer.run("SET spark.wap.id = staged")
    table.insert(100, 110)
    writer.run("RESET spark.wap.id")
    assert table.follow() == (0, 0)
    table.insert(200, 201)
    staged = writer.run(f"SELECT snapshot_id FROM {table.name}.snapshots WHERE summary['wap.id'] = 'staged'")
    table.run(f"CALL ice.system.cherrypick_snapshot('orders', {staged[0].rpartition(':')[2].rstrip('}')})")
    assert table.follow() == (11, 0)


DROP = ["ALTER TABLE orders DROP COLUMN more"]
AS_PARQUET = ["ALTER TABLE orders SET TBLPROPERTIES ('write.format.default' = 'parquet')", REWRITE]
# What is said of what the official writer can do and we cannot read, how it is done, and how it is undone.
REFUSED: dict[str, tuple[list[str], list[str]]] = {
    'column "more" has type MAP': (["ALTER TABLE orders ADD COLUMN more MAP<STRING, INT>"], DROP),
    # The metadata hold the columns of before, too.
    "Unsupported field type: 'variant'": (["ALTER TABLE orders ADD COLUMN more VARIANT"], []),
    "of format ORC": (
        [
            "ALTER TABLE orders SET TBLPROPERTIES ('write.format.default' = 'orc')",
            "INSERT INTO orders (id) VALUES (7)",
        ],
        AS_PARQUET,
    ),
    "of format AVRO": (
        [
            "ALTER TABLE orders SET TBLPROPERTIES ('write.format.default' = 'avro')",
            "INSERT INTO orders (id) VALUES (7)",
        ],
        AS_PARQUET,
    ),
}


@pytest.mark.parametrize("words", list(REFUSED))
@pytest.mark.shows("iceberg", "what cannot be read exactly is refused by name")
def test_what_cannot_be_read_is_refused(writer: Writer, tr: Trickle, words: str) -> None:
    """The rows stay the last exact ones until it is undone."""
    table = Table.make(writer, tr, FEATURES["deletion vectors"])
    table.insert(0, 10)
    table.attach()
    before = table.read()
    done, undone = REFUSED[words]
    for statement in done:
        table.run(statement)
    assert words in tr.sync("ice").problems["main.orders"]
    assert show_rows(tr, "SELECT * FROM orders") == before
    for statement in undone:
        table.run(statement)
    if undone:
        assert not tr.sync("ice").problems
        assert show_rows(tr, "SELECT * FROM orders") == table.read()


def test_equality_deletes_are_refused_until_they_are_compacted(writer: Writer, tr: Trickle) -> None:
    table = Table.make(writer, tr, FEATURES["position deletes"], partitioned="")
    table.insert(0, 10)
    table.attach()
    before = table.read()
    writer.delete_by_value(table.name, "id", 3)
    assert table.read() != before
    assert "an equality delete file" in tr.sync("ice").problems["main.orders"]
    assert show_rows(tr, "SELECT * FROM orders") == before
    with pytest.raises(TrickleError, match="an equality delete file"):
        tr.sql("RESYNC TABLE orders")
    table.run(REWRITE)
    assert not tr.sync("ice").problems  # it is still listed, but all rows are newer
    assert show_rows(tr, "SELECT * FROM orders") == table.read()
    table.insert(10, 12)
    assert tr.sync("ice").tables == {"main.orders": (2, 0)}
    assert show_rows(tr, "SELECT * FROM orders") == table.read()


class Walk:
    """A random walk of the official writer and of ours."""

    def __init__(self, table: Table, seed: int) -> None:
        self.table, self.random, self.next = table, random.Random(seed), 100
        self.mark()

    def mark(self) -> None:
        self.since, self.rows = self.table.tr.snapshot, show_rows(self.table.tr, _FED)

    def pick(self) -> int:
        return self.random.randrange(self.next)

    def insert(self) -> None:
        more = self.random.choice([1, 5, 400])
        self.table.insert(self.next, self.next + more)
        self.next += more

    def delete(self) -> None:
        self.table.run(f"DELETE FROM orders WHERE id % {self.random.choice([3, 50])} = {self.pick() % 50}")

    def update(self) -> None:
        self.table.run(f"UPDATE orders SET amount = 5 WHERE id = {self.pick()} OR region IS NULL AND id < 9")

    def move(self) -> None:
        self.table.run(f"UPDATE orders SET region = 'c' WHERE id = {self.pick()}")

    def merge(self) -> None:
        self.table.run(
            f"MERGE INTO orders t USING (SELECT CAST(id AS INT) AS id FROM range({self.pick()}, {self.next + 2})) s "
            "ON t.id = s.id WHEN MATCHED AND s.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET t.amount = 7 "
            "WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        )

    def overwrite(self) -> None:
        self.table.run(
            f"INSERT OVERWRITE orders SELECT * FROM orders WHERE id % 4 <> {self.random.randrange(4)}"
        )

    def rewrite(self) -> None:
        self.table.run(
            self.random.choice(
                [
                    REWRITE,
                    "CALL ice.system.rewrite_data_files(table => 'orders', where => 'id < 90', options => "
                    "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true'))",
                    "CALL ice.system.rewrite_position_delete_files(table => 'orders', options => map('rewrite-all', 'true'))",
                    "CALL ice.system.rewrite_manifests('orders')",
                ]
            )
        )

    def roll_back(self) -> None:
        chosen = self.random.choice(self.table.list_snapshots()[-4:])
        with suppress(RuntimeError):  # one of another branch is no ancestor
            self.table.run(f"CALL ice.system.rollback_to_snapshot('orders', {chosen})")

    def use_branch(self) -> None:
        with suppress(RuntimeError):  # it is there
            self.table.run("ALTER TABLE orders CREATE BRANCH dev")
        self.table.run(f"DELETE FROM orders.branch_dev WHERE id = {self.pick()}")

    def fast_forward(self) -> None:
        with suppress(RuntimeError):  # main went its own way
            self.table.run("CALL ice.system.fast_forward('orders', 'main', 'dev')")

    def expire(self) -> None:
        """Files of old snapshots are deleted."""
        with suppress(RuntimeError):
            self.table.run("ALTER TABLE orders DROP BRANCH dev")
        self.table.run(
            "CALL ice.system.expire_snapshots(table => 'orders', older_than => TIMESTAMP '2100-01-01', retain_last => 2)"
        )

    def partition(self) -> None:
        with suppress(RuntimeError):  # it is partitioned so, or is not
            self.table.run(
                f"ALTER TABLE orders {self.random.choice(['ADD', 'DROP'])} PARTITION FIELD "
                f"{self.random.choice(['bucket(3, id)', 'days(at)', 'truncate(1, region)'])}"
            )

    def change_columns(self) -> None:
        with suppress(RuntimeError):  # there is no such column, or it is there
            self.table.run(f"ALTER TABLE orders {self.random.choice(self.COLUMN_CHANGES)}")

    def replace(self) -> None:
        self.table.run(
            "CREATE OR REPLACE TABLE orders USING iceberg AS SELECT * FROM orders WHERE id % 3 > 0"
        )

    def sync(self) -> None:
        assert not self.table.tr.sync("ice").problems

    def refresh(self) -> None:
        with suppress(OutsideFileError):  # the version that we pinned is gone: only a sync helps
            self.table.tr.refresh_all()

    COLUMN_CHANGES = (
        "ADD COLUMN note STRING",
        "DROP COLUMN note",
        "RENAME COLUMN note TO memo",
        "DROP COLUMN memo",
    )
    STEPS = (
        *(insert, insert, delete, delete, update, update, move, merge, overwrite),
        *(rewrite, rewrite, roll_back, use_branch, fast_forward, expire, partition, change_columns, replace),
        *(sync, sync, sync, refresh, refresh),
    )

    def check_feed(self) -> None:
        """What was before, and what came, is what is now and what went."""
        with suppress(ChangesUnknownError, OutsideFileError):  # files of before are gone
            fed = Counter(self.rows)
            for kind, sign in (
                ("insert", 1),
                ("update_postimage", 1),
                ("delete", -1),
                ("update_preimage", -1),
            ):
                found = self.table.tr.changes("orders", self.since).where(f"_change_type = '{kind}'")
                for row in found.selectExpr("to_json(struct(id, region, amount))").collect():
                    fed[row[0]] += sign
            assert {row: n for row, n in fed.items() if n} == dict(show_rows(self.table.tr, _FED))
        self.mark()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.choice(self.STEPS)
            step(self)
            if step is Walk.sync:
                self.check_feed()
        self.table.tr.sync("ice")
        self.check_feed()
        self.table.follow()


_FED = "SELECT id, region, amount FROM orders"


@pytest.mark.parametrize("seed", range(6))
def test_a_walk(writer: Writer, tr: Trickle, seed: int) -> None:
    features = list(FEATURES.values())[seed % len(FEATURES)]
    Walk(Table.fill(writer, tr, features), seed).run(40)

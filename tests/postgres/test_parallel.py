"""Queries for several connections: together they give each row once, all at one moment."""

from __future__ import annotations

from collections import Counter

import pytest

from spark_trickle.errors import SourceSetupError
from spark_trickle.sources.postgres.copy import open_snapshot
from spark_trickle.sources.postgres.parallel import (
    Endpoint,
    SharedRead,
    find_endpoint,
    jdbc_options,
    plan_shared_read,
)
from tests.postgres.world import ODD_NAMES, World, create, mapped, table_of

TABLES = {
    "many pages": [
        create("t", "id int, a text"),
        "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 500) g",
        "UPDATE t SET a = 'y' WHERE id % 3 = 0",
        "DELETE FROM t WHERE id % 7 = 0",
    ],
    "empty": [create("t", "id int, a text")],
    "emptied": [
        create("t", "id int, a text"),
        "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 5000) g",
        "DELETE FROM t",
        "VACUUM t",
        "INSERT INTO t VALUES (1, NULL)",
    ],
    "partitions": [
        "CREATE TABLE t (id int, a text) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (300) PARTITION BY LIST (a)",
        "CREATE TABLE lowest PARTITION OF low DEFAULT",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (300) TO (1000)",
        "CREATE TABLE none PARTITION OF t FOR VALUES FROM (1000) TO (2000)",
        "INSERT INTO t SELECT g, repeat('x', 500) FROM generate_series(1, 500) g",
    ],
    "no partition": ["CREATE TABLE t (id int, a text) PARTITION BY RANGE (id)"],
    "a parent": [
        create("t", "id int, a text"),
        "CREATE TABLE child () INHERITS (t)",
        "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g",
        "INSERT INTO child VALUES (1, 'of the child')",
    ],
}
MEANWHILE = [
    "UPDATE t SET a = 'changed'",
    "DELETE FROM t WHERE id % 2 = 0",
    "INSERT INTO t SELECT g, 'new' FROM generate_series(1, 900) g WHERE g <> 150",
]


@pytest.mark.parametrize("pages", [1, 3, 1000])
@pytest.mark.parametrize("name", TABLES)
def test_each_row_once_at_one_moment(world: World, name: str, pages: int) -> None:
    world.run(*TABLES[name])
    connection = world.connect()
    table = table_of(connection, "public.t")
    only = "ONLY " if table.kind == "r" else ""
    before = Counter(world.rows(f"SELECT id::text, a FROM {only}t"))
    found: Counter[tuple[object, ...]] = Counter()
    with open_snapshot(connection, [table]):
        read = plan_shared_read(connection, table, mapped(table), pages)
        if name != "no partition":
            world.run(*MEANWHILE)
        for query in read.queries:
            task = world.application()
            with task.transaction():
                task.execute(read.setup)
                rows = task.execute(query).fetchall()
            assert len(read.queries) == 1 or len(rows) < sum(before.values()) or not before
            found.update(rows)
    assert found == before
    assert len(read.queries) > 1 or name not in ("many pages", "partitions") or pages == 1000


def test_texts_are_written_as_in_a_copy(world: World) -> None:
    """Whatever the settings of the other session are."""
    world.run(
        create("t", "a timestamptz, b float8, c bytea, d interval, e money"),
        "INSERT INTO t VALUES ('2024-02-01 12:00+01', 0.1::float8 + 0.2, '\\x00ff', '1 mon 2 days', 1.5)",
    )
    connection = world.connect()
    table = table_of(connection, "public.t")
    with open_snapshot(connection, [table]):
        read = plan_shared_read(connection, table, mapped(table), 10)
        task = world.application()
        for setting in ("DateStyle = German", "TimeZone = 'Asia/Tokyo'", "extra_float_digits = -5"):
            task.execute(f"SET {setting}")
        with task.transaction():
            task.execute(read.setup)
            (row,) = task.execute(read.queries[0]).fetchall()
    assert row == ("2024-02-01 11:00:00+00", "0.30000000000000004", "\\x00ff", "1 mon 2 days", "$1.50")


def test_odd_names(world: World) -> None:
    columns = ", ".join(f'"{n.replace(chr(34), chr(34) * 2)}" text' for n in ODD_NAMES)
    world.run(f'CREATE TABLE "o""dd %s" ({columns})', 'INSERT INTO "o""dd %s" DEFAULT VALUES')
    connection = world.connect()
    table = table_of(connection, 'public."o""dd %s"')
    with open_snapshot(connection, [table]):
        read = plan_shared_read(connection, table, mapped(table), 10)
        assert [world.rows(q) for q in read.queries] == [[(None,) * len(ODD_NAMES)]]


def test_the_options_of_spark() -> None:
    read = SharedRead("SET x", ("SELECT 1",))
    there = Endpoint("db.example", 5433, "my db/ü", "ada", "hunter2", "verify-full")
    assert jdbc_options(there, read) == {
        "url": "jdbc:postgresql://db.example:5433/my%20db%2F%C3%BC?sslmode=verify-full",
        "user": "ada",
        "password": "hunter2",
        "driver": "org.postgresql.Driver",
        "ApplicationName": "spark-trickle copy",
        "fetchsize": "10000",
        "sessionInitStatement": "SET x",
    }
    assert jdbc_options(Endpoint("::1", 5432, "d", "u", ""), read)["url"] == "jdbc:postgresql://[::1]:5432/d"
    assert "hunter2" not in repr(there)


def test_a_socket_is_out_of_reach_of_executors(world: World) -> None:
    there = find_endpoint(world.connect())
    assert (there.database, there.user) == (world.database, "postgres")
    with pytest.raises(SourceSetupError, match="socket"):
        jdbc_options(there, SharedRead("", ()))

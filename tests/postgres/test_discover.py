"""Tables as the server describes them."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TableNotFoundError, UnsupportedError
from spark_trickle.sources.postgres.discover import SourceTable, describe_tables, find_tables
from spark_trickle.sources.postgres.drift import find_drift, record_column
from spark_trickle.sources.postgres.names import quote_name
from tests.postgres.world import ODD_NAMES, World, create, table_of


def facts(table: SourceTable) -> tuple[object, ...]:
    return (table.kind, table.key, table.replica_identity, table.identity, table.inherits, table.logged)


TABLES = [
    ("a int, b int", "", ("r", (), "d", (), False, True)),
    ("a int, b int, PRIMARY KEY (b, a)", "", ("r", ("b", "a"), "d", ("b", "a"), False, True)),
    ("a int PRIMARY KEY, b int", "REPLICA IDENTITY FULL", ("r", ("a",), "f", ("a", "b"), False, True)),
    ("a int PRIMARY KEY, b int", "REPLICA IDENTITY NOTHING", ("r", ("a",), "n", (), False, True)),
    (
        "a int, b int NOT NULL CONSTRAINT u UNIQUE",
        "REPLICA IDENTITY USING INDEX u",
        ("r", (), "i", ("b",), False, True),
    ),
    ("a int, b int, PRIMARY KEY (a) INCLUDE (b)", "", ("r", ("a",), "d", ("a",), False, True)),
    ("a int PRIMARY KEY", "SET UNLOGGED", ("r", ("a",), "d", ("a",), False, False)),
]


@pytest.mark.parametrize(("columns", "alter", "expected"), TABLES)
def test_tables(world: World, columns: str, alter: str, expected: tuple[object, ...]) -> None:
    world.run(create("t", columns), f"ALTER TABLE t {alter}" if alter else "SELECT 1")
    assert facts(table_of(world.connect(), "public.t")) == expected


def test_columns(world: World) -> None:
    world.run(
        "CREATE DOMAIN price AS numeric(10, 2) CHECK (value >= 0)",
        "CREATE DOMAIN high_price AS price CHECK (value > 100)",
        create(
            "t",
            "a int NOT NULL, gone int, p high_price, n numeric(6, 3)[], v int2vector, "
            'g int GENERATED ALWAYS AS (a + 1) STORED, "odd name" text COLLATE "C"',
        ),
        "ALTER TABLE t DROP COLUMN gone",
    )
    table = table_of(world.connect(), "public.t")
    assert [(c.number, c.name, c.not_null, c.generated) for c in table.columns] == [
        (1, "a", True, ""),
        (3, "p", False, ""),
        (4, "n", False, ""),
        (5, "v", False, ""),
        (6, "g", False, "s"),
        (7, "odd name", False, ""),
    ]
    assert table.column("p").type.shown == "public.high_price"
    assert table.column("p").type.plain.shown == "numeric(10,2)"
    element = table.column("n").type.element
    assert element is not None
    assert (element.name, element.modifier) == ("numeric", table.column("n").type.modifier)
    assert table.column("v").type.element is None
    assert table.column("odd name").collation == 'pg_catalog."C"'
    assert [c.bitwise for c in table.columns] == [True, True, False, False, True, True]


def test_odd_names(world: World) -> None:
    for schema in ODD_NAMES:
        world.run(
            f"CREATE SCHEMA {quote_name(schema)}",
            f"CREATE TABLE {quote_name(schema, schema)} ({quote_name(schema)} int)",
        )
    connection = world.connect()
    for name in ODD_NAMES:
        table = table_of(connection, quote_name(name, name))
        assert (table.schema, table.name, table.column_names) == (name, name, (name,))


def test_wildcards_leave_out_what_is_no_table_of_its_own(world: World) -> None:
    world.run(
        "CREATE TABLE plain (a int)",
        "CREATE TABLE parts (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE part1 PARTITION OF parts FOR VALUES FROM (0) TO (10) PARTITION BY RANGE (a)",
        "CREATE TABLE leaf PARTITION OF part1 FOR VALUES FROM (0) TO (5)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE MATERIALIZED VIEW m AS SELECT 1",
        "CREATE TEMP TABLE temporary (a int)",
    )
    connection = world.connect()
    assert [t.name for t in find_tables(connection, "public.*")] == ["parts", "plain"]
    assert [t.name for t in find_tables(connection, "public.p*, public.plain, *.parts")] == ["parts", "plain"]
    (parts,) = find_tables(connection, "public.parts")
    assert (parts.kind, [p.name for p in parts.partitions]) == ("p", ["leaf"])
    assert table_of(connection, "public.leaf").inherits
    assert find_tables(connection, "pg_catalog.*") == find_tables(connection, "nothing*.*") == ()
    with pytest.raises(TableNotFoundError) as caught:
        find_tables(connection, "public.plane")
    assert caught.value.hint.startswith("Did you mean") or "plain" in caught.value.hint
    for view in ("v", "m"):
        with pytest.raises(UnsupportedError, match="view such as"):
            find_tables(connection, f"public.{view}")


def test_tables_that_are_gone_are_left_out(world: World) -> None:
    world.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    connection = world.connect()
    t, u = find_tables(connection, "public.*")
    world.run("DROP TABLE t")
    assert describe_tables(connection, [t.oid, u.oid]) == (u,)
    assert describe_tables(connection, []) == ()


DRIFTS = [
    ("ADD c int", [("added", "c")]),
    ("DROP a", [("dropped", "a")]),
    ("RENAME a TO z", [("renamed", "a")]),
    ("ALTER a TYPE int8", [("retyped", "a")]),
    ("ALTER b TYPE varchar(20)", [("retyped", "b")]),
    ("ADD c int, DROP a, ALTER b TYPE text", [("dropped", "a"), ("retyped", "b"), ("added", "c")]),
    ("ALTER a SET NOT NULL", []),
    ("RENAME TO t2", []),
]


@pytest.mark.parametrize(("alter", "expected"), DRIFTS)
def test_changes_of_columns_are_noticed(world: World, alter: str, expected: list[tuple[str, str]]) -> None:
    world.run("CREATE TABLE t (a int, b varchar(10), dropped int)", "ALTER TABLE t DROP dropped")
    connection = world.connect()
    before = table_of(connection, "public.t")
    world.run(f"ALTER TABLE t {alter}")
    (now,) = describe_tables(connection, [before.oid])
    found = find_drift([record_column(c) for c in before.columns], [3], now.columns)
    assert [(d.change, d.column) for d in found] == expected
    assert all(d.breaks == (d.change != "added") for d in found)

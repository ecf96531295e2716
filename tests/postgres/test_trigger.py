"""What triggers write into the buffer, statement by statement."""

from __future__ import annotations

from itertools import product
from typing import Any

import psycopg
import pytest

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, ResyncNeededError
from spark_trickle.sources.postgres.buffer import Position, open_reading, read_changes
from spark_trickle.sources.postgres.capture import choose_trigger_mode, plan_capture
from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.trigger import buffer_statements
from tests.postgres.mirror import TriggerMirror
from tests.postgres.widen import widen_installed
from tests.postgres.world import ODD_NAMES, World, create, mapped_for, plan, table_of, total

MODES = ["statement", "row"]

# Statements on t(id, a, b) with rows (1, 'a', 1.0) and (2, 'b', NULL) -> what the buffer holds afterwards.
CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("INSERT INTO t VALUES (3, 'c', 3)", [("I", None, 3, "c", 3)]),
    ("DELETE FROM t WHERE id = 2", [("D", None, 2, "b", None)]),
    ("UPDATE t SET a = 'z' WHERE id = 1", [("D", "010", 1, "a", 1.0), ("I", "010", 1, "z", 1.0)]),
    ("UPDATE t SET id = 9, b = NULL WHERE id = 1", [("D", "101", 1, "a", 1.0), ("I", "101", 9, "a", None)]),
    ("UPDATE t SET a = a", []),
    ("UPDATE t SET b = 1.00 WHERE id = 1", [("D", "001", 1, "a", 1.0), ("I", "001", 1, "a", 1.0)]),
    ("UPDATE t SET a = 'x' WHERE false", []),
    ("INSERT INTO t SELECT 5, 'x', 1 WHERE false", []),
    ("TRUNCATE t", [("D", None, 1, "a", 1.0), ("D", None, 2, "b", None)]),
    ("INSERT INTO t VALUES (1, 'n', 0) ON CONFLICT DO NOTHING", []),
    ("INSERT INTO t VALUES (1, 'n', 0), (7, 's', 7) ON CONFLICT (id) DO UPDATE SET a = excluded.a", [("D", "010", 1, "a", 1.0), ("I", "010", 1, "n", 1.0), ("I", None, 7, "s", 7)]),
    ("MERGE INTO t USING (VALUES (1), (2), (8)) v(i) ON id = i WHEN MATCHED AND i = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 'm' WHEN NOT MATCHED THEN INSERT VALUES (i, 'n', 0)", [("D", None, 1, "a", 1.0), ("D", "010", 2, "b", None), ("I", "010", 2, "m", None), ("I", None, 8, "n", 0)]),
    ("WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *) INSERT INTO t SELECT id + 10, a, b FROM gone", [("D", None, 1, "a", 1.0), ("I", None, 11, "a", 1.0)]),
    ("WITH one AS (UPDATE t SET a = 'p' WHERE id = 1) UPDATE t SET a = 'q' WHERE id = 2", [("D", "010", 1, "a", 1.0), ("I", "010", 1, "p", 1.0), ("D", "010", 2, "b", None), ("I", "010", 2, "q", None)]),
    ("UPDATE t SET id = 3 - id", [("D", "100", 1, "a", 1.0), ("D", "100", 2, "b", None), ("I", "100", 1, "b", None), ("I", "100", 2, "a", 1.0)]),
    ("DO $$ BEGIN INSERT INTO t VALUES (6, 'x', 6); BEGIN INSERT INTO t VALUES (7, 'y', 7); RAISE 'no'; EXCEPTION WHEN raise_exception THEN END; END $$", [("I", None, 6, "x", 6)]),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("statement", "expected"), CASES, ids=[s[:40] for s, _ in CASES])
def test_statements(world: World, mode: str, statement: str, expected: list[tuple[Any, ...]]) -> None:
    world.run(
        create("t", "id int PRIMARY KEY DEFERRABLE, a text, b numeric")
        if "id = 3 - id" in statement
        else create("t", "id int PRIMARY KEY, a text, b numeric"),
        "INSERT INTO t VALUES (1, 'a', 1.0), (2, 'b', NULL)",
    )
    mirror = TriggerMirror(world, mode=mode)
    world.run(statement)
    found = mirror.waiting()
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    if mode == "statement" and "WITH" not in statement and "MERGE" not in statement:
        actions = "".join(row[0] for row in found if row[1] is not None)
        assert actions == "".join(sorted(actions))  # all D halves before all I halves
    mirror.poll()
    mirror.check()
    assert mirror.waiting() == []


def test_every_d_half_comes_before_its_i_half_in_row_mode(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a int"), "INSERT INTO t SELECT g, g FROM generate_series(1, 5) g"
    )
    mirror = TriggerMirror(world, mode="row")
    world.run("UPDATE t SET a = a + 1")
    found = mirror.waiting()
    assert [row[0] for row in found] == ["D", "I"] * 5
    assert all(d[2] == i[2] for d, i in zip(found[::2], found[1::2], strict=True))


IMAGES = [
    # type, before, after: equal by =, but not the same
    ("float8", "0.0", "'-0'"),
    ("numeric", "1.0", "1.00"),
    ("interval", "'30 days'", "'1 mon'"),
    ("jsonb", "'{\"a\": 1.0}'", "'{\"a\": 1.00}'"),
    ("json", "'{}'", "'{ }'"),
    ("point", "'(1,2)'", "'(1,3)'"),
    ("int[]", "'{1}'", "'[0:0]={1}'"),
    ("text", "'a'", "'b'"),
    ("text", "NULL", "''"),
    ("char(4)", "'a'", "'b'"),
    ("mood", "'sad'", "'ok'"),
    ("text", "repeat('x', 20000)", "repeat('x', 19999) || 'y'"),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "before", "after"), IMAGES)
def test_any_other_image_is_a_change(world: World, mode: str, kind: str, before: str, after: str) -> None:
    world.run(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        create("t", f"a {kind}, b int"),
        f"INSERT INTO t VALUES ({before}, 1)",
    )
    mirror = TriggerMirror(world, mode=mode)
    world.run(f"UPDATE t SET a = {before}")
    assert mirror.waiting() == []
    world.run(f"UPDATE t SET a = {after}")
    assert [row[:2] for row in mirror.waiting()] == [("D", "10"), ("I", "10")]
    mirror.poll()
    mirror.check()


@pytest.mark.parametrize("mode", MODES)
def test_tables_without_a_key(world: World, mode: str) -> None:
    world.run(create("t", "a int, b text"), "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'y')")
    mirror = TriggerMirror(world, mode=mode)
    world.run("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET a = 2 WHERE b = 'x'")
    assert [row[1] for row in mirror.waiting()] == [None] + ["10"] * 6
    mirror.poll()
    mirror.check()
    world.run("DELETE FROM t WHERE ctid IN (SELECT ctid FROM t WHERE a = 2 LIMIT 1)")
    mirror.poll()
    mirror.check()


@pytest.mark.parametrize("mode", MODES)
def test_odd_names_everywhere(world: World, mode: str) -> None:
    names = [
        *ODD_NAMES,
        "change_id",
        "xid",
        "action",
        "changed_cols",
        "action_",
        "tg_op",
        "new",
        "r",
        "o",
        "place",
        "changed",
        "went",
        "came",
        "h",
        "source",
        "bits",
        "é" * 31,
    ]
    columns = ", ".join(f"{quote_name(n)} text" for n in names)
    for schema in ODD_NAMES:
        table = quote_name(schema, schema)
        world.run(
            f"CREATE SCHEMA {quote_name(schema)}",
            f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({quote_name(names[3])}))",
        )
        mirror = TriggerMirror(world, table, mode=mode, schema=f"changes {schema[:9]}")
        values = ", ".join(f"'{n}'" for n in range(len(names)))
        world.run(
            f"INSERT INTO {table} VALUES ({values})",
            f"UPDATE {table} SET {quote_name('action')} = 'x', {quote_name(names[3])} = 'y'",
        )
        mirror.poll()
        mirror.check()
        world.run(f"TRUNCATE {table}")
        mirror.poll()
        mirror.check()


# Type of a column, a value, and others -> whether it counts as a change: the text of the value decides.
IMAGES: list[tuple[str, str, dict[str, bool]]] = [
    ("numeric", "1.0", {"1.0": False, "1.00": True, "1": True, "2": True, "'NaN'": True, "NULL": True}),
    ("numeric", "'NaN'", {"'NaN'": False, "0": True, "'Infinity'": True}),
    ("numeric", "NULL", {"NULL": False, "0": True}),
    ("numeric(5,2)", "1.0", {"1.00": False, "1": False, "1.01": True, "'NaN'": True, "NULL": True}),
    ("float8", "0", {"0": False, "'-0'": True, "1": True, "NULL": True}),
    ("float8", "'-0'", {"'-0'": False, "0": True}),
    ("float4", "'NaN'", {"'NaN'": False, "0": True, "NULL": True}),
    ("float4", "NULL", {"NULL": False, "0": True, "'-0'": True}),
    ("interval", "'1 mon'", {"'1 mon'": False, "'30 days'": True}),
    ("jsonb", "'1.0'", {"'1.0'": False, "'1.00'": True}),
    ("json", "NULL", {"NULL": False, "'1'": True}),
    ("char(3)", "'a'", {"'a  '": False, "'b'": True}),
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "before", "images"), IMAGES, ids=[f"{k} {b}" for k, b, _ in IMAGES])
def test_what_counts_as_a_change(
    world: World, mode: str, kind: str, before: str, images: dict[str, bool]
) -> None:
    """One row and several rows are compared in different ways."""
    for n, ((after, differs), rows) in enumerate(product(images.items(), (1, 3))):
        world.run(
            create(f"t{n}", f"id int, a {kind}"),
            f"INSERT INTO t{n} SELECT g, {before} FROM generate_series(1, {rows}) g",
        )
        connection = world.connect()
        capture = plan(connection, f"public.t{n}", mode=mode)
        install_capture(connection, capture)
        world.run(f"UPDATE t{n} SET a = {after}")
        query = f"SELECT action::text, changed_cols::text FROM {capture.buffer.as_string(None)} ORDER BY 1"
        assert world.rows(query) == ([("D", "01")] * rows + [("I", "01")] * rows) * differs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 31, 32, 33, 64, 65, 300])
def test_any_number_of_columns(world: World, mode: str, width: int) -> None:
    world.run(
        create("t", ", ".join(f"c{n} int DEFAULT {n}" for n in range(width))), "INSERT INTO t DEFAULT VALUES"
    )
    mirror = TriggerMirror(world, mode=mode)
    touched = sorted({0, width // 2, width - 1})
    world.run("UPDATE t SET " + ", ".join(f"c{n} = -1" for n in touched))
    bits = "".join("1" if n in touched else "0" for n in range(width))
    assert [row[:2] for row in mirror.waiting()] == [("D", bits), ("I", bits)]
    mirror.poll()
    mirror.check()


def test_the_widest_table(world: World) -> None:
    world.run(create("t", ", ".join(f"c{n} bool" for n in range(1600))), "INSERT INTO t DEFAULT VALUES")
    table = table_of(world.connect(), "public.t")
    with pytest.raises(InvalidDefinitionError, match="1600 columns"):
        plan_capture(table)
    needed = [f"c{n}" for n in range(1596)]
    assert choose_trigger_mode(table, table.columns, "statement") == "row"  # too wide to pair old and new
    mirror = TriggerMirror(world, needed=needed)
    world.run("UPDATE t SET c0 = true, c1595 = true, c1599 = true", "UPDATE t SET c1599 = false")
    assert [row[:2] for row in mirror.waiting()] == [(action, "1" + "0" * 1594 + "1") for action in "DI"]
    mirror.poll()
    mirror.check()


@pytest.mark.parametrize("mode", MODES)
def test_only_needed_columns_and_the_key_are_captured(world: World, mode: str) -> None:
    world.run(create("t", "a int, k int PRIMARY KEY, b int, c text"), "INSERT INTO t VALUES (1, 1, 1, 'x')")
    mirror = TriggerMirror(world, needed=["b"], mode=mode)
    assert mirror.capture.column_names == ("k", "b")
    world.run("UPDATE t SET a = 5, c = 'y'")
    assert mirror.waiting() == []  # nothing that is captured changed
    world.run("UPDATE t SET a = 6, b = 7", "INSERT INTO t VALUES (2, 2, 2, 'z')")
    assert mirror.waiting() == [("D", "01", 1, 1), ("I", "01", 1, 7), ("I", None, 2, 2)]
    mirror.poll()
    mirror.check()
    with pytest.raises(ColumnNotFoundError):
        plan(mirror.connection, "public.t", needed=["nope"])


@pytest.mark.parametrize("mode", MODES)
def test_widening_keeps_the_old_bits_and_captures_the_new_columns(world: World, mode: str) -> None:
    world.run(create("t", "a int, k int PRIMARY KEY, b int, c text"), "INSERT INTO t VALUES (1, 1, 1, 'x')")
    mirror = TriggerMirror(world, needed=["b"], mode=mode)
    world.run("UPDATE t SET b = 2")
    wider = widen_installed(mirror.connection, mirror.capture, ["a"])
    assert wider.column_names == ("k", "b", "a")
    world.run("UPDATE t SET a = 9", "UPDATE t SET c = 'y'")
    narrow = mirror.poll()
    assert narrow == total([]) or sum(narrow.values()) == 0
    mirror.check()
    mirror.capture, mirror.columns = wider, mapped_for(wider)
    mirror.copy(mirror.position.token)
    world.run("UPDATE t SET a = 10, b = 3")
    assert mirror.waiting()[-2:] == [("D", "011", 1, 2, 9), ("I", "011", 1, 3, 10)]
    mirror.poll()
    mirror.check()


def test_a_writer_in_the_middle_of_widening_is_captured_in_full(world: World) -> None:
    """It waits, or we do: no transaction is captured half narrow, half wide."""
    world.run(create("t", "k int PRIMARY KEY, b int, c int"), "INSERT INTO t VALUES (1, 1, 1)")
    mirror = TriggerMirror(world, needed=["b"])
    writer = world.application()
    with writer.transaction():
        writer.execute("UPDATE t SET b = 2, c = 2")
        with pytest.raises(Exception, match="busy"):
            widen_installed(mirror.connection, mirror.capture, ["c"], lock_seconds=0.1)
        writer.execute("UPDATE t SET b = 3, c = 3")
    assert [row[1] for row in mirror.waiting()] == ["01"] * 4
    mirror.poll()
    mirror.check()


def test_the_buffer_orders_texts_as_the_table_does(world: World) -> None:
    """Ranges of keys are cut in the one and read from the other."""
    world.run(create("t", 'a text COLLATE "POSIX", b int, c text'))
    _, columns = buffer_statements(plan(world.connect(), "public.t"))
    assert columns.as_string(None).endswith(
        'ADD COLUMN IF NOT EXISTS "a" text COLLATE pg_catalog."POSIX", '
        'ADD COLUMN IF NOT EXISTS "b" integer, '
        'ADD COLUMN IF NOT EXISTS "c" text COLLATE pg_catalog."default"'
    )


def test_updates_that_miss_the_columns_are_left_out_when_reading(world: World) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int, b int"), "INSERT INTO t VALUES (1, 1, 1)")
    connection = world.connect()
    capture = plan(connection, "public.t")
    token = install_capture(connection, capture)
    columns = [c for c in mapped_for(capture) if c.name != "b"]
    with open_reading(connection) as moment:
        start = Position(token, moment)
    world.run(
        "UPDATE t SET b = 2",
        "UPDATE t SET a = 2",
        "INSERT INTO t VALUES (2, 2, 2)",
        "DELETE FROM t WHERE k = 2",
    )
    with open_reading(connection):
        (found,) = read_changes(connection, capture, columns, start)
    assert found.to_pylist() == [
        {"k": 1, "a": 1, "_w": -1},
        {"k": 1, "a": 2, "_w": 1},
        {"k": 2, "a": 2, "_w": 1},
        {"k": 2, "a": 2, "_w": -1},
    ]


# --- tables with parents and children ------------------------------------------------------------


def test_partitioned_tables_through_every_door(world: World) -> None:
    world.run(
        "CREATE TABLE t (k int, a text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100) PARTITION BY RANGE (k)",
        'CREATE TABLE "low %I leaf" (a text, dropped int, k int NOT NULL)',
        'ALTER TABLE "low %I leaf" DROP dropped',
        'ALTER TABLE low ATTACH PARTITION "low %I leaf" FOR VALUES FROM (0) TO (50)',
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200)",
        "INSERT INTO t SELECT g, g::text FROM generate_series(0, 40) g",
    )
    mirror = TriggerMirror(world)
    assert mirror.capture.mode == "row"
    for statement in [
        "INSERT INTO t VALUES (150, 'by the root')",
        "INSERT INTO high VALUES (151, 'by the leaf')",
        "UPDATE t SET k = k + 100 WHERE k = 3",  # moves to another partition
        "UPDATE high SET a = a || '!'",
        "DELETE FROM low WHERE k < 3",
        'TRUNCATE "low %I leaf"',
        "INSERT INTO t VALUES (1, 'again'), (120, 'x')",
        "TRUNCATE t",
    ]:
        world.run(statement)
        assert mirror.poll(), statement
        mirror.check()


def test_partitions_that_come_and_go(world: World) -> None:
    world.run(
        "CREATE TABLE t (k int, a text) PARTITION BY LIST (k)",
        "CREATE TABLE one PARTITION OF t FOR VALUES IN (1)",
        "CREATE TABLE two PARTITION OF t FOR VALUES IN (2)",
    )
    mirror = TriggerMirror(world)
    world.run(
        "CREATE TABLE three PARTITION OF t FOR VALUES IN (3)", "INSERT INTO t VALUES (1, 'x'), (3, 'y')"
    )
    mirror.poll()
    mirror.check()

    world.run("TRUNCATE three")  # has no trigger for this yet
    with pytest.raises(ResyncNeededError, match='partition "three"'):
        mirror.poll()
    mirror.resync()
    world.run("INSERT INTO t VALUES (3, 'z')", "TRUNCATE three")
    mirror.poll()
    mirror.check()

    world.run(
        "CREATE TABLE four (k int, a text)",
        "INSERT INTO four VALUES (4, 'f')",
        "ALTER TABLE t ATTACH PARTITION four FOR VALUES IN (4)",
    )
    with pytest.raises(ResyncNeededError, match='partition "four"'):
        mirror.poll()
    mirror.resync()
    mirror.poll()
    mirror.check()

    world.run("INSERT INTO t VALUES (2, 'two')")
    mirror.poll()
    world.run("ALTER TABLE t DETACH PARTITION two")
    with pytest.raises(ResyncNeededError, match="triggers"):
        mirror.poll()


def test_inheritance_is_not_mixed_up(world: World) -> None:
    world.run(
        "CREATE TABLE t (k int, a text)",
        "CREATE TABLE child (extra int) INHERITS (t)",
        "INSERT INTO t VALUES (1, 'own')",
        "INSERT INTO child VALUES (2, 'child', 0)",
    )
    parent = TriggerMirror(world)
    child = TriggerMirror(world, "public.child", parent.connection)
    assert (parent.capture.mode, child.capture.mode) == ("row", "row")
    world.run(
        "UPDATE t SET a = a || '!'",
        "DELETE FROM t WHERE k = 2",
        "INSERT INTO child VALUES (3, 'c', 1)",
        "INSERT INTO t VALUES (4, 'p')",
    )
    for mirror in (parent, child):
        mirror.poll()
        mirror.check()
    world.run("TRUNCATE t")
    for mirror in (parent, child):
        mirror.poll()
        mirror.check()
        assert not mirror.held


# --- what else touches a table -------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_cascades_other_triggers_and_copy(world: World, mode: str) -> None:
    world.run(
        create("p", "id int PRIMARY KEY"),
        create("t", "id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE, stamp text"),
        "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.stamp = TG_OP; RETURN NEW; END $$",
        "CREATE TRIGGER stamp BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION stamp()",
        "CREATE FUNCTION more() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO t VALUES (1000 + NEW.id) ON CONFLICT DO NOTHING; RETURN NULL; END $$",
        "CREATE TRIGGER more AFTER INSERT ON t FOR EACH ROW WHEN (NEW.id < 1000) EXECUTE FUNCTION more()",
        "INSERT INTO p VALUES (1), (2)",
    )
    mirror = TriggerMirror(world, mode=mode)
    application = world.application()
    with application.cursor().copy("COPY t (id, p) FROM STDIN") as rows:
        for n in range(5):
            rows.write_row((n, 1))
    mirror.poll()
    mirror.check()
    assert len(mirror.held) == 10
    world.run("UPDATE p SET id = 3 WHERE id = 1")
    mirror.poll()
    mirror.check()
    world.run("DELETE FROM p WHERE id = 3")
    mirror.poll()
    mirror.check()
    assert len(mirror.held) == 5


def test_replica_sessions_are_captured_too(world: World) -> None:
    world.run(create("t", "a int"))
    mirror = TriggerMirror(world)
    application = world.application()
    application.execute("SET session_replication_role = replica")
    application.execute("INSERT INTO t VALUES (1)")
    mirror.poll()
    mirror.check()


SWAPS = [
    ["ALTER TABLE t RENAME TO was", create("t", "a int"), "INSERT INTO t VALUES (7)"],
    ["ALTER TABLE t RENAME TO was", create("t", "a int, z text"), "INSERT INTO was VALUES (3)"],
    ["ALTER TABLE t RENAME TO was"],
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("swap", SWAPS)
def test_truncate_after_another_table_took_the_name(world: World, mode: str, swap: list[str]) -> None:
    world.run(create("t", "a int"), "INSERT INTO t VALUES (1), (2)")
    mirror = TriggerMirror(world, mode=mode)
    world.run(*swap, "TRUNCATE was", "INSERT INTO was VALUES (4)")
    mirror.name = "public.was"
    mirror.prepare()
    mirror.poll()
    mirror.check()


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_a_truncate_that_cannot_see_all_rows_is_a_loss(world: World, level: str) -> None:
    world.run(create("t", "a int"), create("other", "a int"))
    mirror = TriggerMirror(world)
    application = world.application()
    with application.transaction():
        application.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        application.execute("SELECT FROM other")
        world.run("INSERT INTO t VALUES (1)")
        application.execute("TRUNCATE t")
    with pytest.raises(ResyncNeededError, match="truncated"):
        mirror.poll()
    with application.transaction():  # a transaction that rolls it back has lost nothing
        application.execute("SELECT 1")


BREAKING = ["DROP a", "RENAME a TO z", "ALTER a TYPE text"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alter", BREAKING)
def test_the_application_goes_on_when_capture_cannot(world: World, mode: str, alter: str) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int"), "INSERT INTO t VALUES (1, 1)")
    mirror = TriggerMirror(world, mode=mode)
    world.run(
        f"ALTER TABLE t {alter}",
        "INSERT INTO t (k) VALUES (2)",
        "UPDATE t SET k = 3 WHERE k = 2",
        "DELETE FROM t WHERE k = 3",
    )
    if alter == "ALTER a TYPE text":
        world.run("UPDATE t SET a = 'no number'")
    assert world.rows("SELECT k FROM t") == [(1,)]
    with pytest.raises(ResyncNeededError):
        mirror.poll()


def test_without_the_guard_it_fails_loudly(world: World) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int"))
    TriggerMirror(world, guarded=False)
    world.run("ALTER TABLE t DROP a")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        world.run("INSERT INTO t VALUES (1)")


def test_a_loss_that_is_rolled_back_is_none(world: World) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int"))
    mirror = TriggerMirror(world)
    application = world.application()
    with application.transaction(force_rollback=True):
        application.execute("ALTER TABLE t RENAME a TO z")
        application.execute("INSERT INTO t VALUES (1, 1)")
    world.run("INSERT INTO t VALUES (2, 2)")
    mirror.poll()
    mirror.check()


def test_conflicts_reach_the_application(world: World) -> None:
    """The guard must not swallow what asks for a retry."""
    world.run(create("t", "k int PRIMARY KEY, a int"), "INSERT INTO t VALUES (1, 1)")
    mirror = TriggerMirror(world)
    buffer = mirror.capture.buffer.as_string(None)
    world.run(
        "CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE serialization_failure; END $$",
        f"CREATE TRIGGER conflict BEFORE INSERT ON {buffer} FOR EACH ROW EXECUTE FUNCTION conflict()",
    )
    with pytest.raises(psycopg.errors.SerializationFailure):
        world.run("UPDATE t SET a = 2")


@pytest.mark.parametrize("mode", MODES)
def test_the_last_row_of_a_key_is_its_newest(world: World, mode: str) -> None:
    """Statements number what goes before what comes, also when keys change places, and in any session."""
    world.run(create("t", "id int PRIMARY KEY DEFERRABLE, v int"), "INSERT INTO t VALUES (1, 10), (2, 20)")
    mirror = TriggerMirror(world, mode=mode)
    other = world.application()
    other.execute("UPDATE t SET v = v + 1")
    if mode == "statement":
        world.run("UPDATE t SET id = 3 - id")
    other.execute("UPDATE t SET v = v + 1 WHERE id = 1")
    world.run("UPDATE t SET v = 0 WHERE false", "DELETE FROM t WHERE id = 1")
    newest = {row[2]: (row[0], row[3]) for row in mirror.waiting()}
    swapped = mode == "statement"
    assert newest == {1: ("D", 22 if swapped else 12), 2: ("I", 11 if swapped else 21)}
    mirror.poll()
    mirror.check()


def test_a_buffer_that_numbered_rows_goes_on(world: World) -> None:
    """Installing again brings the numbers of an older buffer to what the functions expect."""
    world.run(create("t", "id int PRIMARY KEY, v int"), "INSERT INTO t VALUES (1, 1), (2, 2)")
    mirror = TriggerMirror(world)
    buffer = mirror.capture.buffer.as_string(None)
    world.run(f"ALTER TABLE {buffer} ALTER COLUMN change_id SET GENERATED ALWAYS SET INCREMENT BY 1")
    install_capture(mirror.connection, mirror.capture)
    world.run("UPDATE t SET v = v + 1", "UPDATE t SET v = 9 WHERE id = 1", "DELETE FROM t WHERE id = 2")
    assert [row[0] for row in mirror.waiting()] == ["D", "D", "I", "I", "D", "I", "D"]
    mirror.poll()
    mirror.check()

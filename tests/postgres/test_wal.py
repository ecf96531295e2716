"""The log: whole transactions, once, with old images where it has them and keys where it has not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql

from spark_trickle.errors import (
    InternalError,
    InvalidDefinitionError,
    ReplicaIdentityError,
    ResyncNeededError,
    SettingError,
    SourceBusyError,
    SourceSchemaChangedError,
    SourceSetupError,
    UnsupportedError,
)
from spark_trickle.sources.postgres.assemble import Followed, assemble_messages
from spark_trickle.sources.postgres.buffer import open_reading, read_changes
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import describe_tables
from spark_trickle.sources.postgres.install import install_capture, uninstall_capture
from spark_trickle.sources.postgres.messages import BeginMessage
from spark_trickle.sources.postgres.moment import parse_lsn
from spark_trickle.sources.postgres.names import quote_name
from spark_trickle.sources.postgres.publication import drop_publication, publish_tables, read_publication
from spark_trickle.sources.postgres.slot import (
    advance_slot,
    create_slot,
    drop_slot,
    slot_state,
    write_heartbeat,
)
from spark_trickle.sources.postgres.surroundings import look_around
from spark_trickle.sources.postgres.wal import complete_changes, peek_changes
from spark_trickle.sources.postgres.watch import log_gap, marks_in, table_marks
from tests.postgres.encode import encode
from tests.postgres.mirror import LogMirror, TriggerMirror
from tests.postgres.rights import log_rights
from tests.postgres.world import ODD_NAMES, World, create, mapped, plan, table_of, total

# Statements, each a transaction, on t(id key, a, big) with rows 1 to 3 -> keys removed from the mirror, and rows:
# whole ones and those that need the mirror.
CASES: list[tuple[list[str], list[int], list[tuple[Any, ...]], list[tuple[Any, ...]]]] = [
    (["INSERT INTO t VALUES (9, 'n', 'b')"], [], [(9, "n", "b", 1)], []),
    (["DELETE FROM t WHERE id = 1"], [1], [], []),
    (["UPDATE t SET a = 'z', big = 'b' WHERE id = 1"], [1], [(1, "z", "b", 1)], []),
    (["UPDATE t SET a = 'z' WHERE id = 1"], [1], [], [(1, "z", None, ("big",), 1)]),
    (["UPDATE t SET id = 8 WHERE id = 1"], [1], [], [(8, "a1", None, ("big",), 1)]),
    (["UPDATE t SET id = 8, big = 'b' WHERE id = 1"], [1], [(8, "a1", "b", 1)], []),
    (["UPDATE t SET a = 'y' WHERE id = 1", "UPDATE t SET a = 'z' WHERE id = 1"], [1], [], [(1, "z", None, ("big",), 1)]),
    (["UPDATE t SET id = 8 WHERE id = 1", "UPDATE t SET id = 7, a = 'z' WHERE id = 8"], [1], [], [(7, "z", None, ("big",), 1)]),
    (["UPDATE t SET a = 'y' WHERE id = 1", "UPDATE t SET big = 'b' WHERE id = 1"], [1], [(1, "y", "b", 1)], []),
    (["UPDATE t SET big = 'b' WHERE id = 1", "UPDATE t SET a = 'y' WHERE id = 1"], [1], [(1, "y", "b", 1)], []),
    (["INSERT INTO t VALUES (9, 'n', repeat('q', 9000))", "UPDATE t SET a = 'm' WHERE id = 9"], [], [(9, "m", "q" * 9000, 1)], []),
    (["INSERT INTO t VALUES (9, 'n', 'b')", "DELETE FROM t WHERE id = 9"], [], [], []),
    (["DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 'again', 'b')"], [1], [(1, "again", "b", 1)], []),
    (["DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 'again', 'b')", "DELETE FROM t WHERE id = 1"], [1], [], []),
    (["UPDATE t SET id = id + 100"], [1, 2, 3], [], [(101, "a1", None, ("big",), 1), (102, "a2", None, ("big",), 2), (103, "a3", None, ("big",), 3)]),
    (["UPDATE t SET id = 4 WHERE id = 3; UPDATE t SET id = 3 WHERE id = 2"], [3, 2], [], [(4, "a3", None, ("big",), 3), (3, "a2", None, ("big",), 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("statements", "removed", "whole", "partial"), CASES)
def test_rows_with_a_key(
    world: World, statements: list[str], removed: list[int], whole: Any, partial: Any
) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a text, big text"),
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT g, 'a' || g, repeat('x', 9000) FROM generate_series(1, 3) g",
    )
    mirror = LogMirror(world)
    world.run(*statements)
    batch = mirror.peek()
    for change in batch.tables:
        assert change.removed_keys.to_pylist() == [{"id": n} for n in removed]
        assert [tuple(r.values()) for r in change.rows.to_pylist()] == whole
        found = zip(
            change.partial.rows.to_pylist(),
            change.partial.unchanged,
            change.partial.old_keys.to_pylist(),
            strict=True,
        )
        assert [(r["id"], r["a"], r["big"], names, old["id"]) for r, names, old in found] == partial
    assert batch.transactions == len(statements)
    mirror.commit(batch)
    mirror.check()


def test_a_key_that_the_log_does_not_repeat(world: World) -> None:
    """A large key is stored apart like any large value: the new row refers to the old key, which is there."""
    world.run(
        create("t", "id text, n int, a text, PRIMARY KEY (id, n)"),
        "ALTER TABLE t ALTER id SET STORAGE EXTERNAL, ALTER a SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT repeat(g::text, 2500), g, repeat('x', 3000) FROM generate_series(1, 4) g",
    )
    mirror = LogMirror(world)
    world.run(
        "UPDATE t SET n = 10 WHERE n = 1",
        "UPDATE t SET a = 'new' WHERE n = 10",
        "UPDATE t SET a = 'other' WHERE n = 2",
        "UPDATE t SET n = 30 WHERE n = 3",
        "UPDATE t SET n = 31 WHERE n = 30",
        "DELETE FROM t WHERE n = 4",
    )
    mirror.poll()
    mirror.check()


FULL_CASES = [
    ["INSERT INTO t VALUES (1, 'x'), (1, 'x')"],
    ["UPDATE t SET a = 5", "DELETE FROM t WHERE b IS NULL"],
    ["UPDATE t SET a = a", "UPDATE t SET b = b || 'y'", "DELETE FROM t WHERE a = 2"],
    ["DELETE FROM t", "INSERT INTO t VALUES (2, 'x')"],
    ["TRUNCATE t"],
    ["DELETE FROM t WHERE a = 2", "TRUNCATE t", "INSERT INTO t VALUES (7, 'after')", "UPDATE t SET a = 8"],
]


@pytest.mark.parametrize("statements", FULL_CASES)
def test_rows_without_a_key(world: World, statements: list[str]) -> None:
    world.run(
        create("t", "a int, b text"),
        "ALTER TABLE t ALTER b SET STORAGE EXTERNAL",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t VALUES (2, 'x'), (2, 'x'), (3, NULL), (4, repeat('z', 9000))",
    )
    mirror = LogMirror(world)
    world.run(*statements)
    batch = mirror.poll()
    assert all(not c.removed_keys.num_rows and not c.partial.rows.num_rows for c in batch.tables)
    mirror.check()


def test_an_index_can_name_the_rows(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, code text NOT NULL CONSTRAINT u UNIQUE, a int"),
        "ALTER TABLE t REPLICA IDENTITY USING INDEX u",
        "INSERT INTO t SELECT g, 'c' || g, g FROM generate_series(1, 5) g",
    )
    mirror = LogMirror(world)
    world.run(
        "UPDATE t SET id = id + 10 WHERE a < 3",
        "UPDATE t SET code = code || '!' WHERE a = 4",
        "DELETE FROM t WHERE a = 5",
    )
    (change,) = mirror.peek().tables
    assert change.removed_keys.column_names == ["code"]
    mirror.poll()
    mirror.check()


def test_truncate_with_a_key_and_in_the_middle(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a text"),
        create("u", "id int PRIMARY KEY"),
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "INSERT INTO u VALUES (1)",
    )
    mirror = LogMirror(world, "public.t", "public.u")
    world.run(
        "UPDATE t SET a = 'z'; TRUNCATE t, u; INSERT INTO t VALUES (1, 'new')", "UPDATE t SET a = 'newer'"
    )
    changes_of = {c.source.name: c for c in mirror.peek().tables}
    assert all(c.truncated for c in changes_of.values())
    assert changes_of["t"].rows.to_pylist() == [{"id": 1, "a": "newer", "_w": 1}]
    mirror.poll()
    mirror.check()


def test_partitioned_tables(world: World) -> None:
    world.run(
        "CREATE TABLE t (k int, a text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
        "CREATE TABLE low (a text, k int NOT NULL)",
        "ALTER TABLE t ATTACH PARTITION low FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200)",
        "INSERT INTO t SELECT g, g::text FROM generate_series(0, 20) g",
    )
    mirror = LogMirror(world)
    for statement in [
        "INSERT INTO t VALUES (150, 'by the root')",
        "INSERT INTO high VALUES (151, 'by the leaf')",
        "UPDATE t SET k = k + 100 WHERE k = 3",
        "UPDATE low SET a = a || '!'",
        "DELETE FROM high",
        "CREATE TABLE more PARTITION OF t FOR VALUES FROM (200) TO (300); INSERT INTO t VALUES (250, 'new')",
        "TRUNCATE t",
        "INSERT INTO t VALUES (5, 'after')",
    ]:
        world.run(statement)
        assert mirror.poll().tables, statement
        mirror.check()


def test_odd_names(world: World) -> None:
    tables = []
    for name in ODD_NAMES:
        columns = ", ".join(f"{quote_name(n)} text" for n in ODD_NAMES)
        world.run(
            f"CREATE SCHEMA {quote_name(name)}",
            f"CREATE TABLE {quote_name(name, name)} ({columns}, PRIMARY KEY ({quote_name(ODD_NAMES[-1])}))",
        )
        tables.append(quote_name(name, name))
    mirror = LogMirror(world, *tables, publication='the "publication", %s')
    for table in tables:
        values = ", ".join(f"'{n}'" for n in range(len(ODD_NAMES)))
        world.run(
            f"INSERT INTO {table} VALUES ({values})", f"UPDATE {table} SET {quote_name(ODD_NAMES[3])} = 'x'"
        )
    mirror.poll()
    mirror.check()
    drop_publication(mirror.connection, mirror.publication)


# --- positions -----------------------------------------------------------------------------------


def test_peek_commit_advance_with_a_crash_at_each_step(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    assert mirror.peek() == mirror.peek()  # nothing is consumed by looking
    mirror.commit(mirror.peek())
    world.run("INSERT INTO t VALUES (2)")
    batch = mirror.peek()  # the slot was not advanced: the first transaction comes again, and is passed over
    assert batch.transactions == 1
    mirror.commit(batch)
    mirror.check()
    advance_slot(mirror.connection, mirror.slot, mirror.after)
    advance_slot(mirror.connection, mirror.slot, mirror.after)
    state = slot_state(mirror.connection, mirror.slot)
    assert state is not None
    assert state.confirmed == mirror.after
    assert mirror.peek().tables == ()
    assert mirror.peek().end_lsn == mirror.after


def test_batches_hold_whole_transactions(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    for n in range(10):
        world.run(f"INSERT INTO t SELECT generate_series({n * 10}, {n * 10 + 9})")
    batches = [b for b in mirror.drain(25) if b.tables]
    assert all(b.tables[0].rows.num_rows == 10 * b.transactions for b in batches)
    assert len(batches) > 2
    assert sum(b.transactions for b in batches) == 10
    mirror.check()


def test_a_large_transaction_comes_whole(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY, a text"))
    mirror = LogMirror(world)
    world.run("INSERT INTO t SELECT g, repeat('x', 50) FROM generate_series(1, 5000) g")
    batch = mirror.poll(max_changes=1)
    assert (batch.transactions, batch.tables[0].rows.num_rows) == (1, 5000)
    mirror.check()


def test_uncommitted_transactions_are_not_seen_and_not_lost(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    late = world.application()
    with late.transaction():
        late.execute("INSERT INTO t VALUES (1)")
        world.run("INSERT INTO t VALUES (2)")
        assert mirror.poll().transactions == 1
        mirror.check()
        with late.transaction(force_rollback=True):
            late.execute("INSERT INTO t VALUES (3)")
    mirror.poll()
    mirror.check()


def test_prepared_transactions_come_when_they_are_committed(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    application = world.application()
    for statement in ["BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'x'"]:
        application.execute(statement)
    world.run("INSERT INTO t VALUES (2)")
    mirror.poll()
    application.execute("COMMIT PREPARED 'x'")
    mirror.poll()
    mirror.check()


def test_a_heartbeat_moves_the_slot_while_the_tables_rest(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"), create("other", "a int"))
    mirror = LogMirror(world)
    before = mirror.after
    write_heartbeat(mirror.connection)
    batch = mirror.poll()
    assert batch.tables == ()
    assert batch.committed is not None
    state = slot_state(mirror.connection, mirror.slot)
    assert state is not None
    assert mirror.after == state.confirmed > before


def test_the_slot_moves_over_what_is_not_ours(world: World) -> None:
    """Newer servers do not even show such transactions; one that is open there comes when it commits."""
    world.run(create("t", "id int PRIMARY KEY"), create("other", "a int"))
    mirror = LogMirror(world)
    late = world.application()
    with late.transaction():
        late.execute("INSERT INTO t VALUES (1)")
        for _ in range(3):
            before = mirror.after
            world.run("INSERT INTO other SELECT generate_series(1, 1000)")
            assert mirror.poll().tables == ()
            state = slot_state(mirror.connection, mirror.slot)
            assert state is not None
            assert mirror.after == state.confirmed > before + 50_000
            assert state.lag_bytes < 50_000 < state.kept_bytes
    assert mirror.poll().transactions == 1
    mirror.check()


def test_an_open_transaction_does_not_make_the_reader_wait(world: World) -> None:
    """The server writes full pages to disk, so the last record of the open transaction is there by half."""
    world.run(create("t", "id int PRIMARY KEY, a text"))
    mirror = LogMirror(world)
    writer = world.application()
    ends = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn, pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
    for n in range(3):
        with writer.transaction():
            writer.execute(f"INSERT INTO t SELECT g, repeat('x', 1900) FROM generate_series({n}00, {n}20) g")
            more = count(1_000 * (n + 1))
            while (found := world.rows(ends)[0])[0] % 8192 or found[0] == found[1]:
                # What was written may all be on disk by now: only more of it can be there by half.
                writer.execute("INSERT INTO t VALUES (%s, repeat('x', 1900))", (next(more),))
            started = monotonic()
            mirror.poll()
            assert monotonic() - started < 5
    mirror.drain()
    mirror.check()


def test_when_it_was_committed(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    assert mirror.peek().committed is None
    world.run("INSERT INTO t VALUES (1)")
    committed = mirror.peek().committed
    assert committed is not None
    assert abs(committed - datetime.now(UTC)) < timedelta(minutes=1)


def test_lost_slots_are_noticed(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    position = parse_lsn(world.rows("SELECT pg_current_wal_flush_lsn()::text")[0][0])
    advance_slot(mirror.connection, mirror.slot, position)  # by somebody else
    with pytest.raises(ResyncNeededError, match="was moved to"):
        mirror.peek()
    drop_slot(mirror.connection, mirror.slot)
    drop_slot(mirror.connection, mirror.slot)
    assert slot_state(mirror.connection, mirror.slot) is None
    for act in (mirror.peek, lambda: advance_slot(mirror.connection, mirror.slot, mirror.after)):
        with pytest.raises(ResyncNeededError, match="no longer exists"):
            act()


def test_a_slot_whose_log_was_removed(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    admin = world.application()
    admin.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    admin.execute("SELECT pg_reload_conf()")
    try:
        for _ in range(4):
            admin.execute("SELECT pg_logical_emit_message(false, 'x', repeat('y', 1000000))")
            admin.execute("SELECT pg_switch_wal()")
        admin.execute("CHECKPOINT")
        with pytest.raises(ResyncNeededError, match="removed write-ahead log"):
            mirror.peek()
    finally:
        admin.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
        admin.execute("SELECT pg_reload_conf()")


def test_bounds_of_a_batch(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    for wrong in (0, -1, 10_000_001):
        with pytest.raises(SettingError):
            mirror.peek(wrong)


def test_a_log_that_breaks_off(world: World) -> None:
    with pytest.raises(InternalError):
        assemble_messages([encode(BeginMessage(1, 0, 1))], [], 0)


# --- tables --------------------------------------------------------------------------------------

REFUSED = [
    ("a int", "", 'ALTER TABLE "public"."odd ""t""" REPLICA IDENTITY FULL'),
    (
        "a int PRIMARY KEY",
        "REPLICA IDENTITY NOTHING",
        'ALTER TABLE "public"."odd ""t""" REPLICA IDENTITY FULL',
    ),
]


@pytest.mark.parametrize(("columns", "alter", "fix"), REFUSED)
def test_tables_whose_rows_have_no_name(world: World, columns: str, alter: str, fix: str) -> None:
    world.run(create('odd "t"', columns))
    if alter:
        world.run(f'ALTER TABLE "odd ""t""" {alter}')
    connection = world.connect()
    name = 'public."odd ""t"""'
    with pytest.raises(ReplicaIdentityError) as caught:
        publish_tables(connection, "p", [table_of(connection, name)])
    assert fix in caught.value.hint
    assert world.rows("SELECT FROM pg_publication") == []
    world.run(fix)
    publish_tables(connection, "p", [table_of(connection, name)])


PARTITIONED = [
    # key of the root, what is said of the root and of the leaf -> what to run
    ("", "", "", ["p", "p1"]),
    ("PRIMARY KEY", "", "", []),
    ("PRIMARY KEY", "", "REPLICA IDENTITY FULL", []),
    ("PRIMARY KEY", "", "REPLICA IDENTITY NOTHING", ["p1"]),
    ("PRIMARY KEY", "REPLICA IDENTITY FULL", "", ["p1"]),
    ("", "REPLICA IDENTITY FULL", "REPLICA IDENTITY FULL", []),
    ("NOT NULL UNIQUE", "REPLICA IDENTITY USING INDEX p_id_key", "", ["p", "p1"]),
]


@pytest.mark.parametrize(("key", "root", "leaf", "altered"), PARTITIONED)
def test_partitions_name_their_rows_themselves(
    world: World, key: str, root: str, leaf: str, altered: list[str]
) -> None:
    world.run(
        f"CREATE TABLE p (id int {key}, a text) PARTITION BY LIST (id)",
        "CREATE TABLE p1 PARTITION OF p DEFAULT",
    )
    for table, alter in (("p", root), ("p1", leaf)):
        if alter:
            world.run(f"ALTER TABLE {table} {alter}")
    connection = world.connect()
    if altered:
        with pytest.raises(ReplicaIdentityError) as caught:
            publish_tables(connection, "publication", [table_of(connection, "public.p")])
        statements = caught.value.statement.split("; ")
        assert [s.split('"')[3] for s in statements] == altered
        world.run(*statements)
    world.run("INSERT INTO p VALUES (1, 'x'), (2, 'y')")
    mirror = LogMirror(world, "public.p")
    world.run(
        "UPDATE p SET a = 'z' WHERE id = 1",
        "UPDATE p SET id = 3 WHERE id = 2",
        "INSERT INTO p VALUES (5, 'n')",
        "DELETE FROM p WHERE id = 1",
    )
    mirror.poll()
    mirror.check()


HIDDEN = [
    ["DROP PUBLICATION publication", "INSERT INTO t VALUES (1)"],
    [
        "ALTER PUBLICATION publication DROP TABLE t",
        "INSERT INTO t VALUES (1)",
        "ALTER PUBLICATION publication ADD TABLE t",
    ],
    [
        "ALTER PUBLICATION publication SET (publish = 'insert')",
        "DELETE FROM t",
        "ALTER PUBLICATION publication SET (publish = 'insert, update, delete, truncate')",
    ],
]


@pytest.mark.parametrize("statements", HIDDEN)
def test_a_publication_that_did_not_show_everything(world: World, statements: list[str]) -> None:
    world.run(create("t", "id int PRIMARY KEY"), create("u", "id int PRIMARY KEY"))
    mirror = LogMirror(world, "public.t", "public.u")
    world.run(*statements)
    with pytest.raises(ResyncNeededError, match="did not always include"):
        mirror.peek()


def test_a_publication_that_shows_only_some_rows(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY"),
        "CREATE PUBLICATION p FOR TABLE t WHERE (id > 5) WITH (publish_via_partition_root = true)",
    )
    connection = world.connect()
    with pytest.raises(SourceSetupError, match="only some rows"):
        publish_tables(connection, "p", [table_of(connection, "public.t")])


def test_other_tables_may_come_and_go(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"), create("u", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    t = mirror.followed[0].source
    publish_tables(mirror.connection, "publication", [t, table_of(mirror.connection, "public.u")])
    world.run("INSERT INTO t VALUES (1)")
    mirror.poll()
    publish_tables(mirror.connection, "publication", [t])
    world.run("INSERT INTO t VALUES (2)")
    mirror.poll()
    mirror.check()


# How a table is made, how a writer begins, and how it ends.
WRITERS = [
    ([create("u", "id int PRIMARY KEY")], ["INSERT INTO u VALUES (1)"], ["COMMIT"]),
    (
        [
            "CREATE TABLE u (id int PRIMARY KEY) PARTITION BY LIST (id)",
            "CREATE TABLE leaf PARTITION OF u DEFAULT",
        ],
        ["INSERT INTO leaf VALUES (1)"],
        ["COMMIT"],
    ),
    (
        [create("u", "id int PRIMARY KEY")],
        ["INSERT INTO u VALUES (1)", "PREPARE TRANSACTION 'x'"],
        ["COMMIT PREPARED 'x'"],
    ),
]


@pytest.mark.parametrize(("tables", "begins", "ends"), WRITERS)
def test_a_table_is_added_when_its_writers_have_ended(
    world: World, tables: list[str], begins: list[str], ends: list[str]
) -> None:
    """What they wrote before is not in the log, and a copy would not see it."""
    world.run(create("t", "id int PRIMARY KEY"), *tables)
    mirror = LogMirror(world)
    (t,), u = (f.source for f in mirror.followed), table_of(mirror.connection, "public.u")
    writer, other = world.application(), world.application()
    for statement in ["BEGIN", *begins]:
        writer.execute(statement)
    other.execute("BEGIN")
    other.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(
        SourceBusyError, match=r'write to "public\.u" did not end within 0\.2 seconds'
    ) as caught:
        publish_tables(mirror.connection, "publication", [t, u], [u], 0.2)
    assert "pg_stat_activity" in caught.value.hint
    assert read_publication(mirror.connection, "publication").keys() == {t.oid}
    for statement in ends:
        writer.execute(statement)
    marks = publish_tables(
        mirror.connection, "publication", [t, u], [u]
    )  # who writes to others is not waited for
    mirror.follow(u, marks[u.oid])
    world.run("INSERT INTO u VALUES (2)")
    other.execute("COMMIT")
    mirror.drain()
    mirror.check()


UNLOGGED = [
    ["CREATE UNLOGGED TABLE t (id int PRIMARY KEY)"],
    [
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE leaf PARTITION OF t DEFAULT",
    ],
]


@pytest.mark.parametrize("tables", UNLOGGED)
def test_unlogged_tables(world: World, tables: list[str]) -> None:
    world.run(*tables)
    connection = world.connect()
    with pytest.raises(SourceSetupError, match="is unlogged") as caught:
        publish_tables(connection, "p", [table_of(connection, "public.t")])
    world.run(caught.value.hint.removeprefix("Run ").split(",")[0])
    publish_tables(connection, "p", [table_of(connection, "public.t")])


def test_publications_are_kept_as_they_should_be(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"), create("u", "id int PRIMARY KEY"))
    connection = world.connect()
    t, u = table_of(connection, "public.t"), table_of(connection, "public.u")
    shown = "SELECT tablename::text FROM pg_publication_tables WHERE pubname = 'p' ORDER BY 1"
    for tables in ([t], [t], [t, u], [u]):
        publish_tables(connection, "p", tables)
        assert world.rows(shown) == [(x.name,) for x in tables]
    world.run("ALTER PUBLICATION p SET (publish = 'insert')")
    with pytest.raises(SourceSetupError) as caught:
        publish_tables(connection, "p", [t])
    world.run(caught.value.hint.removeprefix("Run ").removesuffix("."))
    publish_tables(connection, "p", [t])
    world.run("CREATE PUBLICATION everything FOR ALL TABLES WITH (publish_via_partition_root = true)")
    assert read_publication(connection, "everything").keys() >= {t.oid, u.oid}
    publish_tables(connection, "everything", [t])


def test_stored_columns(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY, g int GENERATED ALWAYS AS (id * 2) STORED"))
    if world.connect().info.server_version < 180_000:
        with pytest.raises(UnsupportedError, match='generated column "g"'):
            LogMirror(world)
        return
    mirror = LogMirror(world)
    world.run("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2")
    mirror.poll()
    mirror.check()


def test_the_key_has_to_be_captured(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY, a int"))
    table = table_of(world.connect(), "public.t")
    with pytest.raises(InvalidDefinitionError, match='column "id"'):
        Followed(table, mapped(table, skip=["id"]), "")
    assert Followed(table, mapped(table, skip=["a"]), "").names == ("id",)


ALTERED = [
    ("DROP a", 'column "a" is no longer in the write-ahead log'),
    ("RENAME a TO z", 'column "a" is no longer in the write-ahead log'),
    ("ALTER a TYPE int8", 'column "a" has changed its type'),
    ("REPLICA IDENTITY FULL", "its replica identity was changed"),
    ("ADD c int", None),
    ("RENAME TO t2", None),
]


@pytest.mark.parametrize(("alter", "message"), ALTERED)
def test_altered_tables(world: World, alter: str, message: str | None) -> None:
    world.run(create("t", "id int PRIMARY KEY, a int"), "INSERT INTO t VALUES (1, 1), (2, 2)")
    mirror = LogMirror(world)
    world.run(
        "DELETE FROM t WHERE id = 1",
        f"ALTER TABLE t {alter}",
        "DO $$ BEGIN DELETE FROM t2; EXCEPTION WHEN undefined_table THEN DELETE FROM t; END $$",
    )
    if message is None:
        mirror.poll()
        assert mirror.held[mirror.followed[0].source.oid].num_rows == 0
        return
    with pytest.raises((SourceSchemaChangedError, ResyncNeededError), match=message):
        mirror.peek()
    batch = mirror.peek(1)  # what happened before is still to be had
    mirror.commit(batch)
    assert mirror.held[mirror.followed[0].source.oid].num_rows == 1


SILENT = [
    # what the log does not show -> why the table has to be copied again
    (["ALTER TABLE t ALTER a TYPE int USING a + 1"], "rewritten by ALTER TABLE"),
    (["ALTER TABLE p ALTER a TYPE int USING a + 1"], "rewritten by ALTER TABLE"),
    (["TRUNCATE p1"], "emptied or rewritten"),
    (["ALTER TABLE p DETACH PARTITION p1"], "detached or dropped"),
    (["ALTER TABLE p DETACH PARTITION p1", "DELETE FROM p1", "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1)"], "detached or dropped"),
    (["CREATE TABLE p2 (id int NOT NULL, a int)", "INSERT INTO p2 VALUES (2, 2)", "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)"], 'partition "p2" was attached'),
    (["CREATE TABLE p2 (id int NOT NULL, a int) PARTITION BY LIST (id)", "CREATE TABLE p21 PARTITION OF p2 DEFAULT", "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES IN (2)"], 'partition "p2" was attached'),
    (["CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)", "INSERT INTO p VALUES (2, 2)", "TRUNCATE p2"], 'partition "p2" was attached with rows, or emptied'),
    (["CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)", "INSERT INTO p VALUES (2, 2)"], None),
    (["ALTER TABLE t ALTER a SET DEFAULT 1", "ALTER TABLE t ADD b int DEFAULT 1"], None),
    (["VACUUM FULL t", "INSERT INTO t VALUES (5, 5)"], None),
    (["ALTER TABLE t ALTER a SET DEFAULT 1", "TRUNCATE t"], "rewritten by ALTER TABLE"),  # a false alarm, which is the safe side
]  # fmt: skip


@pytest.mark.parametrize(("statements", "reason"), SILENT)
def test_what_the_log_is_silent_about(world: World, statements: list[str], reason: str | None) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a int"),
        "CREATE TABLE p (id int PRIMARY KEY, a int) PARTITION BY LIST (id)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO p VALUES (1, 1)",
    )
    mirror = LogMirror(world, "public.t", "public.p")
    noted = {f.source.oid: table_marks(mirror.connection, f.source, f.names) for f in mirror.followed}
    world.run(*statements)
    gaps = []
    for f in mirror.followed:
        (now,) = describe_tables(mirror.connection, [f.source.oid])
        around = look_around(mirror.connection, [now.oid])[now.oid]
        gaps.append(log_gap(now, noted[f.source.oid], marks_in(around, f.names), around))
    found = [g for g in gaps if g]
    if reason is None:
        assert found == []
        mirror.poll()
        mirror.check()
    else:
        assert reason in found[0]


def test_a_mirror_that_does_not_fit(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"), "INSERT INTO t VALUES (1), (2)")
    mirror = LogMirror(world)
    world.run("DELETE FROM t WHERE id = 1")
    (change,) = mirror.peek().tables
    for wrong in ([], [2], [1, 2], [1, 1]):
        with pytest.raises(ResyncNeededError):
            complete_changes(change, pa.table({"id": pa.array(wrong, pa.int32())}))
    assert complete_changes(change, pa.table({"id": pa.array([1], pa.int32())})).to_pylist() == [
        {"id": 1, "_w": -1}
    ]


def test_the_slot_needs_the_right_level(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = world.connect()
    monkeypatch.setattr("spark_trickle.sources.postgres.slot.read_value", lambda *_: "replica")
    with pytest.raises(SourceSetupError, match="wal_level"):
        create_slot(connection, "slot")


def test_a_slot_that_is_being_read(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    other = psycopg.connect(world.server.conninfo(world.database), replication="database", autocommit=True)
    other.pgconn.exec_(
        b"START_REPLICATION SLOT slot LOGICAL 0/0 (proto_version '1', publication_names 'publication')"
    )
    with pytest.raises(SourceBusyError) as caught:
        mirror.peek()
    assert caught.value.retryable
    other.close()


# --- together with copies and triggers -----------------------------------------------------------


def test_a_table_can_join_later_at_its_own_moment(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY"),
        create("u", "id int PRIMARY KEY, a text"),
        "INSERT INTO u VALUES (1, 'x')",
    )
    mirror = LogMirror(world)
    world.run("INSERT INTO t VALUES (1)", "UPDATE u SET a = 'before it is published'")
    u = table_of(mirror.connection, "public.u")
    marks = publish_tables(mirror.connection, mirror.publication, [mirror.followed[0].source, u])
    world.run("UPDATE u SET a = 'seen by the copy'", "INSERT INTO u VALUES (2, 'seen')")
    late = world.application()
    late.execute("BEGIN")
    late.execute("INSERT INTO u VALUES (3, 'open during the copy')")
    columns = mapped(u)
    with open_snapshot(mirror.connection, [u]) as moment:
        world.run("INSERT INTO u VALUES (4, 'after the snapshot')", "DELETE FROM u WHERE id = 2")
        mirror.held[u.oid] = pa.concat_tables(copy_rows(mirror.connection, u, columns)).drop_columns(["_w"])
    late.execute("COMMIT")
    mirror.followed.append(Followed(u, columns, marks[u.oid], since=moment))
    mirror.poll()
    mirror.check()
    world.run("UPDATE u SET a = 'z'", "UPDATE t SET id = 2")
    mirror.poll()
    mirror.check()


def test_from_triggers_to_the_log_and_back(world: World) -> None:
    """Nothing is lost and nothing comes twice, with transactions open across both changes."""
    world.run(create("t", "id int PRIMARY KEY, a text"), "INSERT INTO t VALUES (0, 'start')")
    triggered = TriggerMirror(world)
    connection, table = triggered.connection, triggered.capture.source
    first = world.application()
    first.execute("BEGIN")
    first.execute("INSERT INTO t VALUES (1, 'open while the slot is made')")
    first.execute("COMMIT")
    mark = publish_tables(connection, "publication", [table])[table.oid]
    after = create_slot(connection, "slot")
    second = world.application()
    second.execute("BEGIN")
    second.execute("INSERT INTO t VALUES (2, 'open at the last reading')")
    world.run(
        "INSERT INTO t VALUES (3, 'in both the buffer and the log')", "UPDATE t SET a = 'x' WHERE id = 0"
    )
    triggered.poll()  # its moment is where the log takes over
    columns = triggered.columns
    followed = Followed(table, columns, mark, since=triggered.position.moment)
    second.execute("COMMIT")
    world.run("UPDATE t SET a = 'y' WHERE id = 3")
    uninstall_capture(connection, triggered.capture)
    world.run("INSERT INTO t VALUES (4, 'only in the log')")

    batch = peek_changes(connection, "slot", "publication", [followed], after)
    (change,) = batch.tables
    held = pa.Table.from_pylist([{"id": 3, "a": "in both the buffer and the log"}])
    moved = total([complete_changes(change, held)])
    triggered.held.update(moved)
    triggered.held = type(triggered.held)({k: v for k, v in triggered.held.items() if v})
    triggered.check()
    advance_slot(connection, "slot", batch.end_lsn)

    token = install_capture(connection, triggered.capture)
    third = world.application()
    third.execute("BEGIN")
    third.execute("INSERT INTO t VALUES (5, 'open at the way back')")
    world.run("INSERT INTO t VALUES (6, 'in the log and in the buffer')")
    with open_reading(connection) as moment:
        world.run("INSERT INTO t VALUES (7, 'only for the buffer')")
    back = Followed(table, columns, mark, since=followed.since, until=moment)
    third.execute("COMMIT")
    batch = peek_changes(connection, "slot", "publication", [back], batch.end_lsn)
    assert [c.rows.to_pylist() for c in batch.tables] == [
        [{"id": 6, "a": "in the log and in the buffer", "_w": 1}]
    ]
    triggered.held.update(total([complete_changes(batch.tables[0], held.slice(0, 0))]))
    drop_slot(connection, "slot")
    from spark_trickle.sources.postgres.buffer import Position

    triggered.position = Position(token, moment)
    with open_reading(connection):
        assert total(read_changes(connection, triggered.capture, columns, triggered.position)).total() == 2
    triggered.poll()
    triggered.check()


def test_the_documented_rights_are_enough(world: World) -> None:
    world.run("DROP ROLE IF EXISTS reader", "CREATE ROLE reader LOGIN", create("t", "id int PRIMARY KEY"))
    admin = world.connect()
    table = table_of(admin, "public.t")
    publish_tables(admin, "publication", [table])
    mark = read_publication(admin, "publication")[table.oid]
    for statement in log_rights("reader", [table]):
        world.application().execute(statement)
    connection = world.connect("test", "reader")
    after = create_slot(connection, "slot")
    columns = mapped(table)
    with open_snapshot(connection, [table]) as moment:
        assert list(copy_rows(connection, table, columns)) == []
    world.run("INSERT INTO t VALUES (1)")
    batch = peek_changes(
        connection, "slot", "publication", [Followed(table, columns, mark, since=moment)], after
    )
    assert batch.tables[0].rows.num_rows == 1
    advance_slot(connection, "slot", batch.end_lsn)
    write_heartbeat(connection)
    drop_slot(connection, "slot")
    world.application().execute(sql.SQL("DROP OWNED BY reader"))
    world.run("DROP ROLE reader")


def test_who_may_only_read_waits_for_writers_too(world: World) -> None:
    """Somebody else has published the table; what is open since then may be in the log by half."""
    world.run(create("t", "id int PRIMARY KEY"), "CREATE ROLE reader LOGIN")
    admin = world.connect()
    marks = publish_tables(admin, "publication", [table_of(admin, "public.t")])
    for statement in log_rights("reader", [table_of(admin, "public.t")]):
        world.application().execute(statement)
    connection = world.connect("test", "reader")
    table = table_of(connection, "public.t")
    writer = world.application()
    writer.execute("BEGIN")
    writer.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(SourceBusyError, match=r'write to "public\.t"'):
        publish_tables(connection, "publication", [table], [table], 0.2)
    writer.execute("COMMIT")
    assert publish_tables(connection, "publication", [table], [table], 0.2) == marks
    world.application().execute(sql.SQL("DROP OWNED BY reader"))
    world.run("DROP ROLE reader")


def test_plans_and_slots_do_not_disturb_each_other(world: World) -> None:
    """Buffers are tables too, but nobody publishes them."""
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    install_capture(mirror.connection, plan(mirror.connection, "public.t"))
    world.run("INSERT INTO t VALUES (1)")
    assert [c.source.name for c in mirror.poll().tables] == ["t"]
    mirror.check()

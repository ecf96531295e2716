"""Installing, installing again, and leaving nothing behind; with no more rights than needed."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from psycopg import sql

from spark_trickle.errors import (
    ColumnNotFoundError,
    InvalidDefinitionError,
    ResyncNeededError,
    SourceBusyError,
    SourceSchemaChangedError,
    SourceSetupError,
)
from spark_trickle.sources.postgres.buffer import open_reading, read_changes
from spark_trickle.sources.postgres.capture import plan_capture
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import find_tables
from spark_trickle.sources.postgres.install import (
    install_capture,
    read_installed_captures,
    renew_capture,
    uninstall_capture,
)
from spark_trickle.sources.postgres.trigger import trigger_statements
from tests.postgres.mirror import TriggerMirror
from tests.postgres.rights import trigger_rights
from tests.postgres.widen import widen_installed
from tests.postgres.world import World, create, mapped, mapped_for, plan, table_of, total

# All that a database holds, except what every statement leaves in statistics.
CATALOG = """
    SELECT 'class', oid::int8, relname::text, relkind::text, relacl::text FROM pg_class
    UNION ALL SELECT 'proc', oid::int8, proname::text, '', proacl::text FROM pg_proc
    UNION ALL SELECT 'trigger', oid::int8, tgname::text, tgenabled::text, '' FROM pg_trigger
    UNION ALL SELECT 'namespace', oid::int8, nspname::text, '', nspacl::text FROM pg_namespace
    UNION ALL SELECT 'type', oid::int8, typname::text, '', '' FROM pg_type
    UNION ALL SELECT 'description', objoid::int8, description, '', '' FROM pg_description
    UNION ALL SELECT 'constraint', oid::int8, conname::text, '', '' FROM pg_constraint
    UNION ALL SELECT 'depend', objid::int8, refobjid::text, deptype::text, '' FROM pg_depend
    ORDER BY 1, 2, 3, 4, 5
"""


@pytest.mark.parametrize("mode", ["statement", "row"])
def test_nothing_is_left_behind(world: World, mode: Any) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a text"),
        create("u", "id int"),
        "CREATE TABLE p (k int) PARTITION BY LIST (k)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
    )
    before = world.rows(CATALOG)
    connection = world.connect()
    captures = [plan_capture(t, mode=mode) for t in find_tables(connection, "public.*")]
    assert [c.source.name for c in captures] == ["p", "t", "u"]
    for capture in captures:
        install_capture(connection, capture)
    assert read_installed_captures(connection).keys() == {c.source.oid for c in captures}
    world.run("INSERT INTO t VALUES (1, 'x')", "INSERT INTO p VALUES (1)", "TRUNCATE p")
    for capture in captures:
        uninstall_capture(connection, capture)
    assert world.rows(CATALOG) == before
    uninstall_capture(connection, captures[0])  # once more does no harm


def test_a_schema_of_the_administrator_stays(world: World) -> None:
    world.run(create("t", "id int"), "CREATE SCHEMA trickle_changes")
    before = world.rows(CATALOG)
    connection = world.connect()
    capture = plan(connection, "public.t")
    install_capture(connection, capture)
    uninstall_capture(connection, capture)
    assert world.rows(CATALOG) == before


def test_installing_again_changes_nothing_and_loses_nothing(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    assert install_capture(mirror.connection, mirror.capture) == mirror.position.token
    world.run("INSERT INTO t VALUES (2)")
    assert sum(mirror.poll().values()) == 2
    mirror.check()


def test_two_warehouses_follow_the_same_table(world: World) -> None:
    world.run(create("t", "id int"))
    mirrors = [TriggerMirror(world, schema=schema) for schema in ("trickle_changes", 'the "other"')]
    world.run("INSERT INTO t VALUES (1)")
    for mirror in mirrors:
        mirror.poll()
        mirror.check()
    uninstall_capture(mirrors[0].connection, mirrors[0].capture)
    world.run("INSERT INTO t VALUES (2)")
    mirrors[1].poll()
    mirrors[1].check()
    assert [t.name for t in find_tables(mirrors[0].connection, "*.*")] == ["t"]  # buffers are no sources


def test_the_mode_can_change(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    mirror.poll()
    row = plan(mirror.connection, "public.t", mode="row")
    install_capture(mirror.connection, row)
    mirror.capture = row
    world.run(
        "INSERT INTO t VALUES (2)",
        "UPDATE t SET id = 3 WHERE id = 2",
        "TRUNCATE t",
        "INSERT INTO t VALUES (4)",
    )
    mirror.poll()
    mirror.check()
    triggers = [
        name
        for (name,) in world.rows("SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1")
    ]
    assert triggers == ["trickle_changes_row", "trickle_changes_truncate"]


def test_writers_are_waited_for_but_not_for_ever(world: World) -> None:
    world.run(create("t", "id int"))
    connection = world.connect()
    capture = plan(connection, "public.t")
    writer = world.application()
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(SourceBusyError):
            install_capture(connection, capture, lock_seconds=0.05)
    assert read_installed_captures(connection) == {}
    install_capture(connection, capture)


def test_a_transaction_that_began_before_is_captured_as_a_whole_or_copied(world: World) -> None:
    """It writes before the triggers are there; installing waits for it, in a thread of its own."""
    world.run(create("t", "id int"))
    connection = world.connect()
    capture = plan(connection, "public.t")
    writer = world.application()
    done = threading.Thread(target=install_capture, args=(connection, capture, 30.0))
    with writer.transaction():
        writer.execute("INSERT INTO t VALUES (1)")
        done.start()
        _wait_for_lock(world)
        writer.execute("INSERT INTO t VALUES (2)")
    done.join()
    mirror = TriggerMirror(world)
    mirror.check()
    world.run("INSERT INTO t VALUES (3)")
    mirror.poll()
    mirror.check()
    assert len(mirror.held) == 3


def _wait_for_lock(world: World) -> None:
    """Until somebody waits for a lock on a table of this database; the server itself says so."""
    observer = world.application()
    while not observer.execute(
        "SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
        "WHERE NOT l.granted AND d.datname = current_database() AND l.locktype = 'relation'"
    ).fetchall():
        pass


def test_a_table_that_changed_since_it_was_described(world: World) -> None:
    world.run(create("t", "a int, b int"))
    connection = world.connect()
    capture = plan(connection, "public.t")
    world.run("ALTER TABLE t DROP b")
    with pytest.raises(SourceSchemaChangedError, match='column "b" was dropped'):
        install_capture(connection, capture)
    world.run("DROP TABLE t")
    with pytest.raises(Exception):  # noqa: B017, PT011 — the server says that there is no such table
        install_capture(connection, capture)
    assert read_installed_captures(connection) == {}


def test_a_capture_comes_back_from_the_source(world: World) -> None:
    world.run(create("t", "a int, b int, k int PRIMARY KEY"))
    connection = world.connect()
    capture = plan(connection, "public.t", needed=["b"], mode="row", unlogged=True, guarded=False)
    install_capture(connection, capture)
    wider = widen_installed(connection, capture, ["a"])
    found = read_installed_captures(connection)[capture.source.oid]
    assert found.make_capture(table_of(connection, "public.t")) == wider
    world.run("ALTER TABLE t ADD c int")
    (change,) = found.find_drift(table_of(connection, "public.t"))
    assert (change.change, change.breaks) == ("added", False)
    world.run("ALTER TABLE t RENAME b TO z")
    with pytest.raises(SourceSchemaChangedError, match='"b" was renamed to "z"'):
        found.make_capture(table_of(connection, "public.t"))


OTHER_COLUMNS = [
    ("ALTER TABLE t ALTER a TYPE text", {}),
    ("ALTER TABLE t RENAME a TO z", {}),
    ("ALTER TABLE t DROP a", {}),
    ("ALTER TABLE t ALTER b TYPE numeric(5, 1)", {}),
    ("SELECT 1", {"needed": ["b"]}),
    ("SELECT 1", {"unlogged": True}),
]


@pytest.mark.parametrize("mode", ["statement", "row"])
@pytest.mark.parametrize(("alter", "options"), OTHER_COLUMNS)
def test_other_columns_begin_a_new_buffer(
    world: World, alter: str, options: dict[str, Any], mode: str
) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int, b numeric"), "INSERT INTO t VALUES (1, 1, 1)")
    mirror = TriggerMirror(world, mode=mode)
    world.run(alter, "INSERT INTO t (k) VALUES (2)")
    mirror.options |= options
    before = mirror.position
    mirror.prepare()
    assert install_capture(mirror.connection, mirror.capture) != before.token
    with pytest.raises(ResyncNeededError, match="created again"):
        mirror.poll()
    mirror.resync()
    world.run("INSERT INTO t (k, b) VALUES (3, 3.5)", "UPDATE t SET b = 7 WHERE k = 1")
    mirror.poll()
    mirror.check()


def test_columns_that_are_not_captured(world: World) -> None:
    world.run(create("t", "k int PRIMARY KEY, a int, b int"))
    mirror = TriggerMirror(world, needed=["a"])
    mirror.columns = mapped(mirror.capture.source)
    with pytest.raises(ColumnNotFoundError):
        mirror.poll()


def test_a_renamed_table_is_followed(world: World) -> None:
    world.run(create("t", "a int"))
    mirror = TriggerMirror(world)
    world.run(
        "ALTER TABLE t RENAME TO u",
        "CREATE SCHEMA s",
        "ALTER TABLE u SET SCHEMA s",
        "INSERT INTO s.u VALUES (1)",
    )
    mirror.poll()
    assert mirror.held == total([]) or sum(mirror.held.values()) == 1
    mirror.name = "s.u"
    mirror.prepare()
    mirror.check()


def test_names_that_are_too_long(world: World) -> None:
    world.run(create("t", "a int"), "CREATE TABLE empty ()")
    with pytest.raises(InvalidDefinitionError, match="too long"):
        plan(world.connect(), "public.t", schema="x" * 41)
    with pytest.raises(InvalidDefinitionError, match="no column"):
        plan(world.connect(), "public.empty")


# --- gaps ----------------------------------------------------------------------------------------

GAPS = [
    ["ALTER TABLE t DISABLE TRIGGER ALL", "INSERT INTO t VALUES (1)"],
    [
        "ALTER TABLE t DISABLE TRIGGER ALL",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ENABLE TRIGGER ALL",
    ],
    ["DROP TRIGGER trickle_changes_insert ON t", "INSERT INTO t VALUES (1)"],
    ["DROP FUNCTION trickle_changes.capture_{oid}_insert() CASCADE", "INSERT INTO t VALUES (1)"],
    ["ALTER TABLE t ALTER a TYPE int USING a + 1"],
    ["CREATE TABLE child () INHERITS (t)", "UPDATE t SET a = 1"],
    [
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "ALTER TABLE p ATTACH PARTITION t DEFAULT",
        "INSERT INTO p VALUES (1)",
    ],
    ["DELETE FROM trickle_changes.captures"],
    ["UPDATE trickle_changes.captures SET token = gen_random_uuid()"],
]


@pytest.mark.parametrize("statements", GAPS)
def test_gaps_are_noticed_and_mended_by_a_new_copy(world: World, statements: list[str]) -> None:
    world.run(create("t", "a int"))
    mirror = TriggerMirror(world)
    world.run(*(s.replace("{oid}", str(mirror.capture.source.oid)) for s in statements))
    with pytest.raises(ResyncNeededError):
        mirror.poll()
    install_capture(mirror.connection, mirror.capture)  # installing again does not hide it
    with pytest.raises(ResyncNeededError):
        mirror.poll()
    mirror.resync()
    mirror.check()
    world.run("INSERT INTO t VALUES (5)")
    mirror.poll()
    mirror.check()


HARMLESS = [
    ["VACUUM FULL t"],
    [
        "ALTER TABLE t ALTER a SET DEFAULT 5",
        "ALTER TABLE t ALTER a SET NOT NULL",
        "INSERT INTO t DEFAULT VALUES",
    ],
    [
        "ALTER TABLE t ADD b float DEFAULT random()",
        "ALTER TABLE t ALTER b TYPE int USING 1",
        "ALTER TABLE t DROP b",
    ],
    ["TRUNCATE t", "CREATE INDEX ON t (a)", "ANALYZE t", "CLUSTER t USING t_a_idx"],
    ["GRANT SELECT ON t TO PUBLIC", "COMMENT ON TABLE t IS 'x'", "ALTER TABLE t SET (fillfactor = 50)"],
    [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
        "CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION f()",
        "ALTER TABLE t DISABLE TRIGGER x",
        "DROP TRIGGER x ON t",
    ],
]


@pytest.mark.parametrize("mode", ["statement", "row"])
@pytest.mark.parametrize("statements", HARMLESS)
def test_what_looks_like_a_gap_but_is_none(world: World, statements: list[str], mode: str) -> None:
    world.run(create("t", "a int"), "INSERT INTO t VALUES (1)")
    mirror = TriggerMirror(world, mode=mode, needed=["a"])
    world.run(*statements, "INSERT INTO t VALUES (2)")
    mirror.poll()
    mirror.check()


def test_a_new_token_makes_an_old_position_useless(world: World) -> None:
    world.run(create("t", "a int"))
    mirror = TriggerMirror(world)
    renew_capture(mirror.connection, mirror.capture)
    with pytest.raises(ResyncNeededError):
        mirror.poll()


# --- rights --------------------------------------------------------------------------------------


@pytest.fixture
def roles(world: World) -> tuple[str, str, str]:
    """An owner of tables, an application that only writes to them, and our role."""
    names = ('the "owner"', "application", "trickle %s")
    admin = world.application()
    for name in names:
        role = sql.Identifier(name)
        found = admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [name]).fetchall()
        if found:
            admin.execute(sql.SQL("DROP OWNED BY {}").format(role))
            admin.execute(sql.SQL("ALTER ROLE {} NOREPLICATION").format(role))
        else:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    return names


def owned_tables(world: World, owner: str, application: str) -> None:
    admin = world.application()
    admin.execute(sql.SQL("CREATE SCHEMA shop AUTHORIZATION {}").format(sql.Identifier(owner)))
    as_owner = world.application(owner)
    for statement in [
        "CREATE TABLE shop.t (id int PRIMARY KEY, a text)",
        "CREATE TABLE shop.p (k int, a text) PARTITION BY LIST (k)",
        "CREATE TABLE shop.p1 PARTITION OF shop.p FOR VALUES IN (1)",
        f"GRANT USAGE ON SCHEMA shop TO {application}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA shop TO {application}",
    ]:
        as_owner.execute(statement)


def test_the_documented_rights_are_enough(world: World, roles: tuple[str, str, str]) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    for statement in trigger_rights(ours, find_tables(world.connect(), "shop.*")):
        world.application().execute(statement)
    connection = world.connect("test", ours)
    mirrors = [TriggerMirror(world, name, connection) for name in ("shop.t", "shop.p")]
    writer = world.application(application)
    for statement in [
        "INSERT INTO shop.t VALUES (1, 'x'), (2, 'y')",
        "UPDATE shop.t SET id = 3, a = 'z' WHERE id = 2",
        "DELETE FROM shop.t WHERE id = 1",
        "INSERT INTO shop.p VALUES (1, 'p')",
        "UPDATE shop.p SET a = 'q'",
    ]:
        writer.execute(statement)
        for mirror in mirrors:
            mirror.poll()
            mirror.check()
    writer.execute("TRUNCATE shop.t, shop.p")
    for mirror in mirrors:
        mirror.poll()
        mirror.check()
        assert not mirror.held
        mirror.capture = widen_installed(connection, mirror.capture, ["a"])
        uninstall_capture(connection, mirror.capture)
    assert world.rows("SELECT FROM pg_trigger WHERE NOT tgisinternal") == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("INSERT INTO shop.t VALUES (1, 'x')")


def test_others_cannot_touch_the_buffers(world: World, roles: tuple[str, str, str]) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    for statement in trigger_rights(ours, find_tables(world.connect(), "shop.*")):
        world.application().execute(statement)
    connection = world.connect("test", ours)
    capture = plan(connection, "shop.t")
    install_capture(connection, capture)
    buffer, function = capture.buffer.as_string(None), capture.function_sql("insert").as_string(None)
    for user in (owner, application):
        # Even if somebody lets them into the schema.
        connection.execute(
            sql.SQL("GRANT USAGE ON SCHEMA trickle_changes TO {}").format(sql.Identifier(user))
        )
        other = world.application(user)
        other.execute("CREATE TEMP TABLE mine (id int, a text)")
        for statement in [
            f"SELECT * FROM {buffer}",
            f"INSERT INTO {buffer} (action) VALUES ('I')",
            "SELECT * FROM trickle_changes.captures",
            "DELETE FROM trickle_changes.losses",
            f"CREATE TRIGGER x AFTER INSERT ON mine REFERENCING NEW TABLE AS trickle_new EXECUTE FUNCTION {function}()",
        ]:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                other.execute(statement)


def test_a_hostile_search_path_does_not_reach_the_functions(
    world: World, roles: tuple[str, str, str]
) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    tables = find_tables(world.connect(), "shop.*")
    for statement in trigger_rights(ours, tables):
        world.application().execute(statement)
    mirror = TriggerMirror(world, "shop.t", world.connect("test", ours))
    writer = world.application(application)
    world.run("CREATE SCHEMA evil", "GRANT ALL ON SCHEMA evil TO PUBLIC")
    for statement in [
        "CREATE FUNCTION evil.row_number() RETURNS int8 LANGUAGE sql AS $$ SELECT 1::int8 $$",
        "CREATE TYPE evil.varbit AS ENUM ('x')",
        "CREATE TEMP TABLE trickle_new (id int, a text)",
        "SET search_path = evil, pg_temp, pg_catalog",
        "INSERT INTO shop.t VALUES (1, 'x'), (2, 'y')",
        "UPDATE shop.t SET a = a || '!'",
    ]:
        writer.execute(statement)
    mirror.poll()
    mirror.check()


MISSING = ["TRIGGER", "SELECT"]


@pytest.mark.parametrize("right", MISSING)
def test_a_missing_right_is_named(world: World, roles: tuple[str, str, str], right: str) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    tables = find_tables(world.connect(), "shop.t")
    for statement in trigger_rights(ours, tables):
        world.application().execute(statement)
    world.application().execute(
        sql.SQL("REVOKE {} ON shop.t FROM {}").format(sql.SQL(right), sql.Identifier(ours))
    )
    connection = world.connect("test", ours)
    capture = plan(connection, "shop.t")
    with pytest.raises(SourceSetupError, match="lacks rights"):  # noqa: PT012
        install_capture(connection, capture)
        with open_snapshot(connection, [capture.source]):
            list(copy_rows(connection, capture.source, mapped_for(capture)))


def test_row_security_is_an_error_not_a_smaller_copy(world: World, roles: tuple[str, str, str]) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    tables = find_tables(world.connect(), "shop.t")
    for statement in trigger_rights(ours, tables):
        world.application().execute(statement)
    for statement in [
        "INSERT INTO shop.t VALUES (1, 'mine'), (2, 'hidden')",
        "ALTER TABLE shop.t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY part ON shop.t USING (id = 1)",
    ]:
        world.application(owner).execute(statement)
    connection = world.connect("test", ours)
    capture = plan(connection, "shop.t")
    with (
        open_snapshot(connection, [capture.source]),
        pytest.raises(SourceSetupError, match="row-level security"),
    ):
        list(copy_rows(connection, capture.source, mapped_for(capture)))


def test_triggers_of_tables_we_do_not_own_are_not_altered(world: World, roles: tuple[str, str, str]) -> None:
    owner, application, ours = roles
    owned_tables(world, owner, application)
    for statement in trigger_rights(ours, find_tables(world.connect(), "shop.t")):
        world.application().execute(statement)
    mine = plan(world.connect("test", ours), "shop.t")
    theirs = plan(world.connect("test", owner), "shop.t")
    assert not any("ENABLE ALWAYS" in s.as_string(None) for s in trigger_statements(mine))
    assert any("ENABLE ALWAYS" in s.as_string(None) for s in trigger_statements(theirs))


def test_reading_needs_the_buffer_to_exist(world: World) -> None:
    world.run(create("t", "a int"))
    mirror = TriggerMirror(world)
    uninstall_capture(mirror.connection, mirror.capture)
    with open_reading(mirror.connection), pytest.raises(ResyncNeededError):
        list(read_changes(mirror.connection, mirror.capture, mirror.columns, mirror.position))

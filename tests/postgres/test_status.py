"""What is found when somebody asks how a source does."""

from __future__ import annotations

import pytest

from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.slot import drop_slot
from spark_trickle.sources.postgres.status import capture_findings, server_findings, slot_findings
from tests.postgres.mirror import LogMirror, TriggerMirror
from tests.postgres.world import World, create


def wrong(findings: list[object]) -> list[tuple[str, str, str]]:
    return [(f.check, f.subject, f.value) for f in findings if not f.ok]  # type: ignore[attr-defined]


def test_the_server(world: World) -> None:
    connection = world.connect()
    found = server_findings(connection, wants_log=True)
    assert [f.check for f in found] == ["version", "wal_level", "replication slots", "replication"]
    assert all(f.ok for f in found)
    assert [f.check for f in server_findings(connection, wants_log=False)] == ["version"]


def test_a_role_without_rights(world: World) -> None:
    world.run("DROP ROLE IF EXISTS nobody_special", "CREATE ROLE nobody_special LOGIN")
    found = server_findings(world.connect("test", "nobody_special"), wants_log=True)
    assert [(c, v) for c, _, v in wrong(found)] == [("replication", "not allowed")]
    world.run("DROP ROLE nobody_special")


def test_all_is_well(world: World) -> None:
    world.run(
        create("t", "a int"),
        "CREATE TABLE p (k int) PARTITION BY LIST (k)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
    )
    mirror = TriggerMirror(world)
    TriggerMirror(world, "public.p", mirror.connection)
    world.run("INSERT INTO t VALUES (1), (2)")
    found = capture_findings(mirror.connection)
    assert wrong(found) == []
    assert [(f.check, f.subject) for f in found if f.check != "buffer"] == [
        ("insert trigger", "public.t"),
        ("update trigger", "public.t"),
        ("delete trigger", "public.t"),
        ("truncate trigger", "public.t"),
        ("row trigger", "public.p"),
        ("row trigger", "public.p1"),
        ("truncate trigger", "public.p1"),
    ]
    assert {f.value for f in found if "trigger" in f.check} == {"enabled always"}
    (waiting,) = [f.value for f in found if (f.check, f.subject) == ("buffer", "public.t")]
    assert waiting.startswith("2 rows, ")
    assert capture_findings(mirror.connection, "no such schema") == []


TROUBLE = [
    (
        "ALTER TABLE t DISABLE TRIGGER trickle_changes_insert",
        [("insert trigger", "disabled"), ("losses", "its triggers were disabled, changed or removed")],
    ),
    (
        "DROP TRIGGER trickle_changes_update ON t",
        [("update trigger", "missing"), ("losses", "its triggers were disabled, changed or removed")],
    ),
    (
        "ALTER TABLE t DROP a; INSERT INTO t VALUES ('x')",
        [("columns", 'column "a" was dropped'), ("losses", "1 times")],
    ),
    ("ALTER TABLE t ADD c int", [("columns", 'column "c" was added')]),
    ("DROP TABLE t", [("table", "dropped")]),
]


@pytest.mark.parametrize(("statement", "expected"), TROUBLE)
def test_trouble(world: World, statement: str, expected: list[tuple[str, str]]) -> None:
    world.run(create("t", "a int, b text"))
    mirror = TriggerMirror(world)
    world.run(statement)
    found = [f for f in capture_findings(mirror.connection) if not f.ok]
    assert [
        (f.check, f.value[: len(value)]) for f, (_, value) in zip(found, expected, strict=True)
    ] == expected
    assert all(f.subject == "public.t" and f.fix.endswith(".") for f in found)


def test_the_advice_helps(world: World) -> None:
    world.run(create('odd "t"', "a int"))
    mirror = TriggerMirror(world, 'public."odd ""t"""')
    world.run('ALTER TABLE "odd ""t""" DISABLE TRIGGER ALL')
    for finding in capture_findings(mirror.connection):
        if finding.value == "disabled":
            world.run(finding.fix.removeprefix("Run ").split(", then")[0])
    mirror.resync()
    assert wrong(capture_findings(mirror.connection)) == []


def test_a_new_partition_has_no_truncate_trigger_yet(world: World) -> None:
    world.run(
        "CREATE TABLE t (k int) PARTITION BY LIST (k)", "CREATE TABLE t1 PARTITION OF t FOR VALUES IN (1)"
    )
    mirror = TriggerMirror(world)
    world.run("CREATE TABLE t2 PARTITION OF t FOR VALUES IN (2)")
    assert wrong(capture_findings(mirror.connection)) == [("truncate trigger", "public.t2", "missing")]
    mirror.prepare()
    install_capture(mirror.connection, mirror.capture)
    assert wrong(capture_findings(mirror.connection)) == []
    mirror.poll()


def test_slots(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY"))
    mirror = LogMirror(world)
    assert wrong(slot_findings(mirror.connection, "slot", "publication", 1 << 20)) == []
    world.run("INSERT INTO t SELECT generate_series(1, 1000)")
    assert [c for c, _, _ in wrong(slot_findings(mirror.connection, "slot", "publication", 1000))] == ["lag"]
    mirror.poll()
    assert wrong(slot_findings(mirror.connection, "slot", "other", 1 << 20)) == [
        ("publication", "other", "missing")
    ]
    drop_slot(mirror.connection, "slot")
    assert wrong(slot_findings(mirror.connection, "slot", "publication", 1000)) == [
        ("slot", "slot", "missing")
    ]


def test_a_subscribed_table_needs_row_triggers(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run(
        "CREATE SUBSCRIPTION nowhere CONNECTION 'host=/nonexistent' PUBLICATION p WITH (connect = false, slot_name = NONE)",
        f"INSERT INTO pg_subscription_rel SELECT oid, {mirror.capture.source.oid}, 'i', NULL FROM pg_subscription",
    )
    try:
        assert [v for _, _, v in wrong(capture_findings(mirror.connection))] == [
            "the table is filled by a subscription"
        ]
    finally:
        world.run("DROP SUBSCRIPTION nowhere")

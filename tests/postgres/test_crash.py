"""The server crashes: nothing is lost, or it is said that something is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_trickle.errors import ResyncNeededError, SourceUnavailableError
from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.slot import slot_state
from spark_trickle.sources.postgres.status import capture_findings
from tests.postgres.mirror import LogMirror, TriggerMirror
from tests.postgres.server import Server, new_server
from tests.postgres.world import World, create


@pytest.fixture(scope="module")
def mortal() -> Iterator[Server]:
    """A server of its own, so that its death is nobody else's concern."""
    server = new_server()
    yield server
    server.remove()


@pytest.fixture
def fragile(mortal: Server) -> Iterator[World]:
    world = World(mortal, "postgres")
    yield world
    world.clean()


def crash(world: World, mode: str = "immediate") -> None:
    world.server.stop(mode)
    world.server.start()
    world.__dict__.pop("usual", None)  # its connection is dead


def restart(world: World) -> None:
    crash(world, "fast")


def is_mended(mirror: TriggerMirror, world: World) -> None:
    """A new copy, and from then on changes, which nothing speaks against."""
    mirror.resync()
    world.run("INSERT INTO t VALUES (5)")
    mirror.poll()
    mirror.check()
    assert all(f.ok for f in capture_findings(mirror.connection))


@pytest.mark.parametrize("mode", ["statement", "row"])
def test_logged_buffers_survive(fragile: World, mode: str) -> None:
    fragile.run(create("t", "id int PRIMARY KEY"), "INSERT INTO t VALUES (1)")
    mirror = TriggerMirror(fragile, mode=mode)
    fragile.run("INSERT INTO t VALUES (2)")
    open_transaction = fragile.application()
    open_transaction.execute("BEGIN")
    open_transaction.execute("INSERT INTO t VALUES (3)")
    crash(fragile)
    with pytest.raises(SourceUnavailableError):
        mirror.read()
    mirror.connection = fragile.connect()
    fragile.run("INSERT INTO t VALUES (4)")
    mirror.poll()
    mirror.check()
    assert set(mirror.held) == {("1",), ("2",), ("4",)}


def test_unlogged_buffers_say_that_they_are_empty(fragile: World) -> None:
    fragile.run(create("t", "id int PRIMARY KEY"), create("u", "id int"))
    mirror = TriggerMirror(fragile, unlogged=True)
    logged = TriggerMirror(fragile, "public.u", mirror.connection)
    fragile.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    mirror.poll()
    mirror.check()

    fragile.run("INSERT INTO t VALUES (2)")
    restart(fragile)  # an orderly end loses nothing
    mirror.connection = logged.connection = fragile.connect()
    mirror.poll()
    mirror.check()

    fragile.run("INSERT INTO t VALUES (3)")
    crash(fragile)
    fragile.run("INSERT INTO t VALUES (4)")
    mirror.connection = logged.connection = fragile.connect()
    with pytest.raises(ResyncNeededError, match="the server crashed, and the buffer is unlogged"):
        mirror.poll()
    install_capture(mirror.connection, mirror.capture)  # does not hide it
    with pytest.raises(ResyncNeededError, match="unlogged"):
        mirror.poll()
    assert [f.value for f in capture_findings(mirror.connection) if not f.ok] == [
        "the unlogged buffer was emptied by a crash"
    ]
    logged.poll()
    logged.check()

    is_mended(mirror, fragile)


def test_a_crash_without_changes_is_a_loss_of_nothing_but_is_told(fragile: World) -> None:
    """Whether something was in an unlogged buffer cannot be known afterwards."""
    fragile.run(create("t", "id int"))
    mirror = TriggerMirror(fragile, unlogged=True)
    crash(fragile)
    mirror.connection = fragile.connect()
    with pytest.raises(ResyncNeededError):
        mirror.poll()


# Tables that a crash empties, at least in part; and what may come between the crash and the next reading.
UNLOGGED = [
    (["CREATE UNLOGGED TABLE t (id int PRIMARY KEY)"], []),
    (["CREATE UNLOGGED TABLE t (id int PRIMARY KEY)"], ["ALTER TABLE t SET LOGGED"]),
    (
        [
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
            "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (2)",
            "CREATE UNLOGGED TABLE high PARTITION OF t FOR VALUES FROM (2) TO (9)",
        ],
        [],
    ),
]


@pytest.mark.parametrize(("tables", "after"), UNLOGGED)
def test_unlogged_tables_say_that_they_are_empty(fragile: World, tables: list[str], after: list[str]) -> None:
    fragile.run(*tables, create("u", "id int"), "INSERT INTO t VALUES (1), (2)")
    mirror = TriggerMirror(fragile)
    logged = TriggerMirror(fragile, "public.u", mirror.connection)
    fragile.run("INSERT INTO t VALUES (3)")
    restart(fragile)  # an orderly end loses nothing
    mirror.connection = logged.connection = fragile.connect()
    mirror.poll()
    mirror.check()

    crash(fragile)
    fragile.run(*after, "INSERT INTO t VALUES (4)")
    mirror.connection = logged.connection = fragile.connect()
    mirror.prepare()
    reason = "the server crashed, and the table is unlogged"
    with pytest.raises(ResyncNeededError, match=reason):
        mirror.poll()
    assert [f.value for f in capture_findings(mirror.connection) if not f.ok] == [reason]
    install_capture(mirror.connection, mirror.capture)  # does not hide it
    with pytest.raises(ResyncNeededError, match=reason):
        mirror.poll()
    logged.poll()
    logged.check()

    is_mended(mirror, fragile)


def test_slots_survive_at_every_step(fragile: World) -> None:
    fragile.run(create("t", "id int PRIMARY KEY, a text"), "INSERT INTO t VALUES (0, 'x')")
    mirror = LogMirror(fragile)
    for n in range(1, 4):
        fragile.run(f"INSERT INTO t VALUES ({n}, 'x')", "UPDATE t SET a = a || 'y'")
        batch = mirror.peek()
        crash(fragile)  # after the peek
        mirror.connection = fragile.connect()
        again = mirror.peek()
        assert again.transactions == batch.transactions
        assert again.end_lsn >= batch.end_lsn  # a heartbeat of ours may have come since
        mirror.commit(again)
        crash(fragile)  # after the commit in the warehouse, before the slot was told
        mirror.connection = fragile.connect()
        mirror.poll()
        mirror.check()
        crash(fragile)  # after the slot was told, which may not have been written down
        mirror.connection = fragile.connect()
        state = slot_state(mirror.connection, mirror.slot)
        assert state is not None
        assert state.confirmed <= mirror.after
        assert mirror.poll().tables == ()
        mirror.check()

"""Reading buffers: every committed change once, whatever the order in which transactions begin and end."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from spark_trickle.errors import ResyncNeededError, SourceBusyError
from spark_trickle.sources.postgres.buffer import (
    Position,
    claim_buffers,
    forget_changes,
    open_reading,
    read_changes,
)
from spark_trickle.sources.postgres.chunks import Bounds
from spark_trickle.sources.postgres.compact import compact_buffer
from spark_trickle.sources.postgres.moment import Moment, ServerSnapshot
from tests.postgres.mirror import TriggerMirror
from tests.postgres.world import World, create, total


def test_a_long_transaction_is_neither_lost_nor_doubled_nor_waited_for(world: World) -> None:
    world.run(create("t", "id int PRIMARY KEY, a text"))
    mirror = TriggerMirror(world)
    long = world.application()
    with long.transaction():
        long.execute("INSERT INTO t VALUES (1, 'long')")  # has the lowest id of all
        world.run("INSERT INTO t VALUES (2, 'short')")
        assert sum(mirror.poll().values()) == 1  # the short one, though it is younger
        mirror.check()
        world.run("UPDATE t SET a = 'changed' WHERE id = 2")
        long.execute("INSERT INTO t VALUES (3, 'long')")
        mirror.poll()
        mirror.check()
        world.run("DELETE FROM t WHERE id = 2")
    assert sum(mirror.poll().values()) == 1  # +2 of the long one, -1 of the delete
    mirror.check()
    assert mirror.poll() == Counter()
    assert mirror.waiting() == []


def test_what_is_not_forgotten_is_not_read_twice(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    found, position = mirror.read()
    again, _ = mirror.read()
    assert total(found) == total(again) == Counter({("1",): 1})  # not committed, so it comes again
    mirror.position = position
    assert mirror.read()[0] == []
    assert len(mirror.waiting()) == 1
    assert forget_changes(mirror.connection, mirror.capture, position) == 1
    assert forget_changes(mirror.connection, mirror.capture, position) == 0


def test_what_was_read_beside_an_open_transaction_is_not_read_twice(world: World) -> None:
    """Its id is higher than that of the open one, so the order of ids cannot tell."""
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    late = world.application()
    with late.transaction():
        late.execute("INSERT INTO t VALUES (1)")
        world.run("INSERT INTO t VALUES (2)")
        found, mirror.position = mirror.read()
        assert total(found) == Counter({("2",): 1})
        assert mirror.read()[0] == []
    assert total(mirror.read()[0]) == Counter({("1",): 1})


def test_forgetting_spares_what_the_position_has_not_seen(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    late = world.application()
    with late.transaction():
        late.execute("INSERT INTO t VALUES (1)")
        world.run("INSERT INTO t VALUES (2)")
        mirror.poll()
    assert [row[2] for row in mirror.waiting()] == [1]
    mirror.poll()
    mirror.check()


def test_savepoints_and_rollbacks(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    application = world.application()
    with application.transaction():
        application.execute("INSERT INTO t VALUES (1)")
        with application.transaction(force_rollback=True):
            application.execute("INSERT INTO t VALUES (2)")
            with application.transaction():
                application.execute("INSERT INTO t VALUES (3)")
        with application.transaction():
            application.execute("INSERT INTO t VALUES (4)")
            mirror.poll()
    with application.transaction(force_rollback=True):
        application.execute("DELETE FROM t")
    mirror.poll()
    mirror.check()
    assert mirror.held == Counter({("1",): 1, ("4",): 1})


def test_prepared_transactions(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    application = world.application()
    for statement in [
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "PREPARE TRANSACTION 'later'",
        "BEGIN",
        "INSERT INTO t VALUES (2)",
        "PREPARE TRANSACTION 'never'",
    ]:
        application.execute(statement)
    assert mirror.poll() == Counter()
    world.run("INSERT INTO t VALUES (3)")
    mirror.poll()
    application.execute("COMMIT PREPARED 'later'")
    application.execute("ROLLBACK PREPARED 'never'")
    assert mirror.poll() == Counter({("1",): 1})
    mirror.check()


def test_all_tables_of_a_reading_show_one_state(world: World) -> None:
    """Money moves between two tables; no reading may see it in both or in neither."""
    world.run(create("t", "amount int"), create("u", "amount int"), "INSERT INTO t VALUES (1)")
    one = TriggerMirror(world)
    two = TriggerMirror(world, "public.u", one.connection)
    ready, stop = threading.Event(), threading.Event()

    def move() -> None:
        application = world.server.connect(world.database)
        while not stop.is_set():
            with application.transaction():
                application.execute("DELETE FROM t")
                application.execute("INSERT INTO u VALUES (1)")
            with application.transaction():
                application.execute("DELETE FROM u")
                application.execute("INSERT INTO t VALUES (1)")
            ready.set()
        application.close()

    mover = threading.Thread(target=move)
    mover.start()
    ready.wait()
    for _ in range(50):
        with open_reading(one.connection) as moment:
            for mirror in (one, two):
                found = total(
                    read_changes(mirror.connection, mirror.capture, mirror.columns, mirror.position)
                )
                mirror.held.update(found)
                mirror.position = mirror.position.move_to(moment)
        assert one.held.total() + two.held.total() == 1
    stop.set()
    mover.join()


def test_several_writers_and_a_reader_at_once(world: World) -> None:
    world.run(create("t", "id serial PRIMARY KEY, writer int, a int"))
    mirror = TriggerMirror(world)
    writers = 4
    together = threading.Barrier(writers + 1)
    running = threading.Semaphore(0)

    def write(number: int) -> None:
        with world.server.connect(world.database) as application:
            together.wait()
            for n in range(25):
                with application.transaction():
                    application.execute("INSERT INTO t (writer, a) VALUES (%s, %s)", [number, n])
                    application.execute("UPDATE t SET a = a + 1 WHERE writer = %s", [number])
                    if n % 5 == 4:
                        application.execute("DELETE FROM t WHERE writer = %s AND a > 10", [number])
        running.release()

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    together.wait()
    ended = 0
    while ended < writers:
        mirror.poll()
        assert all(weight > 0 for weight in mirror.held.values())  # each reading is a state that there was
        ended += running.acquire(blocking=False)
    for thread in threads:
        thread.join()
    mirror.poll()
    mirror.check()


@pytest.mark.parametrize(
    "bounds",
    [Bounds(1, 1 << 20), Bounds(7, 1 << 20), Bounds(1000, 1), Bounds(1000, 100), Bounds(1000, 1 << 20)],
)
def test_pieces_of_limited_size(world: World, bounds: Bounds) -> None:
    world.run(create("t", "id int, a text"))
    mirror = TriggerMirror(world)
    world.run(
        "INSERT INTO t SELECT g, repeat('x', g) FROM generate_series(0, 99) g",
        "UPDATE t SET a = a || 'y' WHERE id < 10",
    )
    found, _ = mirror.read(bounds)
    assert sum(piece.num_rows for piece in found) == 120
    assert all(piece.num_rows <= bounds.rows for piece in found)
    assert bounds != Bounds(1000, 100) or max(piece.num_rows for piece in found) < 30
    assert sum(total(found).values()) == 100


def test_there_is_one_reader(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    claim_buffers(mirror.connection)
    claim_buffers(mirror.connection)  # is ours already
    other = world.connect()
    with pytest.raises(SourceBusyError, match="another process"), open_reading(other):
        pass
    with pytest.raises(SourceBusyError):
        compact_buffer(other, mirror.capture, mirror.position)
    with open_reading(other, "another schema"):
        pass
    world.run(
        f"SELECT pg_terminate_backend({mirror.connection.info.backend_pid}, 10000)"
    )  # waits for its end
    with open_reading(other):
        pass


def test_a_server_that_was_set_back(world: World) -> None:
    """A restored backup knows fewer transactions than the mirror."""
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    ahead = mirror.position.moment.snapshot.high + 1_000_000
    mirror.position = mirror.position.move_to(Moment(ServerSnapshot(ahead, ahead), 0))
    with pytest.raises(ResyncNeededError, match="restored to an earlier state"):
        mirror.read()


# --- compaction ----------------------------------------------------------------------------------

COMPACTED = [
    # statements -> rows before, rows after
    (["INSERT INTO t VALUES (9, 'x')", "DELETE FROM t WHERE id = 9"], 2, 0),
    (
        ["INSERT INTO t VALUES (9, 'x')", "UPDATE t SET a = 'y' WHERE id = 9", "DELETE FROM t WHERE id = 9"],
        4,
        0,
    ),
    (["UPDATE t SET a = 'v1' WHERE id = 1", "UPDATE t SET a = 'v2' WHERE id = 1"], 4, 2),
    (["UPDATE t SET a = 'v1' WHERE id = 1", "UPDATE t SET a = 'v0' WHERE id = 1"], 4, 0),
    (["UPDATE t SET id = 5 WHERE id = 1", "UPDATE t SET id = 1 WHERE id = 5"], 4, 0),
    (["INSERT INTO t VALUES (9, NULL)", "DELETE FROM t WHERE id = 9", "INSERT INTO t VALUES (9, '')"], 3, 1),
    (
        ["INSERT INTO u VALUES (1), (1), (1)", "DELETE FROM u WHERE ctid IN (SELECT ctid FROM u LIMIT 2)"],
        5,
        1,
    ),
    (["INSERT INTO u VALUES (1.0)", "DELETE FROM u", "INSERT INTO u VALUES (1.00)"], 3, 1),
]


@pytest.mark.parametrize(("statements", "before", "after"), COMPACTED)
def test_what_came_and_went_cancels(world: World, statements: list[str], before: int, after: int) -> None:
    world.run(
        create("t", "id int PRIMARY KEY, a text"), create("u", "a numeric"), "INSERT INTO t VALUES (1, 'v0')"
    )
    mirror = TriggerMirror(world, "public.u" if " u" in statements[0] else "public.t")
    world.run(*statements)
    assert len(mirror.waiting()) == before
    assert compact_buffer(mirror.connection, mirror.capture, mirror.position) == before - after
    assert len(mirror.waiting()) == after
    mirror.poll()
    mirror.check()


def test_what_is_committed_does_not_cancel_what_is_not(world: World) -> None:
    """The I row is in the mirror already; its D row must survive."""
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    found, mirror.position = mirror.read()
    mirror.held.update(total(found))
    world.run("DELETE FROM t")
    assert compact_buffer(mirror.connection, mirror.capture, mirror.position) == 1  # forgets the I row
    mirror.poll()
    mirror.check()


def test_compaction_leaves_open_transactions_alone(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    world.run("INSERT INTO t VALUES (1)")
    application = world.application()
    with application.transaction():
        application.execute("DELETE FROM t")
        assert compact_buffer(mirror.connection, mirror.capture, mirror.position) == 0
        mirror.poll()
    mirror.poll()
    mirror.check()


def test_a_position_can_be_kept_as_text(world: World) -> None:
    world.run(create("t", "id int"))
    mirror = TriggerMirror(world)
    kept = (mirror.position.token, str(mirror.position.moment.snapshot), mirror.position.moment.lsn)
    world.run("INSERT INTO t VALUES (1)")
    mirror.position = Position(kept[0], Moment(ServerSnapshot.parse(kept[1]), kept[2]))
    mirror.poll()
    mirror.check()

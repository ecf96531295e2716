"""The first copy and the first change fit together without a gap, also when the copy is made in pieces."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from spark_trickle.sources.postgres.buffer import Position, open_reading
from spark_trickle.sources.postgres.chunks import Bounds
from spark_trickle.sources.postgres.copy import Piece, Progress, catch_up, copy_rows, open_snapshot
from spark_trickle.sources.postgres.install import install_capture
from spark_trickle.sources.postgres.ranges import KeyRange, key_ranges
from tests.postgres.mirror import TriggerMirror, plus
from tests.postgres.world import World, content, create, mapped, mapped_for, plan, table_of, total


def test_what_the_copy_does_not_see_comes_as_a_change(world: World) -> None:
    """Transactions that are open before, during and after the snapshot, committed and rolled back."""
    world.run(create("t", "id int PRIMARY KEY, a text"), "INSERT INTO t VALUES (0, 'old')")
    connection = world.connect()
    capture = plan(connection, "public.t")
    token = install_capture(connection, capture)
    before, dropped = world.application(), world.application()
    for application in (before, dropped):
        application.execute("BEGIN")
    before.execute("INSERT INTO t VALUES (1, 'before')")
    dropped.execute("INSERT INTO t VALUES (2, 'dropped')")
    world.run("INSERT INTO t VALUES (3, 'seen')")
    with open_snapshot(connection, [capture.source]) as moment:
        world.run("INSERT INTO t VALUES (4, 'during')", "DELETE FROM t WHERE id = 0")
        before.execute("COMMIT")
        copied = total(copy_rows(connection, capture.source, mapped_for(capture)))
    dropped.execute("ROLLBACK")
    assert set(copied) == {("0", "'old'"), ("3", "'seen'")}
    mirror = TriggerMirror(world, connection=connection)
    mirror.held, mirror.position = copied, Position(token, moment)
    mirror.poll()
    mirror.check()


def test_a_truncate_waits_for_the_copy(world: World) -> None:
    """Else the copy would find nothing, and the rows would be taken away a second time."""
    world.run(create("t", "id int"), "INSERT INTO t VALUES (1), (2)")
    mirror = TriggerMirror(world)
    truncate = threading.Thread(target=world.application().execute, args=("TRUNCATE t",))
    with open_snapshot(mirror.connection, [mirror.capture.source]) as moment:
        truncate.start()
        observer = world.application()
        while not observer.execute(
            "SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
        ).fetchall():
            pass
        mirror.held = total(copy_rows(mirror.connection, mirror.capture.source, mirror.columns))
    truncate.join()
    assert mirror.held.total() == 2
    mirror.position = mirror.position.move_to(moment)
    mirror.poll()
    mirror.check()
    assert not mirror.held


def test_the_copy_comes_in_pieces_and_says_how_far_it_is(world: World) -> None:
    world.run(
        create("t", "id int, a text"),
        "INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g",
        "ANALYZE t",
    )
    connection = world.connect()
    table = table_of(connection, "public.t")
    said: list[Progress] = []
    with open_snapshot(connection, [table]):
        pieces = list(copy_rows(connection, table, mapped(table), Bounds(300, 1 << 20), progress=said.append))
    assert [p.num_rows for p in pieces] == [300, 300, 300, 100]
    assert [(p.rows, p.expected) for p in said] == [(300, 1000), (600, 1000), (900, 1000), (1000, 1000)]
    assert pieces[0].column("_w").to_pylist() == [1] * 300


def test_empty_tables_and_single_columns_with_nulls(world: World) -> None:
    world.run(
        create("t", "a text"),
        create("u", "a text"),
        "INSERT INTO t VALUES (NULL), (''), (NULL), ('x'), (E'\\n')",
    )
    connection = world.connect()
    t, u = table_of(connection, "public.t"), table_of(connection, "public.u")
    assert content(connection, t, mapped(t)) == Counter(
        {("None",): 2, ("''",): 1, ("'x'",): 1, ("'\\n'",): 1}
    )
    assert content(connection, u, mapped(u)) == Counter()


def test_one_snapshot_for_many_tables(world: World) -> None:
    world.run(create("t", "id int"), create("u", "id int"), "INSERT INTO t VALUES (1)")
    connection = world.connect()
    tables = [table_of(connection, f"public.{name}") for name in "tu"]
    with open_snapshot(connection, tables):
        world.run("INSERT INTO u VALUES (1)", "DELETE FROM t")
        found = [total(copy_rows(connection, t, mapped(t))) for t in tables]
    assert found == [Counter({("1",): 1}), Counter()]


KEYS: list[tuple[str, str, str]] = [
    # key columns, expressions for row g, another key for g that may lie in any range
    ("id int PRIMARY KEY", "g", "id = 200 - id"),
    ("id text COLLATE \"C\" PRIMARY KEY", "chr(65 + g % 50) || g", "id = 'Z' || id"),
    ("a int, b text, PRIMARY KEY (b, a)", "g % 7, 'é''\"\\' || g % 5 || '_' || g", "a = -a - 1"),
    ("id numeric PRIMARY KEY", "g / 8.0", "id = -id - 1"),
    ("id timestamptz PRIMARY KEY", "'2024-01-01'::timestamptz + g * interval '1 hour'", "id = id + interval '5 days 30 minutes'"),
    ("id uuid PRIMARY KEY", "md5(g::text)::uuid", "id = md5(id::text)::uuid"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "values", "move"), KEYS)
def test_a_copy_is_resumed_where_it_broke_off(world: World, columns: str, values: str, move: str) -> None:
    """Each range at its own moment, by another connection, while rows move from one range to another."""
    world.run(
        create("t", f"{columns}, v int"), f"INSERT INTO t SELECT {values}, g FROM generate_series(0, 99) g"
    )
    connection = world.connect()
    capture = plan(connection, "public.t")
    token = install_capture(connection, capture)
    mapping = mapped_for(capture)
    ranges = key_ranges(connection, capture.source, 30)
    assert len(ranges) == 4
    held: Counter[Any] = Counter()
    pieces = []
    for n, key_range in enumerate(ranges):
        again = world.connect()  # the one before was killed
        with open_snapshot(again, [capture.source]) as moment:
            held.update(total(copy_rows(again, capture.source, mapping, key_range=key_range)))
        pieces.append(Piece(key_range, Position(token, moment)))
        again.close()
        world.run(
            f"UPDATE t SET {move} WHERE v % 10 = {n}",
            f"DELETE FROM t WHERE v % 10 = {n + 5}",
            f"UPDATE t SET v = v + 100 WHERE v % 10 = {n}",
        )
    with open_reading(connection) as moment:
        held = plus(held, total(catch_up(connection, capture, mapping, pieces)))
    assert held == content(connection, capture.source, mapping)
    mirror = TriggerMirror(world, connection=connection)
    mirror.held, mirror.position = held, Position(token, moment)
    world.run("DELETE FROM t WHERE v % 3 = 0")
    mirror.poll()
    mirror.check()


def test_ranges_cover_everything_once(world: World) -> None:
    world.run(
        create("t", "id int PRIMARY KEY"),
        create("keyless", "a int"),
        create("empty", "id int PRIMARY KEY"),
        "INSERT INTO t SELECT generate_series(1, 10)",
    )
    connection = world.connect()
    t = table_of(connection, "public.t")
    everything = KeyRange((), (), None, None)
    assert key_ranges(connection, table_of(connection, "public.keyless"), 5) == (everything,)
    assert len(key_ranges(connection, table_of(connection, "public.empty"), 5)) == 1
    for each in (1, 3, 10, 100):
        with open_snapshot(connection, [t]):
            found = [
                total(copy_rows(connection, t, mapped(t), key_range=r))
                for r in key_ranges(connection, t, each)
            ]
        assert sum(found, Counter()) == content(connection, t, mapped(t))
        assert [f.total() for f in found] == [each] * (10 // each) + ([10 % each] if 10 % each else [])

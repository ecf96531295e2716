"""Others beside the publisher: readers, listeners, a second publisher, roles, views, settings of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import (
    InternalError,
    RepairNeededError,
    SourceBusyError,
    SourceSetupError,
    SourceUnavailableError,
    TargetRefusedError,
)
from spark_trickle.targets.postgres.front import (
    Applied,
    apply_change,
    create_target,
    drop_target,
    publish_rights,
    read_state,
    repair_rows,
)
from tests.postgres.published import BAG, KEYED, first, held, pieces, table_of, texts
from tests.postgres.world import World


def test_readers_see_whole_snapshots_only(world: World) -> None:
    """A reader looks while the rows of a change are on their way, and right after it."""
    connection, reader = world.connect(), world.application()
    first(connection, KEYED, [(n, "1") for n in range(10)])
    seen: list[list[Any]] = []

    def look() -> None:
        seen.append(reader.execute("SELECT b, count(*) FROM s GROUP BY b").fetchall())

    def looking(tables: list[pa.Table]) -> Iterator[pa.Table]:
        for table in tables:
            look()
            yield table

    for n in range(1, 4):
        old, new = (pieces(KEYED, [(i, str(v)) for i in range(10)]) for v in (n, n + 1))
        apply_change(connection, KEYED, n, n + 1, looking(old), looking(new))
        look()
    assert {len(s) for s in seen} == {1}
    assert {s[0][1] for s in seen} == {10}
    assert sorted({s[0][0] for s in seen}) == ["1", "2", "3", "4"]


def test_who_listens_is_told(world: World) -> None:
    connection, listener = world.connect(), world.application()
    listener.execute("LISTEN trickle_published")
    first(connection, BAG, [(1, "x")])
    apply_change(connection, BAG, 1, 2, pieces(BAG, [(1, "x")]), pieces(BAG, [(2, "x"), (3, "x")]))
    apply_change(connection, BAG, 1, 2, [], [])
    with pytest.raises(RepairNeededError):
        apply_change(connection, BAG, 3, 4, [], [])
    repair_rows(connection, BAG, 5, [])
    told = [json.loads(n.payload) for n in listener.notifies(timeout=5, stop_after=3)]
    names = {"schema": "public", "table": "s", "stream": "main.s"}
    assert told == [
        {**names, "snapshot": 1, "inserted": 1, "deleted": 0},
        {**names, "snapshot": 2, "inserted": 2, "deleted": 1},
        {**names, "snapshot": 5, "inserted": 0, "deleted": 2},
    ]
    assert list(listener.notifies(timeout=0.1)) == []


def test_two_publishers_take_turns(world: World) -> None:
    """The second waits for the ledger, not longer than it was told, and then finds the work done."""
    connection, other = world.connect(), world.connect()
    first(connection, BAG, [(1, "x")])

    def meanwhile() -> Iterator[pa.Table]:
        with pytest.raises(SourceBusyError):
            apply_change(other, BAG, 1, 2, [], pieces(BAG, [(2, "y")]), lock_seconds=0.05)
        yield table_of(BAG, [(2, "y")])

    assert apply_change(connection, BAG, 1, 2, [], meanwhile()).applied
    assert not apply_change(other, BAG, 1, 2, [], pieces(BAG, [(2, "y")])).applied
    assert held(connection, BAG) == texts([(1, "x"), (2, "y")])


def test_who_waited_for_another_publisher_looks_again(world: World) -> None:
    connection, other = world.connect(), world.connect()
    first(connection, BAG, [(1, "x")])
    waiting = f"SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = {other.info.backend_pid}"
    with ThreadPoolExecutor(1) as pool:
        second: list[Future[Applied]] = []

        def meanwhile() -> Iterator[pa.Table]:
            second.append(pool.submit(apply_change, other, BAG, 1, 2, [], pieces(BAG, [(2, "y")])))
            while not world.rows(waiting)[0][0]:
                assert not second[0].done()
            yield table_of(BAG, [(2, "y")])

        assert apply_change(connection, BAG, 1, 2, [], meanwhile()) == Applied(True, 2, 1, 0)
        assert second[0].result() == Applied(False, 2)
    assert held(connection, BAG) == texts([(1, "x"), (2, "y")])


def test_a_writer_in_the_way_is_waited_for(world: World) -> None:
    connection, writer = world.connect(), world.application()
    first(connection, BAG, [(1, "x")])
    writer.execute("BEGIN")
    writer.execute("INSERT INTO s VALUES (5, 'mine')")
    with pytest.raises(SourceBusyError):
        apply_change(connection, BAG, 1, 2, [], [], lock_seconds=0.05)
    writer.execute("ROLLBACK")
    assert apply_change(connection, BAG, 1, 2, [], []).applied


def test_a_role_that_owns_only_its_schemas(world: World) -> None:
    world.run(
        "DROP ROLE IF EXISTS publisher",
        "CREATE ROLE publisher LOGIN",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
    )
    try:
        ours = replace(KEYED, schema="ours", ledger="our_ledger")
        for statement in publish_rights("publisher", ["ours"], "our_ledger"):
            world.usual.execute(statement)
        connection = world.connect(user="publisher")
        first(connection, ours, [(1, "x")])
        apply_change(connection, ours, 1, 2, pieces(ours, [(1, "x")]), pieces(ours, [(1, "y")]))
        repair_rows(connection, ours, 3, pieces(ours, [(2, "y")]))
        assert held(connection, ours) == texts([(2, "y")])
        with pytest.raises(SourceSetupError, match="permission denied for schema public"):
            create_target(connection, replace(ours, schema="public"))
        drop_target(connection, ours)
    finally:
        world.run("DROP OWNED BY publisher", "DROP ROLE publisher")


def test_settings_of_the_server_do_not_matter(world: World) -> None:
    world.run("ALTER DATABASE postgres SET default_transaction_isolation = 'repeatable read'")
    try:
        connection = world.connect()
        first(connection, BAG, [(1, "x")])
        apply_change(connection, BAG, 1, 2, pieces(BAG, [(1, "x")]), pieces(BAG, [(2, "y")]))
        assert held(connection, BAG) == texts([(2, "y")])
    finally:
        world.run("ALTER DATABASE postgres RESET default_transaction_isolation")


def test_a_view_keeps_its_table(world: World) -> None:
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    world.run("CREATE VIEW v AS SELECT a FROM s")
    with pytest.raises(TargetRefusedError, match="other objects depend on it"):
        drop_target(connection, BAG)
    assert read_state(connection, BAG).snapshot == 1


def test_a_reader_cannot_publish(world: World) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    connection.execute("SET default_transaction_read_only = on")
    with pytest.raises(SourceSetupError, match="the target cannot be written"):
        apply_change(connection, BAG, None, 1, [], [])


def test_not_inside_of_a_transaction(world: World) -> None:
    connection = world.connect()
    with connection.transaction(), pytest.raises(InternalError, match="inside an open transaction"):
        create_target(connection, BAG)


def test_a_closed_connection(world: World) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    connection.close()
    for act in (lambda: apply_change(connection, BAG, None, 1, [], []), lambda: read_state(connection, BAG)):
        with pytest.raises(SourceUnavailableError):
            act()

"""Others change a published table: it is noticed, named, and repaired by touching only what differs."""

from __future__ import annotations

import pytest

from spark_trickle.errors import RepairNeededError, TargetChangedError, TargetRefusedError
from spark_trickle.targets.postgres.front import (
    Applied,
    Target,
    apply_change,
    create_target,
    read_state,
    repair_rows,
)
from tests.postgres.published import BAG, BOTH, KEYED, Row, first, held, pieces, texts
from tests.postgres.world import World


@BOTH
@pytest.mark.parametrize("meddling", ["DELETE FROM s WHERE a = 1", "UPDATE s SET b = 'q' WHERE a = 1"])
def test_drift_is_noticed_and_repaired(world: World, to: Target, meddling: str) -> None:
    connection = world.connect()
    first(connection, to, [(1, "x"), (2, "y")])
    world.run(meddling)
    with pytest.raises(
        RepairNeededError, match="1 of 2 rows to change are missing or were changed by somebody else"
    ):
        apply_change(connection, to, 1, 2, pieces(to, [(1, "x"), (2, "y")]), pieces(to, [(1, "z")]))
    assert read_state(connection, to).snapshot == 1
    done = repair_rows(connection, to, 2, pieces(to, [(1, "z")]))
    assert held(connection, to) == texts([(1, "z")])
    assert done.inserted == 1
    assert read_state(connection, to).rows == 1
    apply_change(connection, to, 2, 3, pieces(to, [(1, "z")]), [])


@BOTH
def test_repair_touches_only_what_differs(world: World, to: Target) -> None:
    connection = world.connect()
    rows: list[Row] = [(n, f"r{n}") for n in range(20)]
    first(connection, to, rows)
    world.run(
        "DELETE FROM s WHERE a = 3", "UPDATE s SET b = 'q' WHERE a = 4", "INSERT INTO s VALUES (99, 'new')"
    )
    places = world.rows("SELECT a, xmin, ctid FROM s WHERE a NOT IN (3, 4, 99) ORDER BY a")
    assert repair_rows(connection, to, 9, pieces(to, rows)) == Applied(True, 9, 2, 2)
    assert held(connection, to) == texts(rows)
    assert world.rows("SELECT a, xmin, ctid FROM s WHERE a NOT IN (3, 4, 99) ORDER BY a") == places
    assert repair_rows(connection, to, 9, pieces(to, rows)) == Applied(True, 9, 0, 0)
    assert repair_rows(connection, to, 2, []) == Applied(True, 2, 0, 20)  # also back, also to nothing


SCHEMA_CHANGES = {
    "ALTER TABLE s DROP COLUMN b": 'column "b" was dropped or renamed',
    "ALTER TABLE s RENAME COLUMN b TO c": 'column "b" was dropped or renamed',
    "ALTER TABLE s ALTER COLUMN b TYPE int USING 1": 'column "b" has type integer, not text',
    "ALTER TABLE s ADD COLUMN c int NOT NULL": 'column "c" was added and needs a value',
    "ALTER TABLE s RENAME TO other": "it was dropped or renamed",
}


def test_a_narrower_column_grows_with_the_rows(world: World) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    world.run("ALTER TABLE s ALTER COLUMN b TYPE varchar(5)")
    assert read_state(connection, BAG).columns_behind
    apply_change(connection, BAG, None, 1, [], [])
    assert not read_state(connection, BAG).columns_behind
    assert read_state(connection, BAG).changes == ()


@pytest.mark.parametrize("statement", SCHEMA_CHANGES)
def test_changes_of_the_schema_are_named(world: World, statement: str) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    world.run(statement)
    assert read_state(connection, BAG).changes == (SCHEMA_CHANGES[statement],)
    for act in (
        lambda: apply_change(connection, BAG, None, 1, [], []),
        lambda: repair_rows(connection, BAG, 1, []),
    ):
        with pytest.raises(TargetChangedError) as caught:
            act()
        assert caught.value.changes == (SCHEMA_CHANGES[statement],)


def test_additions_that_do_no_harm(world: World) -> None:
    connection = world.connect()
    create_target(connection, KEYED)
    world.run("ALTER TABLE s ADD COLUMN seen timestamptz NOT NULL DEFAULT now()", "CREATE INDEX ON s (b)")
    apply_change(connection, KEYED, None, 1, [], pieces(KEYED, [(1, "x")]))
    apply_change(connection, KEYED, 1, 2, pieces(KEYED, [(1, "x")]), pieces(KEYED, [(1, "y")]))
    assert read_state(connection, KEYED).changes == ()


def test_a_check_of_somebody_else(world: World) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    world.run("ALTER TABLE s ADD CONSTRAINT small CHECK (a < 10)")
    with pytest.raises(TargetRefusedError, match='violates check constraint "small"'):
        apply_change(connection, BAG, None, 1, [], pieces(BAG, [(10, "x")]))

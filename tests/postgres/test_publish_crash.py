"""Publishing is cut off in the middle: nothing is lost, nothing comes twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import SourceUnavailableError
from spark_trickle.targets.postgres.front import Applied, Target, apply_change, read_state, repair_rows
from tests.postgres.published import BOTH, KEYED, first, held, pieces, table_of, texts
from tests.postgres.world import World


def dying(world: World, connection: Any, tables: list[pa.Table], at: int) -> Iterator[pa.Table]:
    """The connection is cut before the table with this number is sent."""
    for n, table in enumerate(tables):
        if n == at:
            world.rows(f"SELECT pg_terminate_backend({connection.info.backend_pid}, 10000)")
        yield table


@BOTH
@pytest.mark.parametrize(("side", "at"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_connection_cut_between_rows(world: World, to: Target, side: int, at: int) -> None:
    connection = world.connect()
    first(connection, to, [(1, "x"), (2, "y"), (3, "z"), (4, "q")])
    sides = [pieces(to, [(1, "x"), (2, "y"), (3, "z")], 2), pieces(to, [(1, "X"), (5, "Y"), (6, "Z")], 2)]
    cut: list[Any] = [*sides]
    cut[side] = dying(world, connection, sides[side], at)
    with pytest.raises(SourceUnavailableError):
        apply_change(connection, to, 1, 2, *cut)
    again = world.connect()
    assert read_state(again, to).snapshot == 1
    assert held(again, to) == texts([(1, "x"), (2, "y"), (3, "z"), (4, "q")])
    assert apply_change(again, to, 1, 2, *sides) == Applied(True, 2, 3, 3)
    assert held(again, to) == texts([(4, "q"), (1, "X"), (5, "Y"), (6, "Z")])


DEATH = """
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); RETURN NULL; END $$
"""
STEPS = {
    "delete": "CREATE TRIGGER t AFTER DELETE ON s EXECUTE FUNCTION die()",
    "insert": "CREATE TRIGGER t AFTER INSERT ON s EXECUTE FUNCTION die()",
    "note": "CREATE TRIGGER t AFTER UPDATE ON trickle_published.tables EXECUTE FUNCTION die()",
    "commit": "CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON trickle_published.tables "
    "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()",
}


@BOTH
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("repairing", [False, True], ids=["apply", "repair"])
def test_a_connection_cut_between_steps(world: World, to: Target, step: str, repairing: bool) -> None:
    connection = world.connect()
    first(connection, to, [(1, "x"), (2, "y"), (3, "z")])
    world.run(DEATH, STEPS[step])
    gone, come = pieces(to, [(1, "x"), (2, "y")]), pieces(to, [(2, "Y"), (5, "Q")])
    after = [(3, "z"), (2, "Y"), (5, "Q")]

    def act(connection: Any) -> Applied:
        if repairing:
            return repair_rows(connection, to, 2, pieces(to, after))
        return apply_change(connection, to, 1, 2, gone, come)

    with pytest.raises(SourceUnavailableError):
        act(connection)
    world.run("DROP FUNCTION die CASCADE")
    again = world.connect()
    assert read_state(again, to).snapshot == 1
    assert held(again, to) == texts([(1, "x"), (2, "y"), (3, "z")])
    assert act(again) == Applied(True, 2, 2, 2)
    assert held(again, to) == texts(after)


def test_an_error_of_the_rows_leaves_nothing_half_done(world: World) -> None:
    connection = world.connect()
    first(connection, KEYED, [(1, "x")])

    def failing() -> Iterator[pa.Table]:
        yield table_of(KEYED, [(2, "y")])
        raise ValueError("the file is damaged")

    with pytest.raises(ValueError, match="the file is damaged"):
        apply_change(connection, KEYED, 1, 2, [], failing())
    assert apply_change(connection, KEYED, 1, 2, [], pieces(KEYED, [(2, "y")])).applied
    assert held(connection, KEYED) == texts([(1, "x"), (2, "y")])

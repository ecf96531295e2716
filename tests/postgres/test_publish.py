"""Publishing: a table in PostgreSQL follows a stream table, exactly once, and says so when it cannot."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import (
    NotPublishedError,
    RepairNeededError,
    TargetChangedError,
    TargetExistsError,
    TargetRefusedError,
)
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar
from spark_trickle.targets.postgres.front import (
    Applied,
    Target,
    apply_change,
    create_target,
    drop_target,
    read_published,
    read_state,
    repair_rows,
    target_for,
)
from tests.postgres.published import (
    BAG,
    BOTH,
    KEYED,
    LOOSE,
    Row,
    first,
    held,
    pieces,
    target,
    texts,
)
from tests.postgres.world import ODD_NAMES, World

# --- create and drop -----------------------------------------------------------------------------


@BOTH
def test_creating_twice_is_creating_once(world: World, to: Target) -> None:
    connection = world.connect()
    create_target(connection, to)
    assert read_state(connection, to).snapshot is None
    apply_change(connection, to, None, 7, [], pieces(to, [(1, "x"), (2, None)]))
    create_target(connection, to)
    now = read_state(connection, to)
    assert (now.snapshot, now.rows, now.inserted, now.deleted, now.changes) == (7, 2, 2, 0, ())
    assert now.applied_at is not None
    assert read_published(connection) == [now]


def test_the_key_is_a_key_there(world: World) -> None:
    connection = world.connect()
    create_target(connection, KEYED)
    create_target(connection, replace(LOOSE, name="loose"))
    create_target(connection, replace(BAG, name="bag"))
    unique = "SELECT count(*) FROM pg_index WHERE indisunique AND indrelid = '{}'::regclass"
    assert [world.rows(unique.format(n))[0][0] for n in ("s", "loose", "bag")] == [1, 1, 0]
    apply_change(
        connection, replace(LOOSE, name="loose"), None, 1, [], pieces(LOOSE, [(None, "x"), (1, "x")])
    )
    with pytest.raises(RepairNeededError, match="a row with this key already exists"):
        apply_change(connection, replace(LOOSE, name="loose"), 1, 2, [], pieces(LOOSE, [(None, "y")]))


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE s (a int8, b text)", "CREATE VIEW s AS SELECT 1", "CREATE SEQUENCE s"],
)
def test_what_is_not_ours_is_not_touched(world: World, statement: str) -> None:
    world.run(statement)
    with pytest.raises(TargetExistsError, match="spark-trickle did not create it"):
        create_target(world.connect(), BAG)
    assert read_published(world.connect()) == []


def test_another_stream_table_keeps_its_table(world: World) -> None:
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    for other in (replace(BAG, stream="main.other"), replace(BAG, warehouse="w2")):
        with pytest.raises(TargetExistsError, match=r'the stream table "main\.s" is published there'):
            create_target(connection, other)
        for act in (
            lambda: apply_change(connection, other, 1, 2, [], []),  # noqa: B023
            lambda: repair_rows(connection, other, 2, []),  # noqa: B023
            lambda: drop_target(connection, other),  # noqa: B023
            lambda: read_state(connection, other),  # noqa: B023
        ):
            with pytest.raises(NotPublishedError):
                act()
    assert held(connection, BAG) == texts([(1, "x")])


@pytest.mark.parametrize("keep", [True, False])
def test_dropping_leaves_nothing_of_ours(world: World, keep: bool) -> None:
    """But a table that is kept, which is gone on with if it is published again."""
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    drop_target(connection, BAG, keep=keep)
    assert bool(world.rows("SELECT to_regclass('s') IS NOT NULL")[0][0]) == keep
    assert world.rows("SELECT to_regclass('trickle_published.tables')") == [(None,)]
    with pytest.raises(NotPublishedError):
        drop_target(connection, BAG)
    create_target(connection, BAG)
    assert held(connection, BAG) == texts([(1, "x")] if keep else [])


def test_a_kept_table_with_a_comment_of_others_is_theirs(world: World) -> None:
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    world.run("COMMENT ON TABLE s IS 'mine'")
    drop_target(connection, BAG, keep=True)
    with pytest.raises(TargetExistsError):
        create_target(connection, BAG)


def test_dropping_does_not_touch_what_somebody_else_made(world: World) -> None:
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    world.run("DROP TABLE s", "CREATE TABLE s (mine int)")
    with pytest.raises(TargetExistsError):
        create_target(connection, BAG)
    drop_target(connection, BAG)
    assert world.rows("SELECT count(*) FROM s") == [(0,)]


def test_a_table_that_somebody_dropped_is_made_again_and_repaired(world: World) -> None:
    connection = world.connect()
    first(connection, BAG, [(1, "x")])
    world.run("DROP TABLE s")
    assert read_state(connection, BAG).changes == ("it was dropped or renamed",)
    with pytest.raises(TargetChangedError):
        apply_change(connection, BAG, 1, 2, [], [])
    create_target(connection, BAG)
    assert read_state(connection, BAG).snapshot is None
    with pytest.raises(
        RepairNeededError, match="it is at no snapshot yet, but the change starts at snapshot 1"
    ):
        apply_change(connection, BAG, 1, 2, [], [])
    repair_rows(connection, BAG, 2, pieces(BAG, [(1, "x")]))
    assert held(connection, BAG) == texts([(1, "x")])


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names(world: World, name: str) -> None:
    connection = world.connect()
    columns = ((name + "!", "long"), ("Other" + name, "string"), ("h", "long"), ("c0", "long"))
    for key in ((name,), ()):
        to = target(
            *columns,
            schema=name,
            name=name + "t",
            stream=f"main.{name}",
            warehouse=name,
            key=key,
            ledger="l " + name,
        )
        create_target(connection, to)
        apply_change(connection, to, None, 1, [], pieces(to, [(1, "x", 3, 4), (2, "y", 3, 4)]))
        apply_change(
            connection, to, 1, 2, pieces(to, [(1, "x", 3, 4), (2, "y", 3, 4)]), pieces(to, [(1, "z", 5, 6)])
        )
        repair_rows(connection, to, 3, pieces(to, [(1, "z", 5, 7)]))
        assert held(connection, to) == texts([(1, "z", 5, 7)])
        assert [s.stream for s in read_published(connection, to.ledger)] == [f"main.{name}"]
        drop_target(connection, to)


def test_a_target_takes_the_key_of_its_table() -> None:
    columns = (TableColumn(2, "a", Scalar("long"), False), TableColumn(3, "b", Scalar("string")))
    table = Table(1, "main", "s", columns, (2,), True, "s/", 4, 1)
    made = target_for(table, "public", "t", "w1")
    assert (made.stream, made.key, made.columns) == ("main.s", ("a",), columns)
    assert target_for(replace(table, key_enforced=False), "public", "t", "w1").key == ()


# --- apply ---------------------------------------------------------------------------------------


@BOTH
def test_a_change_is_applied_once(world: World, to: Target) -> None:
    connection = world.connect()
    first(connection, to, [(1, "x"), (2, "y"), (3, None)])
    gone, come = [(1, "x"), (3, None)], [(1, "X"), (4, "z")]
    for n in range(3):
        done = apply_change(connection, to, 1, 5, pieces(to, gone), pieces(to, come))
        assert done == (Applied(True, 5, 2, 2) if n == 0 else Applied(False, 5))
    assert held(connection, to) == texts([(1, "X"), (2, "y"), (4, "z")])
    assert apply_change(connection, to, 2, 3, pieces(to, gone), []) == Applied(False, 5)  # older ones too
    now = read_state(connection, to)
    assert (now.snapshot, now.rows, now.inserted, now.deleted) == (5, 3, 5, 2)


def test_bags_keep_the_right_number_of_copies(world: World) -> None:
    connection = world.connect()
    none: Row = (None, None)
    first(connection, BAG, [none] * 3 + [(1, None)] * 2 + [(1, "x")] * 4)
    apply_change(
        connection,
        BAG,
        1,
        2,
        pieces(BAG, [none, (1, None), (1, None), (1, "x")]),
        pieces(BAG, [none, (2, "y")]),
    )
    assert held(connection, BAG) == texts([none] * 3 + [(1, "x")] * 3 + [(2, "y")])
    with pytest.raises(RepairNeededError, match="1 of 4 rows to change are missing"):
        apply_change(connection, BAG, 2, 3, pieces(BAG, [none] * 4), [])
    assert held(connection, BAG) == texts([none] * 3 + [(1, "x")] * 3 + [(2, "y")])


@BOTH
@pytest.mark.parametrize(
    ("after", "reason"), [(None, "no snapshot yet"), (3, "snapshot 3"), (5, "snapshot 5")]
)
def test_a_change_that_does_not_fit(world: World, to: Target, after: int | None, reason: str) -> None:
    connection = world.connect()
    first(connection, to, [(1, "x")], snapshot=4)
    with pytest.raises(RepairNeededError, match=f"it is at snapshot 4, but the change starts at {reason}"):
        apply_change(connection, to, after, 6, [], pieces(to, [(2, "y")]))
    assert held(connection, to) == texts([(1, "x")])


def test_the_first_fill_wants_an_empty_table(world: World) -> None:
    connection = world.connect()
    create_target(connection, BAG)
    world.run("INSERT INTO s VALUES (1, 'x')")
    with pytest.raises(RepairNeededError, match="it already holds rows before its first fill"):
        apply_change(connection, BAG, None, 1, [], [])


def test_two_new_rows_with_one_key(world: World) -> None:
    connection = world.connect()
    first(connection, KEYED, [(1, "x"), (2, "y")])
    with pytest.raises(RepairNeededError, match="two of the new rows have the same key"):
        apply_change(connection, KEYED, 1, 2, pieces(KEYED, [(1, "x")]), pieces(KEYED, [(1, "a"), (1, "b")]))
    with pytest.raises(RepairNeededError, match="a row with this key already exists"):
        apply_change(connection, KEYED, 1, 2, pieces(KEYED, [(1, "x")]), pieces(KEYED, [(2, "a")]))
    assert held(connection, KEYED) == texts([(1, "x"), (2, "y")])


def test_references_to_a_row_hold_while_its_key_stays(world: World) -> None:
    connection = world.connect()
    first(connection, KEYED, [(1, "x"), (2, "y")])
    world.run("CREATE TABLE child (a int8 REFERENCES s)", "INSERT INTO child VALUES (1)")
    apply_change(connection, KEYED, 1, 2, pieces(KEYED, [(1, "x"), (2, "y")]), pieces(KEYED, [(1, "z")]))
    with pytest.raises(TargetRefusedError, match="violates foreign key constraint"):
        apply_change(connection, KEYED, 2, 3, pieces(KEYED, [(1, "z")]), [])
    assert held(connection, KEYED) == texts([(1, "z")])


@BOTH
@pytest.mark.parametrize("seed", range(8))
def test_random_histories(world: World, to: Target, seed: int) -> None:
    """Small domains, so that rows come back, repeat and are null; compared with a Counter after every step."""
    random_ = random.Random(seed)
    connection = world.connect()
    create_target(connection, to)
    now: Counter[Row] = Counter()
    for snapshot in range(1, 15):
        old = list(now.elements())
        gone = random_.sample(old, random_.randint(0, len(old)))
        left = now - Counter(gone)
        come = _new_rows(random_, to, left)
        after = None if snapshot == 1 else snapshot - 1
        args: Any = (after, snapshot, pieces(to, gone), pieces(to, come))
        apply_change(connection, to, *args)
        if random_.random() < 0.3:
            apply_change(connection, to, *args)
        now = left + Counter(come)
        if random_.random() < 0.2:
            _meddle(random_, world, to)
            repair_rows(connection, to, snapshot, pieces(to, now.elements()))
        assert held(connection, to) == texts(now.elements())
        assert read_state(connection, to).rows == now.total()


def _new_rows(random_: random.Random, to: Target, left: Counter[Row]) -> list[Row]:
    ids: list[int | None] = list(range(6)) if to is KEYED else [*range(5), None]
    found = [
        (random_.choice(ids), random_.choice(["x", "y", "", None])) for _ in range(random_.randint(0, 8))
    ]
    if not to.key:
        return found
    taken = {a for a, _ in left}
    return list({a: (a, b) for a, b in found if a not in taken}.values())


def _meddle(random_: random.Random, world: World, to: Target) -> None:
    statements = [
        "DELETE FROM s WHERE a < 3",
        "UPDATE s SET b = 'meddled' WHERE a > 1 OR a IS NULL",
        "TRUNCATE s",
    ]
    if to is BAG:
        statements.append("INSERT INTO s SELECT * FROM s")
    world.run(random_.choice(statements))


def test_large_changes_are_quick(world: World) -> None:
    """Sets against sets: a lookup of each row in the whole table would take minutes."""
    connection = world.connect()
    ids = range(50_000)
    for to in (KEYED, replace(BAG, name="bag"), replace(LOOSE, name="loose")):
        rows = pa.table({"a": pa.array(ids, pa.int64()), "b": [f"row {n % 7}" for n in ids]})
        create_target(connection, to)
        apply_change(connection, to, None, 1, [], [rows])
        half = rows.slice(0, 25_000)
        changed = half.set_column(1, "b", pa.array(["new"] * 25_000))
        assert apply_change(connection, to, 1, 2, [half], [changed]) == Applied(True, 2, 25_000, 25_000)
        assert repair_rows(connection, to, 3, [rows]) == Applied(True, 3, 25_000, 25_000)

"""What a table may get more of, but not lose."""

from __future__ import annotations

import pytest

from spark_trickle.sources.postgres.surroundings import look_around
from tests.postgres.world import World, create, table_of

SETUP = [
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN feeling AS mood",
    "CREATE TYPE pair AS (feeling feeling, n int)",
    "CREATE TYPE moods AS RANGE (subtype = mood)",
]

CHANGES = [
    # what happens -> why rows may have changed unnoticed
    ("ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'", "a value of one of its enum types was renamed"),
    ("ALTER TYPE mood ADD VALUE 'new' BEFORE 'sad'", None),
    ("ALTER TYPE mood RENAME TO temper", None),
    ("ALTER TABLE t ALTER a SET DEFAULT NULL", None),
]


@pytest.mark.parametrize("kind", ["mood", "feeling", "mood[]", "feeling[]", "pair", "pair[]", "moods", "int"])
@pytest.mark.parametrize(("statement", "reason"), CHANGES)
def test_values_of_enums(world: World, kind: str, statement: str, reason: str | None) -> None:
    world.run(*SETUP, create("t", f"k mood, a {kind}"))
    connection = world.connect()
    table = table_of(connection, "public.t")
    before = look_around(connection, [table.oid])[table.oid].parts(["a"])
    world.run(statement)
    now = look_around(connection, [table.oid])[table.oid].parts(["a"])
    assert before.find_loss(now) == (None if kind == "int" else reason)

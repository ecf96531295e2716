"""UPDATE in all its forms does the same at the driver and on the executors."""

from __future__ import annotations

import pytest

from spark_trickle.errors import MergeCardinalityError, TrickleError
from tests.conftest import rows
from tests.spark.paths import (
    KEYED,
    KEYLESS,
    Case,
    Lake,
    assert_untouched,
    cases,
    check,
    make_target,
    run,
)

_ONE, _TWO, _THREE, _FOUR, _FIVE = KEYED


@cases(
    Case("UPDATE {t} SET n = 1", (0, 5, 0), [(i, v, 1) for i, v, _ in KEYED]),
    Case("UPDATE {t} SET n = 1 WHERE id > 100", (0, 0, 0), KEYED),
    Case("UPDATE {t} SET n = 1 WHERE false", (0, 0, 0), KEYED),
    Case("UPDATE {t} SET v = v", (0, 5, 0), KEYED),
    # a condition that is NULL does not hold
    Case("UPDATE {t} SET v = 'z' WHERE n > 15", (0, 3, 0), [_ONE, (2, "z", 20), (3, "z", 30), _FOUR, (5, "z", 50)]),
    Case("UPDATE {t} SET v = 'z' WHERE NOT n > 15", (0, 1, 0), [(1, "z", 10), _TWO, _THREE, _FOUR, _FIVE]),
    # of two equal rows one stays as it is
    Case(
        "UPDATE {k} SET a = row_number() OVER (PARTITION BY b ORDER BY a)",
        (0, 7, 0),
        [(1, "x"), (2, "x"), (1, "y"), (2, "y"), (1, None), (2, None), (3, None)],
    ),
    Case(
        "UPDATE {k} SET a = sum(1) OVER (PARTITION BY b ORDER BY a ROWS UNBOUNDED PRECEDING)",
        (0, 7, 0),
        [(1, "x"), (2, "x"), (1, "y"), (2, "y"), (1, None), (2, None), (3, None)],
    ),
    # keys move, also onto keys that move away in the same statement
    Case("UPDATE {t} SET id = id + 1", (0, 5, 0), [(i + 1, v, n) for i, v, n in KEYED]),
    Case("UPDATE {t} SET id = 6 - id", (0, 5, 0), [(6 - i, v, n) for i, v, n in KEYED]),
    Case("UPDATE {t} SET id = id + 1, v = 'same', n = 0", (0, 5, 0), [(i + 1, "same", 0) for i, _, _ in KEYED]),
    # all values are computed from the old row
    Case(
        "UPDATE {t} SET id = n, n = id WHERE n IS NOT NULL",
        (0, 4, 0),
        [_FOUR, *((n, v, i) for i, v, n in KEYED if n)],
    ),
    Case(
        "UPDATE {t} SET v = CASE WHEN id < 3 THEN 'low' WHEN id = 3 THEN NULL ELSE v END",
        (0, 5, 0),
        [(1, "low", 10), (2, "low", 20), (3, None, 30), _FOUR, _FIVE],
    ),
    Case("UPDATE {t} SET n = DEFAULT, v = DEFAULT WHERE id IN (1, 2)", (0, 2, 0), [(1, None, 7), (2, None, 7), _THREE, _FOUR, _FIVE]),
    Case("UPDATE {t} SET {t}.n = {t}.id + 1 WHERE {t}.id <= 2", (0, 2, 0), [(1, "a", 2), (2, "b", 3), _THREE, _FOUR, _FIVE]),
    Case(
        "UPDATE main.{t} SET n = main.{t}.id + 1 WHERE main.{t}.id <= 2",
        (0, 2, 0),
        [(1, "a", 2), (2, "b", 3), _THREE, _FOUR, _FIVE],
    ),
    Case(
        "UPDATE {t} SET v = n IS DISTINCT FROM 20 WHERE id < 3",
        (0, 2, 0),
        [(1, "true", 10), (2, "false", 20), _THREE, _FOUR, _FIVE],
    ),
    # subqueries, of other tables and of the table itself
    Case("UPDATE {t} SET n = (SELECT max(n) FROM s) WHERE id <= 2", (0, 2, 0), [(1, "a", 600), (2, "b", 600), _THREE, _FOUR, _FIVE]),
    Case("UPDATE {t} SET n = n - (SELECT min(n) FROM {t})", (0, 5, 0), [(i, v, n and n - 10) for i, v, n in KEYED]),
    Case("UPDATE {t} SET n = 0 WHERE id IN (SELECT id FROM s)", (0, 2, 0), [_ONE, (2, "b", 0), (3, "c", 0), _FOUR, _FIVE]),
    Case("UPDATE {t} SET n = 0 WHERE id NOT IN (SELECT id FROM nul)", (0, 0, 0), KEYED),
    Case(
        "UPDATE {t} AS x SET v = (SELECT s.v FROM s WHERE s.id = x.id)",
        (0, 5, 0),
        [(1, None, 10), (2, "B", 20), (3, "C", 30), (4, None, None), (5, None, 50)],
    ),
    Case(
        "UPDATE {t} x SET n = (SELECT count(*) FROM d WHERE d.id = x.id) WHERE EXISTS (SELECT 1 FROM d WHERE d.id = x.id)",
        (0, 2, 0),
        [_ONE, (2, "b", 2), (3, "c", 1), _FOUR, _FIVE],
    ),
    Case("WITH c AS (SELECT id FROM s) UPDATE {t} SET n = 0 WHERE id IN (SELECT id FROM c)", (0, 2, 0), [_ONE, (2, "b", 0), (3, "c", 0), _FOUR, _FIVE]),
    # joins
    Case(
        "UPDATE {t} SET v = s.v, n = {t}.n + s.n FROM s WHERE s.id = {t}.id",
        (0, 2, 0),
        [_ONE, (2, "B", 220), (3, "C", 330), _FOUR, _FIVE],
    ),
    Case(
        "UPDATE {t} x SET v = s.v || d.v FROM s JOIN d ON s.id = d.id WHERE x.id = s.id AND d.v <> 'q'",
        (0, 2, 0),
        [_ONE, (2, "Bp", 20), (3, "Cr", 30), _FOUR, _FIVE],
    ),
    Case(
        "UPDATE {t} x SET n = y.n FROM {t} AS y WHERE x.id = y.id + 1",
        (0, 4, 0),
        [_ONE, (2, "b", 10), (3, "c", 20), (4, "d", 30), (5, None, None)],
    ),
    # rows that are there twice are changed twice
    Case("UPDATE {k} SET b = 'z' WHERE a = 1 OR a IS NULL", (0, 4, 0), [(1, "z"), (1, "z"), (2, "y"), (2, "y"), (3, None), (None, "z"), (None, "z")]),
    Case("UPDATE {k} SET a = a + 1, b = 'y' WHERE a IS NOT NULL", (0, 5, 0), [(2, "y"), (2, "y"), (3, "y"), (3, "y"), (4, "y"), (None, None), (None, None)]),
    Case("UPDATE {k} SET b = b", (0, 7, 0), KEYLESS),
    Case("UPDATE {k} x SET b = s.v FROM s WHERE x.a = s.id", (0, 3, 0), [(1, "x"), (1, "x"), (2, "B"), (2, "B"), (3, "C"), (None, None), (None, None)]),
)  # fmt: skip
def test_update(lake: Lake, case: Case) -> None:
    check(lake, case)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("UPDATE {t} SET v = d.v FROM d WHERE d.id = {t}.id", MergeCardinalityError),
        ("UPDATE {t} SET n = 1, N = 2", TrickleError),
        ("UPDATE {t} SET nothing = 1", TrickleError),
        ("UPDATE {t} SET n = 'text'", TrickleError),
        ("UPDATE {t} SET n = 1 / (id - 3)", TrickleError),
        ("UPDATE {t} SET n = (SELECT n FROM s)", TrickleError),
    ],
)
def test_a_wrong_update_changes_nothing(lake: Lake, sql: str, error: type[TrickleError]) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(error):
        run(lake, sql, name)
    assert_untouched(lake, "{t}", name, snapshot)


def test_a_field_of_a_struct_is_never_taken_for_a_column(lake: Lake) -> None:
    """`SET s.a = …` changes the field or is refused; the column `a` of the same table stays as it is."""
    lake.setup.sql("CREATE TABLE nested (a INT, s STRUCT<a: INT, b: INT>)")
    lake.setup.sql("INSERT INTO nested VALUES (1, struct(2, 3)), (4, struct(5, 6))")
    try:
        lake.tr.sql("UPDATE nested SET s.a = 9")
    except TrickleError:
        assert rows(lake.tr.sql("SELECT s.a FROM nested")) == [(2,), (5,)]
    assert rows(lake.tr.sql("SELECT a, s.b FROM nested")) == [(1, 3), (4, 6)]

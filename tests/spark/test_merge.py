"""MERGE with every clause does the same at the driver and on the executors."""

from __future__ import annotations

import pytest

from spark_trickle.errors import DuplicateKeyError, MergeCardinalityError, TrickleError
from tests.conftest import rows
from tests.spark.paths import KEYED, KEYLESS, Case, Lake, assert_untouched, cases, check, make_target, run

_ONE, _TWO, _THREE, _FOUR, _FIVE = KEYED
_MERGE = "MERGE INTO {t} AS x USING s ON x.id = s.id "
_UPSERT = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_UPSERTED = [_ONE, (2, "B", 200), (3, "C", 300), _FOUR, _FIVE, (6, "F", 600), (7, "G", None)]


@cases(
    Case(_MERGE + _UPSERT, (2, 2, 0), _UPSERTED),
    # the same from every kind of source
    Case("MERGE INTO {t} USING main.s ON {t}.id = s.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    Case("MERGE INTO main.{t} x USING sv AS s ON x.id = s.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    Case("MERGE INTO {t} x USING sv ON x.id = sv.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    Case("MERGE INTO {t} x USING s_temp ON x.id = s_temp.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    Case("MERGE INTO {t} x USING (SELECT n, v, id FROM s) AS q ON x.id = q.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    Case("MERGE INTO {t} AS x USING (SELECT id, v, n FROM s WHERE id > 5) ON x.id < 0 " + "WHEN NOT MATCHED THEN INSERT *", (2, 0, 0), [*KEYED, (6, "F", 600), (7, "G", None)]),
    Case(
        "MERGE INTO {t} x USING (VALUES (2, 'B', 200), (3, 'C', 300), (6, 'F', 600), (7, 'G', NULL)) AS q(id, v, n) "
        "ON x.id = q.id " + _UPSERT,
        (2, 2, 0),
        _UPSERTED,
    ),
    Case("WITH q AS (SELECT * FROM s) MERGE INTO {t} x USING q ON x.id = q.id " + _UPSERT, (2, 2, 0), _UPSERTED),
    # one clause alone
    Case(_MERGE + "WHEN MATCHED THEN UPDATE SET v = s.v", (0, 2, 0), [_ONE, (2, "B", 20), (3, "C", 30), _FOUR, _FIVE]),
    Case(_MERGE + "WHEN MATCHED THEN DELETE", (0, 0, 2), [_ONE, _FOUR, _FIVE]),
    Case(_MERGE + "WHEN NOT MATCHED BY TARGET THEN INSERT *", (2, 0, 0), [*KEYED, (6, "F", 600), (7, "G", None)]),
    Case(_MERGE + "WHEN NOT MATCHED BY SOURCE THEN DELETE", (0, 0, 3), [_TWO, _THREE]),
    Case(_MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = x.id", (0, 3, 0), [(1, "a", 1), _TWO, _THREE, (4, "d", 4), (5, None, 5)]),
    Case(_MERGE + "WHEN MATCHED AND s.n IS NULL THEN DELETE", (0, 0, 0), KEYED),
    # expressions, defaults, column lists
    Case(
        "MERGE INTO {t} x USING s y ON x.id = y.id WHEN MATCHED THEN UPDATE SET v = x.v || y.v, x.n = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (y.id, lower(y.v))",
        (2, 2, 0),
        [_ONE, (2, "bB", 7), (3, "cC", 7), _FOUR, _FIVE, (6, "f", 7), (7, "g", 7)],
    ),
    # what is to be inserted can only come from the source, so its columns need no prefix
    Case("MERGE INTO {t} x USING s ON x.id = s.id WHEN NOT MATCHED AND n IS NULL THEN INSERT (id, v) VALUES (id, v)", (1, 0, 0), [*KEYED, (7, "G", 7)]),
    # clauses are tried in their order, and the first that applies is the one
    Case(
        _MERGE + "WHEN MATCHED AND x.id = 2 THEN DELETE WHEN MATCHED AND s.n >= 200 THEN UPDATE SET v = 'u' "
        "WHEN MATCHED THEN UPDATE SET v = 'never' "
        "WHEN NOT MATCHED AND s.n IS NULL THEN INSERT (id, v, n) VALUES (s.id, 'null', 0) WHEN NOT MATCHED THEN INSERT *",
        (2, 1, 1),
        [_ONE, (3, "u", 30), _FOUR, _FIVE, (6, "F", 600), (7, "null", 0)],
    ),
    Case(
        _MERGE + _UPSERT + " WHEN NOT MATCHED BY SOURCE AND x.n IS NULL THEN UPDATE SET v = 'gone' "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
        (2, 3, 2),
        [(2, "B", 200), (3, "C", 300), (4, "gone", None), (6, "F", 600), (7, "G", None)],
    ),
    # a value is computed only for the rows of its clause: elsewhere it would divide by zero
    Case(
        _MERGE + "WHEN MATCHED AND s.id <> 3 THEN UPDATE SET n = CAST(100 / (s.id - 3) AS INT) "
        "WHEN MATCHED THEN UPDATE SET n = CASE WHEN x.n = 30 THEN 0 ELSE 1 END",
        (0, 2, 0),
        [_ONE, (2, "b", -100), (3, "c", 0), _FOUR, _FIVE],
    ),
    Case(
        "MERGE INTO {t} x USING s ON x.id = s.id AND s.n > 250 WHEN MATCHED THEN UPDATE SET n = s.n "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id + 10, s.v)",
        (3, 1, 0),
        [_ONE, _TWO, (3, "c", 300), _FOUR, _FIVE, (12, "B", 7), (16, "F", 7), (17, "G", 7)],
    ),
    Case("MERGE INTO {t} x USING s ON false WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id + 10)", (4, 0, 0), [*KEYED, (12, None, 7), (13, None, 7), (16, None, 7), (17, None, 7)]),
    # NULL matches nothing, but with <=>
    Case("MERGE INTO {t} x USING s ON x.n = s.n + NULL WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND x.id > 3 THEN DELETE", (0, 0, 2), [_ONE, _TWO, _THREE]),
    Case("MERGE INTO {t} x USING s ON x.n <=> s.n WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED BY SOURCE AND x.id = 1 THEN DELETE", (0, 1, 1), [_TWO, _THREE, (4, "G", None), _FIVE]),
    # keys change, swap, and come back in the same statement
    Case("MERGE INTO {t} x USING (VALUES (1, 2), (2, 1)) AS q(old, new) ON x.id = q.old WHEN MATCHED THEN UPDATE SET id = q.new", (0, 2, 0), [(2, "a", 10), (1, "b", 20), _THREE, _FOUR, _FIVE]),
    Case(
        "MERGE INTO {t} x USING (VALUES (1, 'new'), (101, 'old')) AS q(id, v) ON x.id = q.id - 100 "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (q.id, q.v)",
        (1, 0, 1),
        [(1, "new", 7), _TWO, _THREE, _FOUR, _FIVE],
    ),
    Case(
        "MERGE INTO {t} x USING {t} y ON x.id = y.id + 1 WHEN MATCHED THEN UPDATE SET v = y.v "
        "WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (y.id + 1, y.v, y.n)",
        (1, 4, 0),
        [_ONE, (2, "a", 20), (3, "b", 30), (4, "c", None), (5, "d", 50), (6, None, 50)],
    ),
    # two source rows may delete the same row: it is gone once
    Case("MERGE INTO {t} x USING d ON x.id = d.id WHEN MATCHED THEN DELETE", (0, 0, 2), [_ONE, _FOUR, _FIVE]),
    Case("MERGE INTO {t} x USING d ON x.id = d.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE AND x.id > 3 THEN DELETE", (0, 0, 4), [_ONE]),
    # rows that are there twice
    Case(
        "MERGE INTO {k} x USING s ON x.a = s.id WHEN MATCHED THEN UPDATE SET b = s.v "
        "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.id, s.v) WHEN NOT MATCHED BY SOURCE AND x.a IS NULL THEN DELETE",
        (2, 3, 2),
        [(1, "x"), (1, "x"), (2, "B"), (2, "B"), (3, "C"), (6, "F"), (7, "G")],
    ),
    Case("MERGE INTO {k} x USING d ON x.a = d.id WHEN MATCHED THEN DELETE", (0, 0, 3), [(1, "x"), (1, "x"), (None, None), (None, None)]),
    Case("MERGE INTO {k} x USING s ON x.a = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET b = 'z'", (0, 4, 0), [(1, "z"), (1, "z"), *KEYLESS[2:5], (None, "z"), (None, "z")]),
)  # fmt: skip
def test_merge(lake: Lake, case: Case) -> None:
    check(lake, case)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("USING d ON x.id = d.id WHEN MATCHED THEN UPDATE SET v = d.v", MergeCardinalityError),
        (
            "USING d ON x.id = d.id WHEN MATCHED AND d.v = 'p' THEN DELETE WHEN MATCHED THEN UPDATE SET v = d.v",
            MergeCardinalityError,
        ),
        (
            "USING d ON x.id = d.id + 10 WHEN NOT MATCHED THEN INSERT (id) VALUES (d.id + 10)",
            DuplicateKeyError,
        ),
        ("USING s ON false WHEN NOT MATCHED THEN INSERT *", DuplicateKeyError),
        ("USING s ON x.id = s.id WHEN MATCHED THEN UPDATE SET id = 1", DuplicateKeyError),
        ("USING nul ON x.id = nul.id WHEN MATCHED THEN UPDATE SET *", TrickleError),
        ("USING s ON x.id = s.id WHEN MATCHED THEN UPDATE SET n = s.v", TrickleError),
        ("USING s ON x.id = s.id WHEN NOT MATCHED THEN DELETE", TrickleError),
        ("USING s ON x.id = s.id WHEN MATCHED THEN INSERT *", TrickleError),
        ("USING s ON x.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = s.v", TrickleError),
    ],
)
def test_a_wrong_merge_changes_nothing(lake: Lake, sql: str, error: type[TrickleError]) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(error):
        run(lake, "MERGE INTO {t} AS x " + sql, name)
    assert_untouched(lake, "{t}", name, snapshot)


@pytest.mark.one_in(2)
def test_the_source_may_be_an_old_snapshot(lake: Lake) -> None:
    """Undo: take back from an older snapshot what a statement did."""
    name = make_target(lake, "{t}")
    before = lake.setup.snapshot
    run(lake, "UPDATE {t} SET v = 'wrong', n = -1 WHERE id > 2", name)
    undo = f"MERGE INTO {name} x USING {name} VERSION AS OF {before} AS old ON x.id = old.id "
    done = lake.tr.sql(undo + "WHEN MATCHED AND x.v = 'wrong' THEN UPDATE SET *").collect()[0]
    assert done.rows_updated == 3
    assert rows(lake.tr.table(name)) == sorted(KEYED, key=repr)

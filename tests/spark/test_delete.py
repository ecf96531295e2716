"""DELETE and TRUNCATE in all their forms do the same at the driver and on the executors."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from tests.spark.paths import KEYED, KEYLESS, Case, Lake, assert_untouched, cases, check, make_target, run

_ONE, _TWO, _THREE, _FOUR, _FIVE = KEYED
_OTHERS = [(2, "y"), (2, "y"), (3, None)]


@cases(
    Case("DELETE FROM {t}", (0, 0, 5), []),
    Case("DELETE FROM {t} WHERE true", (0, 0, 5), []),
    Case("TRUNCATE TABLE {t}", (0, 0, 5), []),
    Case("TRUNCATE TABLE {k}", (0, 0, 7), []),
    Case("DELETE FROM {t} WHERE false", (0, 0, 0), KEYED),
    Case("DELETE FROM {t} WHERE id > 100", (0, 0, 0), KEYED),
    # a condition that is NULL does not hold
    Case("DELETE FROM {t} WHERE n > 15", (0, 0, 3), [_ONE, _FOUR]),
    Case("DELETE FROM {t} WHERE NOT n > 25", (0, 0, 2), [_THREE, _FOUR, _FIVE]),
    Case("DELETE FROM {t} WHERE n IS NULL OR v IS NULL", (0, 0, 2), [_ONE, _TWO, _THREE]),
    Case("DELETE FROM {t} WHERE v = NULL", (0, 0, 0), KEYED),
    Case("DELETE FROM {t} AS x WHERE x.id > 3", (0, 0, 2), [_ONE, _TWO, _THREE]),
    Case("DELETE FROM main.{t} WHERE main.{t}.id > 3", (0, 0, 2), [_ONE, _TWO, _THREE]),
    # subqueries, and what NULL does to NOT IN
    Case("DELETE FROM {t} WHERE id IN (SELECT id FROM s)", (0, 0, 2), [_ONE, _FOUR, _FIVE]),
    Case("DELETE FROM {t} WHERE id NOT IN (SELECT id FROM s)", (0, 0, 3), [_TWO, _THREE]),
    Case("DELETE FROM {t} WHERE id NOT IN (SELECT id FROM nul)", (0, 0, 0), KEYED),
    Case("DELETE FROM {t} WHERE n NOT IN (SELECT n FROM s WHERE n = 200)", (0, 0, 4), [_FOUR]),
    Case("DELETE FROM {t} x WHERE EXISTS (SELECT 1 FROM s WHERE s.id = x.id)", (0, 0, 2), [_ONE, _FOUR, _FIVE]),
    Case("DELETE FROM {t} x WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = x.id)", (0, 0, 3), [_TWO, _THREE]),
    Case("DELETE FROM {t} WHERE id IN (SELECT id FROM s) OR v IS NULL", (0, 0, 3), [_ONE, _FOUR]),
    Case("DELETE FROM {t} WHERE n < (SELECT avg(n) FROM {t})", (0, 0, 2), [_THREE, _FOUR, _FIVE]),
    Case("DELETE FROM {t} WHERE (id, n) IN (SELECT id, n FROM s UNION ALL VALUES (1, 10), (5, 50))", (0, 0, 2), [_TWO, _THREE, _FOUR]),
    # a row that several rows of the other table meet goes once
    Case("DELETE FROM {t} USING d WHERE d.id = {t}.id", (0, 0, 2), [_ONE, _FOUR, _FIVE]),
    Case("DELETE FROM {t} x USING s JOIN d ON s.id = d.id WHERE s.id = x.id AND x.n > 20 AND d.v = 'r'", (0, 0, 1), [_ONE, _TWO, _FOUR, _FIVE]),
    Case("DELETE FROM {t} USING {t} AS y WHERE y.id = {t}.id + 3", (0, 0, 2), [_THREE, _FOUR, _FIVE]),
    # rows that are there twice go both
    Case("DELETE FROM {k} WHERE a = 1 OR a IS NULL", (0, 0, 4), _OTHERS),
    Case("DELETE FROM {k} USING d WHERE d.id = {k}.a", (0, 0, 3), [(1, "x"), (1, "x"), (None, None), (None, None)]),
    Case("DELETE FROM {k} WHERE b NOT IN (SELECT v FROM d)", (0, 0, 4), [(3, None), (None, None), (None, None)]),
    Case("DELETE FROM {k} WHERE b IS NOT DISTINCT FROM NULL", (0, 0, 3), KEYLESS[:4]),
)  # fmt: skip
def test_delete(lake: Lake, case: Case) -> None:
    check(lake, case)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM {t} WHERE 1 / (id - 3) > 0",
        "DELETE FROM {t} WHERE nothing = 1",
        "DELETE FROM {t} WHERE v",
        "DELETE FROM {t} USING d WHERE id = d.id",  # whose id?
    ],
)
def test_a_wrong_delete_changes_nothing(lake: Lake, sql: str) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(TrickleError):
        run(lake, sql, name)
    assert_untouched(lake, "{t}", name, snapshot)

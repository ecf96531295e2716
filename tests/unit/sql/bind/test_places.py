"""What cannot be a stream table is refused with its place in the statement."""

from __future__ import annotations

import pytest

from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, TrickleError, UnsupportedError
from tests.unit.sql.test_support import world

REFUSED = {
    "SELECT k,\n  rand() AS r FROM t": (UnsupportedError, 2, 3),
    "SELECT k FROM t WHERE v > 1 AND nope = 2": (ColumnNotFoundError, 1, 33),
    "SELECT k FROM u JOIN t TABLESAMPLE (10 PERCENT) ON true": (UnsupportedError, 1, 22),
    "SELECT k FROM t WHERE row_number() OVER (ORDER BY k) = 1": (InvalidDefinitionError, 1, 23),
    "SELECT k FROM t WHERE v > 1 AND count(*) > 1": (InvalidDefinitionError, 1, 33),
    "SELECT IDENTIFIER('k') AS k FROM t": (UnsupportedError, 1, 8),
    "SELECT * FROM t PIVOT (sum(v) FOR k IN (SELECT k FROM u))": (UnsupportedError, 1, 24),
    "SELECT t.k FROM t ASOF JOIN u ON t.k = u.k": (UnsupportedError, 1, 29),
    "SELECT k FROM t ORDER BY 5 LIMIT 3": (InvalidDefinitionError, 1, 26),
    "SELECT k FROM t ORDER BY k, 0 LIMIT 3": (InvalidDefinitionError, 1, 29),
    "SELECT k FROM t ORDER BY -1 LIMIT 3": (InvalidDefinitionError, 1, 27),
    "SELECT k, count(*) AS n FROM t GROUP BY 5": (InvalidDefinitionError, 1, 41),
    "SELECT k, count(*) AS n FROM t GROUP BY k, 0 GROUPING SETS ((k))": (InvalidDefinitionError, 1, 44),
    "SELECT k FROM t UNION SELECT w FROM u ORDER BY 7 LIMIT 1": (InvalidDefinitionError, 1, 48),
    "SELECT k AS x, v AS x, x + 1 AS y FROM t": (UnsupportedError, 1, 24),
    "SELECT explode(array(k, v)), k FROM t ORDER BY 2 LIMIT 1": (UnsupportedError, 1, 48),
    "SELECT k, count(*) AS n FROM t GROUP BY k\nUNION ALL\nSELECT w, uuid() FROM u": (
        UnsupportedError,
        3,
        11,
    ),
}


@pytest.mark.parametrize("query", REFUSED)
def test_the_place_is_told(query: str) -> None:
    kind, *place = REFUSED[query]
    with pytest.raises(TrickleError) as caught:
        world(query)
    assert isinstance(caught.value, kind)
    assert list(caught.value.place) == place
    assert f"at line {place[0]}, column {place[1]}" in caught.value.message
    assert caught.value.hint

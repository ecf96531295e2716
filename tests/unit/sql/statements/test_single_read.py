"""Which queries say plainly which rows of one table they look at."""

from __future__ import annotations

import pytest

from spark_trickle.sql.statements.single_read import SingleRead, find_single_read

PLAIN = [
    ("SELECT n FROM t WHERE id = 2", SingleRead(("t",), "t", "id = 2")),
    ("select max(n) from s.t as x where x.id in (1, 2) group by a", SingleRead(("s", "t"), "s.t as x", "x.id in (1, 2)")),
    ("SELECT * FROM `t` x WHERE (a OR b) AND c ORDER BY d LIMIT 3", SingleRead(("t",), "`t` x", "(a OR b) AND c")),
    ("SELECT 1 FROM t WHERE a = 'GROUP' -- why\n", SingleRead(("t",), "t", "a = 'GROUP'")),
]  # fmt: skip
OTHERS = [
    "SELECT n FROM t",
    "SELECT 1",
    "SELECT n FROM t, u WHERE id = 2",
    "SELECT n FROM t JOIN u USING (id) WHERE id = 2",
    "SELECT n FROM t WHERE id = (SELECT max(id) FROM t)",
    "SELECT n FROM t WHERE id = 2 UNION ALL SELECT n FROM t",
    "WITH u AS (SELECT 1) SELECT n FROM t WHERE id = 2",
    "SELECT n FROM t VERSION AS OF 3 WHERE id = 2",
    "SELECT n FROM t LATERAL VIEW explode(a) x AS y WHERE id = 2",
    "SELECT n FROM trickle.files('t') WHERE n = 2",
    "FROM t SELECT n WHERE id = 2",
    "SELECT n FROM t WHERE",
    "SELECT n FROM t AS",
]


@pytest.mark.parametrize(("sql", "expected"), PLAIN)
def test_plain(sql: str, expected: SingleRead) -> None:
    assert find_single_read(sql) == expected


@pytest.mark.parametrize("sql", OTHERS)
def test_others(sql: str) -> None:
    assert find_single_read(sql) is None

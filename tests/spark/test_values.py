"""Values that are compared, written or cast at the edge of their types: a stream table holds what Spark holds.

Each was computed wrongly once. What a batch inserts is computed at the driver wherever that can be exact.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import rows

NINES = "0.99999999999999999999999999999999999999"

# Columns of a, the query, and the rows that come.
ONE_TABLE = [
    ("d DECIMAL(10, 4)", "SELECT id, d FROM a WHERE d / 3L = 0.333333", "(1, 1)"),
    ("d DECIMAL(10, 4)", "SELECT id, d FROM a WHERE d / +3 = 0.333333", "(1, 1)"),
    ("d DECIMAL(10, 4)", "SELECT id, d FROM a WHERE d / 3D > 0.3333331", "(1, 1)"),
    ("d DECIMAL(10, 4)", "SELECT id, d / (3) AS q, d / 007 AS r, d * 100L AS s, d / 3S AS t FROM a", "(1, 1)"),
    ("d DECIMAL(10, 4)", "SELECT d / -(3) AS q, sum(d) / (3) AS s FROM a GROUP BY d / -(3)", "(1, 1), (2, 1)"),
    ("d DECIMAL(10, 4)", "SELECT id, d * 1.50BD AS q, d * 2D AS r, +d AS s, d + 5.BD AS t FROM a", "(1, 1.1)"),
    ("d DECIMAL(38, 0)", "SELECT id, TRY_CAST(d AS DECIMAL(38, 18)) AS q FROM a", "(1, 63662106140719079503334BD), (2, 5)"),
    ("d DECIMAL(38, 0)", "SELECT sum(TRY_CAST(d AS DECIMAL(38, 10))) AS q FROM a", "(1, 63662106140719079503334636621061407190BD)"),
    ("d DECIMAL(38, 0)", "SELECT id, 1 / d AS q, 2.5 / d AS r FROM a", "(1, 21), (2, 3), (3, 7)"),
    ("d DECIMAL(38, 30)", "SELECT id, d FROM a WHERE d = 1", "(1, 1.000000000000000000000000000001BD), (2, 1)"),
    ("d DECIMAL(38, 30)", "SELECT id, d > 0 AS p, d BETWEEN 0 AND 1 AS q FROM a", "(1, CAST('1E-30' AS DECIMAL(38, 30))), (2, 1)"),
    ("d DECIMAL(38, 38)", "SELECT id, d >= 1 AS p, d / 3 AS q FROM a", f"(1, {NINES}BD), (2, 0.5)"),
    ("d DECIMAL(38, 38)", "SELECT id, d / 2.5 AS q, d / 7BD AS r FROM a", f"(1, {NINES}BD), (2, 0.5)"),
    ("d DECIMAL(38, 20), e DECIMAL(38, 0)", "SELECT id, d < e AS p FROM a", "(1, 999999999999999999.99999999999999999999BD, 1000000000000000000BD)"),
    ("i BIGINT", "SELECT id, i = -128Y AS p, i > -9223372036854775808L AS q, i = -32768S AS r FROM a", "(1, -128)"),
    ("s STRING", "SELECT id, s LIKE ANY ('a%', '%b') AS p FROM a WHERE s NOT LIKE SOME ('x%', 'y%')", "(1, 'ab'), (2, 'xy')"),
    ("d DATE", "SELECT id, d > '2024-02-28' AS p, d IN ('2024-02-29', '2024-3-1') AS q FROM a WHERE d BETWEEN '2024-02-01' AND '2024-12-31'", "(1, DATE'2024-02-29'), (2, DATE'2024-02-28'), (3, DATE'2023-01-01'), (4, NULL)"),
    ("i INT", "SELECT id, i FROM a ORDER BY 1L, id LIMIT +2", "(1, 5), (2, 5), (3, 4)"),
    ("d DATE", "SELECT id, d + INTERVAL +1 DAY AS e FROM a", "(1, DATE'2024-02-29')"),
    ("i INT", "SELECT * FROM (SELECT i, id FROM a) PIVOT (sum(id) FOR i IN (4L, +5))", "(1, 5), (2, 5), (3, 4)"),
    ("i INT", "SELECT DISTINCT (i), (id) AS n FROM a ORDER BY i, n LIMIT 2", "(1, 5), (2, 5), (3, 4)"),
    ("s STRING", "SELECT id, substr(s FROM 2) AS p, substring(s FROM 2 FOR 1) AS q FROM a", "(1, 'abc')"),
]  # fmt: skip

# Columns of a and b, their rows, the query, and what happens then.
TWO_TABLES = [
    (
        ("x DECIMAL(38, 18)", "y DECIMAL(38, 0)"),
        ("(1, 1.2), (2, 1.3)", "(1, 1)"),
        (
            "SELECT b.id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.x = b.y)",
            "SELECT id FROM b WHERE y IN (SELECT x FROM a)",
            "SELECT b.id, (SELECT count(*) FROM a WHERE a.x = b.y) AS n FROM b",
            "SELECT b.id, a.id AS other FROM b LEFT JOIN a ON a.x = b.y",
        ),
    ),
    (
        ("x DECIMAL(38, 20)", "y BIGINT"),
        ("(1, 1.0000000000000000001BD), (2, 1)", "(1, 1)"),
        ("SELECT b.id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.x = b.y)",),
    ),
    (
        ("x TIMESTAMP_NTZ", "y TIMESTAMP"),
        (
            "(1, TIMESTAMP_NTZ'2024-03-31 02:30:00'), (2, TIMESTAMP_NTZ'2024-03-31 03:30:00')",
            "(1, TIMESTAMP'2024-03-31 01:30:00Z')",
        ),
        (
            "SELECT b.id, a.id AS other FROM b FULL JOIN a ON a.x = b.y",
            "SELECT b.id FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.x = b.y)",
        ),
    ),
]

_numbers = itertools.count()


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("values")) as made:
        before = made.spark.conf.get("spark.sql.session.timeZone")
        made.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        yield made
        made.spark.conf.set("spark.sql.session.timeZone", before)


def _bag(frame: Any) -> Counter[tuple[Any, ...]]:
    return Counter(rows(frame))


def _check(tr: Trickle, name: str, query: str) -> None:
    assert tr.refresh(name).action in (Action.DIFFERENTIAL, Action.NO_DATA)
    kept, wanted = tr.sql(f"SELECT * FROM {name}"), tr.sql(query)
    assert kept.dtypes == wanted.dtypes
    assert _bag(kept) == _bag(wanted)


@pytest.mark.one_in(9)
@pytest.mark.parametrize(("columns", "query", "values"), ONE_TABLE, ids=lambda v: str(v)[:60])
def test_of_one_table(tr: Trickle, columns: str, query: str, values: str) -> None:
    name = f"a{next(_numbers)}"
    query = query.replace(" FROM a", f" FROM {name}")
    tr.sql(f"CREATE TABLE {name} (id INT, {columns})")
    tr.sql(f"CREATE STREAM TABLE s_{name} REFRESH MODE DIFFERENTIAL AS {query}")
    tr.sql(f"INSERT INTO {name} VALUES {values}")
    _check(tr, f"s_{name}", query)
    tr.sql(f"DELETE FROM {name} WHERE id = 1")
    _check(tr, f"s_{name}", query)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("columns", "values", "queries"), TWO_TABLES, ids=lambda v: str(v[0]))
def test_keys_of_other_types(
    tr: Trickle, columns: tuple[str, str], values: tuple[str, str], queries: tuple[str, ...]
) -> None:
    number = next(_numbers)
    names = {old: f"{old}{number}" for old in ("a", "b")}
    for name, column, given in zip(names.values(), columns, values, strict=True):
        tr.sql(f"CREATE TABLE {name} (id INT, {column})")
        tr.sql(f"INSERT INTO {name} VALUES {given}")
    asked = [q.replace("a.", f"{names['a']}.").replace("b.", f"{names['b']}.") for q in queries]
    asked = [q.replace("FROM a", f"FROM {names['a']}").replace("JOIN a", f"JOIN {names['a']}") for q in asked]
    asked = [q.replace("FROM b", f"FROM {names['b']}") for q in asked]
    for place, query in enumerate(asked):
        tr.sql(f"CREATE STREAM TABLE s{number}_{place} REFRESH MODE DIFFERENTIAL AS {query}")
    for gone in (1, 2):
        tr.sql(f"DELETE FROM {names['a']} WHERE id = {gone}")
        for place, query in enumerate(asked):
            _check(tr, f"s{number}_{place}", query)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "where",
    ["l.v = r.code", "r.code <=> l.v", "(l.v = r.code AND r.name <> 'c') OR (l.v = r.code AND l.id = 7)"],
)
def test_a_key_that_equals_several_of_another_type_tells_no_rows_apart(tr: Trickle, where: str) -> None:
    tr.sql("CREATE OR REPLACE TABLE l (id INT PRIMARY KEY, v INT)")
    tr.sql("CREATE OR REPLACE TABLE r (code STRING PRIMARY KEY, name STRING)")
    tr.sql("INSERT INTO l VALUES (1, 1)")
    tr.sql("INSERT INTO r VALUES ('1', 'a'), ('01', 'b')")
    query = f"SELECT l.id, r.name FROM l, r WHERE {where}"
    tr.sql(f"CREATE STREAM TABLE lr REFRESH MODE DIFFERENTIAL AS {query}")
    tr.sql("DELETE FROM r WHERE code = '01'")
    _check(tr, "lr", query)
    assert rows(tr.table("lr")) == [(1, "a")]
    tr.sql("DROP STREAM TABLE lr")


def test_the_least_number_is_an_int(tr: Trickle) -> None:
    """Its overflow is an error, here as there."""
    tr.sql("CREATE TABLE least (id INT, i INT)")
    tr.sql(
        "CREATE STREAM TABLE below REFRESH MODE DIFFERENTIAL AS SELECT id FROM least WHERE i + -2147483648 < 0"
    )
    tr.sql("INSERT INTO least VALUES (1, 5)")
    _check(tr, "below", "SELECT id FROM least WHERE i + -2147483648 < 0")
    tr.sql("INSERT INTO least VALUES (2, -1)")
    with pytest.raises(Exception, match="OVERFLOW"):
        tr.refresh("below")
    assert _bag(tr.sql("SELECT * FROM below")) == Counter({(1,): 1})


def test_another_time_zone_makes_days_anew(tr: Trickle) -> None:
    tr.sql("CREATE TABLE events (id INT, ts TIMESTAMP)")
    tr.sql("INSERT INTO events VALUES (1, TIMESTAMP'2024-01-01 03:00:00Z')")
    days = "SELECT CAST(ts AS DATE) AS d, count(*) AS n FROM events GROUP BY CAST(ts AS DATE)"
    tr.sql(f"CREATE STREAM TABLE days REFRESH MODE DIFFERENTIAL AS {days}")
    tr.sql("CREATE STREAM TABLE ids REFRESH MODE DIFFERENTIAL AS SELECT id FROM events")
    tr.sql("CREATE VIEW hours AS SELECT id, hour(CAST(ts AS STRING)) AS h FROM events")
    tr.sql(
        "CREATE STREAM TABLE of_view REFRESH MODE DIFFERENTIAL AS SELECT h, count(*) AS n FROM hours GROUP BY h"
    )
    tr.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        tr.sql("INSERT INTO events VALUES (2, TIMESTAMP'2024-01-01 03:00:00Z')")
        report = tr.refresh("days")
        assert report.action is Action.REINITIALIZE
        assert "America/New_York" in report.reason
        assert _bag(tr.sql("SELECT * FROM days")) == _bag(tr.sql(days))
        assert tr.refresh("ids").action is Action.DIFFERENTIAL  # no day depends on where we are
        assert rows(tr.sql("SELECT * FROM trickle.audit('of_view')")) == []  # as it was made
        tr.refresh("of_view")
        assert _bag(tr.sql("SELECT * FROM of_view")) == _bag(
            tr.sql("SELECT h, count(*) FROM hours GROUP BY h")
        )
        tr.sql("DELETE FROM events WHERE id = 1")
        _check(tr, "days", days)
    finally:
        tr.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")

"""A stream table has the names, the types and the rows that Spark finds, and what Spark cannot read is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame

from spark_trickle import connect
from spark_trickle.errors import TrickleError, UnsupportedError
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle

SETUP = (
    "CREATE TABLE t (k INT, v INT)",
    "CREATE TABLE u (k INT, w INT)",
    "CREATE TABLE o (id INT, k INT, b STRING, ts TIMESTAMP, s STRUCT<`user name`: STRING, `order-id`: INT>, "
    "day DATE)",
    "INSERT INTO t VALUES (1, 10), (1, 20), (2, 5), (3, 7), (NULL, 1)",
    "INSERT INTO u VALUES (1, 100), (2, 200), (4, 400)",
    "INSERT INTO o SELECT id, id % 3, string(id % 2), timestamp'2026-01-01 00:00:00' + make_interval(0, 0, 0, id), "
    "named_struct('user name', string(id), 'order-id', id), date'2026-01-01' + id % 2 "
    "FROM (SELECT int(id) AS id FROM range(6))",
    "CREATE VIEW recent AS SELECT id, k, ts FROM o WHERE ts > now() - INTERVAL 1 DAY",
    "CREATE VIEW deeper AS SELECT id FROM recent",
)
CHANGES = (
    "INSERT INTO t VALUES (2, 6), (4, 9)",
    "DELETE FROM u WHERE k = 1",
    "INSERT INTO u VALUES (3, 300)",
    "UPDATE o SET k = k + 1, day = day + 1, b = 'x' WHERE id > 3",
    "DELETE FROM o WHERE id = 0",
)
QUERIES = """
SELECT o.* FROM o JOIN u USING (k)
SELECT u.*, v FROM o RIGHT JOIN u USING (k) JOIN t ON t.v = o.id
SELECT * FROM (SELECT v AS V, k AS K FROM t) NATURAL FULL JOIN u
SELECT s.*, id FROM o
SELECT s.* EXCEPT (`order-id`) FROM o
SELECT ts - INTERVAL 1 DAY 2 HOURS AS a, 2 * INTERVAL 1 DAY 2 HOURS AS b, INTERVAL '1 day' + day AS c FROM o
SELECT id & 1 << 3 AS a, -id >>> 2 AS b, id || 1 << 1 AS c, id | 6 ^ 3 & id AS e FROM o
SELECT TIME '09:00:00' AS a, CAST('09:00:00' AS TIME(3)) AS b, CAST(ts AS TIMESTAMP WITHOUT TIME ZONE) AS c FROM o
SELECT dateadd(DAY, 1, day) AS a, timestampdiff(MONTH, day, ts) AS b FROM o
SELECT * FROM (SELECT k, day, id FROM o) PIVOT (sum(id) FOR day IN (DATE '2026-01-01', '2026-01-02'))
SELECT * FROM (SELECT k, ts, id FROM o) PIVOT (max(id) FOR ts IN (TIMESTAMP '2026-01-02', 1 + 2 AS x))
SELECT * FROM (SELECT k, id * 1.0D AS d, id FROM o) PIVOT (count(*), max(id) AS m FOR d IN (1e0, 2 + 1, -4, NULL))
SELECT `2026-01-02` + 1 AS n FROM (SELECT day, id FROM o) PIVOT (sum(id) FOR day IN (DATE '2026-1-2'))
SELECT builtin.sum(v) AS a, `count`(*) AS b FROM t
""".strip().splitlines()
REFUSED = """
SELECT t.k FROM t JOIN u ON
SELECT t.k FROM t JOIN u ON WHERE t.k = 1
SELECT k FROM t ORDER BY k LIMIT 10 PERCENT
SELECT k FROM t ORDER BY 0 LIMIT 3
SELECT k FROM t GROUP BY 0
SELECT k, FROM t
SELECT k FROM t JOIN u USING (k) JOIN o ON o.id = v
SELECT * EXCEPT (u.nope) FROM t JOIN u ON t.k = u.k
SELECT k FROM t WHERE v > ALL (SELECT w FROM u) AND
SELECT DISTINCT ON (k) k, v FROM t JOIN u ON ORDER BY k
SELECT k FROM t |> WHERE k > 1
""".strip().splitlines()
CLOCK = """
SELECT id FROM recent
SELECT id FROM deeper
SELECT id FROM o WHERE ts > system.builtin.now()
SELECT id, unix_timestamp() AS n FROM o
SELECT id FROM o WHERE day = DATE 'today'
""".strip().splitlines()


def fill(tr: Trickle) -> Trickle:
    for statement in SETUP:
        tr.sql(statement)
    return tr


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    with connect(tmp_path_factory.mktemp("shapes") / "w") as made:
        yield fill(made)


def shape(frame: DataFrame) -> list[tuple[str, str]]:
    return [(f.name, f.dataType.simpleString()) for f in frame.schema.fields]


def bag(frame: DataFrame) -> Counter[str]:
    return Counter(repr(tuple(row)) for row in frame.collect())


@pytest.mark.parametrize("query", REFUSED)
def test_refused(tr: Trickle, query: str) -> None:
    with pytest.raises(TrickleError) as caught:
        tr.sql(f"CREATE STREAM TABLE refused AS {query}")
    assert caught.value.code != "INTERNAL_ERROR"


@pytest.mark.parametrize("query", CLOCK)
def test_the_clock_in_views_and_other_spellings(tr: Trickle, query: str) -> None:
    with pytest.raises(UnsupportedError, match="REFRESH MODE DIFFERENTIAL"):
        tr.sql(f"CREATE STREAM TABLE refused REFRESH MODE DIFFERENTIAL AS {query}")
    tr.sql(f"CREATE OR REPLACE STREAM TABLE clock AS {query}")
    report = tr.refresh("clock")
    assert report.action is Action.FULL


def test_steps_in_a_view(tr: Trickle) -> None:
    tr.sql("CREATE VIEW piped AS FROM t |> LIMIT 3 |> AGGREGATE sum(v) AS s")
    with pytest.raises(UnsupportedError, match="nested queries"):
        tr.sql("CREATE STREAM TABLE refused AS SELECT s FROM piped")
    assert tr.sql("SELECT s FROM piped").count() == 1


@pytest.mark.one_in(5)
@pytest.mark.parametrize("part", range(5))
def test_names_types_and_rows(tr_sqlite: Trickle, part: int) -> None:
    tr, queries = fill(tr_sqlite), QUERIES[part::5]
    for n, query in enumerate(queries):
        tr.sql(f"CREATE STREAM TABLE x{n} REFRESH MODE DIFFERENTIAL AS {query}")
    for statement in CHANGES:
        tr.sql(statement)
    for n, query in enumerate(queries):
        tr.refresh(f"x{n}")
        wanted = tr.sql(query)
        assert shape(tr.table(f"x{n}")) == shape(wanted), query
        assert bag(tr.table(f"x{n}")) == bag(wanted), query

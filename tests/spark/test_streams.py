"""Stream tables on Spark: after every refresh they equal their query, as DuckDB computes it on the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.laws.duck import duck_sql
from tests.laws.queries import ONLY_ON_SPARK, QUERIES

Row = tuple[Any, ...]
COLUMNS = {"t": "id INT, k INT, v INT, s STRING", "u": "id INT, k INT, w INT"}
STEPS = 2


class Pair:
    """The same tables in a warehouse and in DuckDB."""

    def __init__(self, tr: Trickle) -> None:
        self.tr = tr
        self.duck = duckdb.connect()
        self.chance = random.Random(7)
        for name, columns in COLUMNS.items():
            self.both(f"CREATE TABLE {name} ({columns})")
            self.both(f"INSERT INTO {name} VALUES {self.values(name, 8)}")

    def both(self, sql: str) -> None:
        self.tr.sql(sql)
        self.duck.execute(duck_sql(sql))

    def values(self, name: str, rows: int) -> str:
        return ", ".join(f"({', '.join(self._row(name))})" for _ in range(rows))

    def _row(self, name: str) -> list[str]:
        pick = self.chance.choice
        common = [str(pick((1, 2, 3, 4, 5, 6))), pick(("NULL", "1", "2", "3"))]
        if name == "t":
            return [*common, pick(("NULL", "1", "2", "3", "-5")), pick(("NULL", "'a'", "'b'"))]
        return [*common, pick(("NULL", "1", "2", "7"))]

    def change(self) -> None:
        """Both tables at once, several times the same rows."""
        one, key = self.chance.randint(1, 6), self.chance.choice(("NULL", "1", "2", "3"))
        for name, value in (("t", "v"), ("u", "w")):
            self.both(f"INSERT INTO {name} VALUES {self.values(name, 2)}")
            self.both(f"UPDATE {name} SET k = {key}, {value} = {value} + 1 WHERE id = {one}")
            self.both(f"DELETE FROM {name} WHERE id = {self.chance.randint(1, 6)}")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with connect(tmp_path_factory.mktemp("streams") / "warehouse") as tr:
        yield Pair(tr)


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return repr(value)
    return float(value) if isinstance(value, Decimal | float) else value


def bag(rows: list[Any]) -> Counter[Row]:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def check(pair: Pair, queries: list[str], by_duck: bool) -> None:
    for n, query in enumerate(queries):
        pair.tr.sql(f"CREATE STREAM TABLE s{n} REFRESH MODE DIFFERENTIAL AS {query}")
    for _ in range(STEPS):
        pair.change()
        for n, query in enumerate(queries):
            before = pair.tr.snapshot
            report = pair.tr.refresh(f"s{n}")
            wanted = (
                pair.duck.execute(duck_sql(query)).fetchall() if by_duck else pair.tr.sql(query).collect()
            )
            found = bag(pair.tr.table(f"s{n}").collect())
            assert found == bag(wanted), query
            assert report.action in (Action.DIFFERENTIAL, Action.NO_DATA), query
            feed = pair.tr.sql(f"SELECT * FROM trickle.changes('s{n}', {before})").collect()
            signs = Counter(r["_change_type"] in ("insert", "update_postimage") for r in feed)
            assert (signs[True], signs[False]) == (report.rows_inserted, report.rows_deleted)
    for n in range(len(queries)):
        pair.tr.sql(f"DROP STREAM TABLE s{n}")


@pytest.mark.one_in(18)
@pytest.mark.parametrize("part", range(18))
def test_a_refresh_equals_the_query(pair: Pair, part: int) -> None:
    check(pair, QUERIES[part::18], by_duck=True)


LARGE = [
    "SELECT t.id, u.w FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT k, count(*) c, sum(v) s, max(v) m FROM t GROUP BY k",
    "SELECT DISTINCT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "WITH RECURSIVE r AS (SELECT id, k FROM t UNION SELECT r.id, t.k FROM r JOIN t ON r.k = t.id) SELECT id, k FROM r",
]


@pytest.mark.parametrize("queries", [LARGE[:1], pytest.param(LARGE[1:], marks=pytest.mark.slow)])
def test_nothing_passes_the_driver(queries: list[str], tmp_path: Path) -> None:
    """Larger than the driver may hold: executors compute, write, and keep what is found on the way."""
    with connect(tmp_path / "w", settings={"max_driver_rows": 3, "local_tail_rows": 0}) as tr:
        check(Pair(tr), queries, by_duck=True)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("part", range(8))
def test_what_only_spark_can_judge(pair: Pair, part: int) -> None:
    check(pair, ONLY_ON_SPARK[part::8], by_duck=False)


def test_nothing_changed_is_no_job(tmp_path: Path) -> None:
    with connect(tmp_path / "w") as tr:
        tr.sql("CREATE TABLE t (a INT)")
        tr.sql("CREATE STREAM TABLE s AS SELECT a + 1 AS b FROM t")
        tracker = tr.spark.sparkContext.statusTracker()
        tr.spark.sparkContext.setJobGroup("nothing", "")
        report = tr.refresh("s")
        assert (report.action, report.rows_inserted) == (Action.NO_DATA, 0)
        assert "no source changed" in report.reason
        assert not tracker.getJobIdsForGroup("nothing")

"""The tables of the reference system's benchmark, its nine queries, and changes of a share of the rows."""

from __future__ import annotations

import random

from spark_trickle.session import Trickle

SCENARIOS = {
    "scan": "SELECT id, region, category, amount, score FROM src",
    "filter": "SELECT id, region, amount FROM src WHERE amount > 5000",
    "aggregate": "SELECT region, SUM(amount) AS total, COUNT(*) AS cnt FROM src GROUP BY region",
    "join": "SELECT s.id, s.region, s.amount, d.region_name FROM src s "
    "INNER JOIN dim d ON s.region = d.region",
    "join_agg": "SELECT d.region_name, SUM(s.amount) AS total, COUNT(*) AS cnt FROM src s "
    "INNER JOIN dim d ON s.region = d.region GROUP BY d.region_name",
    "union_all": "SELECT id, 'high' AS kind FROM src WHERE amount > 5000 UNION ALL "
    "SELECT id, 'low' AS kind FROM src WHERE amount <= 5000",
    "cte": "WITH regional AS (SELECT region, SUM(amount) AS total FROM src GROUP BY region) "
    "SELECT s.id, s.region, s.amount, r.total FROM src s JOIN regional r ON s.region = r.region",
    "window": "SELECT id, region, amount, "
    "ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount DESC, id) AS rn FROM src",
    "lateral": "SELECT s.id, s.region, l.top_score FROM src s, "
    "LATERAL (SELECT MAX(score) AS top_score FROM src s2 WHERE s2.region = s.region) l",
}
TABLES = ("src", "dim")
_FEW = 100  # changed rows, which are then chosen one by one
SINGLE_NODE = ("scan", "filter", "aggregate", "join")
_REGION = "element_at(array('north', 'south', 'east', 'west', 'central'), int(id % 5) + 1)"


def fill(tr: Trickle, rows: int) -> None:
    columns = "id BIGINT, region STRING, category STRING, amount INT, score INT"
    tr.sql(f"CREATE TABLE src ({columns}, PRIMARY KEY (id))")
    columns = "id INT, region STRING, region_name STRING, multiplier DECIMAL(4, 2)"
    tr.sql(f"CREATE TABLE dim ({columns}, PRIMARY KEY (id))")
    tr.append(
        "src",
        tr.spark.range(1, rows + 1).selectExpr(
            "id",
            f"{_REGION} AS region",
            "element_at(array('A', 'B', 'C', 'D'), int(id % 4) + 1) AS category",
            "int((id * 17 + 13) % 10000) AS amount",
            "int((id * 31 + 7) % 100) AS score",
        ),
    )
    tr.sql(
        "INSERT INTO dim VALUES (1, 'north', 'Northern Region', 1.1), (2, 'south', 'Southern Region', 0.9), "
        "(3, 'east', 'Eastern Region', 1.0), (4, 'west', 'Western Region', 1.2), "
        "(5, 'central', 'Central Region', 1.05)"
    )


class Changes:
    """70% updates, 15% deletes, 15% inserts, of rows chosen at random."""

    def __init__(self, tr: Trickle, rows: int) -> None:
        self.rows = rows
        self._tr, self._next = tr, rows + 1
        self._chance = random.Random(3)

    def share(self, percent: float) -> None:
        self.some(max(1, round(self.rows * percent / 100)))

    def some(self, n: int) -> None:
        """About as many changes: which rows they hit is left to a hash, unless it might hit none."""
        if n < _FEW:
            return self._few(n)
        others = round(0.15 * n)
        spread = f"abs(xxhash64(id, {self._chance.randrange(10**9)}L)) % {self.rows}"
        self._tr.sql(f"UPDATE src SET amount = amount + 1 WHERE {spread} < {n - 2 * others}")
        self._tr.sql(f"DELETE FROM src WHERE {self.rows} - 1 - {spread} < {others}")
        self._insert(others)

    def _few(self, n: int) -> None:
        others = round(0.15 * n)
        ids = self._chance.sample(range(1, self.rows + 1), n - others)
        self._tr.sql(f"UPDATE src SET amount = amount + 1 WHERE id IN ({_listed(ids[others:])})")
        if others:
            self._tr.sql(f"DELETE FROM src WHERE id IN ({_listed(ids[:others])})")
            self._insert(others)

    def _insert(self, n: int) -> None:
        first, self._next = self._next, self._next + n
        self._tr.sql(
            f"INSERT INTO src SELECT id, {_REGION}, 'A', int(abs(hash(id)) % 10000), int(id % 100) "
            f"FROM range({first}, {first + n})"
        )

    def one(self) -> None:
        """One row that is there for sure, if nothing else was changed."""
        self._tr.sql(f"UPDATE src SET amount = amount + 1 WHERE id = {self._chance.randint(1, self.rows)}")


def _listed(ids: list[int]) -> str:
    return ", ".join(map(str, ids))

"""The scenarios of the reference system: a refresh of what changed against computing and writing everything.

Full is what a Spark user would do without us: the query over plain Parquet, written as Parquet.
"""

from __future__ import annotations

import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

import spark_trickle
from benchmarks.timing import RESULTS
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
# At ten million rows, one in a hundred and one in ten thousand changed.
BARS = {
    1.0: {"scan": 20, "filter": 10, "aggregate": 5, "join": 15, "join_agg": 6},
    0.01: {"scan": 50, "filter": 25, "aggregate": 6.8, "join": 30, "join_agg": 10},
}
_WARM_UP = 2


@dataclass(frozen=True)
class Cell:
    """One scenario at one size and one share of changed rows."""

    scenario: str
    rows: int
    percent: float
    full_ms: float
    differential_ms: float
    speed_up: float
    spread: float
    chosen: str  # what AUTO would do
    rounds: int


def run(rows: int, percents: Sequence[float], rounds: int, names: Sequence[str] = ()) -> list[Cell]:
    chosen = {n: SCENARIOS[n] for n in names or SCENARIOS}
    cells: list[Cell] = []
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        _fill(tr, folder, rows)
        for name, query in chosen.items():
            tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {query}")
        change = _Changes(tr, rows)
        for percent in percents:
            cells += _measure(tr, folder, chosen, change, percent, rounds)
            _save(cells)
        for name in chosen:
            assert tr.sql(f"SELECT * FROM trickle.audit('{name}_st')").count() == 0, name
    return cells


def _fill(tr: Trickle, folder: str, rows: int) -> None:
    columns = "id BIGINT, region STRING, category STRING, amount INT, score INT"
    tr.sql(f"CREATE TABLE src ({columns}, PRIMARY KEY (id))")
    columns = "id INT, region STRING, region_name STRING, multiplier DECIMAL(4, 2)"
    tr.sql(f"CREATE TABLE dim ({columns}, PRIMARY KEY (id))")
    tr.append(
        "src",
        tr.spark.range(1, rows + 1).selectExpr(
            "id",
            "element_at(array('north', 'south', 'east', 'west', 'central'), int(id % 5) + 1) AS region",
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
    for name in ("src", "dim"):
        tr.sql(f"SELECT * FROM {name}").write.parquet(f"{folder}/plain/{name}")


class _Changes:
    """70% updates, 15% deletes, 15% inserts, of rows chosen at random."""

    def __init__(self, tr: Trickle, rows: int) -> None:
        self._tr, self._rows, self._next = tr, rows, rows + 1
        self._chance = random.Random(3)

    def apply(self, percent: float) -> None:
        n = max(1, round(self._rows * percent / 100))
        salt = self._chance.randrange(10**9)
        spread = f"abs(xxhash64(id, {salt}L)) % {self._rows}"
        self._tr.sql(f"UPDATE src SET amount = amount + 1 WHERE {spread} < {max(1, round(0.70 * n))}")
        gone, come = round(0.15 * n), round(0.15 * n)
        if gone:
            self._tr.sql(f"DELETE FROM src WHERE {self._rows} - 1 - {spread} < {gone}")
        if come:
            first, self._next = self._next, self._next + come
            self._tr.sql(
                f"INSERT INTO src SELECT id, element_at(array('north', 'south', 'east', 'west', 'central'), "
                f"int(id % 5) + 1), 'A', int(abs(hash(id)) % 10000), int(id % 100) "
                f"FROM range({first}, {first + come})"
            )


def _measure(
    tr: Trickle, folder: str, chosen: dict[str, str], change: _Changes, percent: float, rounds: int
) -> list[Cell]:
    took: dict[str, tuple[list[float], list[float]]] = {n: ([], []) for n in chosen}
    picks: dict[str, str] = {}
    for number in range(_WARM_UP + rounds):
        change.apply(percent)
        for name, query in chosen.items():
            picks[name] = _auto(tr, f"{name}_st")
            differential = _timed(lambda n=name: tr.refresh(f"{n}_st"))  # type: ignore[misc]
            full = _timed(lambda q=query: _full(tr, folder, q))  # type: ignore[misc]
            if number >= _WARM_UP:
                took[name][0].append(full)
                took[name][1].append(differential)
    return [_cell(name, change._rows, percent, *took[name], picks[name]) for name in chosen]


def _auto(tr: Trickle, name: str) -> str:
    """What AUTO would choose, from the same facts."""
    from dataclasses import replace

    from spark_trickle.lake import stream as states
    from spark_trickle.lake.engine import reading
    from spark_trickle.model.stream import Mode
    from spark_trickle.refresh.decide import decide
    from spark_trickle.refresh.run import known_facts

    work = tr._reading()
    table = tr._stream(name)
    with reading(work.place.warehouse.engine) as connection:
        facts = known_facts(work, table, states.state(connection, table.id).knows)
    return decide(replace(facts, mode=Mode.AUTO), work.place.settings).action.value


def _full(tr: Trickle, folder: str, query: str) -> None:
    for name in ("src", "dim"):
        tr.spark.read.parquet(f"{folder}/plain/{name}").createOrReplaceTempView(name)
    tr.spark.sql(query).write.mode("overwrite").parquet(f"{folder}/full")


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def _cell(
    name: str, rows: int, percent: float, full: list[float], differential: list[float], chosen: str
) -> Cell:
    a, b = statistics.median(full), statistics.median(differential)
    spread = (max(differential) - min(differential)) / b
    return Cell(
        name, rows, percent, round(a, 1), round(b, 1), round(a / b, 2), round(spread, 2), chosen, len(full)
    )


def _save(cells: list[Cell]) -> None:
    """Cells of other sizes that were measured before stay."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "matrix.jsonl"
    mine = {(c.scenario, c.rows, c.percent) for c in cells}
    kept = [c for c in load() if (c.scenario, c.rows, c.percent) not in mine]
    ordered = sorted([*kept, *cells], key=lambda c: (c.rows, c.percent, list(SCENARIOS).index(c.scenario)))
    path.write_text("".join(json.dumps(asdict(c)) + "\n" for c in ordered))


def load() -> list[Cell]:
    path = RESULTS / "matrix.jsonl"
    return [Cell(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def show(cells: Sequence[Cell]) -> None:
    made = Table(
        "rows", "changed", "scenario", "full ÷ differential", "bar", "spread", "AUTO", title="matrix"
    )
    for c in cells:
        bar = BARS.get(c.percent, {}).get(c.scenario) if c.rows == 10_000_000 else None
        style = "red" if c.speed_up < (bar or 1) else None
        made.add_row(
            f"{c.rows:,}",
            f"{c.percent:g}%",
            c.scenario,
            f"{c.speed_up:.1f}×",
            f"≥ {bar}×" if bar else "",
            f"±{c.spread / 2:.0%}",
            c.chosen,
            style=style,
        )
    Console(width=120).print(made)

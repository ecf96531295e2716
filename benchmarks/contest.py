"""Queries -> what keeping them up to date takes: all by plain Spark, all by us, only the change.

Full is what a Spark user would do without us: the query over plain Parquet, written as Parquet. The copies
that it reads are made once and their views are made before the clock starts, which is kind to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean, median

from benchmarks.timing import clocked, timed
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.stream import Action, Mode
from spark_trickle.refresh.decide import decide_refresh
from spark_trickle.refresh.drop import find_stream_table
from spark_trickle.refresh.refresh import read_facts
from spark_trickle.session import Trickle
from spark_trickle.sql.lexer.cursor import Cursor


@dataclass(frozen=True)
class Cell:
    """One query at one size and one share of changed rows."""

    scenario: str
    rows: int
    percent: float
    full_ms: float  # by plain Spark
    differential_ms: float
    speed_up: float
    spread: float
    chosen: str  # what AUTO would do
    rounds: int
    own_full_ms: float | None = None  # by us, in REFRESH MODE FULL
    regret: float | None = None  # what AUTO chose against the better of our two ways
    mix: str = ""


@dataclass
class Took:
    """The times of a query so far, in milliseconds."""

    name: str
    full: list[float] = field(default_factory=list)
    differential: list[float] = field(default_factory=list)
    own_full: list[float] = field(default_factory=list)
    chosen: str = ""

    def cell(self, rows: int, percent: float, mix: str = "") -> Cell:
        full, differential = median(self.full), median(self.differential)
        return Cell(
            self.name,
            rows,
            percent,
            round(full, 1),
            round(differential, 1),
            round(full / differential, 2),
            round((max(self.differential) - min(self.differential)) / differential, 2),
            self.chosen,
            len(self.full),
            round(median(self.own_full), 1) if self.own_full else None,
            self._regret(),
            mix,
        )

    def _regret(self) -> float | None:
        """By means: files that some refreshes leave to be merged are part of what a way costs."""
        if not self.own_full:
            return None
        ways = {"DIFFERENTIAL": fmean(self.differential), "FULL": fmean(self.own_full)}
        return round(ways[self.chosen] / min(ways.values()), 2)


@dataclass(frozen=True)
class Contest:
    """Stream tables in REFRESH MODE DIFFERENTIAL beside plain copies of the tables that they read."""

    tr: Trickle
    folder: str
    queries: Mapping[str, str]

    def open(self, tables: tuple[str, ...]) -> None:
        plain_copies(self.tr, self.folder, tables)
        for name, query in self.queries.items():
            self.tr.sql(f"CREATE STREAM TABLE {name}_st REFRESH MODE DIFFERENTIAL AS {query}")

    def run(self, change: Callable[[], object], rounds: int, warm_up: int, own: int) -> Iterator[Took]:
        """A query with its times so far, after each time it was measured.

        The last `own` rounds, and the last to warm up, have a second batch, which we refresh in full.
        """
        took = {name: Took(name) for name in self.queries}
        for number in range(1 - warm_up, rounds + 1):
            change()
            for name, query in self.queries.items():
                found = took[name]
                chosen = auto_choice(self.tr, f"{name}_st")
                differential, done = clocked(lambda n=name: self._refresh(n, Action.DIFFERENTIAL))  # type: ignore[misc]
                full = timed(lambda q=query: plain_full(self.tr, self.folder, q))  # type: ignore[misc]
                if number > 0 and done is Action.DIFFERENTIAL:
                    found.chosen = chosen
                    found.full.append(full)
                    found.differential.append(differential)
                    yield found
            if number == 0 or number > rounds - own:
                for name, ms in self._in_full(change):
                    if number > 0:
                        took[name].own_full.append(ms)
                        if took[name].full:
                            yield took[name]

    def _in_full(self, change: Callable[[], object]) -> Iterator[tuple[str, float]]:
        self._set_mode(Mode.FULL)
        change()
        for name in self.queries:
            ms, done = clocked(lambda n=name: self._refresh(n, Action.FULL))  # type: ignore[misc]
            if done is Action.FULL:
                yield name, ms
        self._set_mode(Mode.DIFFERENTIAL)

    def _set_mode(self, mode: Mode) -> None:
        for name in self.queries:
            self.tr.sql(f"ALTER STREAM TABLE {name}_st SET REFRESH MODE {mode}")

    def _refresh(self, name: str, expected: Action) -> Action:
        action = self.tr.refresh(f"{name}_st").action
        # A query that reads only what did not change has nothing to do.
        assert action in (expected, Action.NO_DATA), (name, action)
        return action

    def check(self) -> None:
        for name in self.queries:
            require_exact(self.tr, f"{name}_st")


def plain_copies(tr: Trickle, folder: str, tables: tuple[str, ...]) -> None:
    """The tables as Spark's own Parquet, and temporary views of them under the same names."""
    for name in tables:
        tr.sql(f"SELECT * FROM {name}").write.mode("overwrite").parquet(f"{folder}/plain/{name}")
        tr.spark.read.parquet(f"{folder}/plain/{name}").createOrReplaceTempView(name)


def plain_full(tr: Trickle, folder: str, query: str) -> None:
    tr.spark.sql(query).write.mode("overwrite").parquet(f"{folder}/full")


def require_exact(tr: Trickle, name: str) -> None:
    tr.refresh(name)
    assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").count() == 0, name


def auto_choice(tr: Trickle, name: str) -> str:
    """What AUTO would choose, from the same facts."""
    work = tr._connection.read()
    table = find_stream_table(work, Cursor(name).read_name())
    with open_reader(work.place.warehouse.engine) as connection:
        facts = read_facts(work, table, states.read_state(connection, table.id).knows)
    return decide_refresh(replace(facts, mode=Mode.AUTO), work.place.settings).action.value

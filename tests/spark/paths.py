"""One statement, run at the driver and by the executors, must do the same: the cases and how they are checked."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.session import Trickle
from tests.conftest import rows

Row = tuple[Any, ...]

_numbers = itertools.count()

# Tables that a case may change: {t} has a key, {k} has none and holds some rows twice.
KEYED: list[Row] = [(1, "a", 10), (2, "b", 20), (3, "c", 30), (4, "d", None), (5, None, 50)]
KEYLESS: list[Row] = [(1, "x"), (1, "x"), (2, "y"), (2, "y"), (3, None), (None, None), (None, None)]
_TARGETS = {
    "{t}": (
        "CREATE TABLE {} (id INT, v STRING, n INT DEFAULT 7, PRIMARY KEY (id))",
        "(1, 'a', 10), (2, 'b', 20), (3, 'c', 30), (4, 'd', NULL), (5, NULL, 50)",
        KEYED,
    ),
    "{k}": (
        "CREATE TABLE {} (a INT, b STRING)",
        "(1, 'x'), (1, 'x'), (2, 'y'), (2, 'y'), (3, NULL), (NULL, NULL), (NULL, NULL)",
        KEYLESS,
    ),
}
# Tables that cases read.
_SOURCES = (
    "CREATE TABLE s AS VALUES (2, 'B', 200), (3, 'C', 300), (6, 'F', 600), (7, 'G', NULL) AS x(id, v, n)",
    "CREATE TABLE d AS VALUES (2, 'p'), (2, 'q'), (3, 'r') AS x(id, v)",
    "CREATE TABLE nul AS VALUES (1), (NULL) AS x(id)",
    "CREATE VIEW sv AS SELECT * FROM s",
    "CREATE OR REPLACE TEMP VIEW s_temp AS SELECT * FROM s",
)


@dataclass(frozen=True)
class Lake:
    """A warehouse with two connections: `tr` is under test, `setup` prepares tables the quick way."""

    tr: Trickle
    setup: Trickle
    by_executors: bool


def open_lake(folder: Path, by_executors: bool) -> Iterator[Lake]:
    settings: dict[str, Any] = {"auto_compact": False}
    if by_executors:
        settings |= {"max_driver_rows": 1, "local_tail_rows": 0}
    with (
        spark_trickle.connect(folder, settings={"auto_compact": False}) as setup,
        spark_trickle.connect(folder, settings=settings) as tr,
    ):
        for statement in _SOURCES:
            setup.sql(statement)
        yield Lake(tr, setup, by_executors)


@dataclass(frozen=True)
class Case:
    """A statement about {t} or {k}, the rows it inserts, updates and deletes, and what is there after it.

    A `form` is another way to write what another case does: on the executors it runs only in the slow suite.
    """

    sql: str
    counts: tuple[int, int, int]
    after: Sequence[Row]
    form: bool = False

    @property
    def target(self) -> str:
        return "{t}" if "{t}" in self.sql else "{k}"


def cases(*found: Case) -> Any:
    return pytest.mark.parametrize("case", [pytest.param(c, id=c.sql[:90]) for c in found])


def make_target(lake: Lake, target: str) -> str:
    create, values, _ = _TARGETS[target]
    name = f"c{next(_numbers)}"
    lake.setup.sql(create.format(name))
    lake.setup.sql(f"INSERT INTO {name} VALUES {values}")
    return name


def run(lake: Lake, sql: str, name: str) -> Any:
    return lake.tr.sql(sql.replace("{t}", name).replace("{k}", name)).collect()[0]


def check(lake: Lake, case: Case) -> None:
    """Counts, content, the feed (law L2), and that the path under test was really taken."""
    name = make_target(lake, case.target)
    before = lake.setup.snapshot
    done = run(lake, case.sql, name)
    assert tuple(done)[:3] == case.counts
    assert rows(lake.tr.table(name)) == in_order(case.after)
    initial = _TARGETS[case.target][2]
    feed = net_feed(lake.tr, name, before, done.snapshot)
    assert feed == difference(case.after, initial)
    if lake.by_executors and sum(case.counts) > 1 and feed:
        assert_by_executors(lake, name, before)


def assert_by_executors(lake: Lake, name: str, before: int) -> None:
    files = lake.setup.sql(f"SELECT file FROM trickle.files('{name}') WHERE begin_snapshot > {before}")
    paths = [row.file for row in files.collect()]
    assert all("/part-" in path for path in paths), paths


def assert_untouched(lake: Lake, target: str, name: str, snapshot: int) -> None:
    assert lake.setup.snapshot == snapshot
    assert rows(lake.tr.table(name)) == in_order(_TARGETS[target][2])


def in_order(values: Sequence[Row]) -> list[Row]:
    return sorted(values, key=repr)


def net_feed(tr: Trickle, name: str, after: int, upto: int | None = None) -> Counter[str]:
    """The change feed as a bag of rows with weights; without zeros."""
    total: Counter[str] = Counter()
    for row in tr.changes(name, after=after, upto=upto).collect():
        *values, kind, _, _ = row
        total[repr(tuple(values))] += 1 if kind in ("insert", "update_postimage") else -1
    return Counter({row: weight for row, weight in total.items() if weight})


def difference(new: Sequence[Row], old: Sequence[Row]) -> Counter[str]:
    total = Counter(repr(r) for r in new)
    total.subtract(repr(r) for r in old)
    return Counter({row: weight for row, weight in total.items() if weight})

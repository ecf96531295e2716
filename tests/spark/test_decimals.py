"""Sums and means of decimals of all widths, kept incrementally, have the last digit that Spark gives them."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import rows

WIDTHS = (
    (5, 0),
    (9, 1),
    (18, 0),
    (10, 3),
    (18, 4),
    (24, 9),
    (28, 10),
    (30, 8),
    (38, 4),
    (38, 18),
    (36, 30),
    (38, 37),
)
NAMES = [f"d{p}_{s}" for p, s in WIDTHS]
QUERIES = {
    "sums": "SELECT g, " + ", ".join(f"sum({n}) AS {n}" for n in NAMES) + " FROM d GROUP BY g",
    "means": "SELECT g, " + ", ".join(f"avg({n}) AS {n}" for n in NAMES) + " FROM d GROUP BY g",
    "all_sums": "SELECT " + ", ".join(f"sum({n}) AS {n}" for n in NAMES) + " FROM d",
    "all_means": "SELECT " + ", ".join(f"avg({n}) FILTER (WHERE id % 3 > 0) AS {n}" for n in NAMES) + " FROM d",
    "with_least": "SELECT g, min(id) AS least, " + ", ".join(f"sum({n}) AS {n}" for n in NAMES) + " FROM d GROUP BY g",
}  # fmt: skip


def _number(chance: random.Random, precision: int, scale: int) -> str:
    """Of any length, and short enough that a few of them fit into the type of their mean."""
    if chance.random() < 0.1:
        return "NULL"
    digits = "".join(chance.choices("0123456789", k=chance.randint(1, precision - 4))).rjust(scale + 1, "0")
    point = len(digits) - scale
    return f"CAST('{chance.choice(('', '-'))}{digits[:point]}.{digits[point:]}0' AS DECIMAL({precision}, {scale}))"


def _insert(tr: Trickle, chance: random.Random, ids: range) -> None:
    listed = (f"({i}, {i % 3}, {', '.join(_number(chance, p, s) for p, s in WIDTHS)})" for i in ids)
    tr.sql(f"INSERT INTO d VALUES {', '.join(listed)}")


@pytest.fixture(scope="module", params=["driver", "executors"])
def tr(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    settings = {"max_driver_rows": 1, "index_megabytes": 0} if request.param == "executors" else {}
    with connect(tmp_path_factory.mktemp("decimals"), settings=settings) as made:
        columns = ", ".join(f"{n} DECIMAL({p}, {s})" for n, (p, s) in zip(NAMES, WIDTHS, strict=True))
        made.sql(f"CREATE TABLE d (id INT, g INT, {columns}, PRIMARY KEY (id))")
        yield made


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", QUERIES)
def test_last_digits_are_those_of_spark(tr: Trickle, name: str) -> None:
    chance = random.Random(11)
    tr.sql("TRUNCATE TABLE d")
    _insert(tr, chance, range(60))
    tr.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")
    for step in range(3):
        tr.sql(f"DELETE FROM d WHERE id % 7 = {step}")
        _insert(tr, chance, range(100 + 10 * step, 109 + 10 * step))
        assert tr.refresh(name).action is Action.DIFFERENTIAL
        kept, wanted = tr.sql(f"SELECT * FROM {name}"), tr.sql(QUERIES[name])
        assert kept.dtypes == wanted.dtypes
        assert rows(kept) == rows(wanted)

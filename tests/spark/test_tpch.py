"""TPC-H as stream tables: batches change all eight tables, and every result equals DuckDB's, incrementally."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.laws.duck import duck_sql
from tests.spark.tpch import KEYS, QUERIES, batch, generate, load

FEW = ("q13", "q21")
BATCHES = 3


@pytest.fixture(scope="module")
def tr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trickle]:
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder, 0.01)
    with connect(folder / "warehouse") as made:
        load(made, folder)
        yield made


def in_duckdb(tr: Trickle) -> duckdb.DuckDBPyConnection:
    duck = duckdb.connect()
    for name in KEYS:
        duck.register("rows", tr.table(name).toArrow())
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    return duck


def bag(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Division gives other digits in DuckDB, so numbers are compared to two of them."""
    return Counter(
        tuple(round(float(v), 2) if isinstance(v, Decimal | float) else v for v in row) for row in rows
    )


def check(tr: Trickle, queries: tuple[str, ...], batches: range) -> None:
    for q in queries:
        tr.sql(f"CREATE STREAM TABLE {q} REFRESH MODE DIFFERENTIAL AS {QUERIES[q]}")
    changed = 0
    for number in batches:
        for statement in batch(number):
            tr.sql(statement)
        duck = in_duckdb(tr)
        for q in queries:
            report = tr.refresh(q)
            assert report.action is Action.DIFFERENTIAL, q
            changed += report.rows_inserted + report.rows_deleted
            assert bag(tr.table(q).collect()) == bag(duck.execute(duck_sql(QUERIES[q])).fetchall()), q
    assert changed > len(queries)
    for q in queries:
        tr.sql(f"DROP STREAM TABLE {q}")


def test_some_queries(tr: Trickle) -> None:
    check(tr, FEW, range(1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_queries(tr: Trickle) -> None:
    assert len(QUERIES) == 22
    check(tr, tuple(QUERIES), range(1, 1 + BATCHES))

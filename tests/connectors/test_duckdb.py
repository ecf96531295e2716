"""Tables that DuckDB writes: Iceberg through a REST catalog, and rows that it appends to Delta tables."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from spark_trickle.session import Trickle
from tests.connectors.duck import RestCatalog, is_installed, run_rest_catalog

_numbers = itertools.count()

COLUMNS = (
    "id INT, region VARCHAR, amount DECIMAL(10, 2), moment TIMESTAMPTZ, local TIMESTAMP, day DATE, "
    "ratio DOUBLE, tags STRUCT(k VARCHAR, v BIGINT)[], place STRUCT(x DOUBLE, y VARCHAR)"
)
_ROWS = """SELECT i, CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN 'a b' ELSE 'ü=/' END, i * 1.25, to_timestamp(i * 1001),
    make_timestamp(i * 1000000001), DATE '1969-12-20' + i::INT, i / 3, [{{'k': 'n', 'v': i}}], {{'x': i / 2, 'y': 'y' || i}}
    FROM range({}, {}) t(i)"""
THEIRS = (
    "SELECT id, region, amount, epoch_us(moment), local, day, ratio, tags[1].v, place.x, place.y FROM {table}"
)
OURS = "SELECT id, region, amount, unix_micros(moment), local, day, ratio, tags[0].v, place.x, place.y FROM {table}"
TABLES = {
    "plain": "",
    "version 3": "WITH ('format-version' = '3')",
    "partitioned": "PARTITIONED BY (region, bucket(4, id))",
    "partitioned by time": "PARTITIONED BY (day(moment), month(local)) WITH ('format-version' = '3')",
}
OPERATIONS = [
    "DELETE FROM {table} WHERE id IN (1, 2, 30)",
    "UPDATE {table} SET amount = amount + 1 WHERE id BETWEEN 10 AND 12",
    "MERGE INTO {table} t USING (SELECT i::INT AS id FROM range(50, 70) r(i)) s ON t.id = s.id "
    "WHEN MATCHED AND t.id % 5 > 0 THEN UPDATE SET amount = 0 "
    "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, 1)",
    f"INSERT INTO {{table}} {_ROWS.format(100, 120)}",
    "DELETE FROM {table} WHERE region = 'a b'",
    "UPDATE {table} SET region = 'new' WHERE id > 60",
    "ALTER TABLE {table} RENAME COLUMN ratio TO share",
    "DELETE FROM {table}",
]


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    if not is_installed():
        pytest.skip("DuckDB's extensions are not installed: run make test-connectors")
    with run_rest_catalog(tmp_path_factory.mktemp("rest")) as running:
        yield running


def count_answers(rows: Any) -> Counter[tuple[Any, ...]]:
    return Counter(map(tuple, rows))


@pytest.mark.parametrize("kind", list(TABLES))
def test_iceberg(rest: RestCatalog, duck: duckdb.DuckDBPyConnection, tr: Trickle, kind: str) -> None:
    """As many rows come and go as the answers of DuckDB before and after differ by."""
    rest.attach(duck, "ice")
    schema = f"shop{next(_numbers)}"
    table = f"ice.{schema}.orders"
    duck.execute(f"CREATE SCHEMA ice.{schema}")
    duck.execute(f"CREATE TABLE {table} ({COLUMNS}) {TABLES[kind]}")
    duck.execute(f"INSERT INTO {table} {_ROWS.format(0, 60)}")
    tr.attach_source("ice", "iceberg", catalog="rest", uri=rest.uri)
    tr.sql(f"CREATE TABLE orders FROM SOURCE ice.{schema}.orders")
    tr.sql(
        "CREATE STREAM TABLE sums AS SELECT region, count(*) AS n, sum(amount) AS s FROM orders GROUP BY region"
    )
    before = count_answers(duck.execute(THEIRS.format(table=table)).fetchall())
    assert count_answers(tr.sql(OURS.format(table="orders")).collect()) == before
    ours, theirs = OURS, THEIRS
    for statement in OPERATIONS:
        duck.execute(statement.replace("{table}", table))
        if "RENAME" in statement:
            ours, theirs = ours.replace("ratio", "share"), theirs.replace("ratio", "share")
        report = tr.sync("ice")
        assert not report.problems
        after = count_answers(duck.execute(theirs.format(table=table)).fetchall())
        expected = (after - before).total(), (before - after).total()
        assert (report.rows_inserted, report.rows_deleted) == expected, statement
        assert count_answers(tr.sql(ours.format(table="orders")).collect()) == after, statement
        tr.refresh("sums")
        sums = duck.execute(f"SELECT region, count(*), sum(amount) FROM {table} GROUP BY region").fetchall()
        assert count_answers(tr.table("sums").collect()) == count_answers(sums), statement
        before = after


def test_names_of_a_rest_catalog(rest: RestCatalog, tr: Trickle) -> None:
    """Namespaces in namespaces, and letters that an address cannot have."""
    catalog = load_catalog("rest", type="rest", uri=rest.uri)
    schema, rows = f"far{next(_numbers)}", pa.table({"id": [1, 2]})
    catalog.create_namespace((schema,))
    tr.attach_source("ice", "iceberg", catalog="rest", uri=rest.uri)
    for n, last in enumerate(("away", "a way", "ü")):
        catalog.create_namespace((schema, last))
        made = catalog.create_table((schema, last, "some table"), schema=rows.schema)
        made.append(rows)
        tr.sql(f"CREATE TABLE found{n} FROM SOURCE ice.{schema}.`{last}`.`some table`")
        assert tr.table(f"found{n}").count() == 2
        made.append(rows)
        assert tr.sync("ice").tables == {f"main.found{n}": (2, 0)}


def test_delta(duck: duckdb.DuckDBPyConnection, tr: Trickle, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "orders"
    first = duck.execute(_ROWS.format(0, 60)).to_arrow_table()
    columns = ("id", "region", "amount", "moment", "local", "day", "ratio", "tags", "place")
    write_deltalake(path, first.rename_columns(columns))
    duck.execute(f"ATTACH '{path}' AS orders (TYPE delta)")
    tr.attach_source("lake", "delta", path=str(path))
    tr.sql("CREATE TABLE orders FROM SOURCE lake.orders")
    tr.sql("CREATE STREAM TABLE sums AS SELECT region, count(*) AS n FROM orders GROUP BY region")
    for start in (100, 200):
        duck.execute(f"INSERT INTO orders {_ROWS.format(start, start + 7)}")
        report = tr.sync("lake")
        assert (report.rows_inserted, report.rows_deleted) == (7, 0)
        answer = duck.execute(THEIRS.format(table=f"delta_scan('{path}')")).fetchall()
        assert count_answers(tr.sql(OURS.format(table="orders")).collect()) == count_answers(answer)
        tr.refresh("sums")
        assert sum(row.n for row in tr.table("sums").collect()) == len(answer)

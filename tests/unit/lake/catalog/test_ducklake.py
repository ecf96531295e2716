"""Our tables in DuckLake's words: the view that sums weights, the rows of columns, names that need quotes."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import pytest

from spark_trickle.lake.catalog import ducklake
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, StructField
from tests.unit.lake.lakes import table_value

TABLE = table_value(5, "orders")


def test_the_view_repeats_each_row_as_its_weights_say() -> None:
    assert ducklake.view_sql(TABLE) == (
        'SELECT "id", "v" FROM (SELECT "id", "v", unnest(range(CAST(sum("_w") AS BIGINT))) '
        'FROM {DUCKLAKE_CATALOG}."_trickle"."main.orders" GROUP BY "id", "v")'
    )


NAMES = ["a", "A b", 'a"b', '""', "select", "it's", "a.b", "ü 😀", "a`b", "--", "{x}", "a\nb", "%s", "_W2"]


@pytest.mark.parametrize("name", NAMES)
def test_the_view_runs_for_any_name(name: str) -> None:
    """DuckDB runs the view over a table whose schema, name and column all are odd."""
    table = replace(TABLE, schema=name, name=name, columns=(TableColumn(2, name, Scalar("integer")),))
    physical = f'"_trickle".{ducklake.quote_name(ducklake.physical_name(table))}'
    column = ducklake.quote_name(name)
    with duckdb.connect() as connection:
        connection.execute('CREATE SCHEMA "_trickle"')
        connection.execute(f"CREATE TABLE {physical} ({column} INT, _w INT)")
        connection.execute(
            f"INSERT INTO {physical} VALUES (1, 1), (1, 1), (2, 1), (2, -1), (NULL, 1), (3, 1)"
        )
        view = ducklake.view_sql(table).replace("{DUCKLAKE_CATALOG}", "memory")
        found = connection.execute(f"SELECT {column} FROM ({view})").fetchall()
    assert sorted(found, key=str) == [(1,), (1,), (3,), (None,)]


def test_rows_of_weight_zero_or_less_are_not_there() -> None:
    with duckdb.connect() as connection:
        connection.execute('CREATE SCHEMA "_trickle"')
        connection.execute('CREATE TABLE "_trickle"."main.orders" (id INT, v VARCHAR, _w INT)')
        connection.execute(
            """INSERT INTO "_trickle"."main.orders" VALUES (1, 'a', 1), (1, 'a', -1), (2, NULL, 3)"""
        )
        view = ducklake.view_sql(TABLE).replace("{DUCKLAKE_CATALOG}", "memory")
        assert connection.execute(view).fetchall() == [(2, None)] * 3


def test_two_tables_never_have_one_physical_name() -> None:
    one, two = replace(TABLE, id=7, schema="a.b", name="c"), replace(TABLE, id=9, schema="a", name="b.c")
    assert ducklake.physical_name(one) != ducklake.physical_name(two)


TYPES: list[tuple[ColumnType, str]] = [
    (Scalar("byte"), "int8"),
    (Scalar("short"), "int16"),
    (Scalar("integer"), "int32"),
    (Scalar("long"), "int64"),
    (Scalar("float"), "float32"),
    (Scalar("double"), "float64"),
    (Scalar("decimal(38,18)"), "decimal(38,18)"),
    (Scalar("string"), "varchar"),
    (Scalar("varchar(5)"), "varchar"),
    (Scalar("char(5)"), "varchar"),
    (Scalar("binary"), "blob"),
    (Scalar("boolean"), "boolean"),
    (Scalar("date"), "date"),
    (Scalar("timestamp"), "timestamptz"),
    (Scalar("timestamp_ntz"), "timestamp"),
    (Scalar("time(6)"), "time"),
    (Scalar("interval year to month"), "int32"),
    (Scalar("interval month"), "int32"),
    (Scalar("interval day to second"), "int64"),
    (Scalar("interval second"), "int64"),
    (Array(Scalar("integer"), 3), "list"),
    (Struct((StructField(3, "x", Scalar("integer")),)), "struct"),
]


@pytest.mark.parametrize(("kind", "name"), TYPES)
def test_types(kind: ColumnType, name: str) -> None:
    assert ducklake.type_name(kind) == name


NESTED = replace(
    TABLE,
    columns=(
        TableColumn(2, "a", Scalar("integer"), False, "5", "7"),
        TableColumn(3, "l", Array(Struct((StructField(5, "x", Scalar("date"), False),)), 4)),
    ),
)


def test_columns_and_their_parts() -> None:
    rows = ducklake.column_rows(NESTED)
    shown = [
        (
            r["column_order"],
            r["column_id"],
            r["column_name"],
            r["column_type"],
            r["parent_column"],
            r["nulls_allowed"],
        )
        for r in rows
    ]
    assert shown == [
        (1, 1, "_w", "int32", None, False),
        (2, 2, "a", "int32", None, False),
        (3, 3, "l", "list", None, True),
        (4, 4, "element", "struct", 3, True),
        (5, 5, "x", "date", 4, False),
    ]
    assert [r["initial_default"] for r in rows] == [None, "7", None, None, None]


def _mapped(table: Table) -> list[tuple[object, ...]]:
    rows = ducklake.name_mapping_rows(table)
    return [(r["column_id"], r["source_name"], r["target_field_id"], r["parent_column"]) for r in rows]


def test_names_of_files_that_lack_ids() -> None:
    """The element of a list is called "list" in a file that Spark wrote."""
    assert _mapped(NESTED) == [
        (0, "_w", 1, None),
        (1, "a", 2, None),
        (2, "l", 3, None),
        (3, "list", 4, 2),
        (4, "x", 5, 3),
    ]

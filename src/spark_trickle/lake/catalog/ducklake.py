"""Our tables in DuckLake's words: type names, column rows, and the view that sums the weights."""

from __future__ import annotations

from typing import Any

from spark_trickle.model.table import HIDDEN_SCHEMA, WEIGHT, WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, holds_float

_TYPES = {
    "byte": "int8",
    "short": "int16",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "string": "varchar",
    "binary": "blob",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def type_name(kind: ColumnType) -> str:
    match kind:
        case Array():
            return "list"
        case Struct():
            return "struct"
        case Scalar(name):
            return _TYPES.get(name) or _other_type(name)


def _other_type(name: str) -> str:
    if name.startswith("decimal"):
        return name
    if name.startswith(("varchar", "char")):
        return "varchar"
    if name.startswith("time("):
        return "time"
    # Spark stores intervals as plain integers: months, or microseconds.
    return "int32" if "year" in name or "month" in name else "int64"


def column_rows(table: Table) -> list[dict[str, Any]]:
    """One row per column and nested part, as `ducklake_column` wants them."""
    rows = [_column_row(WEIGHT_ID, WEIGHT, "int32", False, None, None)]
    for column in table.columns:
        rows += _list_rows(column.id, column.name, column.type, column.nullable, None, column)
    return [{**row, "column_order": order} for order, row in enumerate(rows, start=1)]


def _list_rows(
    id: int, name: str, kind: ColumnType, nullable: bool, parent: int | None, column: TableColumn | None
) -> list[dict[str, Any]]:
    row = _column_row(id, name, type_name(kind), nullable, parent, column.initial if column else None)
    match kind:
        case Scalar():
            return [row]
        case Array(element, element_id, contains_null):
            return [row, *_list_rows(element_id, "element", element, contains_null, id, None)]
        case Struct(fields):
            return [row, *(r for f in fields for r in _list_rows(f.id, f.name, f.type, f.nullable, id, None))]


def _column_row(
    id: int, name: str, type: str, nullable: bool, parent: int | None, initial: str | None
) -> dict[str, Any]:
    return {
        "column_id": id,
        "column_name": name,
        "column_type": type,
        "nulls_allowed": nullable,
        "parent_column": parent,
        "initial_default": initial,
        "default_value": "NULL",
        "default_value_type": "literal",
        "default_value_dialect": "duckdb",
    }


def name_mapping_rows(table: Table) -> list[dict[str, Any]]:
    """How the columns of a Spark-written file are called, for readers that find no id on list elements."""
    rows: list[dict[str, Any]] = []

    def add(source: str, field_id: int, kind: ColumnType | None, parent: int | None) -> None:
        number = len(rows)
        rows.append(
            {
                "column_id": number,
                "source_name": source,
                "target_field_id": field_id,
                "parent_column": parent,
                "is_partition": False,
            }
        )
        match kind:
            case Array(element, element_id):
                add("list", element_id, element, number)
            case Struct(fields):
                for f in fields:
                    add(f.name, f.id, f.type, number)

    add(WEIGHT, WEIGHT_ID, None, None)
    for c in table.columns:
        add(c.name, c.id, c.type, None)
    return rows


def physical_name(table: Table) -> str:
    """A name that tells people which table it is, and that no other table has."""
    return ".".join(quote_name(p) if "." in p or '"' in p else p for p in (table.schema, table.name))


def view_sql(table: Table) -> str:
    """The content of a table for DuckDB: each row as often as its weights say."""
    columns = ", ".join(quote_name(c) for c in table.column_names)
    if table.mirror is not None and table.mirror.in_place:
        # Its files are not what it holds: rows of them may be deleted, and values may not be in them.
        nothing = ", ".join(f"NULL AS {quote_name(c)}" for c in table.column_names)
        reason = f"{table.full_name} is read in place from a source; read it there".replace("'", "''")
        return f"SELECT {nothing} WHERE CAST(error('{reason}') AS BOOLEAN)"
    # DuckDB groups −0.0 with 0.0; their texts differ.
    signs = "".join(f", CAST({quote_name(c.name)} AS VARCHAR)" for c in table.columns if holds_float(c.type))
    source = f"{{DUCKLAKE_CATALOG}}.{quote_name(HIDDEN_SCHEMA)}.{quote_name(physical_name(table))}"
    return (
        f"SELECT {columns} FROM (SELECT {columns}, unnest(range(CAST(sum({quote_name(WEIGHT)}) AS BIGINT))) "
        f"FROM {source} GROUP BY {columns}{signs})"
    )


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'

"""The schema of an Iceberg table -> its columns, which its files know by their field ids."""

from __future__ import annotations

from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from spark_trickle.errors import UnsupportedError
from spark_trickle.model.types import FIELD_ID, without_ids
from spark_trickle.sources.interface import RemoteColumn, RemoteTable

_SPARK_NAMES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
}


def describe_table(name: str, schema: Schema, identity: str) -> RemoteTable:
    columns = tuple(_describe_column(name, field) for field in schema.fields)
    return RemoteTable(name, columns, identity=identity)


def _describe_column(table: str, field: NestedField) -> RemoteColumn:
    _refuse_defaults(table, field)
    kind = to_spark_type(field.field_type)
    return RemoteColumn(
        name=field.name,
        type=kind if isinstance(kind, str) else without_ids(kind),
        lasting=str(field.field_id),
        written=name_in_scan(field.field_id),
        written_type=kind,
        field_id=field.field_id,
    )


def name_in_scan(field_id: int) -> str:
    """What a column is called while Spark reads it.

    Spark finds columns by their ids, but tests by their names whether a part of a file can hold what is
    looked for. An old file may have the name of a column for another one, but no file has this name.
    """
    return f"_trickle_field_{field_id}"


def to_spark_type(kind: IcebergType) -> Any:
    """Spark's JSON type with field ids; a type that no table here can hold keeps the name it has there."""
    match kind:
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case ListType():
            return {"type": "array", "elementType": to_spark_type(kind.element_type), "containsNull": True}
        case StructType():
            return {"type": "struct", "fields": [_to_spark_field(f) for f in kind.fields]}
        case MapType():
            return "map"
    return _SPARK_NAMES.get(type(kind), str(kind))


def _to_spark_field(field: NestedField) -> dict[str, Any]:
    kind, metadata = to_spark_type(field.field_type), {FIELD_ID: field.field_id}
    return {"name": field.name, "type": kind, "nullable": True, "metadata": metadata}


def _refuse_defaults(table: str, field: NestedField) -> None:
    """Files that are older than a column would have its default, and not null."""
    if field.initial_default is not None:
        raise UnsupportedError(
            f'an Iceberg table ("{table}") with an initial default (of "{field.name}")',
            "Rewrite its data files, so that all of them have the column, and copy the table.",
        )
    for part in _list_parts(field.field_type):
        _refuse_defaults(table, part)


def _list_parts(kind: IcebergType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
    return ()

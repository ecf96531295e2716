"""Our column types <-> PySpark's and pyarrow's."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from spark_trickle.errors import QueryError, UnsupportedError
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import (
    FIELD_ID,
    ColumnType,
    Scalar,
    refuse_collations,
    sql_name,
    to_spark,
    type_in_query,
)
from spark_trickle.spark.errors import explain_errors
from spark_trickle.sql.lexer.words import quote, quote_literal

_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark itself keeps it


def plain_field(field: StructField) -> StructField:
    """A column that is no longer one of a file: nothing is left of it but its type; any value may be null."""
    return StructField(
        field.name, field.dataType, True, {k: v for k, v in field.metadata.items() if k == _CHAR}
    )


def make_nullable(kind: DataType) -> DataType:
    """The same type with parts any of which may be null."""
    match kind:
        case ArrayType(elementType=element):
            return ArrayType(make_nullable(element), True)
        case MapType(keyType=key, valueType=value):
            return MapType(key, make_nullable(value), True)
        case StructType(fields=fields):
            return StructType(
                [StructField(f.name, make_nullable(f.dataType), True, f.metadata) for f in fields]
            )
    return kind


def storage_schema(table: Table) -> StructType:
    """The columns of a data file with their ids, and what old files hold in columns added later."""
    fields = [_storage_field(c) for c in table.columns]
    weight = {"name": WEIGHT, "type": "integer", "nullable": True, "metadata": {FIELD_ID: WEIGHT_ID}}
    return StructType.fromJson({"type": "struct", "fields": [*fields, weight]})


def _storage_field(column: TableColumn) -> dict[str, Any]:
    metadata: dict[str, Any] = {FIELD_ID: column.id}
    if isinstance(column.type, Scalar) and column.type.name.startswith("char"):
        metadata[_CHAR] = column.type.name  # so that Spark fills up what it is compared with
    if column.initial is not None:
        metadata["EXISTS_DEFAULT"] = metadata["CURRENT_DEFAULT"] = initial_sql(column)
    return {"name": column.name, "type": to_spark(column.type), "nullable": True, "metadata": metadata}


def initial_sql(column: TableColumn) -> str:
    return f"CAST({quote_literal(column.initial or '')} AS {cast_name(column.type)})"


def render_type(kind: DataType) -> str:
    """A type as Spark writes it, but the names of fields in backticks: they may hold any letters."""
    match kind:
        case StructType():
            return f"struct<{','.join(f'{quote(f.name)}:{render_type(f.dataType)}' for f in kind.fields)}>"
        case ArrayType():
            return f"array<{render_type(kind.elementType)}>"
        case MapType():
            return f"map<{render_type(kind.keyType)},{render_type(kind.valueType)}>"
    return kind.simpleString()


def data_type(kind: ColumnType) -> DataType:
    wrapped = {
        "type": "struct",
        "fields": [{"name": "x", "type": to_spark(kind), "nullable": True, "metadata": {}}],
    }
    found: DataType = StructType.fromJson(wrapped)[0].dataType
    return found


def cast_name(kind: ColumnType) -> str:
    """The type for CAST; VARCHAR(n) is text whose length is checked elsewhere."""
    if isinstance(kind, Scalar) and kind.name.startswith(("varchar", "char")):
        return "STRING"
    return sql_name(kind)


def parse_type(spark: SparkSession, column: str, text: str) -> Any:
    """A type as a user wrote it, in Spark's JSON form; Spark is the authority."""
    with explain_errors(f"`x` {text}"):
        parsed: Any = StructType.fromDDL(f"`x` {text}").jsonValue()
    fields = parsed["fields"]
    if len(fields) != 1:
        raise QueryError(f'"{text}" is not a type', "PARSE_SYNTAX_ERROR")
    metadata = fields[0].get("metadata", {})
    if demands_a_value(fields[0]["type"]):
        raise UnsupportedError(
            f'NOT NULL inside the type of column "{column}"', "Leave it out, or use columns of their own."
        )
    refuse_collations(column, metadata)
    return metadata.get(_CHAR, fields[0]["type"])


def demands_a_value(spec: Any) -> bool:
    if isinstance(spec, str):
        return False
    if spec["type"] == "array":
        return demands_a_value(spec["elementType"])
    return any(not f["nullable"] or demands_a_value(f["type"]) for f in spec.get("fields", ()))


def has_length(spec: Any) -> bool:
    """Whether a type, in Spark's JSON form, has texts of limited length."""
    if isinstance(spec, str):
        return spec.startswith(("varchar", "char"))
    if spec["type"] == "array":
        return has_length(spec["elementType"])
    return any(has_length(f["type"]) for f in spec.get("fields", ()))


def type_of_field(field: StructField) -> ColumnType:
    """The type of a query's column."""
    return type_in_query(field.jsonValue()["type"])


def columns_sql(table: Table, prefix: str = "") -> str:
    return ", ".join(f"{prefix}{quote(c)}" for c in table.column_names)


def field_type_name(field: StructField) -> str:
    return field.dataType.simpleString().upper()

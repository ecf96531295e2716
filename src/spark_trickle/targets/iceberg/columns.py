"""The columns of a stream table <-> the schema of its Iceberg table, whose field ids stay if they can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from spark_trickle.model.source import Mirror, WrittenColumn
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, StructField
from spark_trickle.sources.iceberg.columns import name_in_scan

_SCALARS: dict[str, IcebergType] = {
    "byte": IntegerType(),  # Iceberg has no smaller ones
    "short": IntegerType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_NAMES = {kind: name for name, kind in _SCALARS.items() if name not in ("byte", "short")}
_PROMOTIONS = {(IntegerType(), LongType()), (FloatType(), DoubleType())}


def make_schema(table: Table, ids: Iterator[int], known: Schema | None = None) -> Schema:
    """A column keeps the id that its name has in a known schema, if its type is the same or grew."""
    before = {f.name: f for f in known.fields} if known is not None else {}
    fields = [_make_field(c.name, c.type, before.get(c.name), ids) for c in table.columns]
    return Schema(*fields)


def has_columns(table: Table, schema: Schema) -> bool:
    """Whether a schema has the columns and types of a table, whatever their ids are."""
    return str(_make_anonymous(make_schema(table, _zeros()))) == str(_make_anonymous(schema))


def _zeros() -> Iterator[int]:
    while True:
        yield 0


def _make_field(name: str, kind: ColumnType, old: NestedField | None, ids: Iterator[int]) -> NestedField:
    before = old.field_type if old is not None and _is_kept(old, kind) else None
    id = old.field_id if old is not None and before is not None else next(ids)
    return NestedField(id, name, _make_type(kind, before, ids), required=False)


def _make_type(kind: ColumnType, before: IcebergType | None, ids: Iterator[int]) -> IcebergType:
    match kind:
        case Scalar():
            return _make_scalar(kind)
        case Array(element):
            inner = before.element_field if isinstance(before, ListType) else None
            made = _make_field("element", element, inner, ids)
            return ListType(made.field_id, made.field_type, element_required=False)
        case Struct(fields):
            parts = {f.name: f for f in before.fields} if isinstance(before, StructType) else {}
            return StructType(*[_make_field(f.name, f.type, parts.get(f.name), ids) for f in fields])


def _make_scalar(kind: Scalar) -> IcebergType:
    if kind.name.startswith("decimal"):
        precision, scale = kind.name[len("decimal(") : -1].split(",")
        return DecimalType(int(precision), int(scale))
    return StringType() if kind.name.startswith(("varchar", "char")) else _SCALARS[kind.name]


def _is_kept(old: NestedField, kind: ColumnType) -> bool:
    """Whether a field can go on under its id, with this type."""
    before = old.field_type
    match kind:
        case Array():
            return isinstance(before, ListType)
        case Struct():
            return isinstance(before, StructType)
        case Scalar():
            now = _make_scalar(kind)
            if isinstance(before, DecimalType) and isinstance(now, DecimalType):
                return before.scale == now.scale and before.precision <= now.precision
            return before == now or (before, now) in _PROMOTIONS


def _make_anonymous(schema: Schema) -> list[tuple[str, ColumnType]]:
    found = [(f.name, _drop_ids(to_column_type(f.field_type))) for f in schema.fields]
    return [(f"{name}{'!' * f.required}", kind) for (name, kind), f in zip(found, schema.fields, strict=True)]


def _drop_ids(kind: ColumnType) -> ColumnType:
    match kind:
        case Array(element):
            return Array(_drop_ids(element), 0)
        case Struct(fields):
            return Struct(tuple(StructField(0, f.name, _drop_ids(f.type)) for f in fields))
    return kind


def to_column_type(kind: IcebergType) -> ColumnType:
    """Our type for one of Iceberg's, with its field ids; one that we never write keeps its own name."""
    match kind:
        case DecimalType():
            return Scalar(f"decimal({kind.precision},{kind.scale})")
        case ListType():
            return Array(to_column_type(kind.element_type), kind.element_id)
        case StructType():
            return Struct(
                tuple(StructField(f.field_id, f.name, to_column_type(f.field_type)) for f in kind.fields)
            )
    return Scalar(_NAMES.get(kind, str(kind)))


def number_columns(table: Table, schema: Schema) -> Table:
    """The stream table with the types and ids that files of its Iceberg table have."""
    fields = _fields_by_name(schema)
    columns = [
        TableColumn(f.field_id, c.name, to_column_type(f.field_type))
        for c in table.columns
        if (f := fields.get(c.name)) is not None
    ]
    return replace(table, columns=tuple(columns), key=(), identity=(), former=())


def read_there(table: Table, schema: Schema) -> Table:
    """The stream table as if its rows were in the files of its Iceberg table, which are read by ids."""
    fields = _fields_by_name(schema)
    written = [
        WrittenColumn(c.id, name_in_scan(f.field_id), to_column_type(f.field_type), f.field_id)
        for c in table.columns
        if (f := fields.get(c.name)) is not None
    ]
    return replace(table, mirror=Mirror("", "", table.name, 0, (), 0, written=tuple(written)))


def _fields_by_name(schema: Schema) -> Mapping[str, NestedField]:
    return {f.name: f for f in schema.fields}

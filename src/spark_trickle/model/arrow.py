"""Our column types and tables in Arrow's words, ids included."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct

FIELD_ID = b"PARQUET:field_id"

_SCALARS = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def can_hold(kind: ColumnType) -> bool:
    """Whether values pass through Arrow unchanged; Spark writes intervals and times itself."""
    match kind:
        case Array(element):
            return can_hold(element)
        case Struct(fields):
            return all(can_hold(f.type) for f in fields)
        case Scalar(name):
            return not name.startswith(("interval", "time("))


def arrow_type(kind: ColumnType) -> pa.DataType:
    match kind:
        case Array(element, element_id):
            return pa.list_(_make_field("element", element, element_id))
        case Struct(fields):
            return pa.struct([_make_field(f.name, f.type, f.id) for f in fields])
        case Scalar(name):
            if name.startswith("decimal"):
                precision, scale = name[len("decimal(") : -1].split(",")
                return pa.decimal128(int(precision), int(scale))
            return pa.string() if name.startswith(("varchar", "char")) else _SCALARS[name]


def _make_field(name: str, kind: ColumnType, id: int) -> pa.Field:
    return pa.field(name, arrow_type(kind), metadata={FIELD_ID: str(id).encode()})


def arrow_schema(table: Table) -> pa.Schema:
    """The columns of a data file."""
    columns = [_make_field(c.name, c.type, c.id) for c in table.columns]
    return pa.schema([*columns, _make_field(WEIGHT, Scalar("integer"), WEIGHT_ID)])


def to_storage(table: Table, rows: pa.Table) -> pa.Table:
    """Rows in the exact columns, types and ids of the table's files."""
    schema = arrow_schema(table)
    columns = [rows.column(name).cast(schema.field(name).type) for name in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)


def from_storage(table: Table, rows: pa.Table | None) -> pa.Table | None:
    """Rows of a file in the columns of the table now, found by id.

    None if a column needs its old default, or if the file holds what only Spark can read.
    """
    if rows is None:
        return None
    found = column_ids(rows.schema)
    schema = arrow_schema(table)
    columns = []
    for field in schema:
        name = found.get(int(field.metadata[FIELD_ID]))
        if name is not None:
            columns.append(rows.column(name).cast(field.type))
        elif field.name != WEIGHT and table.column(field.name).initial is None:
            columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
        else:
            return None
    return pa.Table.from_arrays(columns, schema=schema)


def column_ids(schema: pa.Schema) -> dict[int, str]:
    """The name of each column of a file by its id."""
    return {int(f.metadata[FIELD_ID]): f.name for f in schema if FIELD_ID in (f.metadata or {})}


def combine_chunks(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def sum_weights(table: Table, rows: pa.Table) -> pa.Table:
    """The sum of weights of each different row, without zeros; rows differ if any bit of them does."""
    if any(not isinstance(c.type, Scalar) for c in table.columns):
        return _sum_nested(rows)
    return _sum_flat(rows, list(table.column_names))


def is_nothing(rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether nothing is left of some columns of a change; nested ones are not looked at."""
    if any(pa.types.is_nested(rows.schema.field(n).type) for n in names):
        return False
    return bool(_sum_flat(rows, list(names)).num_rows == 0)


def _sum_flat(rows: pa.Table, names: list[str]) -> pa.Table:
    grouped = rows.group_by(names).aggregate([(WEIGHT, "sum")])
    weights = grouped.column(f"{WEIGHT}_sum").cast(pa.int32())
    return grouped.select(names).append_column(WEIGHT, weights).filter(pc.not_equal(weights, 0))


def net_change(rows: pa.Table) -> pa.Table:
    """A change without what cancels out, or as it is where Arrow cannot group it."""
    names = [n for n in rows.column_names if n != WEIGHT]
    if not names or any(pa.types.is_nested(rows.schema.field(n).type) for n in names):
        return rows
    return single_weights(_sum_flat(rows, names))


def net_rows(rows: pa.Table) -> pa.Table | None:
    """Rows with weights as content; None where Arrow cannot group."""
    names = [n for n in rows.column_names if n != WEIGHT]
    if rows.num_rows and pc.min(rows.column(WEIGHT)).as_py() < 1:
        if any(pa.types.is_nested(rows.schema.field(n).type) for n in names):
            return None
        rows = single_weights(_sum_flat(rows, names))
    return rows.select(names)


def negate_weights(rows: pa.Table) -> pa.Table:
    """What came goes, and what went comes."""
    weights = pc.negate(rows.column(WEIGHT))
    return rows.set_column(rows.column_names.index(WEIGHT), rows.schema.field(WEIGHT), weights)


def single_weights(rows: pa.Table) -> pa.Table:
    """Each row as often as its weight says, with weight +1 or −1."""
    weights = rows.column(WEIGHT).combine_chunks()
    if rows.num_rows == 0 or pc.max(pc.abs(weights)).as_py() == 1:
        return rows
    indices = [n for n, w in enumerate(weights.to_pylist()) for _ in range(abs(w))]
    taken = rows.take(pa.array(indices, pa.int64()))
    position = taken.column_names.index(WEIGHT)
    return taken.set_column(
        position, rows.schema.field(WEIGHT), pc.sign(taken.column(WEIGHT)).cast(pa.int32())
    )


def list_images(rows: pa.Table) -> list[Hashable]:
    """Each row, without its weight, to compare by: as text where NaN or a list would spoil it."""
    columns = []
    for name in rows.column_names:
        if name != WEIGHT:
            kind = rows.schema.field(name).type
            values = rows.column(name).cast(choose_countable(kind)).to_pylist()
            plain = not (pa.types.is_floating(kind) or pa.types.is_nested(kind))
            columns.append(values if plain else [repr(v) for v in values])
    return list(zip(*columns, strict=True))


def choose_countable(kind: pa.DataType) -> pa.DataType:
    """Days and instants as numbers: Python's end with the year 9999, and Spark's do not."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, choose_countable(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, choose_countable(f.type)) for f in kind])
    return kind


def python_values(values: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Values as Python has them, and as text where its calendar ends."""
    try:
        return list(values.to_pylist())
    except OverflowError:
        return [_python_value(v) for v in values]


def _python_value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except OverflowError:
        nested = pa.types.is_nested(value.type)
        return str(value.cast(choose_countable(value.type) if nested else pa.string()).as_py())


def _sum_nested(rows: pa.Table) -> pa.Table:
    """The same where Arrow cannot group."""
    weights = rows.column(WEIGHT).to_pylist()
    totals: dict[Hashable, int] = {}
    first: dict[Hashable, int] = {}
    for n, image in enumerate(list_images(rows)):
        totals[image] = totals.get(image, 0) + weights[n]
        first.setdefault(image, n)
    kept = [(first[image], total) for image, total in totals.items() if total]
    chosen = rows.drop_columns([WEIGHT]).take(pa.array([n for n, _ in kept], pa.int64()))
    return chosen.append_column(WEIGHT, pa.array([total for _, total in kept], pa.int32()))

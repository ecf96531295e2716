"""Files that another system wrote and keeps -> their rows, in our columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from spark_trickle.errors import OutsideFileError
from spark_trickle.lake.storage.addresses import open_file
from spark_trickle.lake.storage.masks import mask_rows, read_row_numbers
from spark_trickle.lake.storage.positions import POSITIONS, read_positions
from spark_trickle.model.arrow import arrow_schema
from spark_trickle.model.cache import Cache
from spark_trickle.model.files import DataFile, Mask, Outside
from spark_trickle.model.source import WrittenColumn
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct

# Days of the old calendar, which Spark tells from the others by a note in the footer.
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_MASK_BYTES = 64 * 2**20  # that masks may take which are remembered
CHANGE_TYPE = "_change_type"  # the column in which a change data feed says how a row changed
CAME = pa.array(["insert", "update_postimage"])  # what it says of rows that came; the others went


def check_outside(table: Table, file: DataFile, outside: Outside) -> None:
    """Notice that a file is gone, or another one, before Spark trips over it."""
    if "://" in outside.address:
        return
    try:
        size = os.stat(outside.address).st_size
    except FileNotFoundError:
        raise OutsideFileError(table.full_name, outside.address, "is gone") from None
    if size != file.bytes:
        detail = f"has {size} bytes instead of {file.bytes}"
        raise OutsideFileError(table.full_name, outside.address, detail)


def read_outside(
    table: Table, outside: Outside, columns: Sequence[TableColumn] | None = None
) -> pa.Table | None:
    """The rows of a file with their weight, 1; None if only Spark can tell what its values mean."""
    chosen = table.columns if columns is None else columns
    written = _list_written(table)
    there = {c.id: written[c.id] for c in chosen if c.id in written}
    try:
        with open_file(outside.address, table.full_name) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            if any(note in (parquet.schema_arrow.metadata or {}) for note in _OLD_CALENDAR):
                return None
            held = _find_columns(there, parquet.schema_arrow)
            kinds = [CHANGE_TYPE] if outside.tells_changes else []
            rows = parquet.read([*(name for name, _ in held.values()), *kinds])
            count = parquet.metadata.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        detail = f"cannot be read: {str(error).splitlines()[0]}"
        raise OutsideFileError(table.full_name, outside.address, detail) from None
    schema, values = arrow_schema(table), dict(outside.values)
    taken: list[pa.Array | pa.ChunkedArray] = []
    for column in chosen:
        kind, name = schema.field(column.name).type, there[column.id].name if column.id in there else ""
        if name in values:
            taken.append(pa.repeat(_parse_value(values[name], kind), count))
        elif column.id in held:
            found, written_column = held[column.id]
            taken.append(_convert_column(rows.column(found), written_column, column.type, kind))
        else:
            taken.append(pa.nulls(count, kind))
    weights = pa.repeat(pa.scalar(1, pa.int32()), count)
    if outside.tells_changes:
        weights = pc.if_else(pc.is_in(rows.column(CHANGE_TYPE), value_set=CAME), weights, pc.negate(weights))
    fields = [schema.field(c.name) for c in chosen] + [schema.field(WEIGHT)]
    whole = pa.Table.from_arrays([*taken, weights], schema=pa.schema(fields))
    if outside.mask is None:
        return whole
    return mask_rows(whole, read_mask(outside.mask), outside.mask.keeps)


def read_change_types(address: str) -> pa.ChunkedArray:
    """How the rows of a file changed."""
    with open_file(address) as source:
        return pq.ParquetFile(source).read([CHANGE_TYPE]).column(0)


def _list_written(table: Table) -> dict[int, WrittenColumn]:
    """How files hold the columns of a table, by our ids."""
    written = table.mirror.written if table.mirror is not None else None
    return {w.column_id: w for w in written or ()}


def _find_columns(
    there: Mapping[int, WrittenColumn], schema: pa.Schema
) -> dict[int, tuple[str, WrittenColumn]]:
    """What this file calls the columns that it has, by our ids."""
    by_id = {_field_id(f): f.name for f in schema}
    found = {}
    for id, column in there.items():
        if column.field_id is None:
            name = column.name if column.name in schema.names else None
        elif set(by_id) == {None}:
            raise pa.ArrowInvalid("its columns have no field ids")
        else:
            name = by_id.get(column.field_id)
        if name is not None:
            found[id] = (name, column)
    return found


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return None if text is None else int(text)


def _convert_column(
    found: pa.ChunkedArray, written: WrittenColumn, wanted: ColumnType, kind: pa.DataType
) -> pa.ChunkedArray:
    if not isinstance(wanted, Scalar):
        by_id = written.field_id is not None
        parts = [_rename_parts(part, written.type, wanted, by_id) for part in found.chunks]
        found = pa.chunked_array(parts or [pa.nulls(0, kind)])
    return found.cast(kind)


def _parse_value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """A value of a partition, which the log holds as text."""
    if text is None:
        return pa.scalar(None, kind)
    return pa.scalar(text.removesuffix("Z") if pa.types.is_timestamp(kind) else text).cast(kind)


def _rename_parts(values: pa.Array, written: ColumnType, kind: ColumnType, by_id: bool) -> pa.Array:
    """The parts of a nested column, found by what the file calls them, under the names that we have."""
    match written, kind:
        case Array(element), Array(wanted):
            parts = _rename_parts(values.values, element, wanted, by_id)
            return pa.ListArray.from_arrays(values.offsets, parts, mask=_mask_of(values))
        case Struct(fields), Struct(wanted_fields):
            there_fields = [values.type.field(n) for n in range(values.type.num_fields)]
            held = [_field_id(f) if by_id else f.name for f in there_fields]
            parts, names = [], []
            for there, here in zip(fields, wanted_fields, strict=True):
                names.append(here.name)
                key = there.id if by_id else there.name
                if key not in held:  # added to the struct after this file was written
                    parts.append(pa.nulls(len(values)))
                else:
                    part = values.field(held.index(key))
                    parts.append(_rename_parts(part, there.type, here.type, by_id))
            return pa.StructArray.from_arrays(parts, names=names, mask=_mask_of(values))
    return values


def _mask_of(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


_masks = Cache[Mask, pa.Array](_MASK_BYTES, weigh=attrgetter("nbytes"))


def read_mask(mask: Mask) -> pa.Array:
    """The row numbers of a mask, whose file never changes."""
    return _masks.get(mask, lambda: _read_numbers(mask))


def _read_numbers(mask: Mask) -> pa.Array:
    if mask.form == POSITIONS:
        return read_positions(mask)
    return read_row_numbers(mask, _read_bytes)


def _read_bytes(address: str, offset: int, count: int) -> bytes:
    with open_file(address) as source:
        return bytes(source.read_at(count, offset))

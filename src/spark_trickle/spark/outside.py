"""Files that another system wrote -> a DataFrame of their rows.

Values of partitions are put in, and masked rows left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from spark_trickle.model.files import DataFile, Mask, Outside
from spark_trickle.model.source import WrittenColumn
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import FIELD_ID, to_spark, without_ids
from spark_trickle.spark.addresses import write_pattern
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.errors import explain_errors
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import cast_name
from spark_trickle.sql.lexer.words import quote

OUTSIDE_FILE = "_trickle_file"  # the column with the tag of the file of a row
# How a change data feed says what became of a row.
_CHANGE_TYPE, _CAME = "_change_type", "'insert', 'update_postimage'"
_NAME, _ROW, _MASK, _KEEPS = "_trickle_base", "_trickle_row", "_trickle_mask", "_trickle_keeps"


class DataFiles(Protocol):
    """Where the files of a table are, and which rows of them count."""

    def locate(self, table: Table, files: Sequence[DataFile]) -> list[str]:
        """The addresses of files that are there and whole."""

    def pack_mask(self, mask: Mask) -> pa.Array:
        """The rows that a mask names as bits in words of 64."""


@dataclass(frozen=True)
class _Scan:
    """Files that Spark reads together: it tells them apart by their names, which differ."""

    files: tuple[tuple[DataFile, Outside], ...]
    valued: frozenset[str]  # columns whose values are not in the files, by their names there
    tells_changes: bool


def read_outside(
    reader: DataFrameReader,
    spark: SparkSession,
    data: DataFiles,
    table: Table,
    files: Sequence[DataFile],
    tagged: bool = False,
) -> DataFrame:
    """The rows of files that are not ours, with their weight; with the tag of their file if asked for."""
    scans = [_read_scan(reader, spark, data, table, scan, tagged) for scan in _split_scans(files)]
    return reduce(DataFrame.unionByName, scans)


def _split_scans(files: Sequence[DataFile]) -> list[_Scan]:
    """Files of one name, or one file with several masks, are read apart from each other."""
    seen: Counter[tuple[str, frozenset[str], bool]] = Counter()
    scans: dict[tuple[int, frozenset[str], bool], list[tuple[DataFile, Outside]]] = {}
    for f in files:
        if f.outside is not None:
            valued = frozenset(name for name, _ in f.outside.values)
            key = (f.name, valued, f.outside.tells_changes)
            scans.setdefault((seen[key], *key[1:]), []).append((f, f.outside))
            seen[key] += 1
    return [_Scan(tuple(found), valued, tells) for (_, valued, tells), found in scans.items()]


def _read_scan(
    reader: DataFrameReader, spark: SparkSession, data: DataFiles, table: Table, scan: _Scan, tagged: bool
) -> DataFrame:
    written = table.mirror.written if table.mirror is not None else None
    there = {w.column_id: w for w in written or ()}
    held = [w for w in there.values() if w.name not in scan.valued]
    schema = _file_schema(held, scan.tells_changes)
    addresses = data.locate(table, [f for f, _ in scan.files])
    with explain_errors(""):
        rows = reader.schema(schema).parquet(*map(write_pattern, addresses))
    masked = any(outside.mask is not None for _, outside in scan.files)
    values = {name: f"_trickle_value_{n}" for n, name in enumerate(sorted(scan.valued))}
    weight = f"IF(r.{_CHANGE_TYPE} IN ({_CAME}), 1, -1)" if scan.tells_changes else "1"
    columns = [*(_column_sql(c, there.get(c.id), values) for c in table.columns), f"{weight} AS {WEIGHT}"]
    if not (scan.valued or masked or tagged):
        return run_sql(spark, f"SELECT {', '.join(columns)} FROM {{rows}} AS r", rows=rows)
    if tagged:
        columns.append(f"f.{OUTSIDE_FILE}")
    row = [f"_metadata.row_index AS {_ROW}"] if masked else []
    text = (
        f"SELECT /*+ BROADCAST(f) */ {', '.join(columns)} FROM {{rows}} AS r "
        f"LEFT JOIN {{facts}} AS f ON r.{_NAME} = f.{_NAME} WHERE {_counts_sql(masked)}"
    )
    named = rows.selectExpr("*", f"_metadata.file_name AS {_NAME}", *row)
    return run_sql(spark, text, rows=named, facts=_describe_files(spark, data, scan, values))


def _column_sql(column: TableColumn, written: WrittenColumn | None, values: dict[str, str]) -> str:
    name, kind = quote(column.name), cast_name(column.type)
    if written is None:
        return f"CAST(NULL AS {kind}) AS {name}"
    if written.name in values:
        return f"CAST(f.{values[written.name]} AS {kind}) AS {name}"
    return f"CAST(r.{quote(written.name)} AS {kind}) AS {name}"


def _counts_sql(masked: bool) -> str:
    """Whether a row counts; a file that Spark names in another way is an error, not a wrong row."""
    unknown = f"raise_error(concat('Spark reads a file that nobody asked for: ', r.{_NAME}))"
    tests = [f"WHEN f.{_NAME} IS NULL THEN CAST({unknown} AS BOOLEAN)"]
    if masked:
        place = f"CAST(shiftright(r.{_ROW}, 6) AS INT) + 1"
        bit = f"getbit(element_at(f.{_MASK}, {place}), CAST(r.{_ROW} & 63 AS INT)) = 1"
        tests.append(f"WHEN f.{_MASK} IS NULL THEN true")
        tests.append(f"WHEN {place} <= size(f.{_MASK}) THEN ({bit}) = f.{_KEEPS}")
        tests.append(f"ELSE NOT f.{_KEEPS}")
    else:
        tests.append("ELSE true")
    return f"CASE {' '.join(tests)} END"


def _describe_files(spark: SparkSession, data: DataFiles, scan: _Scan, names: dict[str, str]) -> DataFrame:
    """What the log says of each file: a row for each."""
    values = [dict(outside.values) for _, outside in scan.files]
    masks = [outside.mask for _, outside in scan.files]
    columns: dict[str, Any] = {
        _NAME: pa.array([f.name for f, _ in scan.files], pa.string()),
        OUTSIDE_FILE: pa.array([f.tag for f, _ in scan.files], pa.string()),
        _MASK: _list_words([None if m is None else data.pack_mask(m) for m in masks]),
        _KEEPS: pa.array([m is not None and m.keeps for m in masks], pa.bool_()),
    }
    fields = [
        StructField(_NAME, StringType()),
        StructField(OUTSIDE_FILE, StringType()),
        StructField(_MASK, ArrayType(LongType())),
        StructField(_KEEPS, BooleanType()),
    ]
    for there, here in names.items():
        columns[here] = pa.array([v[there] for v in values], pa.string())
        fields.append(StructField(here, StringType()))
    return create_frame(spark, pa.table(columns), StructType(fields))


def _list_words(words: list[pa.Array | None]) -> pa.Array:
    """Lists of one array, built without a Python object for each word."""
    starts = [0, *accumulate(0 if w is None else len(w) for w in words)]
    offsets = [None if w is None else start for start, w in zip(starts, words, strict=False)]
    filled = [w for w in words if w is not None]
    values = pa.concat_arrays(filled) if filled else pa.array([], pa.int64())
    return pa.ListArray.from_arrays(pa.array([*offsets, starts[-1]], pa.int32()), values)


def _file_schema(held: Sequence[WrittenColumn], tells_changes: bool) -> StructType:
    """The columns as the files name or number them; what a file does not have is null."""
    fields = [_file_field(w) for w in held]
    if tells_changes:
        fields.append({"name": _CHANGE_TYPE, "type": "string", "nullable": True, "metadata": {}})
    return StructType.fromJson({"type": "struct", "fields": fields})


def _file_field(column: WrittenColumn) -> dict[str, Any]:
    kind = to_spark(column.type)
    if column.field_id is None:
        return {"name": column.name, "type": without_ids(kind), "nullable": True, "metadata": {}}
    metadata = {FIELD_ID: column.field_id}
    return {"name": column.name, "type": kind, "nullable": True, "metadata": metadata}

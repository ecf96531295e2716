"""Files that arrive -> a DataFrame of their rows, and of the text of records that do not fit the columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_trickle.errors import (
    DamagedFileError,
    QueryError,
    SourceSetupError,
    UnsupportedError,
    shorten_text,
)
from spark_trickle.model.arriving import FILE, LOADED_AT, FileColumn, FileFormat, FileScan
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import refuse_collations
from spark_trickle.spark.addresses import read_address, write_pattern
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.errors import SPARK_ERRORS, explain_error, explain_errors
from spark_trickle.spark.observe import observe_counts
from spark_trickle.spark.types import cast_name, demands_a_value, has_length
from spark_trickle.sql.lexer.words import quote

RECORD = "_trickle_record"  # the text of a record that does not fit
_LETTERS, _LETTERS_OF_VALUE = 10_000, 100  # of a rejected record, and of a value that does not fit
_LISTED = 100  # files whose names stand in a query
_AVRO = "org.apache.spark:spark-avro_2.13"
# What may be wrong with files; all other errors are those of Spark, of the disk or of the network.
UNREADABLE = (QueryError, DamagedFileError, UnsupportedError)
_OF_FILES = re.compile(r"FAILED_READ_FILE|PARQUET_TYPE_\w+|DECIMAL_PRECISION_EXCEEDS")
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"  # where Spark keeps that a text has a length


def read_arrived(
    spark: SparkSession,
    kind: FileFormat,
    scans: Sequence[FileScan],
    table: Table,
    written: Mapping[int, str],
    loaded_at: datetime,
) -> DataFrame:
    """The rows of some files with their weight, and the text of records that are none.

    `written` are the names that files have for columns of the table. All columns have to be selected together
    with `RECORD`: Spark finds a bad value only in a column that somebody reads.
    """
    with explain_errors(""):
        return reduce(
            DataFrame.unionByName,
            [_read_scan(spark, kind, scan, table, written, loaded_at) for scan in scans],
        )


def _read_scan(
    spark: SparkSession,
    kind: FileFormat,
    scan: FileScan,
    table: Table,
    written: Mapping[int, str],
    loaded_at: datetime,
) -> DataFrame:
    rows = _open_files(spark, kind, scan)
    micros = int(loaded_at.timestamp()) * 1_000_000 + loaded_at.microsecond
    file = read_address(F.col("_metadata.file_path"), scan.files[0])
    own = {FILE: file, LOADED_AT: F.timestamp_micros(F.lit(micros))}
    there = {c.name.strip().lower(): c.name for c in scan.columns}
    columns = [
        own[c.name] if c.name in own else _select_column(c, there.get(written[c.id].lower()))
        for c in table.columns
    ]
    named = [c.alias(t.name) for c, t in zip(columns, table.columns, strict=True)]
    record = F.col(RECORD) if kind.by_record else F.lit(None).cast("string").alias(RECORD)
    return rows.select(*named, F.lit(1).alias(WEIGHT), record)


def _open_files(spark: SparkSession, kind: FileFormat, scan: FileScan) -> DataFrame:
    fields = [
        {"name": c.name, "type": c.type, "nullable": True, "metadata": {}}
        for c in (*scan.columns, *([FileColumn(RECORD, "string")] if kind.by_record else []))
    ]
    schema = StructType.fromJson({"type": "struct", "fields": fields})
    return _make_reader(spark, kind).schema(schema).load([write_pattern(f) for f in scan.files])


def _make_reader(spark: SparkSession, kind: FileFormat) -> DataFrameReader:
    """Reads all or fails, whatever the session allows."""
    strict = {"ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    by_record = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RECORD} if kind.by_record else {}
    return spark.read.format(kind.name).options(**strict, **by_record, **dict(kind.options))


def _select_column(column: TableColumn, name: str | None) -> Column:
    return (F.lit(None) if name is None else F.col(quote(name))).cast(cast_name(column.type))


def count_records(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same frame, and how many of its records do not fit, once somebody has read it."""
    counted, read_counts = observe_counts(frame, {"bad": f"count({RECORD})"})
    return counted, lambda: read_counts()["bad"]


def select_rows(frame: DataFrame) -> DataFrame:
    return frame.where(F.col(RECORD).isNull()).drop(RECORD)


def select_records(frame: DataFrame) -> DataFrame:
    """What does not fit, with all columns."""
    return frame.where(F.col(RECORD).isNotNull())


def describe_records(
    records: DataFrame, kind: FileFormat, table: Table, written: Mapping[int, str]
) -> DataFrame:
    """Records that do not fit, in the columns of a table of rejects.

    A value that is in the text of a record and is null in its row is the one that does not fit.
    """
    columns = [c for c in table.columns if c.name not in (FILE, LOADED_AT)]
    unknown = F.lit(f"the record does not fit the columns {_show_columns(columns)}")
    reason = unknown
    if kind.name == "json":
        values = F.from_json(RECORD, "MAP<STRING, STRING>")
        wrong = F.concat_ws("; ", *[_tell_wrong(values, c, written[c.id]) for c in columns])
        reason = (
            F.when(values.isNull(), F.lit("the record is not a JSON object"))
            .when(wrong == "", unknown)
            .otherwise(wrong)
        )
    return records.select(
        F.col(FILE).alias("file"),
        reason.alias("reason"),
        F.left(F.col(RECORD), F.lit(_LETTERS)).alias("record"),
        F.col(LOADED_AT).alias("loaded_at"),
        F.lit(1).alias(WEIGHT),
    )


def _tell_wrong(values: Column, column: TableColumn, name: str) -> Column:
    value = F.try_element_at(values, F.lit(name))
    found = F.left(value, F.lit(_LETTERS_OF_VALUE))
    wrong = value.isNotNull() & F.col(quote(column.name)).isNull()
    said = F.concat(F.lit(f'"{name}" is '), found, F.lit(f", which is no {cast_name(column.type)}"))
    return F.when(wrong, said)


def _show_columns(columns: Sequence[TableColumn]) -> str:
    return shorten_text(", ".join(f"{c.name} {cast_name(c.type)}" for c in columns), 200)


def rows_of_files(rows: DataFrame, column: str, files: Sequence[str]) -> DataFrame:
    """Rows that came from some files, as they go."""
    if len(files) <= _LISTED:
        found = rows.where(F.col(quote(column)).isin(list(files)))
    else:
        names = create_frame(rows.sparkSession, pa.table({column: pa.array(files, pa.string())}))
        found = rows.join(names, column, "left_semi")
    return found.withColumn(WEIGHT, F.lit(-1))


def count_by_file(rows: DataFrame, column: str = FILE) -> DataFrame:
    return rows.groupBy(F.col(column).alias("file")).agg(F.count(F.lit(1)).alias("rows"))


def find_fault(spark: SparkSession, kind: FileFormat, scan: FileScan) -> str | None:
    """Why some files cannot be read; None if they can. What is not the fault of a file is an error."""
    try:
        frame = _open_files(spark, kind, scan)
        frame.write.format("noop").mode("overwrite").save()
    except SPARK_ERRORS as error:
        return _explain_fault(error)
    return None


def _explain_fault(error: Exception) -> str:
    """The words for an error that is the fault of a file; any other one is raised."""
    explained = explain_error(error)
    if not _OF_FILES.search(str(error)) or not isinstance(explained, UNREADABLE):
        raise explained from None
    return explained.message


# --- columns -------------------------------------------------------------------------------------


def parse_columns(text: str) -> tuple[FileColumn, ...]:
    """Columns as a user wrote them; Spark is the authority."""
    with explain_errors(text):
        parsed: Any = StructType.fromDDL(text).jsonValue()
    fields = parsed["fields"]
    for field in fields:
        name, metadata = field["name"], field.get("metadata", {})
        refuse_collations(name, metadata)
        if has_length(field["type"]) or _CHAR in metadata:
            raise UnsupportedError(f'a length for column "{name}" of files', "Use STRING.")
        if not field["nullable"] or demands_a_value(field["type"]):
            raise UnsupportedError(f'NOT NULL for column "{name}" of files', "Leave it out.")
    return tuple(FileColumn(f["name"], f["type"]) for f in fields)


def infer_columns(spark: SparkSession, kind: FileFormat, files: Sequence[str]) -> tuple[FileColumn, ...]:
    """The columns that Spark finds in some files."""
    wanted = {"csv": {"inferSchema": "true"}, "json": {}}.get(kind.name, {"mergeSchema": "true"})
    with explain_errors(""):
        found = _make_reader(spark, kind).options(**wanted).load([write_pattern(f) for f in files]).schema
    return _list_columns(found)


def _list_columns(schema: StructType) -> tuple[FileColumn, ...]:
    fields: list[Any] = schema.jsonValue()["fields"]
    return tuple(FileColumn(f["name"], f["type"]) for f in fields if f["name"] != RECORD)


def read_layout(spark: SparkSession, kind: FileFormat, file: str) -> tuple[FileColumn, ...] | str:
    """The columns of one file; or why Spark cannot read them."""
    try:
        found = _make_reader(spark, kind).load([write_pattern(file)]).schema
    except SPARK_ERRORS as error:
        return _explain_fault(error)
    return _list_columns(found)


def require_format(spark: SparkSession, kind: FileFormat) -> None:
    """Refuse at once a format that Spark has no reader for."""
    if kind.name != "avro":
        return
    try:
        spark.read.format(kind.name).schema("x INT").load([]).isLocal()
    except SPARK_ERRORS as error:
        if "AVRO" in str(error).upper():
            raise SourceSetupError(
                "Spark has no reader for Avro files",
                f"Start Spark with spark.jars.packages = {_AVRO}:{spark.version}, or write another format.",
            ) from None
        raise explain_error(error) from None

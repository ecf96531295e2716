"""Chosen files of a table -> a DataFrame of its rows, or of its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from spark_trickle.model.files import DataFile, Log, Role
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.model.types import holds_float, is_float
from spark_trickle.spark.addresses import write_pattern
from spark_trickle.spark.outside import OUTSIDE_FILE, DataFiles, read_outside
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import cast_name, columns_sql, storage_schema
from spark_trickle.sql.lexer.words import quote

# Columns of what the driver knows of a tail.
WORDS, FILE = "_trickle_words", OUTSIDE_FILE


def rows_with_weights(
    spark: SparkSession, data: DataFiles, table: Table, files: Sequence[DataFile]
) -> DataFrame:
    """The rows of some files as they are, weight included; of those that were removed, turned round."""
    if not files:
        return empty_frame(spark, table)
    return reduce(DataFrame.unionByName, files_by_sign(spark, data, table, files).values())


def files_by_sign(
    spark: SparkSession, data: DataFiles, table: Table, files: Sequence[DataFile], file_name: str = ""
) -> dict[bool, DataFrame]:
    """Files that hold rows with their weights, and files that were removed (True).

    With `file_name`, a column of that name tells which file each row comes from, by its tag.
    """
    found = {}
    for removed in (False, True):
        chosen = [f for f in files if (f.role is Role.REMOVED) is removed]
        if chosen:
            frame = _read_files(spark, data, table, chosen, file_name)
            found[removed] = frame.withColumn(WEIGHT, -frame[WEIGHT]) if removed else frame
    return found


def _read_files(
    spark: SparkSession, data: DataFiles, table: Table, files: Sequence[DataFile], file_name: str
) -> DataFrame:
    parts = []
    if ours := [f for f in files if f.outside is None]:
        frame = _read_columns(spark, table, data.locate(table, ours))
        parts.append(frame.selectExpr("*", f"_metadata.file_name AS {file_name}") if file_name else frame)
    if theirs := [f for f in files if f.outside is not None]:
        frame = read_outside(strict_reader(spark), spark, data, table, theirs, tagged=bool(file_name))
        name = [f"{OUTSIDE_FILE} AS {file_name}"] if file_name else []
        parts.append(frame.selectExpr(*[quote(c) for c in (*table.column_names, WEIGHT)], *name))
    return reduce(DataFrame.unionByName, parts)


def _read_columns(spark: SparkSession, table: Table, addresses: list[str]) -> DataFrame:
    """Spark finds columns by their ids, but tests by their names whether a file can hold what is looked for.

    So a name that was once that of another column is given only to what was read.
    """
    inherited = table.inherited
    aliases = {f"_trickle_column_{c.id}": c.name for c in table.columns if c.id in inherited}
    read = table
    for alias in aliases:
        read = read.with_column(replace(read.column(aliases[alias]), name=alias))
    frame = strict_reader(spark).schema(storage_schema(read)).parquet(*map(write_pattern, addresses))
    return frame.withColumnsRenamed(aliases) if aliases else frame


def strict_reader(spark: SparkSession) -> DataFrameReader:
    """Reads all or fails, also in a session that leaves out files which cannot be read."""
    return spark.read.options(
        **{
            "ignoreMissingFiles": "false",
            "ignoreCorruptFiles": "false",
            "parquet.page.verify-checksum.enabled": "true",
        }
    )


def empty_frame(spark: SparkSession, table: Table) -> DataFrame:
    columns = [f"CAST(NULL AS {cast_name(c.type)}) AS {quote(c.name)}" for c in table.columns]
    return spark.sql(f"SELECT {', '.join(columns)}, 0 AS {WEIGHT} WHERE false")


@dataclass(frozen=True)
class Bits:
    """A set of whole numbers as one row: a bit for each from `low` to `high`, in `words` of 64."""

    low: int
    high: int
    words: DataFrame


@dataclass(frozen=True)
class Replaced:
    """A tail as what it takes away and what it adds: settled rows that equal a `deleted` one do not count."""

    deleted: DataFrame | Bits
    inserted: DataFrame


@dataclass(frozen=True)
class NetTail:
    """A tail as the sum of its weights: of equal settled rows, as many are gone as the sum says."""

    net: DataFrame


@dataclass(frozen=True)
class Guided:
    """A tail as it is, and the numbers of a column in the rows that went: no other row is one of them."""

    rows: DataFrame
    column: str
    bits: Bits


Tail = Replaced | NetTail | Guided


def read_content(settled: DataFrame, table: Table, tail: Tail | None, broadcast: bool) -> DataFrame:
    """The rows of a table: the sum of its files.

    Files before the first deletion are read as they are. What was deleted since is few, known, and
    taken out by a join against it, so the big files are never shuffled.
    """
    # Left to itself, Spark would judge by the size of files, in which much may be packed.
    hint = "/*+ BROADCAST(deleted) */" if broadcast else "/*+ MERGE(deleted) */"
    spark = settled.sparkSession
    match tail:
        case None:
            return settled.select(*[quote(c) for c in table.column_names])
        case Replaced(Bits() as bits, inserted):
            text = _bits_sql(table, bits)
            return run_sql(spark, text, settled=settled, words=bits.words, inserted=inserted)
        case Replaced(deleted, inserted):
            return run_sql(
                spark, _render_replaced(table, hint), settled=settled, deleted=deleted, inserted=inserted
            )
        case NetTail(net):
            return run_sql(spark, _render_counted(table, hint), settled=settled, net=net)
        case Guided(rows, column, bits):
            text = _render_guided(table, column, bits)
            return run_sql(spark, text, settled=settled, words=bits.words, tail=rows)


def tail_of_files(
    spark: SparkSession, data: DataFiles, table: Table, log: Log, span: tuple[int, int] | None
) -> Replaced | NetTail:
    """What the executors make of a tail that is too long for the driver."""
    tail = rows_with_weights(spark, data, table, log.tail)
    if not log.tail_is_one_change or not (table.distinct_by or log.tail_is_whole):
        tail = run_sql(spark, sum_weights_sql(table, "{tail}"), tail=tail)
    if table.distinct_by or (log.tail_is_one_change and log.tail_is_whole):
        identity = [quote(c.name) for c in identity_columns(table)]
        inserted = tail.where(f"{WEIGHT} > 0").select(*[quote(c) for c in table.column_names])
        deleted = tail.where(f"{WEIGHT} < 0").select(*identity)
        if span is None:
            return Replaced(deleted, inserted)
        return Replaced(Bits(*span, run_sql(spark, _words_sql(table, *span), deleted=deleted)), inserted)
    return NetTail(tail)


def tail_of_keys(
    spark: SparkSession,
    data: DataFiles,
    table: Table,
    log: Log,
    deleted: Bits | None,
    overtaken: DataFrame | None,
) -> Replaced:
    """The same where the driver has seen all keys: nothing is summed.

    Without `deleted`, every key that ever went counts; that one came later does no harm, since no settled row
    has it. `overtaken` names the added rows that a later change took away, by key and file.
    """
    tail = rows_with_weights(spark, data, table, log.tail)
    keys = [quote(c.name) for c in table.distinct_by]
    went = tail.where(f"{WEIGHT} < 0").select(*keys) if deleted is None else deleted
    if overtaken is None:
        return Replaced(went, tail.where(f"{WEIGHT} > 0").select(*[quote(c) for c in table.column_names]))
    named = reduce(DataFrame.unionByName, files_by_sign(spark, data, table, log.tail, FILE).values())
    same = " AND ".join(f"tail.{k} <=> old.{k}" for k in keys)
    text = (
        f"SELECT /*+ BROADCAST(old) */ {columns_sql(table, 'tail.')} FROM {{tail}} AS tail "
        f"LEFT ANTI JOIN {{old}} AS old ON {same} AND tail.{FILE} = old.{FILE} WHERE tail.{WEIGHT} > 0"
    )
    return Replaced(went, run_sql(spark, text, tail=named, old=overtaken))


def identity_columns(table: Table) -> tuple[TableColumn, ...]:
    """What tells rows apart: a key, or everything."""
    return table.distinct_by or table.columns


def same_row_sql(table: Table) -> str:
    """Whether a row of `base` is one of `deleted`.

    An enforced key is never null, so plain `=` does, which lets Spark hash a single number.
    """
    if table.unique:
        return " AND ".join(f"base.{quote(c.name)} = deleted.{quote(c.name)}" for c in table.key_columns)
    if table.distinct_by:
        return " AND ".join(f"base.{quote(c.name)} <=> deleted.{quote(c.name)}" for c in table.distinct_by)
    tests = []
    for c in table.columns:
        mine, other = f"base.{quote(c.name)}", f"deleted.{quote(c.name)}"
        tests.append(f"{mine} <=> {other}")
        if is_float(c.type):  # 0.0 and −0.0 are equal, but not the same row
            tests.append(f"({mine} <> 0 OR {mine} IS NULL OR string({mine}) = string({other}))")
        elif holds_float(c.type):
            tests.append(f"string({mine}) <=> string({other})")
    return " AND ".join(tests)


def _render_replaced(table: Table, hint: str) -> str:
    return (
        f"SELECT {hint} {columns_sql(table, 'base.')} FROM {{settled}} AS base "
        f"LEFT ANTI JOIN {{deleted}} AS deleted ON {same_row_sql(table)} "
        f"UNION ALL SELECT {columns_sql(table)} FROM {{inserted}}"
    )


def _is_set(column: str, bits: Bits) -> str:
    """Whether the bit of a number is set; not if it is null, or out of bounds, where a place may overflow."""
    place = f"CAST({column} AS BIGINT) - {bits.low}L"
    word = f"element_at((SELECT {WORDS} FROM {{words}}), CAST(shiftright({place}, 6) AS INT) + 1)"
    inside = f"{column} BETWEEN {bits.low}L AND {bits.high}L"
    return f"CASE WHEN {inside} THEN getbit({word}, CAST(({place}) & 63 AS INT)) = 1 ELSE false END"


def _words_sql(table: Table, low: int, high: int) -> str:
    key = f"CAST({quote(table.distinct_by[0].name)} AS BIGINT) - {low}L"
    words = (high - low) // 64 + 1
    bits = (
        f"SELECT shiftright({key}, 6) AS word, shiftleft(1L, CAST(({key}) & 63 AS INT)) AS bits "
        f"FROM {{deleted}} UNION ALL SELECT id, 0L FROM range({words})"
    )
    merged = f"SELECT word, bit_or(bits) AS bits FROM ({bits}) GROUP BY word"
    in_order = "array_sort(array_agg(struct(word, bits)))"  # rows come in any order over a network
    return f"SELECT transform({in_order}, x -> x.bits) AS {WORDS} FROM ({merged})"


def _bits_sql(table: Table, bits: Bits) -> str:
    """The same for many keys close together: a bit for each, looked up faster than a hash."""
    deleted = _is_set(quote(table.distinct_by[0].name), bits)
    return (
        f"SELECT {columns_sql(table)} FROM {{settled}} AS base "
        f"WHERE NOT {deleted} "
        f"UNION ALL SELECT {columns_sql(table)} FROM {{inserted}}"
    )


def _render_guided(table: Table, column: str, bits: Bits) -> str:
    """Rows that cannot have gone pass by; the others are few, and summed with the tail."""
    columns, suspect = columns_sql(table), _is_set(quote(column), bits)
    weighed = (
        f"SELECT {columns}, 1 AS {WEIGHT} FROM {{settled}} WHERE {suspect} "
        f"UNION ALL SELECT {columns}, {WEIGHT} FROM {{tail}}"
    )
    summed = sum_weights_sql(table, f"({weighed})")
    touched = repeat_rows_sql(table, f"({summed})")
    return f"SELECT {columns} FROM {{settled}} WHERE NOT {suspect} UNION ALL {touched}"


def _render_counted(table: Table, hint: str) -> str:
    """Rows may repeat, so a touched row is counted; untouched rows pass by."""
    columns, base, same = columns_sql(table), columns_sql(table, "base."), same_row_sql(table)
    deleted = f"(SELECT {columns} FROM {{net}} WHERE {WEIGHT} < 0) AS deleted"
    touched = (
        f"SELECT {hint} {base}, 1 AS {WEIGHT} FROM {{settled}} AS base LEFT SEMI JOIN {deleted} ON {same} "
        f"UNION ALL SELECT {columns}, {WEIGHT} FROM {{net}} WHERE {WEIGHT} < 0"
    )
    counted = sum_weights_sql(table, f"({touched})")
    return (
        f"SELECT {hint} {base} FROM {{settled}} AS base LEFT ANTI JOIN {deleted} ON {same} "
        f"UNION ALL {repeat_rows_sql(table, f'({counted})')} "
        f"UNION ALL {repeat_rows_sql(table, '{net}')}"
    )


def sum_weights_sql(table: Table, source: str) -> str:
    """The sum of weights of each different row, without zeros.

    Grouping would turn −0.0 into 0.0, so the sign of a zero is kept beside it.
    """
    floats = [c for c in table.columns if holds_float(c.type)]
    zeros = {c.name: quote(f"_trickle_zero_{n}") for n, c in enumerate(floats)}
    outer = ", ".join(_restore_sign(c, zeros.get(c.name)) for c in table.columns)
    keys = ", ".join([quote(c) for c in table.column_names] + list(zeros.values()))
    extra = "".join(f", {_render_sign(c)} AS {zeros[c.name]}" for c in floats)
    inner = f"SELECT {columns_sql(table)}, {WEIGHT}{extra} FROM {source} AS weighed"
    return (
        f"SELECT {outer}, CAST(sum({WEIGHT}) AS INT) AS {WEIGHT} FROM ({inner}) "
        f"GROUP BY {keys} HAVING sum({WEIGHT}) <> 0"
    )


def _render_sign(column: TableColumn) -> str:
    name = quote(column.name)
    return f"CASE WHEN {name} = 0 THEN string({name}) END" if is_float(column.type) else f"string({name})"


def _restore_sign(column: TableColumn, zero: str | None) -> str:
    name = column.name
    if zero is None:
        return quote(name)
    if not is_float(column.type):
        return f"first({quote(name)}) AS {quote(name)}"
    return f"CASE WHEN {zero} = '-0.0' THEN -{quote(name)} ELSE {quote(name)} END AS {quote(name)}"


def repeat_rows_sql(table: Table, source: str) -> str:
    """Each row as often as its weight says."""
    return (
        f"SELECT {columns_sql(table)} FROM {source} AS counted "
        f"LATERAL VIEW explode(array_repeat(0, greatest({WEIGHT}, 0))) _trickle_copies AS _trickle_copy"
    )

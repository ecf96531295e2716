"""NOT NULL, PRIMARY KEY and one hit per row: checked before anything is committed, offending values named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.dml.actions import ACTION, DELETE, TARGET, old_image
from spark_trickle.errors import DuplicateKeyError, MergeCardinalityError, NotNullViolationError, shorten_text
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.files import DataFile
from spark_trickle.model.table import WEIGHT, Table, TableColumn
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect, run_sql
from spark_trickle.sql.lexer.words import quote
from spark_trickle.txn.keys import comparable_key, find_files_meeting, list_bounded_columns, row_tuples
from spark_trickle.txn.store import write_down
from spark_trickle.txn.work import Work

_SHOWN = 5  # offending rows that an error names


def show_values(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    return tuple(
        f"({', '.join('NULL' if v is None else shorten_text(str(v)) for v in row)})" for row in rows[:_SHOWN]
    )


def _list_required_columns(table: Table) -> list[TableColumn]:
    return [c for c in table.columns if not c.nullable]


# --- NOT NULL ------------------------------------------------------------------------------------


def check_nulls(table: Table, rows: pa.Table) -> None:
    for column in _list_required_columns(table):
        if rows.column(column.name).null_count:
            bad = rows.filter(pc.is_null(rows.column(column.name))).select(list(table.column_names))
            raise _null_error(table, column, bad)


def _null_error(table: Table, column: TableColumn, bad: pa.Table) -> NotNullViolationError:
    rows = row_tuples(bad.slice(0, _SHOWN), bad.column_names)
    return NotNullViolationError(table.full_name, column.name, show_values(rows))


def check_stored_nulls(work: Work, table: Table, files: Sequence[DataFile]) -> None:
    """The statistics of the new files tell of nulls; only nested columns must be read for that."""
    for column in _list_required_columns(table):
        counts = [s.nulls for f in files for s in f.stats if s.column_id == column.id]
        if len(counts) == len(files) and all(n == 0 for n in counts):
            continue
        stored = rows_with_weights(work.place.spark, work.place.storage, table, files)
        bad = stored.where(f"{quote(column.name)} IS NULL AND {WEIGHT} > 0").drop(WEIGHT).limit(_SHOWN)
        if (found := collect(bad)).num_rows:
            raise _null_error(table, column, found)


# --- PRIMARY KEY -----------------------------------------------------------------------------------


def check_keys(work: Work, table: Table, come: pa.Table, gone: pa.Table | None) -> None:
    """No key twice among the new rows, none that exists and is not removed by the same change."""
    names = [c.name for c in table.key_columns]
    counts = Counter(comparable_key(k) for k in row_tuples(come, names))
    if twice := [k for k, n in counts.items() if n > 1]:
        raise _key_error(table, twice)
    files = _find_overlapping_files(work, table, come)
    if not files:
        return
    existing = _read_existing_keys(work, table, come.select(names), files)
    removed = {comparable_key(k) for k in row_tuples(gone, names)} if gone is not None else set()
    if left := [k for k in existing if comparable_key(k) not in removed]:
        raise _key_error(table, left)


def _key_error(table: Table, keys: Sequence[tuple[Any, ...]]) -> DuplicateKeyError:
    return DuplicateKeyError(table.full_name, tuple(c.name for c in table.key_columns), show_values(keys))


def _read_existing_keys(
    work: Work, table: Table, keys: pa.Table, files: Sequence[DataFile]
) -> list[tuple[Any, ...]]:
    names = [c.name for c in table.key_columns]
    text = (
        f"SELECT {', '.join(f'rows.{quote(n)}' for n in names)} FROM {{rows}} AS rows "
        f"LEFT SEMI JOIN {{keys}} AS new ON {_render_equality(names, 'rows', 'new')}"
    )
    frame = run_sql(
        work.place.spark,
        text,
        rows=work.rows_of(table, files),
        keys=local_frame(work.place.spark, table, keys),
    )
    return row_tuples(collect(frame), names)


def _render_equality(names: Sequence[str], left: str, right: str) -> str:
    return " AND ".join(f"{left}.{quote(n)} = {right}.{quote(n)}" for n in names)


def _find_overlapping_files(work: Work, table: Table, rows: pa.Table) -> tuple[DataFile, ...]:
    """The files whose key ranges meet those of some rows; rows of one key are never split by this."""
    files = work.files(table)
    columns = list_bounded_columns(table)
    if not files or not columns:
        return files
    with open_reader(work.place.warehouse.engine) as connection:
        return find_files_meeting(read.add_bounds(connection, files, [c.id for c in columns]), columns, rows)


def check_stored_keys(work: Work, table: Table, files: Sequence[DataFile]) -> None:
    """The same for rows that stay on the executors: the sum over old and new of each new key is one."""
    names = [c.name for c in table.key_columns]
    keys = ", ".join(quote(n) for n in names)
    place = work.place
    stored = rows_with_weights(place.spark, place.storage, table, files)
    text = f"SELECT {keys}, {WEIGHT} FROM {{stored}}"
    frames: dict[str, Any] = {"stored": stored}
    if existing := work.files(table):
        frames["rows"] = work.rows_of(table, existing)
        text += (
            f" UNION ALL SELECT {', '.join(f'rows.{quote(n)}' for n in names)}, 1 FROM {{rows}} AS rows "
            f"LEFT SEMI JOIN (SELECT {keys} FROM {{stored}} WHERE {WEIGHT} > 0) AS new "
            f"ON {_render_equality(names, 'rows', 'new')}"
        )
    grouped = f"SELECT {keys} FROM ({text}) GROUP BY {keys} HAVING sum({WEIGHT}) > 1 LIMIT {_SHOWN}"
    found = collect(run_sql(place.spark, grouped, **frames))
    if found.num_rows:
        raise _key_error(table, row_tuples(found, names))


# --- one hit per row -------------------------------------------------------------------------------


def one_hit_each(table: Table, rows: pa.Table) -> pa.Table:
    """Rows with each target once; two deletions of a row are one, anything else is an error."""
    hits = rows.filter(pc.is_valid(rows.column(TARGET)))
    counted = hits.group_by([TARGET]).aggregate([([], "count_all"), (ACTION, "max"), (ACTION, "min")])
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    if not twice.num_rows:
        return rows
    kinds = set(twice.column(f"{ACTION}_max").to_pylist()) | set(twice.column(f"{ACTION}_min").to_pylist())
    if kinds != {DELETE}:
        bad = rows.filter(pc.is_in(rows.column(TARGET), twice.column(TARGET).combine_chunks()))
        raise _hit_error(table, bad)
    first = pa.table({"n": pa.array(range(rows.num_rows)), TARGET: rows.column(TARGET)}).group_by([TARGET])
    keep = first.aggregate([("n", "min")]).column("n_min")
    inserted = [n for n, t in enumerate(rows.column(TARGET).to_pylist()) if t is None]
    return rows.take(pa.array(sorted({*keep.to_pylist(), *inserted})))


def _hit_error(table: Table, bad: pa.Table) -> MergeCardinalityError:
    names = [old_image(n) for n in range(len(table.columns))]
    unique = dict.fromkeys(show_values(row_tuples(bad.slice(0, 50), names)))
    return MergeCardinalityError(table.full_name, tuple(unique))


def one_hit_each_staged(work: Work, table: Table, frame: Frame) -> Frame:
    """The same on the executors, over rows that are written down first so that they stay as they are."""
    staged = write_down(work, table, frame)
    hits = f"SELECT {TARGET} FROM {{staged}} WHERE {TARGET} IS NOT NULL GROUP BY {TARGET} HAVING count(*) > 1"
    wrong = f"{hits} AND max({ACTION} <> '{DELETE}') LIMIT 50"
    shown_columns = ", ".join(f"string({old_image(n)}) AS {old_image(n)}" for n in range(len(table.columns)))
    text = f"SELECT {shown_columns} FROM {{staged}} WHERE {TARGET} IN ({wrong})"
    bad = collect(run_sql(work.place.spark, text, staged=staged).limit(50))
    if bad.num_rows:
        raise _hit_error(table, bad)
    # Rows that no source row matched have no number; each of them stands for itself.
    again = f"{ACTION} = '{DELETE}' AND {TARGET} IS NOT NULL"
    return staged.where(again).dropDuplicates([TARGET]).unionByName(staged.where(f"NOT ({again})"))

"""INSERT and appended DataFrames -> new rows."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.dml import actions, rows
from spark_trickle.dml.assign import default_sql, render_stored
from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError
from spark_trickle.model.commit import TableChange
from spark_trickle.model.report import Result
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.run import run_sql
from spark_trickle.spark.types import cast_name
from spark_trickle.sql.statements.kinds import Insert
from spark_trickle.sql.statements.parse_rows import read_values_rows
from spark_trickle.txn.query import count_referenced_rows, run_query
from spark_trickle.txn.work import Work


def insert_rows(work: Work, statement: Insert) -> Result:
    table = work.find_target(statement.table)
    values = read_values_rows(statement.source)
    source = statement.source
    if values is not None and any(v.upper() == "DEFAULT" for row in values for v in row):
        source = _with_defaults(table, statement, values)
    frame = run_query(work, statement.ctes + source)
    names = frame.columns if statement.by_name else statement.columns
    most = len(values) if values is not None else guess_rows(work, statement.ctes + statement.source)
    if statement.overwrite:
        return _overwrite_table(work, table, frame, tuple(names), most)
    return insert_frame(work, table, frame, tuple(names), most)


def append_frame(work: Work, table: Table, frame: Frame) -> Result:
    """Rows of a DataFrame, its columns found by name."""
    return insert_frame(
        work, table, frame, tuple(frame.columns), rows.Guess.MAYBE_FEW if frame.isLocal() else rows.Guess.MANY
    )


def insert_frame(
    work: Work, table: Table, frame: Frame, names: tuple[str, ...], most: rows.MostRows
) -> Result:
    plan = rows.RowPlan(
        table, _new_images(work, table, frame, names), has_old=False, has_new=True, most_rows=most
    )
    return rows.apply_plan(work, plan)


def guess_rows(work: Work, source: str) -> rows.Guess:
    """A query over small tables is tried at the driver; any other is left to the executors at once."""
    known = count_referenced_rows(work, source)
    small = known is not None and known <= work.place.settings.max_driver_rows
    return rows.Guess.MAYBE_FEW if small else rows.Guess.MANY


def _overwrite_table(
    work: Work, table: Table, frame: Frame, names: tuple[str, ...], most: rows.MostRows
) -> Result:
    """The new rows are computed before the old ones go: the query may read them."""
    emptied = _has_content(work, table)
    scratch = work.begin_scratch(empty=[table])
    scratch.state = replace(scratch.state, changes={})
    result = insert_frame(scratch, table, frame, names, most)
    added = scratch.changes[table.id].added if table.id in scratch.changes else ()
    removed = truncate_table(work, table) if emptied else Result()
    work.reads.note_table(table.id, by_statement=True)
    work.change(TableChange(table, added=added))
    return replace(result, rows_deleted=removed.rows_deleted)


def _has_content(work: Work, table: Table) -> bool:
    return bool(work.files(table))


def _find_targets(table: Table, frame: Frame, names: tuple[str, ...]) -> list[TableColumn]:
    """The column that each value of the source goes to."""
    if not names:
        if len(frame.columns) != len(table.columns):
            raise InvalidDefinitionError(
                f'"{table.full_name}" has {len(table.columns)} columns, '
                f"but there are {len(frame.columns)} values",
                f"Give values for {', '.join(table.column_names)}, or name columns: INSERT INTO t (a, b) …",
            )
        return list(table.columns)
    if len(names) != len(frame.columns):
        raise InvalidDefinitionError(
            f"{len(names)} columns are named, but there are {len(frame.columns)} values",
            "Give one value for each named column.",
        )
    lowered = [n.lower() for n in names]
    if len(set(lowered)) != len(lowered):
        raise InvalidDefinitionError("a column is named twice", "Name each column once.")
    return [table.column(n) for n in names]


def _new_images(work: Work, table: Table, frame: Frame, names: tuple[str, ...]) -> Frame:
    targets = _find_targets(table, frame, names)
    source = frame.toDF(*[f"_v{n}" for n in range(len(targets))])
    given = {c.id: n for n, c in enumerate(targets)}
    columns = []
    for n, column in enumerate(table.columns):
        value = (
            render_stored(source, f"_v{given[column.id]}", column)
            if column.id in given
            else default_sql(column)
        )
        columns.append(f"{value} AS {actions.new_image(n)}")
    text = f"SELECT {', '.join(columns)}, '{actions.INSERT}' AS {actions.ACTION} FROM {{source}}"
    return run_sql(work.place.spark, text, source=source)


def _with_defaults(table: Table, statement: Insert, values: list[list[str]]) -> str:
    """VALUES with the word DEFAULT replaced by what it stands for."""
    targets = [table.column(n) for n in statement.columns] if statement.columns else list(table.columns)
    filled = []
    for row in values:
        if len(row) != len(targets):
            raise InvalidDefinitionError(
                f"{len(targets)} columns, but a row has {len(row)} values", "Give one value for each column."
            )
        # Whether it fits is seen when it is stored, like any value; VALUES takes only plain expressions.
        cells = [
            f"CAST({c.default or 'NULL'} AS {cast_name(c.type)})" if v.upper() == "DEFAULT" else v
            for c, v in zip(targets, row, strict=True)
        ]
        filled.append(f"({', '.join(cells)})")
    return f"VALUES {', '.join(filled)}"


def require_columns(table: Table, names: tuple[str, ...]) -> None:
    for name in names:
        if not table.has_column(name):
            raise ColumnNotFoundError(name, table.column_names)

"""DELETE and TRUNCATE -> deleted rows."""

from __future__ import annotations

from spark_trickle.dml import actions, rows
from spark_trickle.dml.choices import RowChoice, choose_among, note_choice
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.report import Result
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.collect import collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.statements.bounds import count_most_key_rows
from spark_trickle.sql.statements.determinism import judges_values
from spark_trickle.sql.statements.kinds import Delete, Update
from spark_trickle.txn.query import run_query
from spark_trickle.txn.store import fits_arrow, store_frame, store_rows
from spark_trickle.txn.work import Work


def delete_rows(work: Work, statement: Delete) -> Result:
    table = work.find_target(statement.table)
    if statement.where is None and statement.source is None:
        return truncate_table(work, table)
    alias = quote(statement.alias or table.name)
    condition = statement.where or "true"
    target = f"{target_sql(table)} AS {alias}"
    if statement.source is not None:
        # Inside EXISTS a name that both have would mean the source; side by side Spark calls it ambiguous.
        text = f"{statement.ctes}SELECT 1 FROM {target}, {statement.source} WHERE {condition}"
        run_query(work, text, target=choose_among(work, table))
        condition = f"EXISTS (SELECT 1 FROM {statement.source} WHERE {condition})"
    images = ", ".join(
        f"{alias}.{quote(c)} AS {actions.old_image(n)}" for n, c in enumerate(table.column_names)
    )
    select = f"{statement.ctes}SELECT {images}, '{actions.DELETE}' AS {actions.ACTION}"
    text = f"{select} FROM {target} WHERE {condition}"
    note_choice(work, table, RowChoice(statement.ctes, target, condition))
    plan = rows.RowPlan(
        table,
        run_query(work, text, target=choose_among(work, table)),
        has_old=True,
        has_new=False,
        most_rows=most_target_rows(work, table, statement, statement.source is None),
        whole=judges_values(statement.ctes, statement.source, statement.where),
    )
    return rows.apply_plan(work, plan)


def target_sql(table: Table) -> str:
    return f"{quote(table.schema)}.{quote(table.name)}"


def most_target_rows(work: Work, table: Table, statement: Update | Delete, alone: bool) -> rows.MostRows:
    """How many rows of a table a condition can meet, as far as the catalog and the condition tell."""
    total, where = work.row_count(table), statement.where
    if where and table.unique:
        key = tuple(c.name for c in table.key_columns)
        keyed = count_most_key_rows(where, key, (statement.alias or table.name,))
        total = total if keyed is None else min(total, keyed)
    if total <= work.place.settings.max_driver_rows:
        return total
    return rows.Guess.MAYBE_FEW if alone and where else rows.Guess.MANY


def truncate_table(work: Work, table: Table, in_sum: bool = False) -> Result:
    """All rows go: no file stays, and the change feed tells what they held, or its sum does."""
    work.reads.note_table(table.id, by_statement=True)
    files = work.files(table)
    count = work.row_count(table)
    if not files:
        return Result()
    removed = _list_feed_files(work, table, files, count, in_sum) if count else ()
    work.change(TableChange(table, feed_only=removed, ended=files))
    return Result(rows_deleted=count)


def _list_feed_files(
    work: Work, table: Table, files: tuple[DataFile, ...], count: int, in_sum: bool
) -> tuple[DataFile, ...]:
    """Files without deletions tell it themselves; else what is left of them is written down.

    Where a sum will do, files with deletions tell it too: what they took away comes back, and cancels.
    """
    if not any((f.deletes and not in_sum) or f.by_name for f in files):
        work.place.storage.check(table, files)
        as_of = work.next_as_of()
        return tuple(f.make_removal(as_of) for f in files)
    frame = _mark_removed(work.rows(table))
    room = room_of_statement(work.place.settings)
    few = collect_known(frame, room, count) if fits_arrow(table) else None
    return store_frame(work, table, frame) if few is None else store_rows(work, table, few)


def _mark_removed(frame: Frame) -> Frame:
    return frame.selectExpr("*", f"-1 AS {WEIGHT}")

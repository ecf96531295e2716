"""Old and new images of changed rows -> a stored, checked change of one table.

Every statement that changes rows ends here: it describes its rows as a DataFrame of actions, and this
module decides where they are handled. Few rows come to the driver as Arrow; many stay on the executors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.dml import constraints
from spark_trickle.dml.actions import ACTION, DELETE, INSERT, SAME, UPDATE, new_image, old_image
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.report import Result
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.spark.collect import collect_few, collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.observe import observe_counts
from spark_trickle.spark.run import select_columns
from spark_trickle.spark.session import require_ansi
from spark_trickle.sql.lexer.words import quote
from spark_trickle.txn.store import fits_arrow, store_frame, store_rows
from spark_trickle.txn.work import Work


class Guess(Enum):
    """How many rows a plan has, where no number is known."""

    MAYBE_FEW = "try the driver first"
    MANY = "more than the driver may hold, or too expensive to compute twice"


MostRows: TypeAlias = int | Guess


@dataclass(frozen=True)
class RowPlan:
    """What a statement does to the rows of a table.

    `frame` has the old image (_o0 …), the new image (_n0 …), both or one of them, the action of each
    row, and, where one row could be hit twice, a number for its target.
    """

    table: Table
    frame: Frame
    has_old: bool
    has_new: bool
    most_rows: MostRows = Guess.MAYBE_FEW
    changes_key: bool = True  # new images may bring keys that the old ones did not have
    single_hit: bool = False  # a target row hit twice is an error
    whole: bool = False  # a row that goes, goes with all its equals: the statement looks at values only
    is_update: bool = False


def apply_plan(work: Work, plan: RowPlan) -> Result:
    """Store the change and add it to the transaction."""
    require_ansi(work.place.spark)
    rows = _collect_actions(work, plan)
    if rows is not None:
        result, files = _apply_small(work, plan, rows)
    else:
        result, files = _apply_large(work, plan)
    updates = plan.is_update and not plan.table.key
    added = tuple(replace(f, updates=updates, whole=plan.whole) for f in files)
    work.change(TableChange(plan.table, added=added))
    return result


def _collect_actions(work: Work, plan: RowPlan) -> pa.Table | None:
    room = room_of_statement(work.place.settings)
    if not fits_arrow(plan.table):
        return None
    match plan.most_rows:
        case Guess.MAYBE_FEW:
            return collect_few(plan.frame, room)
        case Guess.MANY:
            return None
        case most:
            return collect_known(plan.frame, room, most) if most <= room.rows else None


# --- few rows --------------------------------------------------------------------------------------


def _apply_small(work: Work, plan: RowPlan, rows: pa.Table) -> tuple[Result, tuple[DataFile, ...]]:
    if plan.single_hit:
        rows = constraints.one_hit_each(plan.table, rows)
    result = _count_actions(rows)
    if SAME in rows.column_names:
        rows = rows.filter(pc.invert(rows.column(SAME)))
    gone = _select_image(plan, rows, old_image, (UPDATE, DELETE), -1) if plan.has_old else None
    come = _select_image(plan, rows, new_image, (UPDATE, INSERT), 1) if plan.has_new else None
    if come is not None and come.num_rows:
        constraints.check_nulls(plan.table, come)
        if plan.changes_key and plan.table.unique:
            constraints.check_keys(work, plan.table, come, gone)
    both = pa.concat_tables([t for t in (gone, come) if t is not None])
    return result, store_rows(work, plan.table, both)


def _count_actions(rows: pa.Table) -> Result:
    counts = {v["values"]: v["counts"] for v in pc.value_counts(rows.column(ACTION)).to_pylist()}
    return Result(counts.get(INSERT, 0), counts.get(UPDATE, 0), counts.get(DELETE, 0))


def _select_image(
    plan: RowPlan, rows: pa.Table, side: Callable[[int], str], actions: tuple[str, ...], weight: int
) -> pa.Table:
    chosen = rows.filter(pc.is_in(rows.column(ACTION), pa.array(actions)))
    columns = {c.name: chosen.column(side(n)) for n, c in enumerate(plan.table.columns)}
    columns[WEIGHT] = pa.chunked_array([pa.array([weight] * chosen.num_rows, pa.int32())])
    return pa.table(columns)


# --- many rows -------------------------------------------------------------------------------------


def _apply_large(work: Work, plan: RowPlan) -> tuple[Result, tuple[DataFile, ...]]:
    frame = plan.frame
    if plan.single_hit:
        # Rows are numbered while they are computed, so they must be computed only once.
        frame = constraints.one_hit_each_staged(work, plan.table, frame)
    counted, read_counts = observe_counts(
        frame, {a: f"count_if({ACTION} = '{a}')" for a in (INSERT, UPDATE, DELETE)}
    )
    files = store_frame(work, plan.table, _weigh_images(plan, counted))
    counts = read_counts()
    result = Result(counts[INSERT], counts[UPDATE], counts[DELETE])
    if plan.has_new:
        constraints.check_stored_nulls(work, plan.table, files)
        if plan.changes_key and plan.table.unique:
            constraints.check_stored_keys(work, plan.table, files)
    return result, files


def _weigh_images(plan: RowPlan, frame: Frame) -> Frame:
    """Each row of actions becomes its old image at −1 and its new image at +1.

    Without SQL text around the frame: over Spark Connect, what is observed inside a text is lost.
    """
    table = plan.table
    images = []
    if plan.has_old:
        images.append((old_image, f"{ACTION} <> '{INSERT}'", -1))
    if plan.has_new:
        images.append((new_image, f"{ACTION} <> '{DELETE}'", 1))
    if len(images) == 1:
        side, _, weight = images[0]
        columns = [f"{side(n)} AS {quote(c.name)}" for n, c in enumerate(table.columns)]
        return select_columns(frame, *columns, f"{weight} AS {WEIGHT}")
    structs = []
    for side, condition, weight in images:
        fields = ", ".join(f"{side(n)} AS {quote(c.name)}" for n, c in enumerate(table.columns))
        structs.append(f"IF({condition}, struct({fields}, {weight} AS {WEIGHT}), NULL)")
    images_of_row = f"filter(array({', '.join(structs)}), image -> image IS NOT NULL)"
    return select_columns(frame.where(f"NOT {SAME}"), f"inline({images_of_row})")

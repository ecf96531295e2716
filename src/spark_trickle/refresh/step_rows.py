"""The steps of a plan -> their rows, under the names by which later plans read them."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Fixpoint, Shaken, Unfit
from spark_trickle.algebra.operators import Operator
from spark_trickle.model.room import room_of_refresh, room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.plan.steps import Step, with_steps
from spark_trickle.refresh.fixpoint import run_fixpoint
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.spark.collect import collect_within
from spark_trickle.spark.frames import Frame, as_frame
from spark_trickle.spark.run import collect, count, run_sql
from spark_trickle.sql.dialect.moments import fix_moment
from spark_trickle.sql.render.query import render
from spark_trickle.txn.store import write_down


def run_steps(inputs: Inputs, table: Table, plan: Operator, prefix: str = "k") -> Operator:
    """What is left of a plan when the rows of its steps are there."""
    steps, rest = with_steps(plan, prefix)
    for step in steps:
        _found(inputs, table, step)
    return rest


def frame_of(inputs: Inputs, plan: Operator) -> Frame:
    """The rows of a plan; all nodes of a refresh see the clock at one moment."""
    text = render(plan)
    if inputs.moment is not None and inputs.stream.moments:
        text = fix_moment(text, inputs.moment)
    return run_sql(inputs.work.place.spark, text, available=(), **inputs.frames(plan))


def _found(inputs: Inputs, table: Table, step: Step) -> None:
    if isinstance(step.plan, Fixpoint):
        run_fixpoint(step.plan, step.name, Driver(inputs, table))
    else:
        frame, rows = _computed(inputs, table, frame_of(inputs, step.plan))
        inputs.found[step.name] = frame
        if remark := _read_again(step.plan, rows):
            inputs.remarks.append(remark)


def _read_again(plan: Operator, rows: pa.Table | None) -> str | None:
    """What a change makes necessary to read beyond the change itself."""
    count = "many" if rows is None else rows.num_rows
    match plan:
        case Unfit() if count:
            return (
                "the first rows were chosen again from the whole input because too few or too many were kept"
            )
        case Shaken() if count:
            lost = "lost their smallest or largest value" if plan.picks else ""
            unfit = "have numbers that an exact sum cannot hold" if plan.left_out else ""
            return f"{count} groups were read again because they {' or '.join(filter(None, (lost, unfit)))}"
    return None


@dataclass
class Driver:
    """Fixpoints on Spark: few rows stay at the driver, so a small round is a small job."""

    inputs: Inputs
    stored: Table
    _rows: dict[str, pa.Table | None] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """The stream table: users know nothing of the tables of its nodes."""
        return self.inputs.result.full_name

    @property
    def most_rounds(self) -> int:
        return self.inputs.work.place.settings.max_recursion_depth

    @property
    def most_rows(self) -> int:
        work = self.inputs.work
        return work.row_count(self.stored) + work.place.settings.max_driver_rows

    def put(self, name: str, plan: Operator) -> int:
        frame, rows = _computed(self.inputs, self.stored, self._planned(name, plan))
        self.inputs.found[name], self._rows[name] = frame, rows
        if not plan.weighted:
            return count(frame) if rows is None else rows.num_rows
        if rows is None:
            rows = collect(frame.selectExpr(f"sum(abs({WEIGHT})) AS {WEIGHT}"))
        return int(pc.sum(pc.abs(rows.column(WEIGHT))).as_py() or 0)

    def copy(self, name: str, source: str) -> None:
        self.inputs.found[name], self._rows[name] = self.inputs.found[source], self._rows[source]

    def add(self, name: str, source: str) -> None:
        found, one, two = self.inputs.found, self._rows[name], self._rows[source]
        rows = None if one is None or two is None else _together(one, two)
        if rows is None or not room_of_statement(self.inputs.work.place.settings).has(rows):
            found[name], self._rows[name] = found[name].unionByName(found[source]), None
        else:
            found[name], self._rows[name] = as_frame(found[source], rows), rows

    def answer(self, name: str, plan: Operator) -> None:
        self.inputs.found[name] = self._planned(name, plan)

    def remark(self, text: str) -> None:
        self.inputs.remarks.append(text)

    def _planned(self, name: str, plan: Operator) -> Frame:
        return frame_of(self.inputs, run_steps(self.inputs, self.stored, plan, f"k_{name}_"))


def _together(one: pa.Table, two: pa.Table) -> pa.Table | None:
    """All rows, unless types differ within; whether a column may have nulls does not matter."""
    if [f.type for f in one.schema] != [f.type for f in two.schema]:
        return None
    return pa.concat_tables(
        [pa.table(dict(zip(one.column_names, t.columns, strict=True))) for t in (one, two)]
    )


def _computed(inputs: Inputs, table: Table, frame: Frame) -> tuple[Frame, pa.Table | None]:
    """A frame computed once: at the driver, with its rows, or written down if it is large."""
    work = inputs.work
    rows = collect_within(frame, room_of_refresh(work.place.settings), inputs.row_bytes)
    if rows is not None:
        return as_frame(frame, rows), rows
    return write_down(work, table, frame), None

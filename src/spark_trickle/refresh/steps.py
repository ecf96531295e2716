"""The steps of a plan -> their rows, under the names by which later plans read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Fixpoint, Shaken, Unfit
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import ComputedRef, RoundRef, StepRef
from spark_trickle.model.execution import Engine, Execution
from spark_trickle.model.room import room_of_refresh, room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.plan.pipeline import STEPS, Context, Tree, plan_trees
from spark_trickle.refresh.executions import add_round, note_rounds, note_spark
from spark_trickle.refresh.fixpoint import run_fixpoint
from spark_trickle.refresh.inputs import Inputs, StepRows
from spark_trickle.refresh.place import Placement
from spark_trickle.spark.collect import TooLarge, collect_within
from spark_trickle.spark.frames import Frame, as_frame
from spark_trickle.spark.run import collect, count, run_sql
from spark_trickle.sql.render.query import render
from spark_trickle.txn.store import write_down


@dataclass(frozen=True)
class StepsDone:
    """What plans read after some steps, and what these read beyond the change itself."""

    inputs: Inputs
    remarks: tuple[str, ...] = ()
    executions: tuple[Execution, ...] = ()


_WRITTEN_DOWN = Placement(Engine.EXECUTORS, "more rows came of it than the driver may hold")


def run_steps(inputs: Inputs, table: Table, trees: Sequence[Tree], placement: Placement) -> StepsDone:
    """Steps in their order; each may read those before it."""
    done = StepsDone(inputs)
    for tree in trees:
        after = _run_step(done.inputs, table, tree, placement)
        remarks, executions = (*done.remarks, *after.remarks), (*done.executions, *after.executions)
        done = StepsDone(after.inputs, remarks, executions)
    return done


def build_frame(inputs: Inputs, plan: Operator) -> Frame:
    """The rows of a plan without steps, before any job."""
    return run_sql(inputs.work.place.spark, render(plan), available=(), **inputs.read_frames(plan))


def _run_step(inputs: Inputs, table: Table, tree: Tree, placement: Placement) -> StepsDone:
    assert tree.step is not None
    if isinstance(tree.plan, Fixpoint):
        rounds = SparkRounds(inputs, table, placement)
        run_fixpoint(tree.plan, tree.step, rounds)
        return StepsDone(rounds.inputs, tuple(rounds.remarks), rounds.list_executions(tree.label))
    start = perf_counter()
    found = _compute_rows(inputs, table, build_frame(inputs, tree.plan))
    if found.rows is None:
        placement = _WRITTEN_DOWN
    note = note_spark(tree, placement, inputs, perf_counter() - start, found.count)
    remark = _read_again(tree.plan, found.count)
    return StepsDone(inputs.with_steps({tree.step: found}), (remark,) if remark else (), (note,))


def _read_again(plan: Operator, rows: int | None) -> str | None:
    """What a change makes necessary to read beyond the change itself."""
    count = "many" if rows is None else rows
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
class RoundsOfPlan:
    """What one plan of a recursion took in all rounds."""

    rounds: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass
class SparkRounds:
    """Fixpoints on Spark: few rows stay at the driver, so a small round is a small job."""

    inputs: Inputs
    stored: Table
    placement: Placement
    remarks: list[str] = field(default_factory=list)
    _done: dict[tuple[RoundRef, Operator], RoundsOfPlan] = field(default_factory=dict)
    _steps: dict[str, Execution] = field(default_factory=dict)  # of its plans, over all rounds

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

    def put(self, name: RoundRef, plan: Operator) -> int:
        start = perf_counter()
        found = self._put_rows(name, plan)
        done = self._done.setdefault((name, plan), RoundsOfPlan())
        done.rounds += 1
        done.rows += found
        done.seconds += perf_counter() - start
        return found

    def list_executions(self, label: str) -> tuple[Execution, ...]:
        """What ran, plan by plan."""
        plans = (
            note_rounds(
                f"{label} {name}", self.placement, plan, done.rounds, self.inputs, done.seconds, done.rows
            )
            for (name, plan), done in self._done.items()
        )
        return (*self._steps.values(), *plans)

    def _put_rows(self, name: RoundRef, plan: Operator) -> int:
        found = _compute_rows(self.inputs, self.stored, self._prepare_plan(name, plan))
        self._keep_rows(name, found)
        if not plan.weighted:
            return count(found.frame) if found.count is None else found.count
        rows = found.rows
        if rows is None:
            rows = collect(found.frame.selectExpr(f"sum(abs({WEIGHT})) AS {WEIGHT}"))
        return int(pc.sum(pc.abs(rows.column(WEIGHT))).as_py() or 0)

    def copy(self, name: RoundRef, source: RoundRef) -> None:
        self._keep_rows(name, self.inputs.steps[source])

    def add(self, name: RoundRef, source: RoundRef) -> None:
        one, two = (self.inputs.steps[n] for n in (name, source))
        rows = None if one.rows is None or two.rows is None else _concatenate_rows(one.rows, two.rows)
        if rows is None or not room_of_statement(self.inputs.work.place.settings).has(rows):
            self._keep_rows(name, StepRows(one.frame.unionByName(two.frame)))
        else:
            self._keep_rows(name, StepRows(as_frame(two.frame, rows), rows))

    def put_answer(self, name: StepRef, plan: Operator) -> None:
        self._keep_rows(name, StepRows(self._prepare_plan(name, plan)))

    def add_remark(self, text: str) -> None:
        self.remarks.append(text)

    def _keep_rows(self, name: ComputedRef, found: StepRows) -> None:
        self.inputs = self.inputs.with_steps({name: found})

    def _prepare_plan(self, name: ComputedRef, plan: Operator) -> Frame:
        """The frame of a plan, after its own steps."""
        *steps, rest = plan_trees((Tree(plan),), (STEPS,), Context(within=name))
        done = run_steps(self.inputs, self.stored, steps, self.placement)
        self.inputs = done.inputs
        self.remarks += done.remarks
        for step in done.executions:
            before = self._steps.get(step.plan)
            self._steps[step.plan] = step if before is None else add_round(before, step)
        return build_frame(self.inputs, rest.plan)


def _concatenate_rows(one: pa.Table, two: pa.Table) -> pa.Table | None:
    """All rows, unless types differ within; whether a column may have nulls does not matter."""
    if [f.type for f in one.schema] != [f.type for f in two.schema]:
        return None
    return pa.concat_tables(
        [pa.table(dict(zip(one.column_names, t.columns, strict=True))) for t in (one, two)]
    )


def _compute_rows(inputs: Inputs, table: Table, frame: Frame) -> StepRows:
    """A frame computed once: at the driver, or written down if it is large."""
    work = inputs.work
    rows = collect_within(frame, room_of_refresh(work.place.settings), inputs.row_bytes)
    if isinstance(rows, TooLarge):
        return StepRows(write_down(work, table, frame))
    return StepRows(as_frame(frame, rows), rows)

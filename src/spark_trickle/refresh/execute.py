"""A node and where it runs -> its new rows, stored; and those of the result where they cost nothing more.

Every engine answers with a value: done, given up, declined, or outgrown with what is left to do; the last two
go to the engine that the placement names next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from time import perf_counter
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Signed
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import DriverRef, NodeRef
from spark_trickle.arrow.evaluate import compute_plan
from spark_trickle.arrow.reduce import Reducer
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import TrickleError
from spark_trickle.model.arrow import single_weights, sum_weights, to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.execution import Engine, Execution
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_refresh, room_of_tail
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.plan.pipeline import FOR_SPARK, Context, Planning, Reduce, Tree, Trees, keep_whole
from spark_trickle.plan.split import Node
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.executions import note_beside, note_driver, note_empty, note_reduced, note_spark
from spark_trickle.refresh.followed import is_followed
from spark_trickle.refresh.inputs import Inputs, NodeChange, StepRows, count_source_rows
from spark_trickle.refresh.place import Placement
from spark_trickle.refresh.steps import build_frame, run_steps
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.collect import TooLarge, collect_within
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import count, run_sql
from spark_trickle.sql.render.beside import (
    KEEP,
    name_shown_columns,
    name_stored_columns,
    render_beside,
)
from spark_trickle.txn.net import net_change
from spark_trickle.txn.store import store_frame, store_rows
from spark_trickle.txn.work import Work


@dataclass(frozen=True)
class Filled:
    """How many rows were inserted into a table and deleted from it, and the memory that they take."""

    inserted: int = 0
    deleted: int = 0
    memory: int = 0

    @property
    def rows(self) -> int:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class NodeJob:
    """What is to be computed of a node, and what was done for it so far."""

    inputs: Inputs
    node: Node
    for_few: Planning  # what the driver or one task computes
    for_many: Planning
    shown_by: Node | None = None  # the result, if it follows this node and only shows its rows
    replaces: bool = False  # the new rows take the place of the stored ones
    may_give_up: bool = False  # if more rows come of it than it takes to compute everything
    remarks: tuple[str, ...] = ()
    executions: tuple[Execution, ...] = ()

    @property
    def table(self) -> Table:
        return self.inputs.tables[self.node.name]

    def planning(self, engine: Engine) -> Planning:
        """The passes for an engine."""
        return self.for_few if engine.takes_few else self.for_many


@dataclass(frozen=True)
class PlannedJob:
    """A job, and where it runs."""

    job: NodeJob
    placement: Placement


@dataclass(frozen=True)
class RestOfJob:
    """What is left of a job after the steps of its plan, which Spark has computed."""

    job: NodeJob
    plan: Operator

    @property
    def tree(self) -> Tree:
        return Tree(self.plan, self.job.node.name)


@dataclass(frozen=True)
class Done:
    """A node is up to date, and perhaps the result with it."""

    inputs: Inputs  # of the nodes that follow
    filled: Mapping[NodeRef, Filled] = field(default_factory=dict)  # by node
    remarks: tuple[str, ...] = ()
    executions: tuple[Execution, ...] = ()


@dataclass(frozen=True)
class GaveUp:
    """The change is more than it takes to compute everything, or cannot be computed alone."""

    reason: str
    executions: tuple[Execution, ...] = ()
    error: TrickleError | None = None  # why it cannot


@dataclass(frozen=True)
class Declined:
    """An engine cannot do it; another one does."""

    reason: str


@dataclass(frozen=True)
class Outgrown:
    """There are more rows than the driver may hold; the executors go on with what is left."""

    reason: str
    rest: RestOfJob


def execute_job(planned: PlannedJob, clock: Clock) -> Done | GaveUp:
    """Carry out a placement."""
    job, placement = planned.job, planned.placement
    while True:
        match _run_engine(job, placement, clock):
            case Declined(reason):
                placement = placement.fall_back(reason)
            case Outgrown(reason, rest):
                return _run_outgrown(rest, placement.fall_back(reason), clock)
            case outcome:
                return outcome


def _run_engine(job: NodeJob, placement: Placement, clock: Clock) -> Done | Declined | Outgrown:
    match placement.engine:
        case Engine.DRIVER:
            return _run_at_driver(job, placement, clock)
        case Engine.ONE_TASK | Engine.STORING_TASK:
            return _run_in_one_task(job, placement, clock)
        case Engine.COLLECTED:
            return _collect_rows(_prepare_for_many(job, placement, clock), placement, clock)
        case Engine.EXECUTORS:
            return _store_by_executors(_prepare_for_many(job, placement, clock), placement, clock)
    assert_never(placement.engine)


# --- the driver ----------------------------------------------------------------------------------------


def _run_at_driver(job: NodeJob, placement: Placement, clock: Clock) -> Done | Declined:
    with clock.phase("driver"):
        plan = job.planning(placement.engine).plan
        found = compute_plan(DriverInputs(job.inputs), plan)
        net = found if isinstance(found, Refusal) else _net_or_refusal(job.table, found.rows)
    if isinstance(found, Refusal):
        return Declined(found.reason)
    if isinstance(net, Refusal):
        return Declined(net.reason)
    with clock.phase("write"):
        files = store_rows(job.inputs.work, job.table, net)
        note = note_driver(str(job.node.name), placement.reason, plan, found, job.inputs)
        return _finish_node(job, files, net, note)


def _net_or_refusal(table: Table, rows: pa.Table) -> pa.Table | Refusal:
    try:
        return _sum_net_rows(table, rows)
    except pa.ArrowInvalid:
        return Refusal("a value does not fit its column, so Spark has to handle it")


# --- one task ------------------------------------------------------------------------------------------


def _run_in_one_task(job: NodeJob, placement: Placement, clock: Clock) -> Done | Outgrown:
    """A small change that needs Spark; and that of the result, if it only shows the rows of this node.

    It may turn out to be large, since few rows can change everything. Then it is no small job any more.
    """
    with clock.phase("driver"):
        reducer = make_reducer(job.inputs)
        planning = job.planning(placement.engine)
        trees = plan_for_spark(job, planning, reducer.reduce).trees
        notes = note_reduced(str(job.node.name), reducer.computed, job.inputs)
        job = replace(job, executions=(*job.executions, *notes))
    if not trees:
        note = note_empty(str(job.node.name), planning.plan)
        return Done(job.inputs, {job.node.name: Filled()}, job.remarks, (*job.executions, note))
    with job.inputs.work.place.run_small_jobs():
        job = replace(job, inputs=_add_rows(job.inputs, reducer.kept))
        rest = _run_steps_first(job, placement, trees, clock)
        if placement.engine is Engine.STORING_TASK:
            return _store_by_executors(rest, placement, clock)
        if job.shown_by is not None:
            return _collect_with_result(rest, job.shown_by, placement, clock)
        return _collect_rows(rest, placement, clock)


def make_reducer(inputs: Inputs) -> Reducer:
    """It computes parts of a plan at the driver, without a job, unless a setting leaves all to Spark."""
    settings = inputs.work.place.settings
    reader = DriverInputs(inputs).without_jobs() if settings.keeps_small_changes else None
    return Reducer(reader, room_of_tail(settings).has)


def _add_rows(inputs: Inputs, kept: Mapping[DriverRef, pa.Table]) -> Inputs:
    """Rows at the driver, for Spark to read under their names."""
    spark = inputs.work.place.spark
    frames = {name: create_frame(spark, rows.combine_chunks()) for name, rows in kept.items()}
    return inputs.with_steps({name: StepRows(frame, kept[name]) for name, frame in frames.items()})


def _collect_with_result(
    rest: RestOfJob, result: Node, placement: Placement, clock: Clock
) -> Done | Outgrown:
    """The change of a node and of the result that only shows its rows, by one job."""
    job, plan, start = rest.job, rest.plan, perf_counter()
    inputs = job.inputs
    with clock.phase("plan"):
        text = render_beside(plan, job.node.own, result.plan)
        frame = run_sql(inputs.work.place.spark, text, available=(), **inputs.read_frames(plan))
    with clock.phase("spark"):
        rows = collect_within(frame, room_of_refresh(inputs.work.place.settings), inputs.row_bytes)
    if isinstance(rows, TooLarge):
        return Outgrown(rows.reason, rest)
    note = note_spark(rest.tree, placement, inputs, perf_counter() - start, rows.num_rows)
    with clock.phase("write"):
        done = _store_few(job, _rename_columns(rows, name_stored_columns(job.node.own)), note)
        shown = replace(job, inputs=done.inputs, node=result, executions=done.executions)
        rows = _rename_columns(rows.filter(rows.column(KEEP)), name_shown_columns(result.plan))
        beside = note_beside(Tree(result.plan, result.name), placement, job.node.name, inputs, rows.num_rows)
        after = _store_few(shown, rows, beside)
        return replace(after, filled={**done.filled, **after.filled})


# --- Spark ---------------------------------------------------------------------------------------------


def plan_for_spark(job: NodeJob, planning: Planning, reduce: Reduce = keep_whole) -> Planning:
    """The steps of a plan and what is left of it, which comes last; nothing if it has no rows."""
    return Planning(Tree(planning.plan, job.node.name), FOR_SPARK, Context(reduce=reduce))


def _run_steps_first(job: NodeJob, placement: Placement, trees: Trees, clock: Clock) -> RestOfJob:
    """What is left of a job when its steps are done."""
    *steps, last = trees
    with clock.phase("spark"):
        done = run_steps(job.inputs, job.table, steps, placement)
    remarks, executions = (*job.remarks, *done.remarks), (*job.executions, *done.executions)
    job = replace(job, inputs=done.inputs, remarks=remarks, executions=executions)
    return RestOfJob(job, last.plan)


def _collect_rows(rest: RestOfJob, placement: Placement, clock: Clock) -> Done | Outgrown:
    """Rows that the driver can hold."""
    job, start = rest.job, perf_counter()
    inputs, frame = job.inputs, _plan_frame(rest, clock)
    with clock.phase("spark"):
        rows = collect_within(frame, room_of_refresh(inputs.work.place.settings), inputs.row_bytes)
    if isinstance(rows, TooLarge):
        return Outgrown(rows.reason, rest)
    note = note_spark(rest.tree, placement, inputs, perf_counter() - start, rows.num_rows)
    with clock.phase("write"):
        return _store_few(job, rows, note)


def _run_outgrown(rest: RestOfJob, placement: Placement, clock: Clock) -> Done | GaveUp:
    """What was to be few may be given up, but not where its followers need the difference."""
    job = rest.job
    if job.may_give_up and not is_followed(job.inputs.work, job.inputs.result):
        rows, counted = _count_rows(rest, placement, clock)
        job = replace(job, executions=(*job.executions, counted))
        if (reason := _find_excess(job, rows)) is not None:
            return GaveUp(reason, job.executions)
    return _store_by_executors(replace(rest, job=job), placement, clock)


def _prepare_for_many(job: NodeJob, placement: Placement, clock: Clock) -> RestOfJob:
    with clock.phase("plan"):
        trees = plan_for_spark(job, job.planning(placement.engine)).trees
    return _run_steps_first(job, placement, trees, clock)


def _count_rows(rest: RestOfJob, placement: Placement, clock: Clock) -> tuple[int, Execution]:
    """How many rows come of a change, by a job of its own."""
    start = perf_counter()
    frame = _plan_frame(rest, clock)
    with clock.phase("spark"):
        rows = count(frame)
    counting = replace(placement, reason=f"rows are counted first, since {placement.reason}")
    return rows, note_spark(rest.tree, counting, rest.job.inputs, perf_counter() - start, rows)


def _find_excess(job: NodeJob, rows: int) -> str | None:
    """To compute everything means to read all sources and to write what there is."""
    everything = max(count_source_rows(job.inputs), job.inputs.work.row_count(job.table))
    if rows < everything:
        return None
    return f"the change has {rows:,} rows, but everything is only {everything:,}"


def _store_by_executors(rest: RestOfJob, placement: Placement, clock: Clock) -> Done:
    """Rows that stay on the executors; new ones are written before old ones go, as queries may read them."""
    job, plan, start = rest.job, rest.plan, perf_counter()
    work, table = job.inputs.work, job.table
    work.place.follow_all_settings()
    frame = _plan_frame(rest, clock)
    is_net = job.replaces or (isinstance(plan, Signed) and plan.sign > 0)
    with clock.phase("write"):
        files = store_frame(work, table, frame if is_net else net_change(work, table, frame))
        deleted = (
            truncate_table(work, table, in_sum=True).rows_deleted if job.replaces else 0
        )  # nobody follows
        rows = sum(f.rows for f in files)
        note = note_spark(rest.tree, placement, job.inputs, perf_counter() - start, rows)
        done = _finish_node(job, files, None, note)
    filled = done.filled[job.node.name]
    return replace(done, filled={job.node.name: replace(filled, deleted=filled.deleted + deleted)})


def _plan_frame(rest: RestOfJob, clock: Clock) -> Frame:
    """The rows of a plan without steps, before any job."""
    with clock.phase("plan"):
        return build_frame(rest.job.inputs, rest.plan)


# --- storing -------------------------------------------------------------------------------------------


def _store_few(job: NodeJob, rows: pa.Table, *notes: Execution) -> Done:
    net = _sum_net_rows(job.table, rows)
    return _finish_node(job, store_rows(job.inputs.work, job.table, net), net, *notes)


def _finish_node(job: NodeJob, files: tuple[DataFile, ...], net: pa.Table | None, *notes: Execution) -> Done:
    """`net` are the rows of the files, if they are at the driver."""
    work, table = job.inputs.work, job.table
    inputs = job.inputs
    if files:
        whole = job.node.plan.rows_differ
        work.change(TableChange(table, added=tuple(replace(f, whole=whole) for f in files)))
    if files or net is None:
        frame = cache(lambda: _delta_frame(work, table, net, files))
        change = NodeChange(frame, sum(f.rows for f in files), net)
        inputs = inputs.with_change(job.node.name, change)
    deleted = sum(f.deletes for f in files)
    filled = Filled(sum(f.rows for f in files) - deleted, deleted, sum(f.memory for f in files))
    return Done(inputs, {job.node.name: filled}, job.remarks, (*job.executions, *notes))


def _delta_frame(work: Work, table: Table, net: pa.Table | None, files: tuple[DataFile, ...]) -> Frame:
    """A node that takes Spark reads many rows from their file."""
    if net is not None and room_of_refresh(work.place.settings).has(net):
        return local_frame(work.place.spark, table, net)
    return rows_with_weights(work.place.spark, work.place.storage, table, files)


def _rename_columns(rows: pa.Table, names: dict[str, str]) -> pa.Table:
    return rows.select([*names, WEIGHT]).rename_columns([*names.values(), WEIGHT])


def _sum_net_rows(table: Table, rows: pa.Table) -> pa.Table:
    """As the table stores them, each with weight +1 or −1."""
    if rows.num_rows == 0:
        return rows
    weights = rows.column(WEIGHT).cast(pa.int32())
    typed = to_storage(table, rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, weights))
    if pc.min(weights).as_py() == 1:
        return typed
    return to_storage(table, single_weights(sum_weights(table, typed)))

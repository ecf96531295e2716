"""The program of one node -> its new rows, stored; and those of the result where they cost nothing more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Signed
from spark_trickle.algebra.operators import Aggregate, Operator
from spark_trickle.arrow.evaluate import evaluate_plan
from spark_trickle.model.arrow import single_weights, sum_weights, to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_refresh, room_of_statement
from spark_trickle.model.stream import GIVEN_UP
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.plan.split import Node
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.inputs import Inputs, source_table
from spark_trickle.refresh.step_rows import frame_of, run_steps
from spark_trickle.spark.collect import collect_within
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import count, run_sql
from spark_trickle.sql.render.beside import KEEP, render_beside, shown_columns, shows_only, stored_columns
from spark_trickle.txn.net import net_change
from spark_trickle.txn.store import fits_arrow, store_frame, store_rows
from spark_trickle.txn.work import Work, now


@dataclass
class Clock:
    """How long each phase took, in milliseconds, and what made it take longer than a change should."""

    phases: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    started: datetime = field(default_factory=now)  # the moment that functions of the clock answer

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + (time.perf_counter() - start) * 1000

    def give_up(self) -> None:
        """All that was done since the decision was for nothing."""
        decide = self.phases.pop("decide", 0.0)
        self.phases = {"decide": decide, GIVEN_UP: sum(self.phases.values())}


@dataclass(frozen=True)
class Filled:
    """How many rows came to a table and went from it, and the bytes that they take at the driver."""

    come: int = 0
    gone: int = 0
    memory: int = 0

    @property
    def rows(self) -> int:
        return self.come + self.gone


def run_at_driver(here: DriverInputs, node: Node, plan: Operator, clock: Clock) -> Filled | None:
    """Compute the change of a node at the driver and store it; None if it takes Spark."""
    inputs = here.inputs
    table = inputs.tables[node.name]
    if not fits_arrow(table):
        return None
    with clock.phase("here"):
        rows = evaluate_plan(here, plan)
        try:
            net = None if rows is None else _net(table, rows)
        except pa.ArrowInvalid:  # a value that does not fit its column: Spark knows what that means
            net = None
    if net is None:
        return None
    with clock.phase("write"):
        return store_change(inputs, node, _store_net(inputs, node, table, net))


def run_node(inputs: Inputs, node: Node, plan: Operator, small: bool, clock: Clock) -> Filled:
    """Compute the change of a node by Spark and store it."""
    rest = run_steps_first(inputs, node, plan, clock)
    if (small or _is_small(inputs)) and (few := run_few(inputs, node, rest, clock)) is not None:
        return few
    return run_many(inputs, node, rest, clock)


def run_steps_first(inputs: Inputs, node: Node, plan: Operator, clock: Clock) -> Operator:
    """What is left of a plan when its steps are done."""
    with clock.phase("spark"):
        return run_steps(inputs, inputs.tables[node.name], plan)


def plan_frame(inputs: Inputs, plan: Operator, clock: Clock) -> Frame:
    """The rows of a plan without steps, before any job."""
    with clock.phase("plan"):
        return frame_of(inputs, plan)


def run_few(inputs: Inputs, node: Node, plan: Operator, clock: Clock) -> Filled | None:
    """Rows that the driver can hold; None if they are more than that."""
    table = inputs.tables[node.name]
    if not fits_arrow(table):
        return None
    frame = plan_frame(inputs, plan, clock)
    with clock.phase("spark"):
        rows = collect_within(frame, room_of_refresh(inputs.work.place.settings), inputs.row_bytes)
    if rows is None:
        return None
    with clock.phase("write"):
        return store_change(inputs, node, _store_few(inputs, node, table, rows))


def run_many(inputs: Inputs, node: Node, plan: Operator, clock: Clock) -> Filled:
    """Rows that stay on the executors."""
    inputs.work.place.follow_all_settings()
    table = inputs.tables[node.name]
    frame = plan_frame(inputs, plan, clock)
    only_comes = isinstance(plan, Signed) and plan.sign > 0
    with clock.phase("write"):
        net = frame if only_comes else net_change(inputs.work, table, frame)
        return store_change(inputs, node, _store_many(inputs, node, table, net))


class MostRowsChangeError(Exception):
    """A change of more rows than it takes to compute everything."""


def refuse_most(inputs: Inputs, node: Node, plan: Operator, clock: Clock) -> None:
    """To compute everything means to read all sources and to write what there is."""
    frame = plan_frame(inputs, plan, clock)
    with clock.phase("spark"):
        rows = count(frame)
    everything = max(source_rows(inputs), inputs.work.row_count(inputs.tables[node.name]))
    if rows >= everything:
        raise MostRowsChangeError(
            f"{rows} rows would be computed or taken away where everything is {everything}"
        )


def is_shown_beside(inputs: Inputs, node: Node, result: Node) -> bool:
    """Whether the change of a result follows from that of a node row by row, at the driver."""
    return shows_only(result.plan, node.name) and all(
        fits_arrow(inputs.tables[n.name]) for n in (node, result)
    )


def run_with_result(
    inputs: Inputs, node: Node, result: Node, plan: Operator, clock: Clock
) -> tuple[Filled, Filled] | None:
    """The change of a node and of the result that only shows its rows, by one job; None if it is too much."""
    tables = [inputs.tables[n.name] for n in (node, result)]
    with clock.phase("plan"):
        text = render_beside(plan, node.own, result.plan)
        frame = run_sql(inputs.work.place.spark, text, available=(), **inputs.frames(plan))
    with clock.phase("spark"):
        rows = collect_within(frame, room_of_refresh(inputs.work.place.settings), inputs.row_bytes)
    if rows is None:
        return None
    with clock.phase("write"):
        stored = _renamed(rows, stored_columns(node.own))
        shown = _renamed(rows.filter(rows.column(KEEP)), shown_columns(result.plan))
        first = store_change(inputs, node, _store_few(inputs, node, tables[0], stored))
        return first, store_change(inputs, result, _store_few(inputs, result, tables[1], shown))


def _renamed(rows: pa.Table, names: dict[str, str]) -> pa.Table:
    return rows.select([*names, WEIGHT]).rename_columns([*names.values(), WEIGHT])


def store_change(inputs: Inputs, node: Node, files: tuple[DataFile, ...]) -> Filled:
    if files:
        unique = isinstance(node.plan, Aggregate)
        added = tuple(replace(f, whole=unique) for f in files)
        inputs.work.change(TableChange(inputs.tables[node.name], added=added))
    come, gone = sum(f.rows - f.deletes for f in files), sum(f.deletes for f in files)
    return Filled(come, gone, sum(f.memory for f in files))


def _is_small(inputs: Inputs) -> bool:
    """Whether all sources together are so little that everything may pass through the driver."""
    files = [f for s in inputs.stream.sources for f in inputs.work.files(source_table(inputs.work, s))]
    return room_of_statement(inputs.work.place.settings).holds(files)


def source_rows(inputs: Inputs) -> int:
    return sum(inputs.work.row_count(source_table(inputs.work, s)) for s in inputs.stream.sources)


def _store_few(inputs: Inputs, node: Node, table: Table, rows: pa.Table) -> tuple[DataFile, ...]:
    return _store_net(inputs, node, table, _net(table, rows))


def _net(table: Table, rows: pa.Table) -> pa.Table:
    """As the table stores them, each with weight +1 or −1."""
    if rows.num_rows == 0:
        return rows
    weights = rows.column(WEIGHT).cast(pa.int32())
    typed = to_storage(table, rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, weights))
    if pc.min(weights).as_py() == 1:
        return typed
    return to_storage(table, single_weights(sum_weights(table, typed)))


def _store_net(inputs: Inputs, node: Node, table: Table, net: pa.Table) -> tuple[DataFile, ...]:
    work = inputs.work
    files = store_rows(work, table, net)
    if files:
        inputs.rows[node.name] = net
        inputs.deltas[node.name] = cache(lambda: _delta_frame(work, table, net, files))
    return files


def _delta_frame(work: Work, table: Table, net: pa.Table, files: tuple[DataFile, ...]) -> Frame:
    """A node that takes Spark reads many rows from their file."""
    if room_of_refresh(work.place.settings).has(net):
        return local_frame(work.place.spark, table, net)
    return rows_with_weights(work.place.spark, work.place.storage.locate, table, files)


def _store_many(inputs: Inputs, node: Node, table: Table, frame: Frame) -> tuple[DataFile, ...]:
    work = inputs.work
    files = store_frame(work, table, frame)
    inputs.deltas[node.name] = cache(
        lambda: rows_with_weights(work.place.spark, work.place.storage.locate, table, files)
    )
    return files

"""The program of one node -> its new rows, stored; and those of the result where they cost nothing more."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change import Signed
from spark_trickle.algebra.operator import Aggregate, Operator
from spark_trickle.dml.rows import cancelled_frame
from spark_trickle.dml.store import fits_arrow, store_frame, store_rows
from spark_trickle.dml.work import Work
from spark_trickle.model.arrow import single_weights, summed, to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.refresh.found import after_steps, framed
from spark_trickle.refresh.here.at_driver import AtDriver
from spark_trickle.refresh.here.rows import rows_here
from spark_trickle.refresh.inputs import Inputs, source_table
from spark_trickle.refresh.split import Node
from spark_trickle.spark.frames import Frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect_at_most, run_sql
from spark_trickle.sql.render_beside import KEEP, render_beside, shown_columns, stored_columns


@dataclass
class Clock:
    """How long each phase took, in milliseconds, and what made it take longer than a change should."""

    phases: dict[str, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + (time.perf_counter() - start) * 1000


@dataclass(frozen=True)
class Filled:
    """How many rows came to a table and went from it."""

    come: int = 0
    gone: int = 0


def run_here(here: AtDriver, node: Node, plan: Operator, clock: Clock) -> Filled | None:
    """Compute the change of a node at the driver and store it; None if it takes Spark."""
    inputs = here.inputs
    table = inputs.tables[node.name]
    if not fits_arrow(table):
        return None
    with clock.phase("here"):
        rows = rows_here(here, plan)
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
    table = inputs.tables[node.name]
    only_comes = isinstance(plan, Signed) and plan.sign > 0
    frame = planned(inputs, table, plan, clock)
    rows = None
    if (small or _is_small(inputs)) and fits_arrow(table):
        with clock.phase("spark"):
            rows = collect_at_most(frame, inputs.work.place.settings.max_refresh_rows)
    with clock.phase("write"):
        if rows is not None:
            return store_change(inputs, node, _store_few(inputs, node, table, rows))
        net = frame if only_comes else cancelled_frame(inputs.work, table, frame)
        return store_change(inputs, node, _store_many(inputs, node, table, net))


def planned(inputs: Inputs, table: Table, plan: Operator, clock: Clock) -> Frame:
    """The rows of a plan, whose steps are done and whose last job is not begun."""
    with clock.phase("spark"):
        rest = after_steps(inputs, table, plan)
    with clock.phase("plan"):
        return framed(inputs, rest)


def run_with_result(
    inputs: Inputs, node: Node, result: Node, plan: Operator, clock: Clock
) -> tuple[Filled, Filled] | None:
    """The change of a node and of the result that only shows its rows, by one job; None if it is too much."""
    tables = [inputs.tables[n.name] for n in (node, result)]
    if not all(fits_arrow(t) for t in tables):
        return None
    with clock.phase("spark"):
        plan = after_steps(inputs, tables[0], plan)
    with clock.phase("plan"):
        text = render_beside(plan, node.own, result.plan)
        frame = run_sql(inputs.work.place.spark, text, available=(), **inputs.frames(plan))
    with clock.phase("spark"):
        rows = collect_at_most(frame, inputs.work.place.settings.max_refresh_rows)
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
    return Filled(sum(f.rows - f.deletes for f in files), sum(f.deletes for f in files))


def _is_small(inputs: Inputs) -> bool:
    """Whether all sources together are so few rows that everything may pass through the driver."""
    work = inputs.work
    total = sum(work.row_count(source_table(work, s)) for s in inputs.stream.sources)
    return total <= work.place.settings.max_driver_rows


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
    return to_storage(table, single_weights(summed(table, typed)))


def _store_net(inputs: Inputs, node: Node, table: Table, net: pa.Table) -> tuple[DataFile, ...]:
    work = inputs.work
    files = store_rows(work, table, net)
    if files:
        inputs.rows[node.name] = net
        inputs.deltas[node.name] = cache(lambda: _delta_frame(work, table, net, files))
    return files


def _delta_frame(work: Work, table: Table, net: pa.Table, files: tuple[DataFile, ...]) -> Frame:
    """A node that takes Spark reads many rows from their file."""
    if net.num_rows <= work.place.settings.max_refresh_rows:
        return local_frame(work.place.spark, table, net)
    return rows_with_weights(work.place.spark, work.place.storage.locate, table, files)


def _store_many(inputs: Inputs, node: Node, table: Table, frame: Frame) -> tuple[DataFile, ...]:
    work = inputs.work
    files = store_frame(work, table, frame)
    inputs.deltas[node.name] = cache(
        lambda: rows_with_weights(work.place.spark, work.place.storage.locate, table, files)
    )
    return files

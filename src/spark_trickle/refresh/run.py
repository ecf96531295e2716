"""One refresh: decide, run the program of every node, and hand the new rows to the commit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operator import Aggregate, Operator, Recursive, Signed, UnionAll
from spark_trickle.dml.rows import cancelled_frame
from spark_trickle.dml.store import fits_arrow, store_frame, store_rows
from spark_trickle.dml.work import Work, now
from spark_trickle.errors import RecursionTooDeepError, TrickleError
from spark_trickle.lake import stream as states
from spark_trickle.lake.engine import reading
from spark_trickle.model.arrow import summed, to_storage
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.stream import Action, Refreshed, RefreshReport, Stream
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.refresh.compile import content_of, delta_of, nodes_of
from spark_trickle.refresh.decide import Decision, Facts, decide
from spark_trickle.refresh.inputs import Inputs, changed_files, retyped, single_weights, source_table
from spark_trickle.refresh.split import Node
from spark_trickle.refresh.steps import Step, with_steps
from spark_trickle.spark.frames import Frame, as_frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect_at_most, run_sql
from spark_trickle.spark.session import small_jobs
from spark_trickle.spark.write import write_staged
from spark_trickle.sql.render import render


@dataclass
class Clock:
    """How long each phase took, in milliseconds."""

    phases: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + (time.perf_counter() - start) * 1000


def refresh(work: Work, table: Table) -> RefreshReport:
    """Bring a stream table to the snapshot that the work reads; the caller commits."""
    started, clock = now(), Clock()
    stream = definition(table)
    try:
        with clock.phase("decide"):
            with reading(work.place.warehouse.engine) as connection:
                state = states.state(connection, table.id)
            facts = known_facts(work, stream, state.frontier)
            decision = decide(facts, work.place.settings)
        if decision.action in (Action.NO_DATA, Action.REINITIALIZE):
            return _report(table, decision, facts, work, clock)
        filled = run_nodes(work, table, state.frontier, decision.action, facts, clock)
    except TrickleError as error:
        work.discard()
        states.record_failure(work.place.warehouse.engine, table.id, started, str(error))
        raise
    report = replace(
        _report(table, decision, facts, work, clock), rows_inserted=filled.come, rows_deleted=filled.gone
    )
    work.refreshed.append(Refreshed(table.id, state.frontier, work.base.id, report, started))
    return report


def definition(table: Table) -> Stream:
    assert table.stream is not None
    return table.stream


def _report(table: Table, decision: Decision, facts: Facts, work: Work, clock: Clock) -> RefreshReport:
    return RefreshReport(
        name=table.full_name,
        action=decision.action,
        reason=decision.reason,
        delta_rows=facts.changed_rows,
        duration_ms=sum(clock.phases.values()),
        snapshot=work.base.id,
        phases=clock.phases,
    )


def known_facts(work: Work, stream: Stream, frontier: int | None) -> Facts:
    """One query tells whether anything changed; sizes are looked up only if it did."""
    moments = tuple(stream.options.get("moments", "").split())
    ids = [s.table_id for s in stream.sources]
    other = tuple(retyped(work, stream))
    if frontier is None:
        return Facts(stream.mode, None, work.base.id, (), 0, 0, (), moments)
    with reading(work.place.warehouse.engine) as connection:
        changed = states.changed_tables(connection, ids, frontier, work.base.id)
    if not changed:
        return Facts(stream.mode, frontier, work.base.id, (), 0, 0, other, moments)
    tables = [source_table(work, s) for s in stream.sources]
    rows = sum(sum(f.rows for f in changed_files(work, i, frontier)) for i in changed)
    return Facts(
        mode=stream.mode,
        frontier=frontier,
        upto=work.base.id,
        changed=tuple(t.full_name for t in tables if t.id in changed),
        changed_rows=rows,
        source_rows=sum(work.row_count(t) for t in tables),
        retyped=other,
        moments=moments,
    )


@dataclass(frozen=True)
class Filled:
    come: int = 0
    gone: int = 0


def run_nodes(
    work: Work, table: Table, frontier: int | None, action: Action, facts: Facts, clock: Clock
) -> Filled:
    """The program of every node in order; a node without change leaves those above it alone."""
    stream = definition(table)
    tables = node_tables(work, table)
    inputs = Inputs(work, stream, tables, work.base.id if frontier is None else frontier)
    names = {
        f"t{t.id}" for t in (source_table(work, s) for s in stream.sources) if t.full_name in facts.changed
    }
    changed = set(names)
    small = facts.changed_rows <= work.place.settings.local_tail_rows and action is Action.DIFFERENTIAL
    filled = Filled()
    for number, node in enumerate(nodes_of(stream.plan)):
        with clock.phase("plan"):
            if action is Action.DIFFERENTIAL:
                plan = delta_of(stream.plan, number, frozenset(changed))
            else:
                plan = _whole(stream, number, node, work, tables[node.name])
        if plan is None:
            continue
        with small_jobs(work.place.spark) if small else nullcontext():
            filled = _run_node(inputs, node, plan, small, clock)
        if filled != Filled():
            changed.add(node.name)
    return filled if nodes_of(stream.plan)[-1].name in changed else Filled()


def node_tables(work: Work, table: Table) -> dict[str, Table]:
    """The tables of all nodes; the last is the stream table itself."""
    found = [work.catalog.table_by_id(i) for i in definition(table).nodes]
    return {f"n{n}": t for n, t in enumerate((*found, table), start=1) if t is not None}


def _whole(stream: Stream, number: int, node: Node, work: Work, table: Table) -> Operator:
    """All rows come; those that are there go, so that only the difference is left."""
    come = Signed(content_of(stream.plan, number), 1)
    return UnionAll((come, Signed(node.own, -1))) if work.files(table) else come


def _run_node(inputs: Inputs, node: Node, plan: Operator, small: bool, clock: Clock) -> Filled:
    work, table = inputs.work, inputs.tables[node.name]
    steps, plan = with_steps(plan)
    for step in steps:
        with clock.phase("spark"):
            inputs.found[step.name] = _found(inputs, table, step)
    with clock.phase("plan"):
        frame = _framed(inputs, plan)
    rows = None
    if (small or _is_small(inputs)) and fits_arrow(table):
        with clock.phase("spark"):
            rows = collect_at_most(frame, work.place.settings.max_driver_rows)
    with clock.phase("write"):
        files = (
            _store_few(inputs, node, table, rows)
            if rows is not None
            else _store_many(inputs, node, table, frame)
        )
    if files:
        unique = isinstance(node.plan, Aggregate)
        added = tuple(replace(f, whole=unique) for f in files)
        work.change(TableChange(table, added=added))
    return Filled(sum(f.rows - f.deletes for f in files), sum(f.deletes for f in files))


def _found(inputs: Inputs, table: Table, step: Step) -> Frame:
    if isinstance(step.plan, Recursive):
        return _fixpoint(inputs, table, step.plan)
    return _computed(inputs, table, _framed(inputs, step.plan))


def _framed(inputs: Inputs, plan: Operator) -> Frame:
    return run_sql(inputs.work.place.spark, render(plan), available=(), **inputs.frames(plan))


def _fixpoint(inputs: Inputs, table: Table, op: Recursive) -> Frame:
    """The rows of the start, then those that the last ones lead to, until nothing new comes."""
    names = ", ".join(f"`{c}`" for c in op.columns)
    spark, limit = inputs.work.place.spark, inputs.work.place.settings.max_recursion_depth
    last = _framed(inputs, op.base)
    if op.distinct:
        last = last.distinct()
    everything = last = _computed(inputs, table, last)
    for _ in range(limit):
        inputs.found[op.source] = last
        new = _framed(inputs, op.step)
        if op.distinct:
            text = f"SELECT {names} FROM {{new}} EXCEPT SELECT {names} FROM {{everything}}"
            new = run_sql(spark, text, new=new, everything=everything)
        last = _computed(inputs, table, new)
        if last.isEmpty():
            return everything
        everything = everything.unionByName(last)
    raise RecursionTooDeepError(table.full_name, limit)


def _computed(inputs: Inputs, table: Table, frame: Frame) -> Frame:
    """A frame computed once: at the driver, or written down if it is large."""
    work = inputs.work
    rows = collect_at_most(frame, work.place.settings.max_driver_rows)
    if rows is not None:
        return as_frame(frame, rows)
    folder = f"{work.place.storage.new_name()}-found"
    work.wrote(table, folder)
    return write_staged(work.place.spark, frame, work.place.storage.path(table, folder))


def _is_small(inputs: Inputs) -> bool:
    """Whether all sources together are so few rows that everything may pass through the driver."""
    work = inputs.work
    total = sum(work.row_count(source_table(work, s)) for s in inputs.stream.sources)
    return total <= work.place.settings.max_driver_rows


def _store_few(inputs: Inputs, node: Node, table: Table, rows: pa.Table) -> tuple[DataFile, ...]:
    weights = rows.column(WEIGHT).cast(pa.int32())
    typed = to_storage(table, rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, weights))
    net = single_weights(summed(table, typed)) if pc.min(weights).as_py() != 1 else typed
    net = to_storage(table, net)
    inputs.deltas[node.name] = local_frame(inputs.work.place.spark, table, net)
    return store_rows(inputs.work, table, net)


def _store_many(inputs: Inputs, node: Node, table: Table, frame: Frame) -> tuple[DataFile, ...]:
    work = inputs.work
    files = store_frame(work, table, cancelled_frame(work, table, frame))
    inputs.deltas[node.name] = rows_with_weights(work.place.spark, work.place.storage.locate, table, files)
    return files

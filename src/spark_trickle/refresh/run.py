"""One refresh: decide, run the program of every node, and hand the new rows to the commit."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

from spark_trickle.algebra.change import Signed
from spark_trickle.algebra.operator import Operator, UnionAll
from spark_trickle.dml.work import Work, now
from spark_trickle.errors import TrickleError
from spark_trickle.lake import stream as states
from spark_trickle.lake.engine import reading
from spark_trickle.model.stream import Action, Refreshed, RefreshReport, Stream
from spark_trickle.model.table import Table
from spark_trickle.refresh.compile import content_of, delta_of, nodes_of
from spark_trickle.refresh.decide import Decision, Facts, decide
from spark_trickle.refresh.fit import fit
from spark_trickle.refresh.inputs import Inputs, changed_files, retyped, source_table
from spark_trickle.refresh.node import Clock, Filled, run_node, run_with_result
from spark_trickle.refresh.split import Node
from spark_trickle.spark.session import small_jobs
from spark_trickle.sql.render_beside import shows_only


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
    nodes = nodes_of(stream.plan)
    for number, node in enumerate(nodes):
        with clock.phase("plan"):
            if action is Action.DIFFERENTIAL:
                plan = delta_of(stream.plan, number, frozenset(changed))
            else:
                plan = _whole(stream, number, node, work, tables[node.name])
            if plan is not None:
                plan = fit(plan, small, lambda name: work.row_count(tables[name]))
        if plan is None:
            continue
        with small_jobs(work.place.spark) if small else nullcontext():
            both = None
            if small and number == len(nodes) - 2 and shows_only(nodes[-1].plan, node.name):
                both = run_with_result(inputs, node, nodes[-1], plan, clock)
            if both is not None:
                return both[1]
            filled = run_node(inputs, node, plan, small, clock)
        if filled != Filled():
            changed.add(node.name)
    return filled if nodes[-1].name in changed else Filled()


def node_tables(work: Work, table: Table) -> dict[str, Table]:
    """The tables of all nodes; the last is the stream table itself."""
    found = [work.catalog.table_by_id(i) for i in definition(table).nodes]
    return {f"n{n}": t for n, t in enumerate((*found, table), start=1) if t is not None}


def _whole(stream: Stream, number: int, node: Node, work: Work, table: Table) -> Operator:
    """All rows come; those that are there go, so that only the difference is left."""
    come = Signed(content_of(stream.plan, number), 1)
    return UnionAll((come, Signed(node.own, -1))) if work.files(table) else come

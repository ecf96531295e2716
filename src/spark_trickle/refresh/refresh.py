"""One refresh: decide, run the program of every node, and hand the new rows to the commit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.algebra.operators import Operator, Recursive
from spark_trickle.algebra.recursion import obstacle
from spark_trickle.arrow.reduce import Reducer
from spark_trickle.errors import FuseBlownError, QueryError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.lake.catalog.scheduling import Alert, raise_alert
from spark_trickle.model.commit import AlterTable
from spark_trickle.model.experience import Experience
from spark_trickle.model.room import room_of_refresh
from spark_trickle.model.stream import Action, Frontier, Refreshed, RefreshReport, Stream
from spark_trickle.model.table import Table
from spark_trickle.plan.arrange import arrange_change
from spark_trickle.plan.join_order import order_joins
from spark_trickle.plan.split import Node
from spark_trickle.refresh.compile import delta_of, nodes_of
from spark_trickle.refresh.cost import leads_to_many
from spark_trickle.refresh.decide import Decision, Facts, decide
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.full import is_followed, run_in_full
from spark_trickle.refresh.inputs import Inputs, changed_files, known_upto, source_table
from spark_trickle.refresh.node import (
    Clock,
    Filled,
    MostRowsChangeError,
    is_shown_beside,
    refuse_most,
    run_at_driver,
    run_few,
    run_many,
    run_node,
    run_steps_first,
    run_with_result,
)
from spark_trickle.refresh.outdated import find_reasons_to_rebuild
from spark_trickle.refresh.sessions import run_in_child_session
from spark_trickle.refresh.sizes import sizes_of
from spark_trickle.refresh.unseen import find_seen_changes
from spark_trickle.spark.child_session import small_jobs
from spark_trickle.txn.store import fits_arrow
from spark_trickle.txn.work import Work, now


@dataclass(frozen=True)
class Occasion:
    """Why a refresh happens now: who asked, and in what company."""

    initiated_by: str = "manual"
    together: bool = False  # with the stream tables it reads, in one commit
    at_commit: bool = False  # inside the commit of the statement that changes its sources
    waited_ms: float | None = None
    fused: bool = True  # a fuse may stop it

    @property
    def noted(self) -> dict[str, Any]:
        """What the catalog keeps of it."""
        return {k: v for k, v in vars(self).items() if k != "fused"}


def refresh(work: Work, table: Table, occasion: Occasion = Occasion()) -> RefreshReport:  # noqa: B008 a value
    """Bring a stream table to the snapshot that the work reads; the caller commits."""
    clock = Clock()
    with clock.phase("decide"):
        with reading(work.place.warehouse.engine) as connection:
            state = states.state(connection, table.id)
        facts = known_facts(work, table, state.knows)
        decision = decide(facts, work.place.settings)
    if decision.action is Action.REINITIALIZE:
        return report_of(table, decision, facts, work, clock)
    if occasion.fused:
        refuse_above_fuse(work, table, facts)
    decision = append_only_ended(work, table, facts, decision)
    filled = Filled()
    if decision.action is not Action.NO_DATA:
        chosen = decision
        decision, filled = run_in_child_session(
            work, table, lambda: _run(work, table, state.knows, chosen, facts, clock)
        )
    report = replace(
        report_of(table, decision, facts, work, clock), rows_inserted=filled.come, rows_deleted=filled.gone
    )
    if decision.action is not Action.NO_DATA or occasion.together:
        work.refreshed.append(
            Refreshed(
                table.id,
                state.frontier,
                work.base.id,
                report,
                clock.started,
                outside=outside(work, [table], occasion.at_commit),
                **occasion.noted,
            )
        )
    return report


def _run(
    work: Work, table: Table, knows: Frontier | None, decision: Decision, facts: Facts, clock: Clock
) -> tuple[Decision, Filled]:
    """What was done, which is everything anew if the change alone is more than that, or cannot be computed.

    It may hold what never was at one time: the old row of a table beside the new one of another, which cancel
    out, or a row that came and went. A query need not bear that.
    """
    before = dict(work.changes)
    try:
        return decision, run_nodes(work, table, knows, decision, facts, clock)
    except MostRowsChangeError as error:
        clock.give_up()
        reason = str(error)
    except QueryError as error:
        if decision.action is not Action.DIFFERENTIAL or not error.by_value:
            raise
        reason = f"the change alone could not be computed: {error.condition}"
    work.changes = before
    clock.remarks.clear()  # of what was not done in the end
    instead = Decision(Action.FULL, f"{decision.reason}; {reason}")
    return instead, run_nodes(work, table, knows, instead, facts, clock)


def outside(work: Work, tables: Sequence[Table], at_commit: bool = False) -> tuple[int, ...]:
    """What some read and take to be known up to the commit, although this work does not refresh it.

    That is other stream tables; and every source of those that are kept in the commit of a statement.
    """
    here = {r.table_id for r in work.refreshed} | {t.id for t in tables}
    read = {source.table_id for t in tables for source in definition(t).sources} - here
    found = {i: work.catalog.table_by_id(i) for i in read}
    return tuple(sorted(i for i, t in found.items() if t and (at_commit or t.stream is not None)))


def refuse_above_fuse(work: Work, table: Table, facts: Facts) -> None:
    own = definition(table).options.fuse_ceiling
    ceiling = work.place.settings.fuse_default_ceiling if own is None else own
    if ceiling and facts.changed_rows > ceiling:
        raise FuseBlownError(table.full_name, facts.changed_rows, ceiling)


def append_only_ended(work: Work, table: Table, facts: Facts, decision: Decision) -> Decision:
    """A promise that its sources only grow ends with the first row that goes."""
    stream = definition(table)
    if not stream.options.append_only or not facts.deleted_rows:
        return decision
    kept = replace(stream, options=replace(stream.options, append_only=False))
    work.define(AlterTable(table, replace(table, stream=kept)))
    message = f"{facts.deleted_rows} rows of {', '.join(facts.changed)} went"

    def tell() -> None:
        alert = Alert(now(), "append_only_reverted", table.full_name, message)
        raise_alert(work.place.warehouse.engine, alert)
        warnings.warn(f'append_only of "{table.full_name}" was switched off: {message}', stacklevel=2)

    work.once_committed.append(tell)
    return replace(decision, reason=f"{decision.reason}; append_only was switched off: {message}")


def definition(table: Table) -> Stream:
    assert table.stream is not None
    return table.stream


def report_of(table: Table, decision: Decision, facts: Facts, work: Work, clock: Clock) -> RefreshReport:
    return RefreshReport(
        name=table.full_name,
        action=decision.action,
        reason="; ".join(dict.fromkeys((decision.reason, *clock.remarks))),
        delta_rows=facts.changed_rows,
        duration_ms=sum(clock.phases.values()),
        snapshot=work.base.id,
        phases=clock.phases,
        source_rows=facts.source_rows,
    )


def known_facts(work: Work, table: Table, frontier: Frontier | None) -> Facts:
    """One query tells whether anything changed; sizes are looked up only if it did."""
    stream = definition(table)
    other = find_reasons_to_rebuild(work, table)
    if frontier is None:
        return Facts(stream.mode, None, work.base.id, (), 0, 0, (), stream.moments)
    tables = [source_table(work, s) for s in stream.sources]
    changed = _changed(work, tables, frontier)
    if not changed:
        return Facts(stream.mode, frontier.tables, work.base.id, (), 0, 0, other, stream.moments)
    files = [f for t in changed for f in changed_files(work, t, frontier)]
    return Facts(
        mode=stream.mode,
        frontier=frontier.tables,
        upto=work.base.id,
        changed=tuple(t.full_name for t in changed),
        changed_rows=sum(f.rows for f in files),
        deleted_rows=sum(f.deletes for f in files),
        changed_memory=sum(f.memory for f in files),
        source_rows=sum(work.row_count(t) for t in tables),
        outdated=other,
        moments=stream.moments,
        known=_experience(work, table),
    )


def _changed(work: Work, tables: list[Table], frontier: Frontier) -> list[Table]:
    """The sources whose rows changed since the frontier, or in this transaction."""
    groups: dict[int, list[int]] = {}
    for t in tables:
        groups.setdefault(known_upto(t, frontier), []).append(t.id)
    found = {i for i, c in work.changes.items() if c.changes_content}
    with reading(work.place.warehouse.engine) as connection:
        for since, ids in groups.items():
            found |= states.changed_tables(connection, ids, since, work.base.id)
    return [t for t in tables if t.id in found]


def _experience(work: Work, table: Table) -> Experience:
    with reading(work.place.warehouse.engine) as connection:
        return states.experience(connection, table.id)


def run_nodes(
    work: Work, table: Table, frontier: Frontier | None, decision: Decision, facts: Facts, clock: Clock
) -> Filled:
    """The change of a stream table since a frontier, or all of it."""
    stream = definition(table)
    known = frontier or Frontier(work.base.id, work.base.id)
    inputs = Inputs(
        work,
        stream,
        node_tables(work, table),
        known,
        remarks=clock.remarks,
        gives_up=decision.revocable,
        changed_row_bytes=facts.changed_memory // max(facts.changed_rows, 1),
        moment=clock.started,
    )
    sources = (source_table(work, s) for s in stream.sources)
    names = {f"t{t.id}" for t in sources if t.full_name in facts.changed}
    if decision.action is not Action.DIFFERENTIAL:
        return run_in_full(inputs, clock)
    room = room_of_refresh(work.place.settings)
    small = room.fits(facts.changed_rows, facts.changed_memory)
    if small:
        with clock.phase("here"):
            names = find_seen_changes(inputs, names)
    if small and leads_to_many(facts.known, facts.changed_rows, room.rows):
        many = f"more than {room.rows} rows"
        inputs.remarks.append(f"planned as a large job, since such a change led to {many}")
        small = False
    return run_program(inputs, names, small, clock)


def run_program(inputs: Inputs, changed: set[str], small: bool, clock: Clock) -> Filled:
    """The program of every node in order; a node without change leaves those above it alone.

    `changed` names the sources that changed. `small` says that what takes Spark takes a small job; what the
    driver can do, it does.
    """
    work, stream, tables, here = inputs.work, inputs.stream, inputs.tables, DriverInputs(inputs)
    moved = set(changed)
    filled = Filled()
    nodes = nodes_of(stream.plan)

    def stored(name: str) -> int:
        return work.row_count(tables[name])

    for number, node in enumerate(nodes):
        with clock.phase("plan"):
            delta = delta_of(stream.plan, number, frozenset(moved))
            if delta is None:
                continue
            plan = order_joins(arrange_change(delta, True, stored), sizes_of(inputs))
        if isinstance(node.plan, Recursive) and (why := obstacle(node.plan)):
            inputs.remarks.append(f"the recursion was computed again, because {why}")
        done = run_at_driver(here, node, plan, clock)
        if done is None and small:
            result = nodes[-1] if number == len(nodes) - 2 else None
            done, shown = _by_spark(here, node, result, plan, clock)
            if shown is not None:
                return shown
        if done is None:
            done = run_node(inputs, node, arrange_change(delta, False, stored), False, clock)
        filled = done
        if filled != Filled():
            moved.add(node.name)
            # Else what follows is large.
            small = small and room_of_refresh(work.place.settings).fits(filled.rows, filled.memory)
    return filled if nodes[-1].name in moved else Filled()


def _by_spark(
    here: DriverInputs, node: Node, result: Node | None, plan: Operator, clock: Clock
) -> tuple[Filled, Filled | None]:
    """A small change that takes Spark; and that of the result, if it only shows the rows of this node.

    It may turn out to be large: few rows can change everything. Then it is no small job any more, and may be
    given up; but not where old and new rows would be compared all the same, for those who follow.
    """
    inputs = here.inputs
    with clock.phase("here"):
        left = Reducer(here.without_jobs(), here.keep).reduced(plan)
    if left is None:
        return Filled(), None
    with small_jobs(inputs.work.place.spark):
        rest = run_steps_first(inputs, node, left, clock)
        if result is not None and is_shown_beside(inputs, node, result):
            if (both := run_with_result(inputs, node, result, rest, clock)) is not None:
                return both
        elif not fits_arrow(inputs.tables[node.name]):
            return run_many(inputs, node, rest, clock), None
        elif (few := run_few(inputs, node, rest, clock)) is not None:
            return few, None
    if inputs.gives_up and not is_followed(inputs.work, inputs.result):
        refuse_most(inputs, node, rest, clock)
    return run_many(inputs, node, rest, clock), None


def node_tables(work: Work, table: Table) -> dict[str, Table]:
    """The tables of all nodes; the last is the stream table itself."""
    found = [work.catalog.table_by_id(i) for i in definition(table).nodes]
    return {f"n{n}": t for n, t in enumerate((*found, table), start=1) if t is not None}

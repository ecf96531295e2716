"""One refresh: decide, run the program of every node, and hand the new rows to the commit."""

from __future__ import annotations

import warnings
from dataclasses import replace

from spark_trickle.algebra.references import NodeRef, Reference, TableRef
from spark_trickle.errors import FuseBlownError, OutsideFileError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.scheduling import Alert, raise_alert
from spark_trickle.model.commit import AlteredTable
from spark_trickle.model.experience import Experience
from spark_trickle.model.files import Role
from spark_trickle.model.room import room_of_refresh
from spark_trickle.model.stream import Action, Frontier, Occasion, RefreshReport, Stream
from spark_trickle.model.table import Table
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.cost import leads_to_many
from spark_trickle.refresh.decide import Decision, Facts, decide_refresh
from spark_trickle.refresh.execute import GaveUp
from spark_trickle.refresh.full import run_in_full
from spark_trickle.refresh.inputs import Inputs, list_changed_files, pick_frontier, source_table
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.refresh.outdated import find_reasons_to_rebuild
from spark_trickle.refresh.program import Changes, run_program
from spark_trickle.refresh.record import RefreshResult, record_refreshes
from spark_trickle.refresh.sessions import run_in_child_session
from spark_trickle.refresh.unseen import find_seen_changes
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Work, now


def refresh(work: Work, table: Table, occasion: Occasion = Occasion()) -> RefreshReport:  # noqa: B008 a value
    """Bring a stream table to the snapshot that the work reads; the caller commits."""
    clock = Clock()
    with clock.phase("decide"):
        with open_reader(work.place.warehouse.engine) as connection:
            state = states.read_state(connection, table.id)
        facts = read_facts(work, table, state.knows)
        decision = decide_refresh(facts, work.place.settings)
    if decision.action is Action.REINITIALIZE:
        return RefreshResult(table, state.frontier, decision, facts, clock).report(work.base.id)
    if occasion.fused:
        refuse_above_fuse(work, table, facts)
    decision = end_append_only(work, table, facts, decision)
    outcome = Outcome()
    if decision.action is not Action.NO_DATA:
        chosen = decision
        decision, outcome = run_in_child_session(
            work, table, lambda: _run_decision(work, table, state.knows, chosen, facts, clock)
        )
    result = RefreshResult(table, state.frontier, decision, facts, clock, outcome)
    if decision.action is Action.NO_DATA and not occasion.together:
        return result.report(work.base.id)
    return record_refreshes(work, [result], occasion)[0]


def _run_decision(
    work: Work, table: Table, knows: Frontier | None, decision: Decision, facts: Facts, clock: Clock
) -> tuple[Decision, Outcome]:
    """What was done: everything anew if the change alone is more than that, or cannot be computed."""
    savepoint = take_savepoint(work)
    try:
        tried = run_nodes(work, table, knows, decision, facts, clock)
    except OutsideFileError as error:  # the change needs an old version, of which files are gone
        if decision.action is not Action.DIFFERENTIAL:
            raise
        tried = GaveUp(error.message, error=error)
    if isinstance(tried, Outcome):
        return decision, tried
    if tried.error is None:  # else the next change may succeed, and its cost is not known from this one
        clock.give_up()
    roll_back(work, savepoint)
    instead = Decision(Action.FULL, f"{decision.reason}; {tried.reason}")
    outcome = run_everything(work, table, knows, instead, facts, clock)
    return instead, replace(outcome, executions=(*tried.executions, *outcome.executions))


def refuse_above_fuse(work: Work, table: Table, facts: Facts) -> None:
    own = require_stream(table).options.fuse_ceiling
    ceiling = work.place.settings.fuse_default_ceiling if own is None else own
    if ceiling and facts.changed_rows > ceiling:
        raise FuseBlownError(table.full_name, facts.changed_rows, ceiling)


def end_append_only(work: Work, table: Table, facts: Facts, decision: Decision) -> Decision:
    """A promise that its sources only grow ends with the first row that goes."""
    stream = require_stream(table)
    if not stream.options.append_only or not facts.deleted_rows:
        return decision
    kept = replace(stream, options=replace(stream.options, append_only=False))
    work.define(AlteredTable(table, replace(table, stream=kept)))
    message = f"{facts.deleted_rows} rows of {', '.join(facts.changed)} were deleted"

    def send_alert() -> None:
        alert = Alert(now(), "append_only_reverted", table.full_name, message)
        raise_alert(work.place.warehouse.engine, alert)
        warnings.warn(f'append_only of "{table.full_name}" was switched off: {message}', stacklevel=2)

    work.tell_once_committed(send_alert)
    return replace(decision, reason=f"{decision.reason}; append_only was switched off: {message}")


def require_stream(table: Table) -> Stream:
    assert table.stream is not None
    return table.stream


def read_facts(work: Work, table: Table, frontier: Frontier | None) -> Facts:
    """One query tells whether anything changed; sizes are looked up only if it did."""
    stream = require_stream(table)
    other = find_reasons_to_rebuild(work, table)
    if frontier is None:
        return Facts(stream.mode, None, work.base.id, (), 0, 0, (), stream.moments)
    tables = [source_table(work, s) for s in stream.sources]
    changed = find_changed_sources(work, tables, frontier)
    if not changed:
        return Facts(stream.mode, frontier.tables, work.base.id, (), 0, 0, other, stream.moments)
    files = [f for t in changed for f in list_changed_files(work, t, frontier)]
    unknown = tuple(
        f'the change of "{t.full_name}" is unknown: {f.reason}'
        for t in changed
        for f in list_changed_files(work, t, frontier)
        if f.role is Role.UNKNOWN
    )
    return Facts(
        mode=stream.mode,
        frontier=frontier.tables,
        upto=work.base.id,
        changed=tuple(t.full_name for t in changed),
        changed_rows=sum(f.rows for f in files),
        deleted_rows=sum(f.deletes for f in files),
        changed_memory=sum(f.memory for f in files),
        source_rows=sum(work.row_count(t) for t in tables),
        outdated=(*other, *unknown),
        moments=stream.moments,
        known=_read_experience(work, table),
    )


def find_changed_sources(work: Work, tables: list[Table], frontier: Frontier) -> list[Table]:
    """The sources whose rows changed since the frontier, or in this transaction."""
    groups: dict[int, list[int]] = {}
    for t in tables:
        groups.setdefault(pick_frontier(t, frontier), []).append(t.id)
    found = {i for i, c in work.changes.items() if c.changes_content}
    with open_reader(work.place.warehouse.engine) as connection:
        for since, ids in groups.items():
            found |= states.find_changed_tables(connection, ids, since, work.base.id)
    return [t for t in tables if t.id in found]


def _read_experience(work: Work, table: Table) -> Experience:
    with open_reader(work.place.warehouse.engine) as connection:
        return states.load_experience(connection, table.id)


def run_nodes(
    work: Work, table: Table, frontier: Frontier | None, decision: Decision, facts: Facts, clock: Clock
) -> Outcome | GaveUp:
    """The change of a stream table since a frontier, or all of it."""
    inputs = make_inputs(work, table, frontier, facts, clock)
    if decision.action is not Action.DIFFERENTIAL:
        return run_in_full(inputs, clock)
    return run_program(inputs, find_changes(inputs, facts, decision, clock), clock)


def make_inputs(work: Work, table: Table, frontier: Frontier | None, facts: Facts, clock: Clock) -> Inputs:
    return Inputs(
        work,
        require_stream(table),
        node_tables(work, table),
        frontier or Frontier(work.base.id, work.base.id),
        changed_row_bytes=facts.changed_memory // max(facts.changed_rows, 1),
        moment=clock.started,
    )


def run_everything(
    work: Work, table: Table, frontier: Frontier | None, decision: Decision, facts: Facts, clock: Clock
) -> Outcome:
    """All of a stream table, which is never given up."""
    outcome = run_nodes(work, table, frontier, decision, facts, clock)
    assert isinstance(outcome, Outcome), outcome
    return outcome


def find_changes(inputs: Inputs, facts: Facts, decision: Decision, clock: Clock) -> Changes:
    """The sources of which something changed that is read, and how the change is planned."""
    work, settings = inputs.work, inputs.work.place.settings
    sources = (source_table(work, s) for s in inputs.stream.sources)
    changed = frozenset[Reference](TableRef(t.id) for t in sources if t.full_name in facts.changed)
    room = room_of_refresh(settings)
    if not room.fits(facts.changed_rows, facts.changed_memory):
        return Changes(changed, few=False, may_give_up=decision.revocable)
    if settings.keeps_small_changes:
        with clock.phase("driver"):
            changed = find_seen_changes(inputs, changed)
    many = leads_to_many(facts.known, facts.changed_rows, room.rows)
    remark = (
        f"planned as a large job because an earlier change of this size led to more than {room.rows:,} rows"
    )
    return Changes(changed, not many, decision.revocable, remark if many else None)


def node_tables(work: Work, table: Table) -> dict[NodeRef, Table]:
    """The tables of all nodes; the last is the stream table itself."""
    found = [work.catalog.table_by_id(i) for i in require_stream(table).nodes]
    return {NodeRef(n): t for n, t in enumerate((*found, table), start=1) if t is not None}

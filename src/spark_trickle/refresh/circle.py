"""Stream tables that read each other -> their least fixpoint, in one commit.

Every member takes what changed outside, then in rounds what the others and itself added, until a whole
round brings nothing new. That only ever adds rows: where some may go, the circle starts from nothing, since
rows that follow from each other would hold each other up after what they came from is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_trickle.algebra.references import Reference, TableRef
from spark_trickle.errors import NoFixpointError
from spark_trickle.lake.catalog import states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.stream import Action, Frontier, Mode, Occasion, RefreshReport, StreamState
from spark_trickle.model.table import Table
from spark_trickle.plan.monotone import find_taking_operator
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.decide import Decision, Facts
from spark_trickle.refresh.execute import Filled, GaveUp
from spark_trickle.refresh.full import run_in_full
from spark_trickle.refresh.inputs import Inputs, source_table
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.refresh.program import Changes, run_program
from spark_trickle.refresh.record import RefreshResult, record_refreshes
from spark_trickle.refresh.refresh import (
    end_append_only,
    node_tables,
    read_facts,
    refuse_above_fuse,
    require_stream,
)
from spark_trickle.refresh.sessions import run_in_child_session
from spark_trickle.txn.net import store_difference
from spark_trickle.txn.work import Work, now


@dataclass
class Member:
    """One stream table of a circle, and how much it has taken of what the circle added in this refresh."""

    table: Table
    state: StreamState
    facts: Facts
    clock: Clock = field(default_factory=Clock)
    taken: Mapping[int, int] = field(default_factory=dict)  # number of files, by table of the circle
    turns: int = 0
    outcome: Outcome = Outcome()  # noqa: RUF009 a value; of all of its turns

    def make_result(self, decision: Decision, clock: Clock, outcome: Outcome) -> RefreshResult:
        return RefreshResult(self.table, self.state.frontier, decision, self.facts, clock, outcome)


@dataclass(frozen=True)
class Turn(Inputs):
    """What a member reads in one round: of its circle just what came since its last turn."""

    taken: Mapping[int, int] = field(default_factory=dict)
    first: bool = True  # changes outside are not taken yet
    few: bool = True  # rows that came, outside and within
    nodes_before: Mapping[int, tuple[DataFile, ...]] = field(default_factory=dict)

    def node_before(self, table: Table) -> tuple[DataFile, ...]:
        return self.nodes_before[table.id]

    def source_before(self, table: Table) -> tuple[DataFile, ...]:
        if table.id in self.taken:
            found = self.work.files_at(table, self.work.base.id)
            return found + _list_added_files(self.work, table.id)[: self.taken[table.id]]
        return super().source_before(table) if self.first else self.work.files(table)

    def source_change(self, table: Table) -> tuple[DataFile, ...]:
        if table.id in self.taken:
            return _list_added_files(self.work, table.id)[self.taken[table.id] :]
        return super().source_change(table)


def _list_added_files(work: Work, table_id: int) -> tuple[DataFile, ...]:
    """What a circle has added to a table so far, in order."""
    change = work.changes.get(table_id)
    return change.feed if change is not None else ()


def is_circle(tables: Sequence[Table]) -> bool:
    """Whether stream tables that are refreshed at once read each other, or one itself."""
    return len(tables) > 1 or any(s.table_id == tables[0].id for s in require_stream(tables[0]).sources)


# --- one refresh -------------------------------------------------------------------------------------


def refresh_circle(
    work: Work, tables: Sequence[Table], occasion: Occasion, asked: Decision | None = None
) -> list[RefreshReport]:
    """Bring all members to the snapshot that the work reads; `asked` is what to do whatever has changed."""
    started = now()
    members = read_members(work, tables)
    decision = asked or decide_circle(work, members)
    if asked is None and decision.action is Action.REINITIALIZE:
        return [m.make_result(decision, m.clock, Outcome()).report(work.base.id) for m in members]
    if asked is None and occasion.fused:
        for m in members:
            refuse_above_fuse(work, m.table, m.facts)
    decisions = [end_append_only(work, m.table, m.facts, decision) for m in members]
    outcomes = [Outcome()] * len(members)
    if decision.action is not Action.NO_DATA:
        outcomes = _run_rounds(work, members, decision.action is not Action.DIFFERENTIAL)
    # What they read of each other is known up to the commit itself, even if it is of just one.
    results = [
        m.make_result(decided, replace(m.clock, started=started), outcome)
        for m, decided, outcome in zip(members, decisions, outcomes, strict=True)
    ]
    return record_refreshes(work, results, replace(occasion, together=True))


def read_members(work: Work, tables: Sequence[Table]) -> list[Member]:
    with open_reader(work.place.warehouse.engine) as connection:
        found = [states.read_state(connection, t.id) for t in tables]
    return [Member(t, s, read_facts(work, t, s.knows)) for t, s in zip(tables, found, strict=True)]


def decide_circle(work: Work, members: Sequence[Member]) -> Decision:
    """One decision for all of them: adding is exact only if nothing can go."""
    facts = [m.facts for m in members]
    names = {m.table.full_name for m in members}
    changed = sorted({n for f in facts for n in f.changed})
    if any(f.frontier is None for f in facts):
        return Decision(Action.FULL, "not all stream tables of the circle are filled yet")
    if outdated := sorted({c for f in facts for c in f.outdated}):
        return Decision(Action.REINITIALIZE, "; ".join(outdated))
    if moments := sorted({m for f in facts for m in f.moments}):
        listed = ", ".join(f"{m}()" for m in moments)
        return Decision(Action.FULL, f"{listed} may return a different value at every refresh")
    if not changed:
        return Decision(Action.NO_DATA, f"no source changed since snapshot {facts[0].frontier}")
    if len({m.state.knows for m in members}) > 1 or names & set(changed):
        return Decision(Action.FULL, "the members of the circle were not filled together")
    if any(f.mode is Mode.FULL for f in facts):
        return Decision(Action.FULL, f"refresh mode FULL; {', '.join(changed)} changed")
    if any(f.deleted_rows for f in facts):
        return Decision(Action.FULL, f"rows of {', '.join(changed)} were deleted, {_CANNOT_SHRINK}")
    if source := next((n for m in members if (n := _find_shrinking_source(work, m))), None):
        return Decision(Action.FULL, f"rows inserted into {source} may remove rows, {_CANNOT_SHRINK}")
    return Decision(Action.DIFFERENTIAL, f"rows were only inserted into {', '.join(changed)}")


_CANNOT_SHRINK = "and rows of a circle can keep each other alive"


def _find_shrinking_source(work: Work, member: Member) -> str | None:
    """A changed source whose new rows may take rows of the member away."""
    stream = require_stream(member.table)
    for table in (source_table(work, s) for s in stream.sources):
        changed = table.full_name in member.facts.changed
        if changed and find_taking_operator(nodes_of(stream.plan), frozenset((TableRef(table.id),))):
            return table.full_name
    return None


# --- rounds ------------------------------------------------------------------------------------------


def _run_rounds(work: Work, members: Sequence[Member], anew: bool) -> list[Outcome]:
    """Rounds are tried beside the tables; only what they come to is stored in them."""
    scratch = _begin_rounds(work, members, anew)
    ids = {m.table.id for m in members}
    for m in members:
        _take_first_turn(scratch, m, ids, anew)
    limit = work.place.settings.max_fixpoint_iterations
    for _ in range(limit + 1):
        if sum(_take_next_turn(scratch, m) for m in members) == 0:  # every member has its turn
            return [_store_rounds(work, scratch, m, anew) for m in members]
    raise NoFixpointError(tuple(m.table.full_name for m in members), limit)


def _begin_rounds(work: Work, members: Sequence[Member], anew: bool) -> Work:
    tables = [t for m in members for t in node_tables(work, m.table).values()]
    return work.begin_scratch(empty=tables if anew else ())


def preview_first_turn(work: Work, members: Sequence[Member], member: Member, anew: bool) -> Turn:
    """What a member would read in its first turn, if nothing came of those before it."""
    taken = _take_nothing(member, {m.table.id for m in members})
    return _make_turn(_begin_rounds(work, members, anew), member, taken, first=True)


def find_first_changes(turn: Turn, member: Member) -> Changes:
    """What changed outside, and in those members that had their turn before."""
    names = {source_table(turn.work, s).full_name: s.table_id for s in turn.stream.sources}
    outside = (TableRef(names[n]) for n in member.facts.changed)
    within = (TableRef(i) for i in turn.taken if _list_added_files(turn.work, i))
    return Changes(frozenset((*outside, *within)), turn.few)


def _take_first_turn(work: Work, member: Member, circle: set[int], anew: bool) -> None:
    taken = _take_nothing(member, circle)

    def compute() -> Outcome | GaveUp:
        turn = _make_turn(work, member, taken, first=True)
        if anew:
            return run_in_full(turn, member.clock)
        return run_program(turn, find_first_changes(turn, member), member.clock)

    _take_turn(work, member, taken, compute)


def _take_next_turn(work: Work, member: Member) -> bool:
    """Whether there was something to take."""
    new = frozenset[Reference](
        TableRef(i) for i, taken in member.taken.items() if len(_list_added_files(work, i)) > taken
    )

    def compute() -> Outcome | GaveUp:
        turn = _make_turn(work, member, member.taken, first=False)
        return run_program(turn, Changes(new, turn.few), member.clock)

    if new:
        _take_turn(work, member, member.taken, compute)
    return bool(new)


def _take_turn(
    work: Work, member: Member, taken: Mapping[int, int], compute: Callable[[], Outcome | GaveUp]
) -> None:
    member.turns += 1
    # Counted before the turn adds to the member itself, which may be one of its own sources.
    upto = {i: len(_list_added_files(work, i)) for i in taken}
    _note_turn(member, run_in_child_session(work, member.table, compute))
    member.taken = upto


def _note_turn(member: Member, done: Outcome | GaveUp) -> None:
    if isinstance(done, GaveUp):
        assert done.error is not None, done  # a change of a circle is not given up for its size
        raise done.error
    numbered = (replace(e, plan=f"{e.plan} turn {member.turns}") for e in done.executions)
    remarks = (*member.outcome.remarks, *done.remarks)
    executions = (*member.outcome.executions, *numbered)
    member.outcome = replace(member.outcome, remarks=remarks, executions=executions)


def _take_nothing(member: Member, circle: set[int]) -> Mapping[int, int]:
    """Before its first turn a member has taken nothing of what the circle adds to its sources."""
    sources = {s.table_id for s in require_stream(member.table).sources}
    return dict.fromkeys(sorted(sources & circle), 0)


def _make_turn(work: Work, member: Member, taken: Mapping[int, int], first: bool) -> Turn:
    """What a turn reads: of each table of the circle the files beyond those that were taken before."""
    tables = node_tables(work, member.table)
    new = [f for i, n in taken.items() for f in _list_added_files(work, i)[n:]]
    rows = sum(f.rows for f in new) + (member.facts.changed_rows if first else 0)
    memory = sum(f.memory for f in new) + (member.facts.changed_memory if first else 0)
    return Turn(
        work,
        require_stream(member.table),
        tables,
        member.state.knows or Frontier(work.base.id, work.base.id),
        changed_row_bytes=memory // max(rows, 1),
        taken=taken,
        first=first,
        few=room_of_statement(work.place.settings).fits(rows, memory),
        nodes_before={t.id: work.files(t) for t in tables.values()},
    )


def _store_rounds(work: Work, scratch: Work, member: Member, anew: bool) -> Outcome:
    """Store what the rounds came to, as one change of each table; how the rows of the member changed."""
    filled = Filled()
    plans = {n.name: n.plan for n in nodes_of(require_stream(member.table).plan)}
    with member.clock.phase("write"):
        for name, table in node_tables(work, member.table).items():
            inserted, deleted = _list_added_files(scratch, table.id), work.files(table) if anew else ()
            files = (
                inserted
                if len(inserted) < 2 and not deleted
                else store_difference(work, table, inserted, deleted)
            )
            if files:
                whole = plans[name].rows_differ
                work.change(TableChange(table, added=tuple(replace(f, whole=whole) for f in files)))
            filled = Filled(sum(f.rows - f.deletes for f in files), sum(f.deletes for f in files))
    return replace(member.outcome, filled=filled)

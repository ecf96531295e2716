"""What one reading of a source brought, before and while it is committed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from spark_trickle.errors import ResyncNeededError, SourceSchemaChangedError
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.model.source import MirrorState, MirrorStatus, SourceState
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import Landing
from spark_trickle.sources.postgres.buffer import Position, forget_changes
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.registration import note_consumed
from spark_trickle.sources.postgres.run import begin_transaction
from spark_trickle.sources.postgres.slot import Asked
from spark_trickle.sources.registering import make_reader
from spark_trickle.txn.work import Work


@dataclass
class PolledChanges:
    """`captures` are the buffers that were read, and how far: what lies before may be forgotten there."""

    work: Work
    landings: dict[str, Landing] = field(default_factory=dict)
    states: dict[int, MirrorState] = field(default_factory=dict)
    captures: list[tuple[Capture, Position]] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    grown: bool = False  # a table has parts that were not known: they are noted even if no row came
    snapshot: int = 0
    transactions: int = 0
    asked: Asked | None = None  # when nothing was left to read
    committed: datetime | None = None  # the first of its transactions, by our clock
    shown: Mapping[int, str] | None = None  # what the publication holds, if it was looked at
    sizes: Mapping[int, int] = field(default_factory=dict)  # of buffers in the source, by their tables

    def note_landing(self, table: Table, landing: Landing) -> None:
        if landing != Landing():
            self.landings[table.full_name] = landing

    def note_trouble(
        self, table: Table, state: MirrorState, error: ResyncNeededError | SourceSchemaChangedError
    ) -> None:
        """A mirror that cannot go on: it keeps its rows, and says why; the others are not held up."""
        lost = isinstance(error, ResyncNeededError)
        reason = error.reason if isinstance(error, ResyncNeededError) else "; ".join(error.changes)
        status = MirrorStatus.RESYNC_NEEDED if lost else MirrorStatus.SCHEMA_CHANGED
        self.troubles[table.full_name] = reason
        self.states[table.id] = replace(state, status=status, reason=reason)

    def add(self, later: PolledChanges) -> None:
        for name, landing in later.landings.items():
            self.landings[name] = self.landings.get(name, Landing()) + landing
        self.troubles |= later.troubles
        self.transactions += later.transactions
        self.shown = later.shown
        self.snapshot = max(self.snapshot, later.snapshot)


def read_up_to(state: SourceState, asked: Asked) -> SourceState:
    """The state of a source from which everything was read that had ended when it was asked."""
    return replace(state, read_until=asked.clock, read_snapshot=asked.snapshot)


def clock_difference(before: datetime, there: datetime, after: datetime) -> timedelta:
    """How much our clock is ahead of one that was read between two moments of ours.

    If it may be the same time, it is taken to be: the way to the source takes a while too.
    """
    return timedelta() if before <= there <= after else before + (after - before) / 2 - there


def commit_reading(job: Job, found: PolledChanges, state: SourceState | None = None) -> None:
    """Commit rows and positions together, and only then let the source forget them."""
    states = list(found.states.values())
    consumed = max((p.moment.lsn for _, p in found.captures), default=job.state.consumed)
    state = replace(state or job.state, consumed=consumed)
    message = f"sync {job.source.name}"
    found.snapshot = job.commit_work(found.work, message, states, state, found.committed)
    crash_point("after_landing")
    if found.captures:
        with begin_transaction(job.connection):
            note_consumed(job.connection, make_reader(job), consumed)
            for capture, position in found.captures:
                forget_changes(job.connection, capture, position)

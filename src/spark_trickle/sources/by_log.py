"""The log of a source -> its mirrors, transaction by transaction, each whole in one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa

from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import ResyncNeededError, SourceSchemaChangedError
from spark_trickle.model.source import MirrorState, MirrorStatus, SourceState
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import Landing, land_change, read_mirror_rows
from spark_trickle.sources.mirrored import map_mirror_columns, require_mirror
from spark_trickle.sources.position import move_to_position, read_log_position
from spark_trickle.sources.postgres.assemble import Followed
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.slot import (
    LogEnd,
    advance_slot,
    check_slot,
    drop_slot,
    find_log_end,
    slot_state,
)
from spark_trickle.sources.postgres.survey import survey_log
from spark_trickle.sources.postgres.wal import Batch, TableChanges, complete_changes, peek_changes
from spark_trickle.sources.postgres.watch import log_gap, marks_in
from spark_trickle.sources.reading import PolledChanges, clock_difference, commit_reading, read_up_to
from spark_trickle.txn.work import Work, begin_work, now

_MOST_POLLS = 1_000  # of one sync; a busy source is never at its end


def read_log(job: Job) -> PolledChanges:
    """Peek, commit with the position, and only then let the slot go on; until the log ends."""
    total, most = PolledChanges(begin_work(job.place)), job.place.settings.wal_max_lag_bytes
    if not _active_mirrors(job, total.work):
        _drop_useless_slot(job)
        return total
    before = now()
    end = find_log_end(job.connection, job.state.lsn, most)
    ahead = clock_difference(before, end.asked.clock, now())
    for _ in range(_MOST_POLLS):
        start = job.state.lsn
        total.add(_poll_log(job, end, ahead))
        if job.state.lsn == start or job.state.lsn >= end.lsn:
            total.asked = end.asked
            return total
    return total


def _active_mirrors(job: Job, work: Work) -> list[tuple[Table, MirrorState]]:
    return [(t, s) for t, s in job.find_mirrors(work) if s.status is MirrorStatus.ACTIVE]


def _drop_useless_slot(job: Job) -> None:
    """Every mirror has to be copied again, from a slot that is made then; this one only fills a disk."""
    state = slot_state(job.connection, job.state.slot)
    if state is not None and state.lag_bytes > job.place.settings.wal_max_lag_bytes:
        drop_slot(job.connection, job.state.slot)


def _poll_log(job: Job, end: LogEnd, ahead: timedelta) -> PolledChanges:
    """One commit; a position alone is committed once so much log lies behind it that it pays."""
    found = PolledChanges(begin_work(job.place))
    mirrors = _active_mirrors(job, found.work)
    batch = _peek_log(job, found, mirrors, end)
    job.place.unlanded[job.source.name] = batch.records if batch is not None and batch.tables else 0
    if batch is None:
        if found.troubles:
            job.note_state(job.state, list(found.states.values()))
        return found
    by_oid = {require_mirror(t).oid: (t, s) for t, s in mirrors}
    for change in batch.tables:
        _take_change(found, *by_oid[change.source.oid], change)
    found.transactions = batch.transactions
    if batch.first_committed is not None:
        found.committed = batch.first_committed + ahead
    if not found.work.empty or found.troubles or found.grown or _is_worth_noting(job, batch):
        commit_reading(job, found, _advance_state(job, batch, end))
        job.place.unlanded[job.source.name] = 0
        advance_slot(job.connection, job.state.slot, job.state.lsn)
    else:
        found.work.discard()
    return found


def _is_worth_noting(job: Job, batch: Batch) -> bool:
    """Whether to commit a position alone: what lies beyond is not shown before, or much log can go."""
    return batch.is_cut or batch.read_lsn - job.state.lsn > job.place.settings.wal_max_lag_bytes


def _advance_state(job: Job, batch: Batch, end: LogEnd) -> SourceState:
    """The state after a batch, with the moment up to which nothing is missing."""
    state = replace(job.state, lsn=max(batch.read_lsn, job.state.lsn))
    if state.lsn >= end.lsn:
        return read_up_to(state, end.asked)
    return replace(state, read_until=batch.committed or state.read_until, read_snapshot="")


def _peek_log(
    job: Job, found: PolledChanges, mirrors: Sequence[tuple[Table, MirrorState]], end: LogEnd
) -> Batch | None:
    """What the log says next; a mirror that cannot take it is left out, so that the others go on."""
    followed = _find_followed(job, found, mirrors)
    states = {t.id: (t, s) for t, s in mirrors}
    while followed:
        try:
            return peek_changes(
                job.connection,
                job.state.slot,
                job.state.publication,
                list(followed.values()),
                job.state.lsn,
                job.place.settings.wal_max_changes_per_poll,
                end,
                checked=True,
            )
        except (ResyncNeededError, SourceSchemaChangedError) as error:
            blamed = [id_ for id_, f in followed.items() if f.source.full_name == error.table]
            if not blamed:  # the slot itself
                raise
            found.note_trouble(*states[blamed[0]], error)
            del followed[blamed[0]]
    return None


def _take_change(found: PolledChanges, table: Table, state: MirrorState, change: TableChanges) -> None:
    try:
        found.note_landing(table, _land_change(found.work, table, change))
    except ResyncNeededError as error:  # before anything of it was landed
        found.note_trouble(table, state, error)


def _find_followed(
    job: Job, found: PolledChanges, mirrors: Sequence[tuple[Table, MirrorState]]
) -> dict[int, Followed]:
    """The mirrors that can be followed; what stops the others is noted."""
    at, oids = job.state, [require_mirror(t).oid for t, _ in mirrors]
    seen = survey_log(job.connection, at.slot, at.publication, oids)
    if check_slot(at.slot, seen.slot, at.lsn).confirmed < at.lsn:
        # We died after a commit, or the server crashed: what is known would be all that a poll shows.
        advance_slot(job.connection, at.slot, at.lsn)
    found.shown = seen.published
    followed = {}
    for table, state in mirrors:
        try:
            remote = seen.tables.get(require_mirror(table).oid)
            if remote is None:
                raise SourceSchemaChangedError(require_mirror(table).full_name, ("it was dropped",))
            columns = map_mirror_columns(table, remote)
            names = [c.name for c in columns]
            _require_identity(table, remote, names)
            position, now = read_log_position(state), marks_in(seen.around[remote.oid], names)
            if reason := log_gap(remote, position.marks, now, seen.around[remote.oid]):
                raise ResyncNeededError(require_mirror(table).full_name, reason)
            if seen.published.get(remote.oid) != position.published:
                raise ResyncNeededError(
                    require_mirror(table).full_name, "the publication did not always include it"
                )
            if now.parts != position.marks.parts:
                found.grown = True
                found.states[table.id] = move_to_position(state, position.with_parts(now.parts))
            followed[table.id] = Followed(remote, columns, position.published, since=position.moment)
        except (ResyncNeededError, SourceSchemaChangedError) as error:
            found.note_trouble(table, state, error)
    return followed


def _require_identity(table: Table, remote: SourceTable, names: Sequence[str]) -> None:
    """Rows of the mirror are found by what the log says of old rows; FULL says all of it."""
    missing = [n for n in remote.identity if n not in names and remote.replica_identity != "f"]
    if missing or not remote.identity:
        what = f'column "{missing[0]}", which is not captured,' if missing else "nothing"
        raise SourceSchemaChangedError(
            require_mirror(table).full_name, (f"{what} now identifies its rows in the log",)
        )


def _land_change(work: Work, table: Table, change: TableChanges) -> Landing:
    if change.truncated:
        deleted = truncate_table(work, table).rows_deleted
        return land_change(work, table, _skip_empty(change.rows)) + Landing(deleted=deleted)
    held = change.rows.drop_columns([WEIGHT]).slice(0, 0)
    if change.removed_keys.num_rows:
        held = read_mirror_rows(work, table, change.removed_keys)
    return land_change(work, table, _skip_empty(complete_changes(change, held)))


def _skip_empty(rows: pa.Table) -> Iterator[pa.Table]:
    if rows.num_rows:
        yield rows

"""SYNC SOURCE: the newest versions of all tables of a source become one snapshot of ours."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from spark_trickle.errors import ConflictError, Kind, OutsideFileError, ResyncNeededError, TrickleError
from spark_trickle.lake.catalog import sources
from spark_trickle.model import commit
from spark_trickle.model.source import Landed, MirrorState, MirrorStatus
from spark_trickle.model.table import Table
from spark_trickle.sources.followed.attach import land_version
from spark_trickle.sources.followed.in_place import fit_change, land_files
from spark_trickle.sources.followed.job import FollowJob, move_to_version, read_version, use_followed
from spark_trickle.sources.followed.loading import load_arrivals
from spark_trickle.sources.followed.records import land_records
from spark_trickle.sources.followed.tables import adapt_table, can_compare
from spark_trickle.sources.interface import (
    Arrivals,
    FileChange,
    LoadedTable,
    Lost,
    Records,
    Resync,
    Version,
)
from spark_trickle.sources.landing import Landing, land_change
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.report import SyncReport
from spark_trickle.txn import compact
from spark_trickle.txn.retry import retry_on_conflict
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Place, Work, begin_work, now

_NOTED_EVERY = 30.0  # seconds between notes that a source was looked at and had nothing
_DROPPED = "it was dropped in the source"


@dataclass
class _SyncNotes:
    """What one sync has come to."""

    landings: dict[str, Landing] = field(default_factory=dict)
    states: list[MirrorState] = field(default_factory=list)
    compared: dict[str, str] = field(default_factory=dict)  # why, by table
    problems: dict[str, str] = field(default_factory=dict)
    versions: dict[str, Version] = field(default_factory=dict)  # by the name in the source
    waiting: dict[str, int] = field(default_factory=dict)  # files or records that the next sync reads
    rejected: dict[str, int] = field(default_factory=dict)  # files and records

    def note_problem(
        self,
        table: Table,
        state: MirrorState,
        reason: str,
        status: MirrorStatus = MirrorStatus.SCHEMA_CHANGED,
    ) -> None:
        """The rows stay the last exact ones; the other tables go on."""
        self.problems[table.full_name] = reason
        if (state.status, state.reason) != (status, reason):
            self.states.append(replace(state, status=status, reason=reason))


def sync_followed(place: Place, name: str) -> SyncReport:
    """Bring all tables of a source to what it holds now."""
    start = time.perf_counter()

    def attempt() -> SyncReport:
        with use_followed(place, name) as job:
            return _sync_job(job, start)

    try:
        return retry_on_conflict(place, attempt)
    except ConflictError:  # somebody changed the catalog; nothing was consumed
        raise
    except TrickleError as error:
        _note_error(place, name, error)
        raise


def _sync_job(job: FollowJob, start: float) -> SyncReport:
    work = begin_work(job.place)
    tables, found = job.find_tables(work), _SyncNotes()
    newest = job.source.position([require_mirror(t).table for t, _ in tables])
    for table, state in tables:
        version = newest.get(require_mirror(table).table)
        savepoint = take_savepoint(work)
        try:
            if version is None:
                found.note_problem(table, state, _DROPPED)
            elif version != read_version(state) or state.status is not MirrorStatus.ACTIVE:
                _move_table(job, work, table, state, version, found)
        except ResyncNeededError as error:
            roll_back(work, savepoint)
            found.note_problem(table, state, error.reason, MirrorStatus.RESYNC_NEEDED)
        except TrickleError as error:
            if error.kind in (Kind.TRANSIENT, Kind.BUG):  # the next sync begins where this one did
                work.discard()
                raise
            roll_back(work, savepoint)
            found.note_problem(table, state, error.message)
    snapshot = _commit_found(job, work, found)
    job.source.release(found.versions)
    in_place = job.source.capabilities.in_place
    if not in_place:
        changed = [t for t, _ in tables if t.full_name in found.landings]
        parts = [p for t in changed for p in work.catalog.find_parts(t)]
        compact.tidy_tables(job.place, [t.id for t in (*changed, *parts)])
    return SyncReport(
        source=job.attached.name,
        capture="IN PLACE" if in_place else "READER",
        rows_inserted=sum(x.inserted for x in found.landings.values()),
        rows_deleted=sum(x.deleted for x in found.landings.values()),
        tables={
            n: (x.inserted, x.deleted) for n, x in sorted(found.landings.items()) if x.inserted or x.deleted
        },
        resynced=found.compared,
        problems=found.problems,
        transactions=len(found.versions),
        snapshot=snapshot,
        duration_ms=(time.perf_counter() - start) * 1000,
        waiting=found.waiting,
        rejected=found.rejected,
    )


def _move_table(
    job: FollowJob, work: Work, table: Table, state: MirrorState, version: Version, found: _SyncNotes
) -> None:
    """From the version of the last sync to this one: columns first, then rows."""
    remote, before = require_mirror(table).table, read_version(state)
    described = job.source.describe(remote, version)
    if isinstance(described, LoadedTable):
        return _load_table(job, work, table, state, version, found)
    new = adapt_table(table, described)
    if new != table:
        work.define(commit.AlteredTable(table, new))
    change = (
        job.source.changes(remote, before, version)
        if before != version or job.source.capabilities.log
        else Resync("earlier syncs of the table failed")
    )
    if isinstance(change, FileChange):
        change = fit_change(work, new, change) or Resync("files of the previous version are not known")
    if isinstance(change, Records | Lost):
        return _land_batch(work, new, state, change, found)
    if isinstance(change, Resync):
        content = job.source.read(remote, version)
        landing, _ = land_version(work, new, content, change.reason, can_compare(table, new))
        found.compared[table.full_name] = change.reason
    elif isinstance(change, FileChange):
        landing = _land_files(job, work, new, version, change, found)
    else:
        assert not isinstance(change, Arrivals)
        landing = land_change(work, new, change.pieces)
    found.landings[table.full_name] = landing
    found.versions[remote] = version
    found.states.append(move_to_version(replace(state, status=MirrorStatus.ACTIVE, reason=""), version))


def _load_table(
    job: FollowJob, work: Work, table: Table, state: MirrorState, version: Version, found: _SyncNotes
) -> None:
    """Files that arrived; while some of them wait, no version is reached."""
    remote = require_mirror(table).table
    arrivals = job.source.changes(remote, read_version(state), version)
    assert isinstance(arrivals, Arrivals)
    loaded = load_arrivals(work, table, arrivals)
    if loaded.waiting:
        found.waiting[table.full_name] = loaded.waiting
    if loaded.rejected:
        found.rejected[table.full_name] = loaded.rejected
    found.landings[table.full_name] = loaded.landing
    found.versions[remote] = version
    reached = version if loaded.whole else ""
    found.states.append(move_to_version(replace(state, status=MirrorStatus.ACTIVE, reason=""), reached))


def _land_batch(
    work: Work, table: Table, state: MirrorState, change: Records | Lost, found: _SyncNotes
) -> None:
    """The next records of a log; the rest waits for the next sync."""
    if isinstance(change, Lost):
        raise ResyncNeededError(table.full_name, change.reason)
    found.landings[table.full_name], rejected = land_records(work, table, change)
    if rejected:
        found.rejected[table.full_name] = rejected
    if change.waiting:
        found.waiting[table.full_name] = change.waiting
    found.versions[require_mirror(table).table] = change.reached
    found.states.append(
        move_to_version(replace(state, status=MirrorStatus.ACTIVE, reason=""), change.reached)
    )


def _land_files(
    job: FollowJob, work: Work, table: Table, version: Version, change: FileChange, found: _SyncNotes
) -> Landing:
    """If files of the version before are gone already, all files are compared by their paths."""
    savepoint = take_savepoint(work)
    try:
        return land_files(work, table, change)
    except OutsideFileError as error:
        roll_back(work, savepoint)
        reason = error.message
    content = job.source.read(require_mirror(table).table, version)
    landing, why = land_version(work, table, content, "")
    found.compared[table.full_name] = why or reason
    return landing


def _commit_found(job: FollowJob, work: Work, found: _SyncNotes) -> int:
    state, moment = job.state, now().replace(microsecond=0)
    stale = state.synced is None or (moment - state.synced).total_seconds() > _NOTED_EVERY
    if work.empty and not found.states and not state.error and not stale:
        work.discard()
        return work.base.id
    noted = replace(state, error="", synced=moment)
    return job.commit_work(work, f"sync of {job.attached.name}", found.states, noted)


def _note_error(place: Place, name: str, error: TrickleError) -> None:
    """Where source_status() finds it; the error itself goes to whoever asked for the sync."""
    engine = place.warehouse.engine
    attached = sources.find_source(engine, name)
    if attached.state.error != error.message:
        sources.move_on(engine, Landed(attached, replace(attached.state, error=error.message)))

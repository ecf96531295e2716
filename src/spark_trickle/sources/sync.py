"""One synchronisation: finish copies, read what changed, mend what broke, take away what nobody needs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count

from spark_trickle.errors import (
    ConflictError,
    ResyncNeededError,
    SourceBusyError,
    TrickleError,
)
from spark_trickle.lake.catalog import sources
from spark_trickle.model.backoff import Backoff
from spark_trickle.model.source import Landed, MirrorStatus
from spark_trickle.sources.by_log import read_log
from spark_trickle.sources.by_trigger import find_waiting, read_buffers
from spark_trickle.sources.captures import remove_unused_captures
from spark_trickle.sources.copying import go_on
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import Landing
from spark_trickle.sources.link import Links
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.sources.postgres.buffer import claim_buffers, release_buffers
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.options import CdcMode, ResyncWay, read_options
from spark_trickle.sources.progress import Listen, ignore_progress
from spark_trickle.sources.reading import PolledChanges, read_up_to
from spark_trickle.sources.registering import has_part_in_source, require_registered
from spark_trickle.sources.report import SyncReport
from spark_trickle.sources.resync import resync_mirror
from spark_trickle.sources.transition import move_to_log, move_to_triggers, wants_log
from spark_trickle.txn import compact
from spark_trickle.txn.retry import pause_after, retry_on_conflict
from spark_trickle.txn.work import Place, begin_work, now

_PATIENCE = 30.0  # seconds to wait while another process reads the source
_CLAIMS = Backoff(0.05, 0.5)  # pauses meanwhile
_NOTED_EVERY = 30.0  # seconds between notes that a source was looked at and had nothing


@contextmanager
def use_source(
    place: Place,
    links: Links,
    name: str,
    progress: Listen = ignore_progress,
    take_over: bool = False,
) -> Iterator[Job]:
    """A source, alone: nobody else reads its buffers meanwhile, and no other copy of the warehouse may."""
    source = sources.find_source(place.warehouse.engine, name)
    options = read_options(source.options)
    with links.use_connection(
        source.name, options, "sync", partial(_claim_patiently, options.schema)
    ) as connection:
        fresh = sources.find_source(place.warehouse.engine, name)  # as the last one left it
        job = Job(place, connection, fresh, options, progress)
        if fresh.state.warehouse or has_part_in_source(fresh.state):
            require_registered(job, take_over)
        yield job
        for schema in {options.schema, job.options.schema}:
            release_buffers(connection, schema)


def _claim_patiently(schema: str, connection: Connection) -> None:
    end = time.monotonic() + _PATIENCE
    for attempt in count():
        try:
            return claim_buffers(connection, schema)
        except SourceBusyError:
            if time.monotonic() > end:
                raise
            pause_after(attempt, _CLAIMS)


def sync_mirrors(
    place: Place,
    links: Links,
    name: str,
    progress: Listen = ignore_progress,
    take_over: bool = False,
) -> SyncReport:
    """Bring all mirrors of a source to what it holds now; `take_over` from another copy of the warehouse."""

    def attempt() -> SyncReport:
        with use_source(place, links, name, progress, take_over) as job:
            return _sync_job(job)

    try:
        return retry_on_conflict(place, attempt)
    except ConflictError:  # somebody changed the catalog; nothing was consumed
        raise
    except TrickleError as error:
        _note_error(place, name, error)
        raise


def _sync_job(job: Job) -> SyncReport:
    start = time.perf_counter()
    copied = _finish_copies(job)
    found = _read_changes(job)
    landings, resynced = dict(found.landings), {}
    problems = _find_problems(job)
    if job.options.resync is ResyncWay.AUTO:
        resynced = {n: r for n, (status, r) in problems.items() if status is MirrorStatus.RESYNC_NEEDED}
        for table, _ in job.find_mirrors(begin_work(job.place)):
            if table.full_name in resynced:
                landing, found.snapshot = resync_mirror(job, table)
                landings[table.full_name] = landings.get(table.full_name, Landing()) + landing
    remove_unused_captures(job, None if resynced else found.shown)
    compact.tidy_tables(
        job.place, [t.id for t, _ in job.find_mirrors(begin_work(job.place)) if t.full_name in landings]
    )
    _note_success(job, found)
    return SyncReport(
        job.source.name,
        job.state.capture.value,
        sum(x.inserted for x in landings.values()),
        sum(x.deleted for x in landings.values()),
        {n: (x.inserted, x.deleted) for n, x in sorted(landings.items())},
        copied,
        resynced,
        {n: reason for n, (_, reason) in problems.items() if n not in resynced},
        found.transactions,
        found.snapshot or begin_work(job.place).base.id,
        (time.perf_counter() - start) * 1000,
        find_waiting(job, found.sizes) if not job.by_log else {},
    )


def _finish_copies(job: Job) -> tuple[str, ...]:
    """Those that a crash or a lost connection left behind."""
    done = []
    for table, state in job.find_mirrors(begin_work(job.place)):
        if state.status is MirrorStatus.COPYING:
            go_on(job, table, state)
            done.append(".".join(require_mirror(table).becomes or ()))
    return tuple(done)


def _read_changes(job: Job) -> PolledChanges:
    if job.by_log:
        try:
            return read_log(job)
        except ResyncNeededError as error:
            # The slot itself is gone or moved: what lay between is lost for all of its tables.
            if job.options.cdc_mode is CdcMode.AUTO:
                move_to_triggers(job, error.reason)
            else:
                _all_lost(job, error.reason)
            return PolledChanges(begin_work(job.place))
    if wants_log(job) and (moved := move_to_log(job)) is not None:
        return moved
    return read_buffers(job)


def _all_lost(job: Job, reason: str) -> None:
    lost = [
        replace(s, status=MirrorStatus.RESYNC_NEEDED, reason=reason)
        for _, s in job.find_mirrors(begin_work(job.place))
        if s.status is MirrorStatus.ACTIVE
    ]
    job.note_state(job.state, lost)


def _find_problems(job: Job) -> dict[str, tuple[MirrorStatus, str]]:
    return {
        t.full_name: (s.status, s.reason)
        for t, s in job.find_mirrors(begin_work(job.place))
        if s.status in (MirrorStatus.RESYNC_NEEDED, MirrorStatus.SCHEMA_CHANGED)
    }


def _note_success(job: Job, found: PolledChanges) -> None:
    moment, last = now().replace(microsecond=0), job.state.synced
    if job.state.error or last is None or (moment - last).total_seconds() > _NOTED_EVERY:
        state = replace(job.state, error="", synced=moment)
        job.note_state(read_up_to(state, found.asked) if found.asked is not None else state)


def _note_error(place: Place, name: str, error: TrickleError) -> None:
    """Where source_status() finds it; the error itself goes to whoever asked for the sync."""
    engine = place.warehouse.engine
    source = sources.find_source(engine, name)
    if source.state.error != error.message:
        state = replace(source.state, error=error.message)
        sources.move_on(engine, Landed(source, state))

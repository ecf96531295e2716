"""From triggers to the log, and back, without losing or doubling a change.

The slot is made while the triggers still write. Then one reading of the buffers ends at a moment, and in the
commit of that reading the mirrors change over: from the log they take what that moment has not seen.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from spark_trickle.errors import TrickleError
from spark_trickle.model.backoff import Backoff
from spark_trickle.model.source import CaptureMode, MirrorStatus
from spark_trickle.sources.by_trigger import read_until
from spark_trickle.sources.captures import close_log, open_log
from spark_trickle.sources.job import Job
from spark_trickle.sources.mirrored import find_mirror_drift, map_mirror_columns, require_mirror
from spark_trickle.sources.position import LogPosition, move_to_position
from spark_trickle.sources.postgres.options import CdcMode
from spark_trickle.sources.postgres.publication import require_identity
from spark_trickle.sources.postgres.status import server_findings
from spark_trickle.sources.postgres.surroundings import look_around
from spark_trickle.sources.postgres.watch import TableMarks, marks_in
from spark_trickle.sources.reading import PolledChanges, commit_reading
from spark_trickle.txn.work import begin_work, now

_TRIES = Backoff(5.0, 300.0)  # how long to wait for transactions that write, and before the next try


def wants_log(job: Job) -> bool:
    """Whether it is time to try; what stands in the way is noted where all can see it."""
    if job.options.cdc_mode is not CdcMode.AUTO or job.by_log:
        return False
    if job.state.retry_at is not None and now() < job.state.retry_at:
        return False
    reason = _find_obstacle(job)
    if reason != job.state.blocked:
        job.note_state(replace(job.state, blocked=reason))
    return not reason


def _find_obstacle(job: Job) -> str:
    """Why the log cannot be used; empty if it can."""
    for finding in server_findings(job.connection, wants_log=True):
        if not finding.ok:
            return f"{finding.check} is {finding.value}"
    mirrors = [t for t, s in job.find_mirrors(begin_work(job.place)) if s.status is MirrorStatus.ACTIVE]
    if not mirrors:
        return "the source has no mirrors yet"
    try:
        for remote in job.read_remote(mirrors).values():
            require_identity(remote)
    except TrickleError as error:
        return error.message
    return ""


def move_to_log(job: Job) -> PolledChanges | None:
    """Change over; None, with the reason noted, if that has to wait."""
    job.note_state(
        job.change_capture(CaptureMode.TRANSITIONING, "the server allows reading the write-ahead log")
    )
    try:
        marks = _prepare_log(job)
    except TrickleError as error:
        _fall_back(job, error.message)
        return None
    noted = _note_marks(job)  # before the moment: a rewrite that comes between them is told, not missed
    found, moment = read_until(job)
    for table, _ in job.find_mirrors(found.work):
        state = found.states.get(table.id)
        if state is not None and state.status is MirrorStatus.ACTIVE:
            position = LogPosition(moment, marks[require_mirror(table).oid], noted[table.id])
            found.states[table.id] = move_to_position(state, position)
    moved = replace(
        job.change_capture(CaptureMode.WAL, "changes are now read from the write-ahead log"),
        attempts=0,
        retry_at=None,
        blocked="",
    )
    commit_reading(job, found, moved)
    return found


def _note_marks(job: Job) -> dict[int, TableMarks]:
    mirrors = [t for t, s in job.find_mirrors(begin_work(job.place)) if s.status is MirrorStatus.ACTIVE]
    there = job.read_remote(mirrors)
    around = look_around(job.connection, [require_mirror(t).oid for t in mirrors])
    return {
        t.id: marks_in(around[require_mirror(t).oid], [c.name for c in map_mirror_columns(t, there[t.id])])
        for t in mirrors
        if t.id in there and not any(d.breaks for d in find_mirror_drift(t, there[t.id]))
    }


def _prepare_log(job: Job) -> dict[int, str]:
    """Each attempt waits longer than the one before."""
    mirrors = [t for t, s in job.find_mirrors(begin_work(job.place)) if s.status is MirrorStatus.ACTIVE]
    seconds = _TRIES.compute_pause(job.state.attempts)
    opened, marks = open_log(job, list(job.read_remote(mirrors).values()), seconds)
    job.note_state(opened)
    return marks


def _fall_back(job: Job, reason: str) -> None:
    """Triggers go on; the log is tried again later, and later still if it fails again."""
    close_log(job)
    attempts = job.state.attempts + 1
    state = job.change_capture(CaptureMode.TRIGGER, reason)
    later = now() + timedelta(seconds=_TRIES.compute_pause(attempts))
    job.note_state(replace(state, attempts=attempts, retry_at=later, blocked=reason))


def move_to_triggers(job: Job, reason: str) -> None:
    """The log was lost. Every mirror has to be copied again, which the caller sees to."""
    close_log(job)
    states = [
        replace(s, status=MirrorStatus.RESYNC_NEEDED, reason=reason)
        for _, s in job.find_mirrors(begin_work(job.place))
        if s.status is not MirrorStatus.COPYING
    ]
    attempts = job.state.attempts + 1
    later = now() + timedelta(seconds=_TRIES.compute_pause(attempts))
    state = job.change_capture(CaptureMode.TRIGGER, reason)
    job.note_state(replace(state, attempts=attempts, retry_at=later), states)

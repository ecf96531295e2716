"""Change buffers of a source -> its mirrors, all brought to one moment in one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_trickle.errors import ResyncNeededError, SourceSchemaChangedError
from spark_trickle.model.source import MirrorState, MirrorStatus
from spark_trickle.model.table import Table
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import land_change
from spark_trickle.sources.mirrored import map_mirror_columns, require_mirror
from spark_trickle.sources.position import BufferPosition, move_to_position, read_buffer_position
from spark_trickle.sources.postgres.buffer import open_reading, read_rows
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.compact import compact_buffer
from spark_trickle.sources.postgres.install import modernize_functions
from spark_trickle.sources.postgres.moment import Moment
from spark_trickle.sources.postgres.parts import Parts
from spark_trickle.sources.postgres.survey import Survey, count_rows, first_commit, survey_captures
from spark_trickle.sources.postgres.types import MappedColumn
from spark_trickle.sources.reading import PolledChanges, clock_difference, commit_reading
from spark_trickle.txn.work import Work, begin_work, now

_LEAST_ROW_BYTES = 28  # of a row in PostgreSQL, whatever it holds


def read_buffers(job: Job) -> PolledChanges:
    """Read what waits and commit it; where nothing waits, nothing more is asked of the source."""
    found = PolledChanges(begin_work(job.place))
    mirrors = _active_mirrors(job, found.work)
    seen = _survey_captures(job, mirrors)
    _prepare_buffers(job, mirrors, seen)
    if all(_is_settled(table, state, seen) for table, state in mirrors):
        found.work.discard()
        found.asked, found.sizes = seen.asked, seen.sizes
        return found
    found, _ = read_until(job)
    if found.work.empty and not found.troubles and not found.grown:
        found.work.discard()
    else:
        commit_reading(job, found)
    return found


def read_until(job: Job) -> tuple[PolledChanges, Moment]:
    """What waits in the buffers up to one moment, landed but not committed."""
    found = PolledChanges(begin_work(job.place))
    mirrors = _active_mirrors(job, found.work)
    with open_reading(job.connection, job.options.schema) as moment:
        before = now()
        seen = _survey_captures(job, mirrors)
        ahead = clock_difference(before, seen.asked.clock, now())
        found.committed = _first_commit(job, seen, mirrors, ahead)
        for table, state in mirrors:
            try:
                _read_mirror(job, found, table, state, seen, moment)
            except (ResyncNeededError, SourceSchemaChangedError) as error:
                found.note_trouble(table, state, error)
    found.asked, found.sizes = seen.asked, seen.sizes
    return found, moment


def _first_commit(
    job: Job, seen: Survey, mirrors: Sequence[tuple[Table, MirrorState]], ahead: timedelta
) -> datetime | None:
    """The commit of the first change that waits, by our clock; at the latest it was just now."""
    if not seen.unread:
        return None
    at = seen.asked.clock
    if seen.tells_commits:
        followed = {
            require_mirror(t).oid: read_buffer_position(s).reached.moment.snapshot for t, s in mirrors
        }
        since = {oid: snapshot for oid, snapshot in followed.items() if oid in seen.unread}
        at = first_commit(job.connection, job.options.schema, since) or at
    return at + ahead


def _active_mirrors(job: Job, work: Work) -> list[tuple[Table, MirrorState]]:
    return [(t, s) for t, s in job.find_mirrors(work) if s.status is MirrorStatus.ACTIVE]


def _survey_captures(job: Job, mirrors: Sequence[tuple[Table, MirrorState]]) -> Survey:
    since = {require_mirror(t).oid: read_buffer_position(s).reached.moment.snapshot for t, s in mirrors}
    return survey_captures(job.connection, job.options.schema, since=since)


@dataclass(frozen=True)
class _Examined:
    """A mirror that can go on, and what it is read by."""

    capture: Capture
    columns: tuple[MappedColumn, ...]
    before: BufferPosition
    parts: Parts


def _examine_mirror(table: Table, state: MirrorState, seen: Survey) -> _Examined:
    """Refuse a mirror whose table is another one now, or whose buffer may not hold all that changed."""
    oid, name = require_mirror(table).oid, require_mirror(table).full_name
    remote = seen.tables.get(oid)
    if remote is None:
        raise SourceSchemaChangedError(name, ("it was dropped",))
    columns = map_mirror_columns(table, remote)
    if oid not in seen.captures:
        raise ResyncNeededError(name, "its triggers were removed")
    capture = seen.captures[oid].make_capture(remote)
    before, now = read_buffer_position(state), seen.around[oid].parts([c.name for c in columns])
    since = before.reached
    reason = before.parts.find_loss(now) or seen.find_loss(oid, since.token, since.moment.snapshot)
    if reason:
        raise ResyncNeededError(name, reason)
    return _Examined(capture, columns, before, now)


def _is_settled(table: Table, state: MirrorState, seen: Survey) -> bool:
    """Whether there is nothing to read, to note or to mend."""
    try:
        examined = _examine_mirror(table, state, seen)
    except (ResyncNeededError, SourceSchemaChangedError):
        return False
    return require_mirror(table).oid not in seen.unread and examined.before.parts == examined.parts


def _read_mirror(
    job: Job, found: PolledChanges, table: Table, state: MirrorState, seen: Survey, moment: Moment
) -> None:
    mirror = _examine_mirror(table, state, seen)
    reached = mirror.before.reached.move_to(moment)
    if require_mirror(table).oid in seen.unread:
        rows = read_rows(job.connection, mirror.capture, mirror.columns, mirror.before.reached)
        found.note_landing(table, land_change(found.work, table, rows))
        found.captures.append((mirror.capture, reached))
    found.grown |= mirror.parts != mirror.before.parts
    found.states[table.id] = move_to_position(state, BufferPosition(reached, mirror.parts))


def _prepare_buffers(job: Job, mirrors: Sequence[tuple[Table, MirrorState]], seen: Survey) -> None:
    """Bring functions up to date, and cancel what came and went, where so much waits that it pays."""
    for table, state in mirrors:
        oid = require_mirror(table).oid
        remote, capture = seen.tables.get(oid), seen.captures.get(oid)
        if remote is None or capture is None or any(d.breaks for d in capture.find_drift(remote)):
            continue
        modernize_functions(job.connection, capture, remote)
        if _count_waiting(job, oid, seen.sizes, job.place.settings.compact_buffer_rows):
            compact_buffer(job.connection, capture.make_capture(remote), read_buffer_position(state).reached)


def find_waiting(job: Job, sizes: Mapping[int, int]) -> dict[str, int]:
    """Mirrors for which too many changes wait in the source, whoever is to blame that they are not read."""
    most = job.place.settings.buffer_alert_rows
    mirrors = [(t.full_name, require_mirror(t).oid) for t, _ in job.find_mirrors(begin_work(job.place))]
    found = {name: _count_waiting(job, oid, sizes, most) for name, oid in mirrors}
    return {name: count for name, count in found.items() if count}


def _count_waiting(job: Job, oid: int, sizes: Mapping[int, int], most: int) -> int:
    """So many, if more than so many changes wait; else 0.

    They are counted only where the size allows so many: most buffers are small, and syncs are frequent.
    """
    if sizes.get(oid, 0) < most * _LEAST_ROW_BYTES:
        return 0
    count = count_rows(job.connection, oid, job.options.schema, most + 1)
    return most if count > most else 0

"""Change buffers of a source -> its mirrors, all brought to one moment in one commit."""

from __future__ import annotations

from dataclasses import replace

from spark_trickle.cdc.job import Job
from spark_trickle.cdc.landing import land
from spark_trickle.cdc.mirrored import columns_of, mirror_of
from spark_trickle.cdc.position import keep_buffer_position, read_parts, read_position
from spark_trickle.cdc.postgres.buffer import changes, reading
from spark_trickle.cdc.postgres.compact import compact
from spark_trickle.cdc.postgres.discover import SourceTable
from spark_trickle.cdc.postgres.install import Installed, installed, modernize
from spark_trickle.cdc.postgres.moment import Moment
from spark_trickle.cdc.postgres.parts import parts
from spark_trickle.cdc.postgres.status import buffer_bytes, pending
from spark_trickle.cdc.reading import Read, commit_reading
from spark_trickle.dml.work import begin
from spark_trickle.errors import ResyncNeededError, SourceSchemaChangedError
from spark_trickle.model.source import MirrorState, MirrorStatus
from spark_trickle.model.table import Table

_LEAST_ROW_BYTES = 28  # of a row in PostgreSQL, whatever it holds


def read_buffers(job: Job) -> Read:
    """Read what waits and commit it."""
    found, _ = read_until(job)
    if found.work.empty and not found.troubles and not found.grown:
        found.work.discard()
    else:
        commit_reading(job, found)
    return found


def read_until(job: Job) -> tuple[Read, Moment]:
    """What waits in the buffers up to one moment, landed but not committed."""
    found = Read(begin(job.place))
    mirrors = [(t, s) for t, s in job.mirrors(found.work) if s.status is MirrorStatus.ACTIVE]
    known, there = installed(job.connection, job.options.schema), job.remote([t for t, _ in mirrors])
    _prepare(job, mirrors, known, there)
    with reading(job.connection, job.options.schema) as moment:
        for table, state in mirrors:
            try:
                _read(job, found, table, state, known, there.get(table.id), moment)
            except (ResyncNeededError, SourceSchemaChangedError) as error:
                found.trouble(table, state, error)
    return found, moment


def _read(
    job: Job,
    found: Read,
    table: Table,
    state: MirrorState,
    known: dict[int, Installed],
    remote: SourceTable | None,
    moment: Moment,
) -> None:
    if remote is None:
        raise SourceSchemaChangedError(mirror_of(table).full_name, ("it was dropped",))
    columns = columns_of(table, remote)
    if remote.oid not in known:
        raise ResyncNeededError(mirror_of(table).full_name, "its triggers were removed")
    capture, since = known[remote.oid].capture(remote), read_position(state.position)
    before, now = read_parts(state.position), parts(job.connection, remote, [c.name for c in columns])
    if reason := before.lost(now):
        raise ResyncNeededError(mirror_of(table).full_name, reason)
    landing = land(found.work, table, changes(job.connection, capture, columns, since))
    found.landed(table, landing)
    found.grown |= now != before
    found.states[table.id] = replace(state, position=keep_buffer_position(since.at(moment), now))
    found.captures.append((capture, since.at(moment)))


def _prepare(
    job: Job,
    mirrors: list[tuple[Table, MirrorState]],
    known: dict[int, Installed],
    there: dict[int, SourceTable],
) -> None:
    """Bring functions up to date, and cancel what came and went, where so much waits that it pays."""
    for table, state in mirrors:
        remote = there.get(table.id)
        if remote is None or remote.oid not in known:
            continue
        if any(d.breaks for d in known[remote.oid].drift(remote)):
            continue
        modernize(job.connection, known[remote.oid], remote)
        if _waiting(job, remote.oid, job.place.settings.compact_buffer_rows):
            compact(job.connection, known[remote.oid].capture(remote), read_position(state.position))


def left_waiting(job: Job) -> dict[str, int]:
    """Mirrors for which too many changes wait in the source, whoever is to blame that they are not read."""
    captured = installed(job.connection, job.options.schema)
    most = job.place.settings.buffer_alert_rows
    mirrors = [(t.full_name, mirror_of(t).oid) for t, _ in job.mirrors(begin(job.place))]
    found = {name: _waiting(job, oid, most) for name, oid in mirrors if oid in captured}
    return {name: count for name, count in found.items() if count}


def _waiting(job: Job, oid: int, most: int) -> int:
    """So many, if more than so many changes wait; else 0.

    They are counted only where the size allows so many: most buffers are small, and syncs are frequent.
    """
    if buffer_bytes(job.connection, oid, job.options.schema) < most * _LEAST_ROW_BYTES:
        return 0
    count = pending(job.connection, oid, job.options.schema, most + 1).rows
    return most if count > most else 0

"""Change buffers of a source -> its mirrors, all brought to one moment in one commit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_trickle.cdc.job import Job, troubled
from spark_trickle.cdc.landing import Landing, land
from spark_trickle.cdc.mirrored import columns_of, mirror_of
from spark_trickle.cdc.position import keep_position, read_position
from spark_trickle.cdc.postgres.buffer import Position, changes, forget, reading
from spark_trickle.cdc.postgres.capture import Capture
from spark_trickle.cdc.postgres.compact import compact
from spark_trickle.cdc.postgres.discover import SourceTable
from spark_trickle.cdc.postgres.install import Installed, installed
from spark_trickle.cdc.postgres.moment import Moment
from spark_trickle.cdc.postgres.status import pending
from spark_trickle.dml.work import Work, begin
from spark_trickle.errors import ResyncNeededError, SourceSchemaChangedError
from spark_trickle.lake.crashpoint import crash_point
from spark_trickle.model.source import MirrorState, MirrorStatus, SourceState
from spark_trickle.model.table import Table


@dataclass
class Read:
    """What one reading brought, before it is committed."""

    work: Work
    landings: dict[str, Landing] = field(default_factory=dict)
    states: dict[int, MirrorState] = field(default_factory=dict)
    captures: list[tuple[Capture, Position]] = field(default_factory=list)
    troubles: dict[str, str] = field(default_factory=dict)
    snapshot: int = 0
    transactions: int = 0


def read_buffers(job: Job, state: SourceState | None = None) -> Read:
    """Read what waits, commit it, and only then forget it in the source."""
    found, _ = read_until(job)
    if found.work.empty and not found.troubles and state is None:
        found.work.discard()
        return found
    found.snapshot = job.commit(found.work, f"sync {job.source.name}", list(found.states.values()), state)
    crash_point("after_landing")
    for capture, position in found.captures:
        forget(job.connection, capture, position)
    return found


def read_until(job: Job) -> tuple[Read, Moment]:
    """What waits in the buffers up to one moment, landed but not committed."""
    found = Read(begin(job.place))
    mirrors = [(t, s) for t, s in job.mirrors(found.work) if s.status is MirrorStatus.ACTIVE]
    known, there = installed(job.connection, job.options.schema), job.remote([t for t, _ in mirrors])
    _shorten(job, mirrors, known, there)
    with reading(job.connection, job.options.schema) as moment:
        for table, state in mirrors:
            try:
                _read(job, found, table, state, known, there.get(table.id), moment)
            except ResyncNeededError as error:
                _trouble(found, table, state, MirrorStatus.RESYNC_NEEDED, error.reason)
            except SourceSchemaChangedError as error:
                _trouble(found, table, state, MirrorStatus.SCHEMA_CHANGED, "; ".join(error.changes))
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
    landing = land(found.work, table, changes(job.connection, capture, columns, since))
    if landing != Landing():
        found.landings[table.full_name] = landing
    found.states[table.id] = replace(state, position=keep_position(since.at(moment)))
    found.captures.append((capture, since.at(moment)))


def _trouble(found: Read, table: Table, state: MirrorState, status: MirrorStatus, reason: str) -> None:
    found.troubles[table.full_name] = reason
    found.states[table.id] = troubled(state, status, reason)


def _shorten(
    job: Job,
    mirrors: list[tuple[Table, MirrorState]],
    known: dict[int, Installed],
    there: dict[int, SourceTable],
) -> None:
    """Cancel in the source what came and went, where so much waits that it pays."""
    for table, state in mirrors:
        remote = there.get(table.id)
        if remote is None or remote.oid not in known:
            continue
        waits = pending(job.connection, schema=job.options.schema, oid=remote.oid)
        if waits.rows > job.place.settings.compact_buffer_rows and not any(
            d.breaks for d in known[remote.oid].drift(remote)
        ):
            compact(job.connection, known[remote.oid].capture(remote), read_position(state.position))

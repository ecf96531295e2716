"""A mirror that cannot go on -> one that is exact again: copied once more, changed where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model import commit
from spark_trickle.model.source import MirrorState, MirrorStatus
from spark_trickle.model.table import Table
from spark_trickle.sources.captures import add_to_log, has_log, open_log, put_triggers
from spark_trickle.sources.copying import FILE_BOUNDS
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import Landing, land_difference
from spark_trickle.sources.mirrored import adapt_mirror, map_mirror_columns
from spark_trickle.sources.position import (
    BufferPosition,
    LogPosition,
    MirrorPosition,
    move_to_position,
    read_published,
)
from spark_trickle.sources.postgres.buffer import Position
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.install import renew_capture
from spark_trickle.sources.postgres.moment import Moment
from spark_trickle.sources.postgres.publication import read_publication
from spark_trickle.sources.postgres.watch import TableMarks, table_marks
from spark_trickle.txn.work import begin_work


def resync_mirror(job: Job, table: Table, more: Sequence[str] = ()) -> tuple[Landing, int]:
    """Bring the columns of a mirror to those of its source, then its rows; what changed, and the snapshot."""
    remote = job.require_remote(table)
    work = begin_work(job.place)
    state = _require_copied(job, table)
    new = adapt_mirror(table, remote, more)
    if job.by_log:
        token, mark = "", _show_in_log(job, table, remote, state)
    else:
        capture, _ = put_triggers(job, new, remote)
        token, mark = renew_capture(job.connection, capture), ""
    if new != table:
        work.define(commit.AlteredTable(table, new))
    columns = map_mirror_columns(new, remote)
    with open_snapshot(job.connection, [remote]) as moment:
        noted = table_marks(job.connection, remote, [c.name for c in columns])
        rows = copy_rows(job.connection, remote, columns, FILE_BOUNDS, None, job.progress)
        landing = land_difference(work, new, rows)
    position = _make_position(job, token, moment, mark, noted)
    done = move_to_position(replace(state, status=MirrorStatus.ACTIVE, reason=""), position)
    return landing, job.commit_work(work, f"resync of {remote.full_name}", [done])


def _require_copied(job: Job, table: Table) -> MirrorState:
    found = next((s for t, s in job.find_mirrors(begin_work(job.place)) if t.id == table.id), None)
    if found is None or found.status is MirrorStatus.COPYING:
        raise InvalidDefinitionError(
            f'"{table.full_name}" is not fully copied yet', f"Run SYNC SOURCE {job.source.name} first."
        )
    return found


def _make_position(job: Job, token: str, moment: Moment, published: str, noted: TableMarks) -> MirrorPosition:
    if job.by_log:
        return LogPosition(moment, published, noted)
    return BufferPosition(Position(token, moment), noted.parts)


def _show_in_log(job: Job, table: Table, remote: SourceTable, state: MirrorState) -> str:
    """The mark of the table in the publication. A slot that is gone takes all mirrors with it."""
    # Others that are in trouble wait for their own turn; what the log needs of a table may be gone there.
    mirrors = [t for t, s in job.find_mirrors(begin_work(job.place)) if s.status is MirrorStatus.ACTIVE]
    there = list({**job.read_remote(mirrors), table.id: remote}.values())
    if has_log(job):
        shown = read_publication(job.connection, job.state.publication).get(remote.oid)
        known = shown == read_published(state)  # else it came back by another hand
        return add_to_log(job, there, [] if known else [remote])[remote.oid]
    opened, marks = open_log(job, there)
    lost = [
        replace(s, status=MirrorStatus.RESYNC_NEEDED, reason="the replication slot had to be created again")
        for t, s in job.find_mirrors(begin_work(job.place))
        if t.id != table.id and s.status is MirrorStatus.ACTIVE
    ]
    job.note_state(opened, lost)
    return marks[remote.oid]

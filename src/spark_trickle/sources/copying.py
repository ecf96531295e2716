"""A table of a source -> its mirror: copied in pieces that survive a crash, shown when it is whole.

The copy is a hidden table. Each piece is committed with the moment it was read at; at the end all are brought
to one moment, and in the same commit the table gets its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.dml.delete import truncate_table
from spark_trickle.errors import (
    AlreadyExistsError,
    Kind,
    ResyncNeededError,
    TrickleError,
)
from spark_trickle.model import commit
from spark_trickle.model.source import CaptureMode, MirrorState, MirrorStatus
from spark_trickle.model.table import HIDDEN_SCHEMA, Table
from spark_trickle.sources.captures import add_to_log, has_log, open_log, put_triggers, read_triggers
from spark_trickle.sources.job import Job
from spark_trickle.sources.landing import land_change, land_new
from spark_trickle.sources.mirrored import map_mirror_columns, require_mirror
from spark_trickle.sources.position import (
    BufferPosition,
    CopyPosition,
    LogPosition,
    move_to_position,
    read_copy_position,
    read_position,
)
from spark_trickle.sources.postgres.buffer import Position, open_reading
from spark_trickle.sources.postgres.chunks import Bounds
from spark_trickle.sources.postgres.copy import Piece, catch_up, copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.install import renew_capture
from spark_trickle.sources.postgres.options import CdcMode, CopyWay
from spark_trickle.sources.postgres.publication import require_identity
from spark_trickle.sources.postgres.ranges import WHOLE, KeyRange, key_ranges
from spark_trickle.sources.postgres.watch import table_marks
from spark_trickle.sources.registering import start_copy_over
from spark_trickle.sources.side_by_side import land_side_by_side, require_jdbc
from spark_trickle.txn.work import Work, begin_work

FILE_BOUNDS = Bounds(rows=500_000, bytes=96 << 20)  # what one file of a copy holds


def begin_copy(job: Job, work: Work, table: Table) -> Table:
    """Note down what is to be copied; from here on a crash leaves something that can be gone on with."""
    mirror = replace(require_mirror(table), becomes=(table.schema, table.name))
    hidden = replace(table, schema=HIDDEN_SCHEMA, name=f"{table.name}$copy_{table.id}", mirror=mirror)
    work.define(commit.CreatedTable(hidden))
    state = MirrorState(table.id, job.source.name, MirrorStatus.COPYING, "its first copy is not complete yet")
    job.commit_work(work, f"copy of {mirror.table}", [state])
    return hidden


def go_on(job: Job, table: Table, state: MirrorState) -> int:
    """Copy what is left and show the mirror; the rows that it has then.

    After a conflict it is called again with the state that the catalog has then: whole pieces stay.
    """
    try:
        if job.options.copy is CopyWay.JDBC:
            require_jdbc(job)
        if job.by_log or (job.options.cdc_mode is CdcMode.WAL and not job.state.captured):
            return _copy_from_log(job, table, state)
        return _copy_with_triggers(job, table, state)
    except TrickleError as error:
        if error.kind is not Kind.TRANSIENT:  # it would fail in the same way again
            give_up(job, table)
        raise


def give_up(job: Job, table: Table) -> None:
    work = begin_work(job.place)
    if work.catalog.table_by_id(table.id) is not None:
        work.define(commit.DroppedTable(table))
        work.commit("copy given up")


def _copy_with_triggers(job: Job, table: Table, state: MirrorState) -> int:
    remote = job.require_remote(table)
    _, token = put_triggers(job, table, remote)
    copied = read_copy_position(state)
    if copied.pieces and copied.pieces[0].position.token != token:
        state, copied = start_copy_over(job, table, state), CopyPosition()
    if not copied.ranges:
        copied = CopyPosition(_choose_ranges(job, remote))
    for key_range in copied.ranges[len(copied.pieces) :]:
        copied = _copy_piece(job, table, remote, state, copied, key_range, token)
    try:
        return _finish_copy(job, table, state, copied.pieces)
    except ResyncNeededError:
        start_copy_over(job, table, state)
        renew_capture(job.connection, read_triggers(job, table, remote))
        raise


def _choose_ranges(job: Job, remote: SourceTable) -> tuple[KeyRange, ...]:
    if job.options.copy is CopyWay.JDBC:  # the executors share the whole table
        return (WHOLE,)
    return key_ranges(job.connection, remote, job.place.settings.copy_piece_rows)


def _copy_piece(
    job: Job,
    table: Table,
    remote: SourceTable,
    state: MirrorState,
    copied: CopyPosition,
    key_range: KeyRange,
    token: str,
) -> CopyPosition:
    work = begin_work(job.place)
    with open_snapshot(job.connection, [remote]) as moment:
        _land_rows(job, work, table, remote, key_range)
    copied = replace(copied, pieces=(*copied.pieces, Piece(key_range, Position(token, moment))))
    message = f"copy of {remote.full_name}, piece {len(copied.pieces)}"
    job.commit_work(work, message, [move_to_position(state, copied)])
    return copied


def _land_rows(
    job: Job, work: Work, table: Table, remote: SourceTable, key_range: KeyRange | None = None
) -> None:
    """The rows of a table, or of a range of it, at the moment of the running transaction."""
    columns = map_mirror_columns(table, remote)
    if job.options.copy is CopyWay.JDBC:
        land_side_by_side(job, work, table, remote, columns)
    else:
        rows = copy_rows(job.connection, remote, columns, FILE_BOUNDS, key_range, job.progress)
        land_new(work, table, rows)


def _finish_copy(job: Job, table: Table, state: MirrorState, pieces: Sequence[Piece]) -> int:
    remote = job.require_remote(table)
    capture, columns = read_triggers(job, table, remote), map_mirror_columns(table, remote)
    work = begin_work(job.place)
    with open_reading(job.connection, job.options.schema) as moment:
        noted = table_marks(job.connection, remote, [c.name for c in columns]).parts
        land_change(work, table, catch_up(job.connection, capture, columns, pieces))
    _show_mirror(work, table)
    position = BufferPosition(Position(pieces[0].position.token, moment), noted)
    done = move_to_position(replace(state, status=MirrorStatus.ACTIVE, reason=""), position)
    rows = work.row_count(table)
    job.commit_work(work, f"mirror of {remote.full_name}", [done])
    return rows


def _copy_from_log(job: Job, table: Table, state: MirrorState) -> int:
    """In one piece, at one moment: only the server could say in which range a key of the log lies."""
    if not isinstance(read_position(state), LogPosition):
        state = _copy_beside_log(job, table, state)
    work = begin_work(job.place)
    _show_mirror(work, table)
    done = replace(state, status=MirrorStatus.ACTIVE, reason="")
    job.commit_work(work, f"mirror of {require_mirror(table).full_name}", [done])
    return work.row_count(table)


def _copy_beside_log(job: Job, table: Table, state: MirrorState) -> MirrorState:
    remote = job.require_remote(table)
    require_identity(remote)
    work = begin_work(job.place)
    others = [t for t, s in job.find_mirrors(work) if t.id != table.id and s.status is MirrorStatus.ACTIVE]
    there = [*job.read_remote(others).values(), remote]
    if job.by_log and (others or has_log(job)):
        new, marks = job.state, add_to_log(job, there, [remote])
    else:
        opened, marks = open_log(job, there)
        job.note_state(opened)
        new = job.state if job.by_log else job.change_capture(CaptureMode.WAL, "cdc_mode is wal")
    columns = map_mirror_columns(table, remote)
    if work.files(table):  # of a copy that was cut off
        truncate_table(work, table)
    with open_snapshot(job.connection, [remote]) as moment:
        noted = table_marks(job.connection, remote, [c.name for c in columns])
        _land_rows(job, work, table, remote)
    state = move_to_position(state, LogPosition(moment, marks[remote.oid], noted))
    job.commit_work(work, f"copy of {remote.full_name}", [state], new)
    return state


def _show_mirror(work: Work, table: Table) -> None:
    """Give a finished copy the name that it was made for."""
    mirror = require_mirror(table)
    assert mirror.becomes is not None
    schema, name = mirror.becomes
    if (taken := work.catalog.find((schema, name), schema)) is not None:
        raise AlreadyExistsError("table", taken.full_name)
    shown = replace(table, schema=schema, name=name, mirror=replace(mirror, becomes=None))
    work.define(commit.AlteredTable(table, shown))

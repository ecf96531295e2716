"""Rows with weights -> described data files, by whichever writer suits their number."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import FolderNotSharedError
from spark_trickle.lake.storage.crashpoint import crash_point
from spark_trickle.lake.storage.files import Storage
from spark_trickle.model.arrow import can_hold, to_storage
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table
from spark_trickle.model.types import has_array
from spark_trickle.spark.collect import collect_few
from spark_trickle.spark.frames import Frame, Session, as_frame
from spark_trickle.spark.write import deletes_by_file, read_staged, write_by_executors, write_staged
from spark_trickle.txn.work import Work, now


def fits_arrow(table: Table) -> bool:
    return all(can_hold(c.type) for c in table.columns)


def store_rows(work: Work, table: Table, rows: pa.Table, role: Role = Role.CHANGE) -> tuple[DataFile, ...]:
    """Write rows that are at the driver as one file."""
    if rows.num_rows == 0:
        return ()
    crash_point("before_data")
    storage = work.place.storage
    work.place.lease.cover(work.base.id, now())
    name = f"{storage.new_name()}.parquet"
    work.note_written(table, name)  # first, so that half a file is removed as well
    stored = to_storage(table, rows)
    storage.write(table, name, stored, work.place.settings.compression)
    crash_point("after_data")
    file = storage.describe(table, name, role, work.next_as_of(), stored.nbytes)
    deletes = pc.sum(pc.less(rows.column(WEIGHT), 0)).as_py() or 0
    return (replace(file, deletes=deletes),)


def store_frame(
    work: Work, table: Table, frame: Frame, role: Role = Role.CHANGE, file_rows: int = 0
) -> tuple[DataFile, ...]:
    """Let the executors write a frame of the table's columns and weight, in files of some rows if told."""
    crash_point("before_data")
    storage = work.place.storage
    folder = storage.new_name()
    work.note_written(table, folder)
    storage.make_folder(table, folder)
    path, compression = storage.path(table, folder), work.place.settings.compression
    with work.place.lease.keep_renewed(work.base.id):
        written = write_by_executors(frame, table, path, compression, file_rows)
    crash_point("after_data")
    as_of = work.next_as_of()
    by_name = any(has_array(c.type) for c in table.columns)
    files = [storage.describe(table, name, role, as_of, 0) for name in storage.list_parts(table, folder)]
    _require_all(storage, written.rows, sum(f.rows for f in files))
    described = [
        replace(f, by_name=by_name, written_as=table, memory=written.bytes * f.rows // written.rows)
        for f in files
        if f.rows
    ]
    return _with_deletes(work, table, described)


def write_down(work: Work, table: Table, frame: Frame) -> Frame:
    """The same rows, computed once and for all; their files go when the work ends."""
    folder = f"{work.place.storage.new_name()}-staged"
    work.note_written(table, folder)
    return _write_down(work, table, frame, folder)


def keep_result(work: Work, table: Table, frame: Frame, session: Session | None = None) -> Frame:
    """The same rows, computed now: at the driver, or as files that go when the connection is closed.

    Not in the memory of executors, which may be gone when somebody reads them. They are for the session of
    the frame, unless another is named.
    """
    room = room_of_statement(work.place.settings)
    if fits_arrow(table) and (rows := collect_few(frame, room)) is not None:
        return as_frame(frame, rows, session)
    folder = f"{work.place.storage.new_name()}-kept"
    work.place.kept.append((table, folder))
    return _write_down(work, table, frame, folder, session)


def _write_down(work: Work, table: Table, frame: Frame, folder: str, session: Session | None = None) -> Frame:
    storage = work.place.storage
    with work.place.lease.keep_renewed(work.base.id):
        written = write_staged(frame, storage.path(table, folder))
    _require_all(
        storage, written, sum(storage.count_rows(table, p) for p in storage.list_parts(table, folder))
    )
    return read_staged(frame, storage.pattern(table, folder), session)


def _require_all(storage: Storage, written: int, found: int) -> None:
    """An executor whose folder is another one writes without an error, and its rows are nowhere."""
    if written != found:
        detail = f"the executors wrote {written} rows, and {found} of them are there"
        raise FolderNotSharedError(storage.root, detail)


def _with_deletes(work: Work, table: Table, files: list[DataFile]) -> tuple[DataFile, ...]:
    """The bounds of the weights tell how many are negative, unless a file mixes both."""
    bounds = {f.path: next((s for s in f.stats if s.column_id == WEIGHT_ID), None) for f in files}
    mixed = [f for f in files if not (b := bounds[f.path]) or b.low != b.high]
    counted = {}
    if mixed:
        paths = [work.place.storage.pattern(table, f.path) for f in mixed]
        counted = deletes_by_file(work.place.spark, paths)
    done = []
    for f in files:
        bound = bounds[f.path]
        plain = f.rows if bound and bound.low == "-1" else 0
        done.append(replace(f, deletes=counted.get(f.name, plain)))
    return tuple(done)

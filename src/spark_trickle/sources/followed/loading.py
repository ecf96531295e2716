"""Files that arrived -> rows of our table, entries of its ledger, and rejects, all in one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.model import commit
from spark_trickle.model.arriving import FILE, ArrivingFile, FileScan
from spark_trickle.model.arrow import arrow_schema, to_storage
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.sources.followed.layout import (
    Layouts,
    find_faults,
    find_new_columns,
    make_scans,
    read_layouts,
    widen_remote,
)
from spark_trickle.sources.followed.ledger import (
    LOADED,
    REJECTED,
    Entry,
    FileBatch,
    Ledger,
    choose_all,
    choose_batch,
    read_ledger,
)
from spark_trickle.sources.followed.parts import LEDGER, REJECTS, find_part
from spark_trickle.sources.followed.tables import adapt_table
from spark_trickle.sources.interface import Arrivals, Content, weigh_rows
from spark_trickle.sources.landing import Landing, land_change, land_frame
from spark_trickle.sources.mirrored import require_mirror
from spark_trickle.spark.arriving import (
    RECORD,
    UNREADABLE,
    count_by_file,
    count_records,
    describe_records,
    read_arrived,
    require_format,
    rows_of_files,
    select_records,
    select_rows,
)
from spark_trickle.spark.collect import collect_few
from spark_trickle.spark.frames import Frame, as_frame, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.store import fits_arrow, write_down
from spark_trickle.txn.work import Work, now

_NOTHING = Landing()


@dataclass(frozen=True)
class Loaded:
    """What came of one batch; if it is not `whole`, the next sync has to look at the source again."""

    landing: Landing = _NOTHING
    rejected: int = 0  # files and records
    waiting: int = 0  # files
    whole: bool = True


@dataclass
class _Load:
    """One batch on its way into a table."""

    work: Work
    table: Table
    arrivals: Arrivals
    batch: FileBatch
    ledger: Ledger
    loaded_at: datetime
    faults: dict[str, str] = field(default_factory=dict)  # why a file cannot be read
    left_out: set[str] = field(default_factory=set)  # changed while we read it

    @property
    def rejects(self) -> Table:
        return find_part(self.work.catalog, self.table, REJECTS)


@dataclass(frozen=True)
class _Landed:
    """What came of the records: rows and bad records by file, and what is to be told of the bad ones."""

    landing: Landing
    rows: dict[str, int] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    rejects: pa.Table | Frame | None = None


def load_arrivals(work: Work, table: Table, arrivals: Arrivals, again: bool = False) -> Loaded:
    """Load what is new, or everything once more."""
    ledger = read_ledger(work, find_part(work.catalog, table, LEDGER))
    batch = choose_all(arrivals, ledger) if again else choose_batch(arrivals, ledger)
    if batch.is_empty:
        return Loaded(waiting=len(batch.waiting), whole=not batch.waiting)
    require_format(work.place.spark, arrivals.format)
    load = _Load(work, table, arrivals, batch, ledger, now())
    landed, files = _load_files(load)
    refused = _note_files(load, files, landed)
    _land_rejects(load, files, landed, refused)
    whole = not (batch.waiting or load.left_out)
    waiting = len(batch.waiting) + len(load.left_out)
    return Loaded(landed.landing, len(refused) + sum(landed.records.values()), waiting, whole)


def find_pending(work: Work, table: Table, content: Content) -> tuple[ArrivingFile, ...]:
    """The files that the next syncs load."""
    assert isinstance(content, Arrivals)
    batch = choose_batch(content, read_ledger(work, find_part(work.catalog, table, LEDGER)))
    return (*batch.load, *batch.refused, *batch.waiting)


def _load_files(load: _Load) -> tuple[_Landed, tuple[ArrivingFile, ...]]:
    """The rows of all files that can be read, and are after that what they were before."""
    layouts = _inspect(load)
    while True:
        savepoint = take_savepoint(load.work)
        scans = make_scans(load.table, layouts, {*load.faults, *load.left_out})
        try:
            landed = _land_rows(load, scans)
        except UNREADABLE:
            roll_back(load.work, savepoint)
            if not _leave_out_changed(load) and not _find_faults(load, scans):
                raise
            continue
        if not _leave_out_changed(load):
            return landed, tuple(f for f in load.batch.load if f.address not in load.left_out)
        roll_back(load.work, savepoint)


def _inspect(load: _Load) -> Layouts:
    """What the files tell of themselves; columns that the table lacks are added to it."""
    found = load.arrivals.inspect(load.batch.load)
    load.left_out |= {f.file.address for f in found if f.is_gone}
    load.faults |= {f.file.address: f.problem for f in found if f.problem}
    readable = [f for f in found if not f.is_gone and not f.problem]
    spark = load.work.place.spark
    evolves = load.arrivals.evolves
    layouts = read_layouts(spark, load.arrivals.format, readable, load.table, evolves)
    if evolves and (new := find_new_columns(spark, load.table, layouts)):
        wider = adapt_table(load.table, widen_remote(load.table, new))
        load.work.define(commit.AlteredTable(load.table, wider))
        load.table = wider
    load.faults |= layouts.faults
    return layouts


def _leave_out_changed(load: _Load) -> bool:
    """Files that are others by now, or gone: the next sync looks at them."""
    files = [f for f in load.batch.load if f.address not in load.left_out]
    there = load.arrivals.look_again(files)
    changed = {old.address for old, new in zip(files, there, strict=True) if old != new}
    load.left_out |= changed
    load.faults = {a: why for a, why in load.faults.items() if a not in changed}
    return bool(changed)


def _find_faults(load: _Load, scans: Sequence[FileScan]) -> bool:
    found = find_faults(load.work.place.spark, load.arrivals.format, scans)
    load.faults |= found
    return bool(found)


def _land_rows(load: _Load, scans: Sequence[FileScan]) -> _Landed:
    """Few rows pass through the driver, which costs one job; many are written by the executors."""
    work, table = load.work, load.table
    replaced = sorted(load.batch.replaced - load.left_out)
    deleted = [rows_of_files(work.rows(table), FILE, replaced)] if replaced else []
    if not scans:
        return _Landed(_land_with(work, table, [], deleted))
    written = dict(require_mirror(table).lasting)
    spark, kind = work.place.spark, load.arrivals.format
    frame = read_arrived(spark, kind, scans, table, written, load.loaded_at)
    few = _collect_few(load, frame)
    if few is not None:
        rows = few.filter(pc.is_null(few.column(RECORD))).drop_columns([RECORD])
        records = few.filter(pc.is_valid(few.column(RECORD)))
        landing = _land_with(work, table, [rows], deleted)
        return _Landed(
            landing, _count_files(rows), _count_files(records), _tell_rejects(load, frame, records)
        )
    return _land_many(load, frame, deleted)


def _collect_few(load: _Load, frame: Frame) -> pa.Table | None:
    room = room_of_statement(load.work.place.settings)
    size = sum(f.bytes for f in load.batch.load)
    return collect_few(frame, room) if size <= room.bytes and fits_arrow(load.table) else None


def _land_many(load: _Load, frame: Frame, deleted: Sequence[Frame]) -> _Landed:
    work, table = load.work, load.table
    counted, count_bad = count_records(frame)
    landing = land_frame(work, table, _unite([select_rows(counted), *deleted]))
    change = work.changes.get(table.id)
    added = [f for f in change.added if f.rows > f.deletes] if change else []
    stored = rows_with_weights(work.place.spark, work.place.storage, table, added)
    came = stored.where(f"{WEIGHT} > 0")
    rows = {r["file"]: r["rows"] for r in collect(count_by_file(came)).to_pylist()}
    if not count_bad():
        return _Landed(landing, rows)
    # Written down with all columns: Spark would not look for bad values in columns that nobody reads.
    bad = write_down(work, table, select_records(frame))
    rejects = describe_records(bad, load.arrivals.format, table, dict(require_mirror(table).lasting))
    records = {r["file"]: r["rows"] for r in collect(count_by_file(bad)).to_pylist()}
    return _Landed(landing, rows, records, rejects)


def _land_with(work: Work, table: Table, pieces: Sequence[pa.Table], frames: Sequence[Frame]) -> Landing:
    """Rows that are at the driver and others that may come there too, as one change."""
    held, many = list(pieces), []
    for frame in frames:
        few = collect_few(frame, room_of_statement(work.place.settings)) if fits_arrow(table) else None
        if few is None:
            many.append(frame)
        else:
            held.append(few)
    if not many:
        return land_change(work, table, held)
    spark = work.place.spark
    return land_frame(work, table, _unite([*many, *(local_frame(spark, table, piece) for piece in held)]))


def _unite(frames: Sequence[Frame]) -> Frame:
    whole = frames[0]
    for frame in frames[1:]:
        whole = whole.unionByName(frame)
    return whole


def _count_files(rows: pa.Table) -> dict[str, int]:
    found = pc.value_counts(rows.column(FILE)).to_pylist()
    return {pair["values"]: pair["counts"] for pair in found}


# --- rejects and ledger ----------------------------------------------------------------------------


def _tell_rejects(load: _Load, frame: Frame, records: pa.Table) -> pa.Table | None:
    """Bad records as rows of the table of rejects: Spark tells what is wrong with them."""
    if not records.num_rows:
        return None
    written = dict(require_mirror(load.table).lasting)
    held = as_frame(frame, records)
    return collect(describe_records(held, load.arrivals.format, load.table, written))


def _land_rejects(
    load: _Load, files: Sequence[ArrivingFile], landed: _Landed, refused: dict[str, str]
) -> None:
    """What was rejected now; what was rejected before, of the same files or of ones that are gone, goes."""
    values = [
        {"file": a, "reason": why, "record": None, "loaded_at": load.loaded_at} for a, why in refused.items()
    ]
    schema = arrow_schema(load.rejects)
    rows = weigh_rows(pa.Table.from_pylist(values, schema.remove(schema.get_field_index(WEIGHT))), 1)
    frames: list[Frame] = []
    if isinstance(landed.rejects, pa.Table):
        rows = pa.concat_tables([rows, to_storage(load.rejects, landed.rejects)])
    elif landed.rejects is not None:
        frames.append(landed.rejects)
    known = set(load.ledger.list_rejected())
    old = sorted(({f.address for f in files} & known) | load.batch.forgotten)
    if old:
        frames.append(rows_of_files(load.work.rows(load.rejects), "file", old))
    if rows.num_rows or frames:
        _land_with(load.work, load.rejects, [rows], frames)


def _note_files(load: _Load, files: Sequence[ArrivingFile], landed: _Landed) -> dict[str, str]:
    """An entry for each file; why some of them were not loaded."""
    faults = {f.address: load.faults[f.address] for f in files if f.address in load.faults}
    entries = [
        Entry(
            f,
            REJECTED if f.address in faults else LOADED,
            landed.rows.get(f.address, 0),
            landed.records.get(f.address, 0),
            load.loaded_at,
        )
        for f in files
    ]
    for f in load.batch.refused:
        before = load.ledger.find(f.address)
        faults[f.address] = (
            f"the file was overwritten after it was loaded: it had {before.file.bytes} bytes of"
            f" {before.file.modified:%Y-%m-%d %H:%M:%S} and has {f.bytes} of {f.modified:%Y-%m-%d %H:%M:%S}"
        )
        entries.append(Entry(f, before.status, before.rows, before.rejected + 1, before.loaded_at))
    known = [e.file.address for e in entries if e.file.address in load.ledger]
    forgotten = [a for a in load.batch.forgotten if load.ledger.find(a).status == REJECTED]
    change = load.ledger.replace([*known, *forgotten], entries)
    if change.num_rows:
        land_change(load.work, load.ledger.table, [change])
    return faults

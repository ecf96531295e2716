"""What happened to the files of a table in place -> the change of our table, without a copy of its rows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_trickle.errors import OutsideFileError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.storage.masks import list_numbers
from spark_trickle.lake.storage.outside import read_mask
from spark_trickle.lake.storage.stats import format_bound
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import ColumnStats, DataFile, Outside, Role
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar, find_fixed_width
from spark_trickle.sources.interface import ColumnBounds, FileChange, FileContent, RemoteFile
from spark_trickle.sources.landing import Landing
from spark_trickle.txn.net import store_difference
from spark_trickle.txn.work import Work

_Numbers = npt.NDArray[np.int64]
_UNPACKED = 5  # times as many bytes as a file has, its rows take in memory, if nothing else is known


def land_files(work: Work, table: Table, change: FileChange) -> Landing:
    """From one version to another; that we know the files which went was checked before."""
    make = FileMaker(table, work.next_as_of())
    known = _find_known(work, table, change.removed)
    inserted = tuple(make.file(f, Role.CHANGE) for f in change.inserted)
    rewritten = tuple(make.file(f, Role.BASE) for f in change.rewritten)
    moved = tuple(make.file(f, Role.BASE) for f in change.moved_to)
    deleted = [known[path] for path in change.deleted]
    replaced = [known[path] for path in change.replaced]
    removals = tuple(f.make_removal(make.as_of) for f in deleted)
    recorded = tuple(make.file(f, Role.CHANGE) for f in change.recorded)
    net = _store_net(work, table, rewritten, replaced, recorded)
    work.change(
        TableChange(
            table,
            added=(*inserted, *rewritten, *moved),
            feed_only=(*removals, *net),
            ended=tuple(known[path] for path in change.removed),
        )
    )
    rows = sum(f.rows for f in inserted) + sum(f.rows - f.deletes for f in net)
    return Landing(rows, sum(f.deletes for f in (*removals, *net)))


def fit_change(work: Work, table: Table, change: FileChange) -> FileChange | None:
    """The change without files that are there already; None if it removes files that we do not know."""
    known = _find_known(work, table, (*change.removed, *(f.path for f in change.added)))
    if not set(change.removed) <= known.keys():
        return None
    if change.recorded and any(f.path in known for f in change.added):
        return None  # then the feed tells more than what we lack
    return replace(
        change,
        inserted=tuple(f for f in change.inserted if f.path not in known),
        rewritten=tuple(f for f in change.rewritten if f.path not in known),
        moved_to=tuple(f for f in change.moved_to if f.path not in known),
    )


def _find_known(work: Work, table: Table, paths: Collection[str]) -> dict[str, DataFile]:
    """Only these are asked for: a table may have very many files, of which few change."""
    with open_reader(work.place.warehouse.engine) as connection:
        return {f.path: f for f in read.find_files(connection, table.id, work.base.id, paths)}


def land_content(
    work: Work, table: Table, content: FileContent, reason: str, can_compare: bool = True
) -> tuple[Landing, str]:
    """All files of a version, compared with those we know; and why nobody knows what changed, if it is so.

    `reason` says why they have to be compared.
    """
    known = {f.path for f in work.files(table)}
    new = {f.path: f for f in content.files}
    added = tuple(f for path, f in new.items() if path not in known)
    removed = tuple(path for path in sorted(known) if path not in new)
    if removed and not can_compare:
        _land_unknown(work, table, added, removed, reason)
        return Landing(), reason
    if not (added and removed):
        return land_files(work, table, FileChange(inserted=added, deleted=removed)), ""
    try:
        return land_files(work, table, FileChange(rewritten=added, replaced=removed)), ""
    except OutsideFileError as error:  # the old files are gone: their rows cannot be compared any more
        why = f"{reason}; {error.message}" if reason else error.message
        _land_unknown(work, table, added, removed, why)
        return Landing(), why


def _land_unknown(
    work: Work, table: Table, added: Sequence[RemoteFile], removed: Sequence[str], reason: str
) -> None:
    make = FileMaker(table, work.next_as_of())
    known = {f.path: f for f in work.files(table)}
    unknown = DataFile(work.place.storage.new_name(), Role.UNKNOWN, 0, 0, 0, 0, make.as_of, reason=reason)
    files = tuple(make.file(f, Role.BASE) for f in added)
    ended = tuple(known[path] for path in removed)
    work.change(TableChange(table, added=files, feed_only=(unknown,), ended=ended))


def _store_net(
    work: Work,
    table: Table,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    recorded: Sequence[DataFile] = (),
) -> tuple[DataFile, ...]:
    """What files hold beyond others; of a file with two masks only the rows that differ are read."""
    before = {_address_of(f): f for f in removed}
    plus, minus = list(recorded), []
    for new in added:
        old = before.pop(_address_of(new), None)
        if old is None:
            plus.append(new)
            continue
        back, went = _compare_masks(old, new)
        if len(back):
            plus.append(_keep_rows(new, back))
        if len(went):
            minus.append(_keep_rows(new, went))
    minus += before.values()
    return store_difference(work, table, plus, minus) if plus or minus else ()


def _address_of(file: DataFile) -> str:
    assert file.outside is not None
    return file.outside.address


def _compare_masks(old: DataFile, new: DataFile) -> tuple[_Numbers, _Numbers]:
    """The numbers of rows that are back, and of those that went."""
    masks = [f.outside.mask if f.outside is not None else None for f in (old, new)]
    before, after = (np.zeros(0, np.int64) if m is None else read_mask(m).to_numpy() for m in masks)
    return np.setdiff1d(before, after), np.setdiff1d(after, before)


def _keep_rows(file: DataFile, numbers: _Numbers) -> DataFile:
    """Some rows of a file by their numbers."""
    assert file.outside is not None
    mask = list_numbers(pa.array(numbers))
    share = file.memory * len(numbers) // max(file.rows, 1)
    outside = replace(file.outside, mask=mask)
    return replace(file, path=outside.path, rows=len(numbers), memory=share, outside=outside)


@dataclass(frozen=True)
class FileMaker:
    """Files of a source -> files of our catalog."""

    table: Table
    as_of: int

    def file(self, found: RemoteFile, role: Role) -> DataFile:
        columns = {c.name: c for c in self.table.columns}
        outside = Outside(found.address, found.values, found.mask, found.tells_changes)
        width = find_fixed_width(c.type for c in self.table.columns)
        return DataFile(
            path=outside.path,
            role=role,
            rows=found.rows,
            deletes=found.deletes,
            bytes=found.bytes,
            footer_bytes=0,
            as_of=self.as_of,
            memory=found.bytes * _UNPACKED if width is None else found.rows * width,
            stats=tuple(
                _make_stats(columns[n], found.rows, b) for n, b in found.bounds.items() if n in columns
            ),
            outside=outside,
        )


def _make_stats(column: TableColumn, rows: int, bounds: ColumnBounds) -> ColumnStats:
    low = high = None
    if isinstance(column.type, Scalar) and bounds.low is not None:
        low, high = format_bound(bounds.low, column.type), format_bound(bounds.high, column.type)
    if low is None or high is None:
        low = high = None
    return ColumnStats(column.id, rows, bounds.nulls, low, high)

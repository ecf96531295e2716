"""Snapshots of a stream table -> the published table: filled once, then moved on by what changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from spark_trickle.errors import NotPublishedError, RepairNeededError, TrickleError
from spark_trickle.lake.catalog import read, sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.source import Published
from spark_trickle.model.table import Table
from spark_trickle.sources.link import Links
from spark_trickle.sources.ownership import Evidence, Ownership, catalog_exists, judge_site
from spark_trickle.targets.interface import Applied, PublishedState, SnapshotStep, TargetTable
from spark_trickle.targets.kinds import open_target
from spark_trickle.targets.rows import AllRows, ChangedRows
from spark_trickle.txn.work import Place, Work, begin_work, now

_QUIET_SNAPSHOTS = 100  # a table without changes is moved on now and then, so that VACUUM can


@dataclass(frozen=True)
class Pushed:
    """What a push changed in a published table."""

    stream: str
    source: str
    table: str
    snapshot: int
    rows_inserted: int = 0
    rows_deleted: int = 0


# --- publish and forget ----------------------------------------------------------------------------


def publish_table(place: Place, links: Links, table: Table, found: Published) -> Pushed:
    """Make the table there and fill it with the newest snapshot."""
    engine = place.warehouse.engine
    work = begin_work(place)
    with open_target(work, links, table, found) as target:
        target.create()
        sources.set_published(engine, found)
    return push_table(place, links, found)


def unpublish_table(place: Place, links: Links, table: Table, keep: bool) -> None:
    """A table there that another warehouse writes is none of our business."""
    found, work = require_published(place, table), begin_work(place)
    with open_target(work, links, table, found) as target, suppress(NotPublishedError):
        _settle_ownership(work, target)
        target.drop(keep)
    sources.remove_published(place.warehouse.engine, table.id)


def require_published(place: Place, table: Table) -> Published:
    with open_reader(place.warehouse.engine) as connection:
        known = sources.read_published(connection)
    if table.id not in known:
        raise NotPublishedError(table.full_name, "")
    return known[table.id]


# --- moving on -------------------------------------------------------------------------------------


def push_table(place: Place, links: Links, found: Published, take_over: bool = False) -> Pushed:
    """Bring a published table to the newest snapshot; what it was kept from is noted.

    With `take_over` this copy of the warehouse writes the table from now on, and no other.
    """
    try:
        return _push_changes(place, links, found, take_over)
    except TrickleError as error:
        if found.error != error.message:
            sources.set_published(place.warehouse.engine, replace(found, error=error.message))
        raise


def _push_changes(place: Place, links: Links, found: Published, take_over: bool) -> Pushed:
    work = begin_work(place)
    table = _require_table(work, found)
    with open_target(work, links, table, found) as target:
        there, verdict = _settle_ownership(work, target, take_over)
        if verdict is Ownership.RESTORED:
            done = _repair_rows(work, table, target)
        else:
            done = _move_table(work, table, target, there)
    reached = done.snapshot
    if reached != found.reached or found.error:
        moved = replace(found, reached=reached, applied=now(), error="")
        sources.set_published(place.warehouse.engine, moved)
    return Pushed(table.full_name, found.source, target.full_name, reached, done.inserted, done.deleted)


def _settle_ownership(
    work: Work, target: TargetTable, take_over: bool = False
) -> tuple[PublishedState, Ownership]:
    """The table there, once it is clear that this copy of the warehouse may write it."""
    there = target.read_state()
    served = there.site or target.site
    exists = catalog_exists(served, target.site)
    verdict = judge_site(Evidence(served, target.site, _is_behind(work, there), exists), take_over)
    if verdict is Ownership.COPY:
        target.refuse_copy(served)
    if there.site != target.site:
        target.adopt()
    return there, verdict


def _is_behind(work: Work, there: PublishedState) -> bool:
    """Whether the table shows a snapshot that this warehouse never had: it was restored from a copy."""
    if there.snapshot is None:
        return False
    with open_reader(work.place.warehouse.engine) as catalog:  # another process may have pushed a newer one
        newest, known = read.read_newest(catalog), read.find_snapshot(catalog, there.snapshot)
    if known is None:
        return there.snapshot > newest.id
    return bool(there.mark) and there.mark != _make_mark(known)


def _make_mark(snapshot: Snapshot) -> str:
    return snapshot.time.isoformat()


def _move_table(work: Work, table: Table, target: TargetTable, there: PublishedState) -> Applied:
    newest, after = work.base.id, there.snapshot
    marks = (there.mark, _make_mark(work.base))
    if after is None and target.has_rows():  # kept when it was unpublished
        return _repair_rows(work, table, target)
    if after is None:
        try:
            return target.apply(SnapshotStep(None, newest, marks), AllRows(work, table))
        finally:
            work.discard()
    if after > newest:  # another process pushed a newer snapshot meanwhile
        return Applied(False, after)
    with open_reader(work.place.warehouse.engine) as catalog:
        files = read.read_change_files(catalog, table.id, after, newest)
        oldest = read.read_oldest_id(catalog)
    if after < oldest:
        raise RepairNeededError(
            target.full_name, f"it is at snapshot {after}, and VACUUM deleted the changes since then"
        )
    if not files and not there.columns_behind and newest - after < _QUIET_SNAPSHOTS:
        return Applied(False, after)
    try:
        return target.apply(SnapshotStep(after, newest, marks), ChangedRows(work, table, files))
    finally:
        work.discard()


def repair_table(place: Place, links: Links, table: Table) -> Pushed:
    """Compare all rows, and change those that differ."""
    found, work = require_published(place, table), begin_work(place)
    with open_target(work, links, table, found) as target:
        _settle_ownership(work, target)
        done = _repair_rows(work, table, target)
    moved = replace(found, reached=done.snapshot, applied=now(), error="")
    sources.set_published(place.warehouse.engine, moved)
    return Pushed(table.full_name, found.source, target.full_name, done.snapshot, done.inserted, done.deleted)


def _repair_rows(work: Work, table: Table, target: TargetTable) -> Applied:
    try:
        return target.repair(work.base.id, AllRows(work, table), _make_mark(work.base))
    finally:
        work.discard()


def _require_table(work: Work, found: Published) -> Table:
    table = work.catalog.table_by_id(found.table_id)
    if table is None:
        raise NotPublishedError(f"table {found.table_id}", f"{found.schema}.{found.table}")
    return table

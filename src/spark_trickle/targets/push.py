"""Snapshots of a stream table -> the published table: filled once, then moved on by what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.errors import NotPublishedError, RepairNeededError, TrickleError, UnsupportedError
from spark_trickle.lake.catalog import read, sources
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.site import find_site
from spark_trickle.model.arrow import can_hold, from_storage, single_weights, sum_weights
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.source import Published
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.refresh.identity import key_of
from spark_trickle.sources.kinds import POSTGRES
from spark_trickle.sources.link import Links
from spark_trickle.sources.ownership import Evidence, Ownership, catalog_exists, judge_site
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.options import read_options
from spark_trickle.spark.collect import collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.write import write_staged
from spark_trickle.targets.postgres import front as postgres
from spark_trickle.targets.postgres.front import Applied, PublishedState, Target
from spark_trickle.txn.net import net_change
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


@contextmanager
def _connect_target(place: Place, links: Links, source: str) -> Iterator[Connection]:
    attached = sources.find_source(place.warehouse.engine, source)
    if attached.kind != POSTGRES:
        raise UnsupportedError(
            f'publishing to "{attached.name}", a source of type {attached.kind}',
            "Publish to a PostgreSQL source.",
        )
    options = read_options(attached.options)
    with links.use_connection(attached.name, options, "publish") as connection:
        yield connection


def make_target(work: Work, table: Table, found: Published) -> Target:
    key = key_of(work, table)
    columns = tuple(replace(c, nullable=True) for c in table.columns)
    engine = work.place.warehouse.engine
    return Target(
        found.schema,
        found.table,
        table.full_name,
        columns,
        sources.warehouse_id(engine),
        key,
        site=find_site(engine),
        source=found.source,
    )


# --- publish and forget ----------------------------------------------------------------------------


def publish_table(place: Place, links: Links, table: Table, source: str, schema: str, name: str) -> Pushed:
    """Make the table there and fill it with the newest snapshot."""
    engine = place.warehouse.engine
    attached = sources.find_source(engine, source)
    found = Published(table.id, attached.name, schema, name)
    work = begin_work(place)
    with _connect_target(place, links, source) as connection:
        postgres.create_target(connection, make_target(work, table, found))
        sources.set_published(engine, found)
    return push_table(place, links, found)


def unpublish_table(place: Place, links: Links, table: Table, keep: bool) -> None:
    """A table there that another warehouse writes is none of our business."""
    found, work = require_published(place, table), begin_work(place)
    target = make_target(work, table, found)
    with _connect_target(place, links, found.source) as connection, suppress(NotPublishedError):
        _settle_ownership(work, connection, target)
        postgres.drop_target(connection, target, keep)
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
    target = make_target(work, table, found)
    with _connect_target(place, links, found.source) as connection:
        there, verdict = _settle_ownership(work, connection, target, take_over)
        if verdict is Ownership.RESTORED:
            done = _repair_rows(work, connection, table, target)
        else:
            done = _move_table(work, connection, table, target, there)
    reached = done.snapshot
    if reached != found.reached or found.error:
        moved = replace(found, reached=reached, applied=now(), error="")
        sources.set_published(place.warehouse.engine, moved)
    return Pushed(table.full_name, found.source, target.full_name, reached, done.inserted, done.deleted)


def _settle_ownership(
    work: Work, connection: Connection, target: Target, take_over: bool = False
) -> tuple[PublishedState, Ownership]:
    """The table there, once it is clear that this copy of the warehouse may write it."""
    there = postgres.read_state(connection, target)
    served = there.site or target.site
    exists = catalog_exists(served, target.site)
    verdict = judge_site(Evidence(served, target.site, _is_behind(work, there), exists), take_over)
    if verdict is Ownership.COPY:
        postgres.refuse_copy(target, served)
    if there.site != target.site:
        postgres.adopt_target(connection, target)
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


def _move_table(
    work: Work, connection: Connection, table: Table, target: Target, there: PublishedState
) -> Applied:
    newest, after = work.base.id, there.snapshot
    marks = (there.mark, _make_mark(work.base))
    if after is None and postgres.has_rows(connection, target):  # kept when it was unpublished
        return _repair_rows(work, connection, table, target)
    if after is None:
        try:
            rows = _read_pieces(work, table, work.rows(table), work.row_count(table))
            return postgres.apply_change(connection, target, None, newest, (), rows, marks=marks)
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
        deleted, inserted = _read_change(work, table, files)
        return postgres.apply_change(connection, target, after, newest, deleted, inserted, marks=marks)
    finally:
        work.discard()


def repair_table(place: Place, links: Links, table: Table) -> Pushed:
    """Compare all rows, and change those that differ."""
    found, work = require_published(place, table), begin_work(place)
    target = make_target(work, table, found)
    with _connect_target(place, links, found.source) as connection:
        _settle_ownership(work, connection, target)
        done = _repair_rows(work, connection, table, target)
    moved = replace(found, reached=done.snapshot, applied=now(), error="")
    sources.set_published(place.warehouse.engine, moved)
    return Pushed(table.full_name, found.source, target.full_name, done.snapshot, done.inserted, done.deleted)


def _repair_rows(work: Work, connection: Connection, table: Table, target: Target) -> Applied:
    try:
        rows = _read_pieces(work, table, work.rows(table), work.row_count(table))
        return postgres.repair_rows(connection, target, work.base.id, rows, mark=_make_mark(work.base))
    finally:
        work.discard()


def _require_table(work: Work, found: Published) -> Table:
    table = work.catalog.table_by_id(found.table_id)
    if table is None:
        raise NotPublishedError(f"table {found.table_id}", f"{found.schema}.{found.table}")
    return table


# --- rows ------------------------------------------------------------------------------------------


def _read_change(
    work: Work, table: Table, files: Sequence[DataFile]
) -> tuple[Iterator[pa.Table], Iterator[pa.Table]]:
    """What goes and what comes, net; few rows never leave this process."""
    count, place = sum(f.rows for f in files), work.place
    if room_of_statement(place.settings).holds(files) and all(can_hold(c.type) for c in table.columns):
        parts = [from_storage(table, place.storage.read(table, f)) for f in files]
        if all(p is not None for p in parts):
            rows = pa.concat_tables(parts) if parts else None
            net = single_weights(sum_weights(table, rows)) if rows is not None else None
            return _select_sign(net, -1), _select_sign(net, 1)
    frame = net_change(work, table, rows_with_weights(place.spark, place.storage, table, files))
    gone, come = (frame.where(f"{WEIGHT} {sign} 0").drop(WEIGHT) for sign in ("<", ">"))
    return _read_pieces(work, table, gone, count), _read_pieces(work, table, come, count)


def _select_sign(net: pa.Table | None, sign: int) -> Iterator[pa.Table]:
    if net is not None and net.num_rows:
        yield net.filter(pc.equal(net.column(WEIGHT), sign)).drop_columns([WEIGHT])


def _read_pieces(work: Work, table: Table, frame: Frame, count: int) -> Iterator[pa.Table]:
    """The rows of a frame in Arrow tables; many are written down first, so that memory stays bounded."""
    place = work.place
    few = collect_known(frame, room_of_statement(place.settings), count)
    if few is not None:
        yield few
        return
    folder = f"{place.storage.new_name()}-pushed"
    work.note_written(table, folder)
    write_staged(frame, place.storage.path(table, folder))
    for name in place.storage.list_parts(table, folder):
        yield from place.storage.read_batches(table, name)

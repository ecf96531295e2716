"""Many files of a table -> few with the same sum; a snapshot of its own that changes no content."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

import pyarrow as pa

from spark_trickle.errors import ConflictError, TrickleError
from spark_trickle.lake.catalog.states import note_compaction
from spark_trickle.model.commit import TableChange
from spark_trickle.model.files import DataFile, Role, split_log
from spark_trickle.model.room import room_of_statement
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.settings import Settings
from spark_trickle.spark.collect import collect_known
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.spark.run import collect
from spark_trickle.txn.net import net_change
from spark_trickle.txn.store import fits_arrow, store_frame, store_rows
from spark_trickle.txn.work import Place, Work, begin_work

_ROWS_A_TASK = 500_000  # more than that in one file, which one task reads, and other cores would only look on


@dataclass(frozen=True)
class Compaction:
    """Which files are replaced by their sum, and why."""

    files: tuple[DataFile, ...]
    reason: str


def decide_compaction(files: tuple[DataFile, ...], settings: Settings) -> Compaction | None:
    """What to merge after a commit: nothing, small files, the changes, or everything."""
    log = split_log(files)
    base_rows = sum(f.rows for f in log.settled)
    tail_rows = sum(f.rows for f in log.tail)
    small = settings.max_driver_rows
    if log.tail and tail_rows > settings.compact_change_ratio * base_rows and tail_rows > small // 10:
        return Compaction(files, f"{tail_rows:,} changed rows on top of {base_rows:,} base rows")
    if len(log.tail) > settings.compact_change_files:
        if base_rows + tail_rows <= small:
            return Compaction(files, f"{len(log.tail)} change files of a small table")
        return Compaction(log.tail, f"{len(log.tail)} change files")
    large = min(settings.target_file_rows, 4 * _ROWS_A_TASK)
    crumbs = tuple(f for f in log.settled if f.rows * 10 < large)
    if len(crumbs) > settings.compact_change_files:
        return Compaction(crumbs, f"{len(crumbs)} small files")
    return None


def compact_everything(files: tuple[DataFile, ...]) -> Compaction | None:
    """What OPTIMIZE merges; a single consolidated file is as good as it gets."""
    if not files or (len(files) == 1 and not files[0].deletes):
        return None
    return Compaction(files, "requested by OPTIMIZE")


def compact_table(work: Work, table: Table, plan: Compaction) -> None:
    rows = sum(f.rows for f in plan.files)
    weight = sum(f.weight for f in plan.files)
    whole = {f.path for f in plan.files} == {f.path for f in work.files(table)}
    most = weight if whole else rows
    frame = _sum_files(work, table, plan.files, whole)
    few = _collect_few(work, table, plan, frame, most)
    if few is not None:
        new = store_rows(work, table, few, Role.BASE)
    else:
        # Rows stay in their order, without a shuffle: that is quick, and neighbours compress well.
        file_rows = min(_ROWS_A_TASK, work.place.settings.target_file_rows)
        parts = max(1, ceil(rows / file_rows))
        new = store_frame(work, table, frame.coalesce(parts), Role.BASE, file_rows)
    # The sum stands where the last of its parts stood in the log.
    as_of = max(f.as_of for f in plan.files)
    negative = any(f.deletes for f in new)
    added = tuple(replace(f, as_of=as_of, role=Role.NET if negative else Role.BASE) for f in new)
    work.change(TableChange(table, added=added, ended=plan.files))


def _collect_few(work: Work, table: Table, plan: Compaction, frame: Frame, most: int) -> pa.Table | None:
    """The sum at the driver, if it has room for all that comes into it or for what is left of it."""
    room = room_of_statement(work.place.settings)
    if most > room.rows or not fits_arrow(table):
        return None
    return collect(frame) if room.holds(plan.files) else collect_known(frame, room, most)


def compact_in_place(work: Work, table: Table) -> str:
    """Merge files in the commit that crosses a threshold; what became of the change, and why.

    append: a file more. compact: its changes so far became one. replace: all of its files became one.
    What takes long is only announced; `tidy_tables` does it in a commit of its own, so that nobody waits.
    """
    plan = (
        decide_compaction(work.files(table), work.place.settings)
        if work.place.settings.auto_compact
        else None
    )
    if plan is None:
        return "append"
    if not room_of_statement(work.place.settings).holds(plan.files):
        return f"append, to be merged later: {plan.reason}"
    whole = len(plan.files) == len(work.files(table))
    compact_table(work, table, plan)
    return f"{'replace' if whole else 'compact'}: {plan.reason}"


def tidy_tables(place: Place, table_ids: Iterable[int]) -> None:
    """Compact tables that crossed a threshold, in commits of their own; a conflict leaves it to the next."""
    for table_id in table_ids if place.settings.auto_compact else ():
        work = begin_work(place)
        table = work.catalog.table_by_id(table_id)
        if table is None or (plan := decide_compaction(work.files(table), place.settings)) is None:
            continue
        try:
            start = time.perf_counter()
            compact_table(work, table, plan)
            work.commit(f"compaction: {plan.reason}")
            _charge_owner(work, table, (time.perf_counter() - start) * 1000)
        except ConflictError:
            continue
        except TrickleError as error:
            # What came before is committed, so this must not look like its failure.
            work.discard()
            warnings.warn(f'compacting "{table.full_name}": {error.message}', stacklevel=5)


def _charge_owner(work: Work, table: Table, ms: float) -> None:
    """Tell the stream table whose refreshes made this necessary."""
    owner = next((t for t in work.catalog.tables() if t.stream and table.id in (t.id, *t.stream.nodes)), None)
    if owner is not None:
        note_compaction(work.place.warehouse.engine, owner.id, ms)


def _sum_files(work: Work, table: Table, files: tuple[DataFile, ...], whole: bool) -> Frame:
    if whole:
        return work.rows_of(table, files).selectExpr("*", f"1 AS {WEIGHT}")
    weighted = rows_with_weights(work.place.spark, work.place.storage, table, files)
    return net_change(work, table, weighted) if any(f.deletes for f in files) else weighted

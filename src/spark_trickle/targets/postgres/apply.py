"""The change between two snapshots -> the same change of the published table, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from spark_trickle.errors import RepairNeededError, TargetChangedError
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.targets.interface import Applied, SnapshotStep, require_step
from spark_trickle.targets.postgres import rows
from spark_trickle.targets.postgres.follow import widen_columns
from spark_trickle.targets.postgres.ledger import LedgerEntry, lock_entry, note_change
from spark_trickle.targets.postgres.run import begin_change
from spark_trickle.targets.postgres.status import compare_table
from spark_trickle.targets.postgres.target import Target


def apply_change(
    connection: Connection,
    target: Target,
    after: int | None,
    snapshot: int,
    deleted: Iterable[pa.Table],
    inserted: Iterable[pa.Table],
    lock_seconds: float = 30.0,
    marks: tuple[str, str] = ("", ""),
) -> Applied:
    """Bring the table from snapshot `after` to `snapshot`; `after` None is the first fill.

    `marks` say which snapshots of these numbers are meant, in the same order.

    Doing it again does nothing, so after a lost connection it is simply called again. A row to delete that is
    not there, or not as we wrote it, means that somebody else changed the table: then nothing is done.
    """
    with begin_change(connection, target.full_name, lock_seconds):
        entry = open_entry(connection, target)
        if entry.snapshot is not None and entry.snapshot >= snapshot:
            return Applied(False, entry.snapshot)
        require_step(target.full_name, entry.snapshot, entry.mark, SnapshotStep(after, snapshot, marks))
        rows.lock_target(connection, target)
        if after is None:
            _require_empty(connection, target)
        gone = rows.load_rows(connection, target, rows.DELETED, deleted)
        if gone and target.key:
            come = rows.load_rows(connection, target, rows.INSERTED, inserted)
            rows.change_rows(connection, target, gone, come)
        else:
            rows.delete_rows(connection, target, gone)
            come = rows.copy_in(connection, target, inserted)
        if after is None:
            rows.analyze_target(connection, target)
        done = Applied(True, snapshot, come, gone)
        note_change(connection, target, entry.rows + come - gone, done, marks[1])
        return done


def open_entry(connection: Connection, target: Target) -> LedgerEntry:
    """The locked entry of a table that can be written; its columns are as wide as ours then."""
    entry = lock_entry(connection, target)
    found = compare_table(connection, target, entry)
    if found.changes:
        raise TargetChangedError(target.full_name, found.changes)
    widen_columns(connection, target, found.grown)
    return entry


def _require_empty(connection: Connection, target: Target) -> None:
    if not rows.is_empty(connection, target):
        raise RepairNeededError(target.full_name, "it already holds rows before its first fill")

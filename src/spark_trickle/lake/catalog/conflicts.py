"""A Commit and what others committed since it read -> whether both can stand together."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy import Connection

from spark_trickle.errors import ConflictError
from spark_trickle.lake.catalog import read
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.commit import AlteredTable, Commit, DroppedTable, TableChange
from spark_trickle.model.stream import Mode


@dataclass(frozen=True)
class Overlap:
    """Others changed rows of the same tables; only the rows tell whether that matters.

    `conflict` is the answer if it does. If it does not, everything up to snapshot `upto` is settled.
    """

    conflict: ConflictError
    upto: int


class ConflictVerdict(Enum):
    """Of two changes of one table."""

    TOGETHER = auto()
    ROWS_DECIDE = auto()
    CONFLICT = auto()


def find_overlap(connection: Connection, commit: Commit, current: Snapshot) -> Overlap | None:
    """None if nothing stands in the way of the commit; a ConflictError if something certainly does."""
    if current.id == commit.compared_upto:
        return None
    base = read.read_snapshot(connection, commit.read_snapshot)
    if base.schema_version != current.schema_version:
        if commit.definitions:  # names and ids were chosen at the snapshot that was read
            raise ConflictError("", commit.read_snapshot, current.id, "redefined", "the catalog")
        _refuse_unkept(connection, commit, current)
    mine = {c.table.id: c for c in commit.changes}
    dropped = {d.table.id: d.table for d in commit.definitions if isinstance(d, DroppedTable)}
    altered = {d.old.id: d.old for d in commit.definitions if isinstance(d, AlteredTable)}
    tables = {**altered, **dropped, **{i: c.table for i, c in mine.items()}}
    overlap = None
    for snapshot_id, table_id, change in read.read_changes_since(connection, commit.compared_upto):
        verdict = judge_changes(mine[table_id], change) if table_id in mine else ConflictVerdict.TOGETHER
        redefined = table_id in dropped or (table_id in altered and change != "compacted")
        if verdict is ConflictVerdict.TOGETHER and not redefined:
            continue
        said = change if change in ("altered", "dropped", "compacted") else "changed"
        conflict = ConflictError(tables[table_id].full_name, commit.read_snapshot, snapshot_id, said)
        if redefined or verdict is ConflictVerdict.CONFLICT or not _is_plain(commit):
            raise conflict
        overlap = overlap or Overlap(conflict, current.id)
    return overlap


def _is_plain(commit: Commit) -> bool:
    """Whether it only changes rows: definitions and stream tables were computed from all of them."""
    return not commit.definitions and not commit.refreshed


def _refuse_unkept(connection: Connection, commit: Commit, current: Snapshot) -> None:
    """An IMMEDIATE stream table that came meanwhile must see what the commit changes."""
    changed = {c.table.id for c in commit.changes if c.changes_content}
    kept = {r.table_id for r in commit.refreshed}
    for table in read.read_catalog(connection, current).tables():
        if table.stream is None or table.stream.mode is not Mode.IMMEDIATE or table.id in kept:
            continue
        if any(source.table_id in changed for source in table.stream.sources):
            raise ConflictError(table.full_name, commit.read_snapshot, current.id, "defined")


def judge_changes(mine: TableChange, theirs: str) -> ConflictVerdict:
    """What can be said of my change and of theirs before looking at rows.

    Weights add up, so appends never conflict, and compaction conflicts only with what ends the files
    it read. A deletion must be sure that the row is still there; an enforced key that it is not; a statement
    that no row came or went which it would have met. An append to a table without a key that nobody looked
    at is right whatever else happens to its rows.
    """
    if theirs in ("altered", "dropped"):
        return ConflictVerdict.CONFLICT
    if theirs == "compacted":
        return ConflictVerdict.CONFLICT if mine.ended else ConflictVerdict.TOGETHER
    if theirs == "replaced":
        return ConflictVerdict.CONFLICT
    if mine.compaction:
        return ConflictVerdict.TOGETHER
    if mine.ended:
        return ConflictVerdict.CONFLICT
    if mine.deletes or mine.depends or mine.table.unique:
        return ConflictVerdict.CONFLICT if mine.table.derived else ConflictVerdict.ROWS_DECIDE
    if theirs == "deleted" and mine.table.derived:
        return ConflictVerdict.CONFLICT
    return ConflictVerdict.ROWS_DECIDE if theirs == "deleted" and mine.reads else ConflictVerdict.TOGETHER

"""A Commit and what others committed since it read -> a ConflictError, if both cannot stand together."""

from __future__ import annotations

from sqlalchemy import Connection

from spark_trickle.errors import ConflictError
from spark_trickle.lake import read
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.commit import AlterTable, Commit, DropTable, TableChange
from spark_trickle.model.stream import Mode


def refuse_conflicts(connection: Connection, commit: Commit, current: Snapshot) -> None:
    if current.id == commit.read_snapshot:
        return
    base = read.snapshot_at(connection, commit.read_snapshot)
    if base.schema_version != current.schema_version:
        if commit.definitions:  # names and ids were chosen at the snapshot that was read
            raise ConflictError("the catalog", commit.read_snapshot, current.id, "redefined")
        _refuse_unkept(connection, commit, current)
    mine = {c.table.id: c for c in commit.changes}
    dropped = {d.table.id: d.table for d in commit.definitions if isinstance(d, DropTable)}
    altered = {d.old.id: d.old for d in commit.definitions if isinstance(d, AlterTable)}
    tables = {**altered, **dropped, **{i: c.table for i, c in mine.items()}}
    for snapshot_id, table_id, change in read.changes_since(connection, commit.read_snapshot):
        change_of_mine = mine.get(table_id)
        redefined = table_id in dropped or (table_id in altered and change != "compacted")
        if redefined or (change_of_mine and _conflicts(change_of_mine, change)):
            name = tables[table_id].full_name
            said = change if change in ("altered", "dropped", "compacted") else "changed"
            raise ConflictError(name, commit.read_snapshot, snapshot_id, said)


def _refuse_unkept(connection: Connection, commit: Commit, current: Snapshot) -> None:
    """An IMMEDIATE stream table that came meanwhile must see what the commit changes."""
    changed = {c.table.id for c in commit.changes if c.changes_content}
    kept = {r.table_id for r in commit.refreshed}
    for table in read.catalog(connection, current).tables():
        if table.stream is None or table.stream.mode is not Mode.IMMEDIATE or table.id in kept:
            continue
        if any(source.table_id in changed for source in table.stream.sources):
            raise ConflictError(table.full_name, commit.read_snapshot, current.id, "defined")


def _conflicts(mine: TableChange, theirs: str) -> bool:
    """Whether both cannot stand together.

    Weights add up, so appends never conflict, and compaction conflicts only with what ends the files
    it read. A deletion must be sure that the row is still there, once; an enforced key that it is not;
    MERGE and INSERT OVERWRITE that nothing came which they would have met.
    """
    if theirs in ("altered", "dropped"):
        return True
    if theirs == "compacted":
        return bool(mine.ended)
    if mine.compaction:
        return theirs == "replaced"
    if mine.ended or mine.depends or theirs == "replaced":
        return True
    return mine.deletes or theirs == "deleted" or mine.table.unique

"""What a change says of itself, and that two changes in a row become one that means both."""

from __future__ import annotations

import pytest

from spark_trickle.model.commit import Commit, TableChange
from spark_trickle.model.files import DataFile, Role
from spark_trickle.model.table import Table, TableColumn
from spark_trickle.model.types import Scalar

TABLE = Table(2, "main", "t", (TableColumn(2, "a", Scalar("integer")),), (), True, "t/", 3, 3)


def file(path: str, rows: int = 5, deletes: int = 0, role: Role = Role.CHANGE) -> DataFile:
    return DataFile(path, role, rows, deletes, 100, 10, 1)


OLD = file("old", role=Role.BASE)
NEW_BASE = file("new", role=Role.BASE)
INSERT = TableChange(TABLE, added=(file("insert"),))
DELETE = TableChange(TABLE, added=(file("delete", 2, 2),))
UPDATE = TableChange(TABLE, added=(file("update", 4, 2),))
TRUNCATE = TableChange(TABLE, feed_only=(file("removed", 5, 5),), ended=(OLD,))
COMPACT = TableChange(TABLE, added=(NEW_BASE,), ended=(OLD,))
NOTHING = TableChange(TABLE)

KINDS = [
    # change, inserts, deletes, changes content, compaction, empty
    (INSERT, True, False, True, False, False),
    (DELETE, False, True, True, False, False),
    (UPDATE, True, True, True, False, False),
    (TRUNCATE, False, True, True, False, False),
    (COMPACT, False, False, False, True, False),
    (TableChange(TABLE, ended=(file("x", 4, 2), file("y", 2, 2))), False, False, False, True, False),
    (
        TableChange(TABLE, added=(file("net", 4, 2, Role.NET),), ended=(OLD,)),
        False,
        False,
        False,
        True,
        False,
    ),
    (NOTHING, False, False, False, False, True),
]


@pytest.mark.parametrize(("change", "inserts", "deletes", "content", "compaction", "empty"), KINDS)
def test_what_a_change_does(
    change: TableChange, inserts: bool, deletes: bool, content: bool, compaction: bool, empty: bool
) -> None:
    assert (change.inserts, change.deletes) == (inserts, deletes)
    assert (change.changes_content, change.compaction, change.empty) == (content, compaction, empty)


def paths(files: tuple[DataFile, ...]) -> list[str]:
    return [f.path for f in files]


INSERTED = file("insert")
THEN = [
    # first, second -> added, feed only, ended
    (INSERT, UPDATE, ["insert", "update"], [], []),
    (INSERT, TableChange(TABLE, ended=(OLD, INSERTED)), [], ["insert"], ["old"]),
    # TRUNCATE after INSERT: the inserted rows stay in the feed, beside their removal.
    (
        INSERT,
        TableChange(TABLE, feed_only=(file("removed", 10, 10),), ended=(OLD, INSERTED)),
        [],
        ["insert", "removed"],
        ["old"],
    ),
    (TRUNCATE, INSERT, ["insert"], ["removed"], ["old"]),
    # A base that was made and replaced in the same transaction was never there.
    (
        COMPACT,
        TableChange(TABLE, added=(file("newer", role=Role.BASE),), ended=(NEW_BASE,)),
        ["newer"],
        [],
        ["old"],
    ),
    (NOTHING, INSERT, ["insert"], [], []),
    (INSERT, NOTHING, ["insert"], [], []),
]


@pytest.mark.parametrize(("first", "second", "added", "feed_only", "ended"), THEN)
def test_then(
    first: TableChange, second: TableChange, added: list[str], feed_only: list[str], ended: list[str]
) -> None:
    both = first.then(second)
    assert (paths(both.added), paths(both.feed_only), paths(both.ended)) == (added, feed_only, ended)


def test_then_keeps_the_newer_table_and_the_weight() -> None:
    renamed = Table(2, "main", "u", TABLE.columns, (), True, "t/", 3, 3)
    both = INSERT.then(TableChange(renamed, added=UPDATE.added))
    assert both.table == renamed
    feed = both.added + both.feed_only
    assert sum(f.weight for f in feed) == sum(f.weight for f in INSERT.added + UPDATE.added)


@pytest.mark.parametrize("order", [0, 1])
def test_then_groups_freely(order: int) -> None:
    """(a then b) then c is a then (b then c)."""
    a, b = INSERT, TableChange(TABLE, feed_only=(file("removed", 10, 10),), ended=(OLD, INSERTED))
    c = TableChange(TABLE, added=(file("later"),))
    if order:
        a, b, c = (
            COMPACT,
            UPDATE,
            TableChange(TABLE, added=(file("sum", role=Role.BASE),), ended=(NEW_BASE, *UPDATE.added)),
        )
    assert a.then(b).then(c) == a.then(b.then(c))


def test_a_commit_is_empty_if_nothing_changes() -> None:
    assert Commit(5, 9).empty
    assert Commit(5, 9, changes=(NOTHING,)).empty
    assert not Commit(5, 9, changes=(NOTHING, INSERT)).empty

"""A savepoint that is rolled back leaves a transaction as it was, whatever was done in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from spark_trickle.model.catalog import Catalog, Snapshot
from spark_trickle.model.commit import AlteredTable, CreatedTable, DroppedTable, TableChange
from spark_trickle.model.source import AttachedSource, Landed, SourceState
from spark_trickle.model.stream import Action, Occasion, Refreshed, RefreshReport
from spark_trickle.txn.savepoint import roll_back, take_savepoint
from spark_trickle.txn.work import Place, Work
from spark_trickle.txn.work_state import WorkState
from tests.unit.lake.lakes import data_file, table_value

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BASE = Snapshot(5, NOON, 1, 10, 10)
TABLE, OTHER = table_value(1, "t"), table_value(3, "u")
REFRESHED = Refreshed(1, 4, 5, RefreshReport("main.t", Action.FULL, "asked"), NOON, Occasion())
LANDED = Landed(AttachedSource("pg", "postgres", {}, NOON), SourceState())


def set_landed(work: Work) -> None:
    work.state = replace(work.state, landed=LANDED)


DONE: dict[str, Callable[[Work], None]] = {
    "catalog": lambda work: work.define(CreatedTable(table_value(20, "new"))),
    "definitions": lambda work: work.define(AlteredTable(TABLE, replace(TABLE, name="renamed"))),
    "changes": lambda work: work.change(TableChange(TABLE, added=(data_file(as_of=6),))),
    "changes of what is dropped": lambda work: work.define(DroppedTable(OTHER)),
    "refreshed": lambda work: work.note_refreshed(REFRESHED),
    "landed": set_landed,
    "once_committed": lambda work: work.tell_once_committed(lambda: None),
    "pinned": lambda work: work.pin_table(OTHER, BASE.id),
}


def begin() -> Work:
    """A transaction that has done something of everything already."""
    relations = {("main", t.name): t for t in (TABLE, OTHER)}
    work = Work(cast(Place, None), WorkState(Catalog(BASE, {}, cast(Any, relations))), BASE)
    work.change(TableChange(TABLE, added=(data_file(as_of=6),)))
    work.change(TableChange(OTHER, added=(data_file(as_of=6),)))
    work.note_refreshed(replace(REFRESHED, table_id=3))
    work.tell_once_committed(lambda: None)
    work.state = work.state.with_pinned({TABLE.id: (data_file(),)})
    work._files[OTHER.id, BASE.id] = ()
    return work


@pytest.mark.parametrize("name", DONE)
def test_what_was_done_is_undone(name: str) -> None:
    work = begin()
    before = {f.name: getattr(work.state, f.name) for f in fields(WorkState)}
    savepoint = take_savepoint(work)
    DONE[name](work)
    assert {f.name: getattr(work.state, f.name) for f in fields(WorkState)} != before
    roll_back(work, savepoint)
    assert {f.name: getattr(work.state, f.name) for f in fields(WorkState)} == before
    DONE[name](work)  # and once more
    roll_back(work, savepoint)
    assert {f.name: getattr(work.state, f.name) for f in fields(WorkState)} == before


def test_everything_that_changes_is_in_the_state() -> None:
    """A field of a work that is not in its state survives a statement that fails: on purpose, each of these."""
    assert {f.name for f in fields(WorkState)} <= {name.split()[0] for name in DONE}
    assert {f.name for f in fields(Work)} - {"state"} == {
        "place",  # where it runs
        "base",
        "ticket",
        "effects",
        "written",  # the savepoint knows how many there were, and deletes the rest
        "reads",  # that a statement failed may hang on any row that it looked at
        "_steps",  # only need to grow
        "_files",  # what is committed stays what it is
        "_row_counts",
        "_change_files",
    }


def test_a_scratch_leaves_its_work_alone() -> None:
    work = begin()
    before = work.state
    scratch = work.begin_scratch(empty=[OTHER])
    assert scratch.files_at(OTHER, BASE.id) == ()
    for act in DONE.values():
        act(scratch)
    assert work.state is before

"""Which two changes of a table can stand together when both were decided on the same snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from spark_trickle.errors import ConflictError
from spark_trickle.model.catalog import Snapshot
from spark_trickle.model.commit import (
    AlteredTable,
    CreatedSchema,
    CreatedTable,
    CreatedView,
    DroppedTable,
    TableChange,
)
from spark_trickle.model.files import Role
from spark_trickle.model.stream import Mode, Source, Stream
from spark_trickle.model.stream_options import StreamOptions
from spark_trickle.model.table import Schema, Table, View
from tests.unit.lake.lakes import Lake, data_file, renamed, table_value

Action = Callable[[Lake, Table, Snapshot], Snapshot]
_names = (f"t{n}" for n in count())


def insert(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    return lake.insert(table, at)


def delete(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    return lake.commit(TableChange(table, added=(data_file(2, 2),)), at=at)


def update(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    return lake.commit(TableChange(table, added=(data_file(4, 2),)), at=at)


def truncate(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    gone = TableChange(table, feed_only=(data_file(5, 5),), ended=lake.files(table, at.id))
    return lake.commit(gone, at=at)


def overwrite(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    change = TableChange(table, (data_file(),), (data_file(5, 5),), lake.files(table, at.id))
    return lake.commit(change, at=at)


def upsert(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    """A MERGE that found nothing to change, and adds what it looked for."""
    return lake.commit(TableChange(table, added=(data_file(),), depends=True), at=at)


def compact(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    new = data_file(role=Role.BASE, as_of=at.id)
    return lake.commit(TableChange(table, added=(new,), ended=lake.files(table, at.id)), at=at)


def rename(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    return lake.commit(definitions=[AlteredTable(table, renamed(table, f"{table.name}_new"))], at=at)


def require(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    """SET NOT NULL: it looked at the rows and found no null."""
    column = replace(table.column("v"), nullable=False)
    return lake.commit(definitions=[AlteredTable(table, table.with_column(column))], at=at)


def drop(lake: Lake, table: Table, at: Snapshot) -> Snapshot:
    return lake.commit(definitions=[DroppedTable(table)], at=at)


KEYLESS: dict[Action, list[Action]] = {  # first -> those that cannot follow
    insert: [upsert, delete, update, truncate, overwrite, drop],
    upsert: [upsert, delete, update, truncate, overwrite, drop],
    delete: [upsert, delete, update, truncate, overwrite, drop],
    update: [upsert, delete, update, truncate, overwrite, drop],
    truncate: [insert, upsert, delete, update, truncate, overwrite, compact, drop],
    overwrite: [insert, upsert, delete, update, truncate, overwrite, compact, drop],
    compact: [truncate, overwrite, compact, drop],
    rename: [insert, upsert, delete, update, truncate, overwrite, compact, rename, require, drop],
    drop: [insert, upsert, delete, update, truncate, overwrite, compact, rename, require, drop],
}
ACTIONS: list[Action] = [insert, upsert, delete, update, truncate, overwrite, compact, drop]
# A key makes only this difference: what is added may be there already.
KEYED: dict[Action, list[Action]] = {a: [insert, *KEYLESS[a]] for a in (insert, delete, update)}
MATRIX = [
    pytest.param(
        key, first, second, second in table[first], id=f"{label}: {first.__name__}, {second.__name__}"
    )
    for key, label, table in [(False, "keyless", KEYLESS), (True, "keyed", KEYED)]
    for first in table
    for second in ([*ACTIONS, rename, require] if first in (rename, drop) else ACTIONS)
]


@pytest.mark.parametrize(("key", "first", "second", "conflict"), MATRIX)
def test_matrix(lake: Lake, key: bool, first: Action, second: Action, conflict: bool) -> None:
    table = lake.create(next(_names), key)
    read_at = lake.insert(table)
    first(lake, table, read_at)
    before = lake.newest()
    if not conflict:
        assert second(lake, table, read_at).id == before.id + 1
        return
    with pytest.raises(ConflictError) as caught:
        second(lake, table, read_at)
    assert caught.value.retryable
    assert (caught.value.read_snapshot, caught.value.other_snapshot) == (read_at.id, before.id)
    assert lake.newest() == before


@pytest.mark.parametrize("first", [insert, update, overwrite])
def test_a_column_becomes_not_null_only_if_no_row_came_meanwhile(lake: Lake, first: Action) -> None:
    table = lake.create(next(_names))
    read_at = lake.insert(table)
    first(lake, table, read_at)
    with pytest.raises(ConflictError):
        require(lake, table, read_at)


def test_an_insert_after_a_compaction_reads_on(lake: Lake) -> None:
    """Compaction ends the files it read, not those that came meanwhile."""
    table = lake.create(next(_names))
    read_at = lake.insert(table)
    inserted = lake.insert(table, read_at)
    compact(lake, table, read_at)
    roles = {(f.role, f.begin) for f in lake.files(table)}
    assert roles == {(Role.BASE, lake.newest().id), (Role.CHANGE, inserted.id)}


@pytest.mark.parametrize("mode", [Mode.IMMEDIATE, Mode.AUTO])
def test_a_stream_table_that_came_meanwhile_sees_what_changes_at_once(lake: Lake, mode: Mode) -> None:
    table = lake.create(next(_names))
    read_at = lake.newest()
    stream = Stream("SELECT 1", "main", mode, None, StreamOptions(), (Source(table.id, ()),), (), "[]")
    lake.commit(
        definitions=[
            CreatedTable(replace(table_value(lake.newest().next_catalog_id, next(_names)), stream=stream))
        ]
    )
    if mode is Mode.IMMEDIATE:
        with pytest.raises(ConflictError, match="was defined by snapshot"):
            insert(lake, table, read_at)
    insert(lake, table, read_at if mode is Mode.AUTO else lake.newest())


def test_other_tables_do_not_matter(lake: Lake) -> None:
    one, two = lake.create(next(_names), True), lake.create(next(_names), True)
    read_at = lake.newest()
    for action in (insert, delete, update):
        action(lake, one, read_at if action is insert else lake.newest())
    assert lake.insert(two, read_at).id == lake.newest().id


def test_a_conflict_names_the_table_and_what_happened(lake: Lake) -> None:
    table = lake.create("orders", key=True)
    read_at = lake.newest()
    lake.insert(table)
    with pytest.raises(ConflictError, match=r'"main\.orders" was changed by snapshot'):
        lake.insert(table, read_at)


def test_definitions_are_made_one_after_the_other(lake: Lake) -> None:
    read_at = lake.newest()
    lake.create(next(_names))
    created = [
        CreatedTable(table_value(read_at.next_catalog_id, next(_names))),
        CreatedSchema(Schema(read_at.next_catalog_id, "s")),
        CreatedView(View(read_at.next_catalog_id, "main", "v", "SELECT 1")),
    ]
    for definition in created:
        with pytest.raises(ConflictError, match="redefined"):
            lake.commit(definitions=[definition], at=read_at)

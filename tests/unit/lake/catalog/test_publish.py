"""A commit becomes the next snapshot: numbers and times grow, and old snapshots stay as they were."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_trickle.errors import SnapshotNotFoundError
from spark_trickle.lake.catalog import read
from spark_trickle.lake.catalog import schema as s
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.model.commit import (
    AlteredTable,
    CreatedSchema,
    CreatedTable,
    CreatedView,
    DroppedSchema,
    DroppedTable,
    DroppedView,
    TableChange,
)
from spark_trickle.model.files import ColumnStats, DataFile, Role
from spark_trickle.model.table import Schema, TableColumn, View
from spark_trickle.model.types import Array, Scalar, Struct, StructField
from tests.unit.lake.lakes import Lake, data_file, renamed, table_value


def test_snapshots_are_numbered_without_gaps(lake: Lake) -> None:
    table = lake.create("numbered")
    first = lake.newest()
    made = [lake.insert(table) for _ in range(3)]
    assert [m.id for m in made] == [first.id + 1, first.id + 2, first.id + 3]
    assert lake.newest() == made[-1]


def test_times_grow_even_when_the_clock_goes_back(lake: Lake) -> None:
    table = lake.create("clock")
    start = lake.newest().time
    clocks = [start + timedelta(hours=1), start, start - timedelta(days=400), start + timedelta(hours=2)]
    made = [lake.commit(TableChange(table, added=(data_file(),)), now=now) for now in clocks]
    step = timedelta(microseconds=1)
    expected = [clocks[0], clocks[0] + step, clocks[0] + 2 * step, clocks[3]]
    assert [m.time for m in made] == expected
    with open_reader(lake.warehouse.engine) as connection:
        for snapshot in made:
            assert read.read_snapshot(connection, snapshot.id) == snapshot
            assert read.read_snapshot_before(connection, snapshot.time) == snapshot
        assert read.read_snapshot_before(connection, made[0].time - step).id == made[0].id - 1


def test_a_clock_in_another_zone_is_the_same_instant(lake: Lake) -> None:
    table = lake.create("zone")
    moment = lake.newest().time + timedelta(hours=1)
    made = lake.commit(TableChange(table, added=(data_file(),)), now=moment.astimezone())
    assert made.time == moment
    assert lake.newest().time == moment


def test_ids_are_taken_once(lake: Lake) -> None:
    base = lake.newest()
    tables = [table_value(base.next_catalog_id, "a1"), table_value(base.next_catalog_id + 2, "a2")]
    view = View(base.next_catalog_id + 4, "main", "av", "SELECT 1")
    schema = Schema(base.next_catalog_id + 5, "as")
    made = lake.commit(
        *(TableChange(t, added=(data_file(), data_file())) for t in tables),
        definitions=[*map(CreatedTable, tables), CreatedView(view), CreatedSchema(schema)],
    )
    assert made.next_catalog_id == base.next_catalog_id + 6
    assert made.next_file_id == base.next_file_id + 4
    assert made.schema_version == base.schema_version + 1
    ids = [f.id for t in tables for f in lake.files(t)]
    assert sorted(ids) == list(range(base.next_file_id, made.next_file_id))
    assert lake.insert(tables[0]).schema_version == made.schema_version


def test_old_snapshots_keep_their_files(lake: Lake) -> None:
    table = lake.create("files")
    empty = lake.newest()
    one, two, base, removed = (data_file(), data_file(3, 2), data_file(role=Role.BASE), data_file(5, 5))
    first = lake.commit(TableChange(table, added=(one,)))
    second = lake.commit(TableChange(table, added=(two,)))
    compacted = lake.commit(
        TableChange(table, added=(replace(base, as_of=second.id),), ended=lake.files(table))
    )
    emptied = lake.commit(TableChange(table, feed_only=(removed,), ended=lake.files(table)))

    def paths(at: int) -> set[str]:
        return {f.path for f in lake.files(table, at)}

    assert [paths(x.id) for x in (empty, first, second, compacted, emptied)] == [
        set(),
        {one.path},
        {one.path, two.path},
        {base.path},
        set(),
    ]
    with open_reader(lake.warehouse.engine) as connection:
        feed = read.read_change_files(connection, table.id, empty.id, emptied.id)
        part = read.read_change_files(connection, table.id, first.id, compacted.id)
    assert [(f.path, f.begin) for f in feed] == [
        (one.path, first.id),
        (two.path, second.id),
        (removed.path, emptied.id),
    ]
    assert [f.path for f in part] == [two.path]


def test_a_change_takes_its_place_in_the_log_when_it_is_committed(lake: Lake) -> None:
    """A transaction numbers its steps for itself; in the log all of them stand at its snapshot."""
    table = lake.create("places")
    change = TableChange(table, added=(data_file(as_of=900), data_file(as_of=901)))
    made = lake.commit(change)
    assert {f.as_of for f in lake.files(table)} == {made.id}


def test_definitions_come_and_go(lake: Lake) -> None:
    base = lake.newest()
    schema = Schema(base.next_catalog_id, "Sales")
    table = table_value(base.next_catalog_id + 1, "Orders", key=True, schema="Sales")
    view = View(base.next_catalog_id + 3, "Sales", "v", "SELECT 'x'", ("a b",), "why")
    made = lake.commit(definitions=[CreatedSchema(schema), CreatedTable(table), CreatedView(view)])
    found = lake.catalog()
    assert found.schema("sales") == schema
    assert found.table(("SALES", "orders"), "main") == table
    assert found.relation(("v",), "sales") == view
    new = replace(
        renamed(table, "Bills"),
        columns=(*table.columns, TableColumn(4, "w", Scalar("date"))),
        next_column_id=5,
    )
    lake.commit(definitions=[AlteredTable(table, new)])
    assert lake.catalog().table(("sales", "bills"), "main") == new
    assert lake.catalog().find(("sales", "orders"), "main") is None
    lake.commit(definitions=[DroppedView(view), DroppedTable(new), DroppedSchema(schema)])
    assert "sales" not in lake.catalog().schemas
    assert lake.catalog().find(("sales", "bills"), "main") is None
    assert lake.catalog(made).table(("sales", "orders"), "main") == table
    assert lake.catalog(made).relation(("sales", "v"), "main") == view
    assert base.id == made.id - 1


def test_a_table_of_every_shape_comes_back(lake: Lake) -> None:
    base = lake.newest()
    nested = Struct(
        (
            StructField(5, "x", Array(Scalar("decimal(38,18)"), 6, False), False),
            StructField(7, "y z", Scalar("date")),
        )
    )
    columns = (
        TableColumn(2, 'a "b" `c`', Scalar("varchar(7)"), False, "'it''s'", "it's", "Ünï 😀"),
        TableColumn(4, "s", nested),
    )
    table = replace(
        table_value(base.next_catalog_id, 'odd "name"'), columns=columns, key=(2,), key_enforced=False
    )
    lake.commit(definitions=[CreatedTable(table)])
    assert lake.catalog().table(('odd "name"',), "main") == table


def test_statistics_of_files_are_kept(lake: Lake) -> None:
    table = lake.create("stats")
    stats = (ColumnStats(2, 5, 1, "-3", "9"), ColumnStats(3, 5, 0, None, None))
    lake.commit(TableChange(table, added=(replace(data_file(), stats=stats), data_file())))
    with open_reader(lake.warehouse.engine) as connection:
        found = read.add_bounds(connection, lake.files(table), [2])
    assert sorted((f.stats for f in found), key=len) == [(), (ColumnStats(2, 5, 1, "-3", "9"),)]


def test_row_numbers_for_other_clients_do_not_overlap(lake: Lake) -> None:
    table = lake.create("rows")
    for rows in (5, 7, 1):
        lake.commit(TableChange(table, added=(data_file(rows), data_file(rows))))
    found = sorted(
        (r["row_id_start"], r["record_count"]) for r in lake.rows(s.data_file) if r["table_id"] == table.id
    )
    assert [start for start, _ in found] == [0, 5, 10, 17, 24, 25]


def test_sizes_sum_the_weights(lake: Lake) -> None:
    table = lake.create("sizes")
    lake.commit(TableChange(table, added=(data_file(10), data_file(4, 2))))
    deleted = lake.commit(TableChange(table, added=(data_file(3, 3),)))
    with open_reader(lake.warehouse.engine) as connection:
        assert read.read_sizes(connection, deleted.id)[table.id] == read.TableSize(7, 3, 300)
        assert read.read_sizes(connection, deleted.id - 1)[table.id] == read.TableSize(10, 2, 200)


def test_history_tells_what_each_commit_did(lake: Lake) -> None:
    table = lake.create("history")
    lake.commit(TableChange(table, added=(data_file(4, 2),)))
    with open_reader(lake.warehouse.engine) as connection:
        entry = read.read_history(connection)[-1]
    assert entry.changes == f"inserted_into_table:{table.id},deleted_from_table:{table.id}"
    assert entry.id == lake.newest().id


@pytest.mark.parametrize("ask", [10_000, -1])
def test_a_missing_snapshot_is_named_with_those_that_are_there(lake: Lake, ask: int) -> None:
    with open_reader(lake.warehouse.engine) as connection:
        with pytest.raises(SnapshotNotFoundError, match=f"there is no snapshot {ask}") as caught:
            read.read_snapshot(connection, ask)
        assert f"0 to {lake.newest().id}" in caught.value.hint
        with pytest.raises(SnapshotNotFoundError, match="at or before 1999"):
            read.read_snapshot_before(connection, datetime(1999, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("after", "upto", "fits"), [(0, 0, True), (0, 1, True), (1, 0, False), (-1, 1, False), (0, 9_999, False)]
)
def test_ranges_of_the_change_feed(lake: Lake, after: int, upto: int, fits: bool) -> None:
    lake.create(f"range{after}_{upto}")
    with open_reader(lake.warehouse.engine) as connection:
        if fits:
            read.require_range(connection, after, upto)
            return
        with pytest.raises(SnapshotNotFoundError):
            read.require_range(connection, after, upto)


REASON = 'the files were rewritten: "s3://a/b: c"'


def test_why_a_change_is_unknown_is_kept_with_it(lake: Lake) -> None:
    table = lake.create("unknown")
    before = lake.insert(table)
    unknown = DataFile("s-unknown", Role.UNKNOWN, 0, 0, 0, 0, 0, reason=REASON)
    after = lake.commit(TableChange(table, feed_only=(unknown,)))
    with open_reader(lake.warehouse.engine) as connection:
        (found,) = read.read_change_files(connection, table.id, before.id, after.id)
    assert (found.role, found.path, found.reason, found.outside) == (Role.UNKNOWN, "s-unknown", REASON, None)

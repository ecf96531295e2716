"""What a warehouse would do with a source: copy, follow, and hold the result; nothing but sums of weighted rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import pyarrow as pa

from spark_trickle.model.table import WEIGHT
from spark_trickle.sources.postgres.assemble import Followed
from spark_trickle.sources.postgres.buffer import Position, forget_changes, open_reading, read_changes
from spark_trickle.sources.postgres.capture import Capture
from spark_trickle.sources.postgres.chunks import Bounds
from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.copy import copy_rows, open_snapshot
from spark_trickle.sources.postgres.discover import SourceTable
from spark_trickle.sources.postgres.install import install_capture, renew_capture
from spark_trickle.sources.postgres.publication import publish_tables
from spark_trickle.sources.postgres.slot import advance_slot, create_slot
from spark_trickle.sources.postgres.wal import Batch, TableChanges, complete_changes, peek_changes
from tests.postgres.world import World, content, mapped, mapped_for, plan, table_of, total

SMALL = Bounds(7, 1 << 20)  # so that most readings come in several pieces


class TriggerMirror:
    """A mirror of one table that follows a buffer."""

    def __init__(
        self, world: World, name: str = "public.t", connection: Connection | None = None, **options: Any
    ) -> None:
        self.connection = connection or world.connect("mirror")
        self.name, self.options = name, options
        self.prepare()
        self.copy(install_capture(self.connection, self.capture))

    def prepare(self) -> None:
        self.capture: Capture = plan(self.connection, self.name, **self.options)
        self.columns = mapped_for(self.capture)

    def resync(self) -> None:
        self.prepare()
        install_capture(self.connection, self.capture)
        self.copy(renew_capture(self.connection, self.capture))

    def copy(self, token: str) -> None:
        with open_snapshot(self.connection, [self.capture.source]) as moment:
            self.held = total(copy_rows(self.connection, self.capture.source, self.columns))
        self.position = Position(token, moment)

    def read(self, bounds: Bounds = SMALL) -> tuple[list[pa.Table], Position]:
        with open_reading(self.connection, self.capture.schema) as moment:
            found = list(read_changes(self.connection, self.capture, self.columns, self.position, bounds))
        return found, self.position.move_to(moment)

    def poll(self) -> Counter[Hashable]:
        """Read, commit, forget; what the change was."""
        found, position = self.read()
        self.held = plus(self.held, total(found))
        self.position = position
        forget_changes(self.connection, self.capture, position)
        return total(found)

    def check(self) -> None:
        """What is held is what the table holds, and no row is held less than once."""
        assert self.held == content(self.connection, self.capture.source, self.columns)
        assert all(weight > 0 for weight in self.held.values())

    def waiting(self) -> list[tuple[Any, ...]]:
        """The buffer as it is, in the order of its change ids; rows of one statement have the same."""
        query = self.connection.cursor()
        fields = ", ".join(f'"{n}"' for n in self.capture.buffer_names)
        buffer = self.capture.buffer.as_string(None)
        return query.execute(
            f"SELECT action::text, changed_cols::text, {fields} FROM {buffer} ORDER BY change_id, ctid"
        ).fetchall()


class LogMirror:
    """A mirror of several tables that follows a slot."""

    def __init__(
        self, world: World, *names: str, slot: str = "slot", publication: str = "publication"
    ) -> None:
        self.connection = world.connect("mirror")
        self.slot, self.publication = slot, publication
        tables = [table_of(self.connection, name) for name in names or ("public.t",)]
        marks = publish_tables(self.connection, publication, tables)
        self.after = create_slot(self.connection, slot)
        self.held: dict[int, pa.Table] = {}
        self.followed: list[Followed] = []
        for table in tables:
            self.follow(table, marks[table.oid])

    def follow(self, table: SourceTable, mark: str) -> None:
        columns = mapped(table)
        with open_snapshot(self.connection, [table]) as moment:
            copied = list(copy_rows(self.connection, table, columns))
        self.held[table.oid] = _rows(columns, copied)
        self.followed.append(Followed(table, columns, mark, since=moment))

    def peek(self, max_changes: int = 10_000) -> Batch:
        return peek_changes(
            self.connection, self.slot, self.publication, self.followed, self.after, max_changes
        )

    def commit(self, batch: Batch) -> None:
        for change in batch.tables:
            self.held[change.source.oid] = self.applied(change)
        self.after = batch.read_lsn

    def applied(self, change: TableChanges) -> pa.Table:
        held = self.held[change.source.oid]
        weighted = complete_changes(
            change, held if change.truncated else _with_keys(held, change.removed_keys)
        )
        before = held.append_column(WEIGHT, pa.array([1] * held.num_rows, pa.int32()))
        return _expanded(pa.concat_tables([before.cast(weighted.schema), weighted]))

    def poll(self, max_changes: int = 10_000) -> Batch:
        batch = self.peek(max_changes)
        self.commit(batch)
        advance_slot(self.connection, self.slot, self.after)
        return batch

    def drain(self, max_changes: int = 10_000) -> list[Batch]:
        """Poll until nothing is left."""
        found = []
        while (before := self.after) is not None:
            found.append(self.poll(max_changes))
            if self.after == before:
                return found
        raise AssertionError

    def check(self) -> None:
        for followed in self.followed:
            held = self.held[followed.source.oid]
            weighted = held.append_column(WEIGHT, pa.array([1] * held.num_rows, pa.int32()))
            assert total([weighted]) == content(self.connection, followed.source, followed.columns)


def plus(one: Counter[Hashable], other: Counter[Hashable]) -> Counter[Hashable]:
    """Counter's own + forgets what is not positive."""
    both = Counter(one)
    both.update(other)
    return Counter({row: weight for row, weight in both.items() if weight})


def _rows(columns: Iterable[Any], tables: list[pa.Table]) -> pa.Table:
    if not tables:
        from spark_trickle.sources.postgres.values import from_csv, parse_weights, to_table

        wanted = tuple(columns)
        tables = [to_table(wanted, from_csv([], len(wanted)), parse_weights([]))]
    return pa.concat_tables(tables).drop_columns([WEIGHT])


def _with_keys(held: pa.Table, keys: pa.Table) -> pa.Table:
    wanted = set(map(repr, keys.to_pylist()))
    names = keys.column_names
    found = (
        [n for n, row in enumerate(held.select(names).to_pylist()) if repr(row) in wanted] if names else []
    )
    return held.take(pa.array(found, pa.int64()))


def _expanded(weighted: pa.Table) -> pa.Table:
    """Each row as often as its weight says; a negative one is a mistake."""
    totals: Counter[str] = Counter()
    first: dict[str, int] = {}
    rows = weighted.drop_columns([WEIGHT])
    for n, (row, weight) in enumerate(
        zip(rows.to_pylist(), weighted.column(WEIGHT).to_pylist(), strict=True)
    ):
        totals[repr(row)] += weight
        first.setdefault(repr(row), n)
    assert all(weight >= 0 for weight in totals.values())
    return rows.take(pa.array([first[r] for r, weight in totals.items() for _ in range(weight)], pa.int64()))

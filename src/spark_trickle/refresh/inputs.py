"""The tables of a plan -> DataFrames of their rows before a change, after it, or of the change itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Self

import pyarrow as pa

from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.algebra.references import NodeRef, Reference, TableRef
from spark_trickle.errors import SourceLostError
from spark_trickle.model.arrow import single_weights, sum_weights
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import room_of_statement, room_of_tail
from spark_trickle.model.stream import ColumnUse, Frontier, Source, Stream
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.model.types import ColumnType, Scalar, sql_name
from spark_trickle.spark.child_session import move_frame
from spark_trickle.spark.frames import Frame, as_stored, local_frame
from spark_trickle.spark.read import rows_with_weights
from spark_trickle.sql.lexer.words import quote
from spark_trickle.sql.render.query import name_frame
from spark_trickle.txn.net import load_rows
from spark_trickle.txn.work import Work, now


@dataclass(frozen=True)
class NodeChange:
    """The change of a node that this refresh has computed."""

    frame: Callable[[], Frame]  # made when a later node asks for it
    count: int  # rows
    rows: pa.Table | None = None  # the same at the driver, where they are few


@dataclass(frozen=True)
class StepRows:
    """Rows that later plans read under a name; many stay on the executors, where nobody counts them."""

    frame: Frame
    rows: pa.Table | None = None  # the same at the driver, where they are few

    @property
    def count(self) -> int | None:
        return None if self.rows is None else self.rows.num_rows


@dataclass(frozen=True)
class Inputs:
    """What the plans of one refresh read; each step gives a new value, which knows its rows as well."""

    work: Work
    stream: Stream
    tables: Mapping[NodeRef, Table]  # of the nodes
    frontier: Frontier
    changed_row_bytes: int = 0  # that a row of the changes takes
    moment: datetime | None = None  # what functions of the clock answer
    changes: Mapping[Reference, NodeChange] = field(default_factory=dict)  # of nodes that are done
    steps: Mapping[Reference, StepRows] = field(default_factory=dict)

    def with_change(self, node: NodeRef, change: NodeChange) -> Self:
        return replace(self, changes={**self.changes, node: change})

    def with_steps(self, steps: Mapping[Reference, StepRows]) -> Self:
        return replace(self, steps={**self.steps, **steps})

    @property
    def result(self) -> Table:
        """The stream table itself, the last of the nodes."""
        *_, last = self.tables.values()
        return last

    @cached_property
    def row_bytes(self) -> int | None:
        """What a row made of rows of all sources takes, as far as they and earlier results tell."""
        work = self.work
        if not any(f.rows for f in work.files(self.result)):
            return None
        own = [_average_row_bytes(work.files(table)) for table in self.tables.values()]
        read = [_average_row_bytes(work.files(source_table(work, s))) for s in self.stream.sources]
        return max(*own, sum(read) + self.changed_row_bytes)

    def read_frames(self, plan: Operator) -> dict[str, Frame | str]:
        """The DataFrame of every scan in a tree, or a view of it, by the name that its text has for it."""
        scans = {name_frame(s): s for s in plan.walk() if isinstance(s, Scan)}
        return {name: self.frame(scan.source, scan.moment) for name, scan in scans.items()}

    def frame(self, source: Reference, at: At) -> Frame | str:
        # What was made in the session for few rows may be read together with many.
        if source in self.steps:
            return move_frame(self.work.place.spark, self.steps[source].frame)
        if at is At.DELTA and source in self.changes:
            return move_frame(self.work.place.spark, self.changes[source].frame())
        if isinstance(source, NodeRef):
            return self._read_node(self.tables[source], at)
        return self._read_source(source, at)  # asked for each time, because old views are dropped

    def _read_node(self, table: Table, at: At) -> Frame | str:
        if at is At.NEW:
            return self._view_rows(table, self.work.files(table))
        files = self.node_before(table)
        if at is At.OLD:
            return self._view_rows(table, files)
        return self.log(table, files)

    def node_before(self, table: Table) -> tuple[DataFile, ...]:
        """A node as it was before."""
        return self.work.files_at(table, self.work.base.id)

    def source_before(self, table: Table) -> tuple[DataFile, ...]:
        """A source as it was when the stream table last saw it."""
        since = pick_frontier(table, self.frontier)
        self.work.place.lease.cover(since, now())
        return self.work.files_at(table, since)

    def source_change(self, table: Table) -> tuple[DataFile, ...]:
        """What changed in a source since."""
        return list_changed_files(self.work, table, self.frontier)

    def log(self, table: Table, files: Sequence[DataFile]) -> Frame | str:
        """Rows with weights; small files are at the driver already, the others are the same for long."""
        place = self.work.place
        room = room_of_tail(place.settings)
        few: list[DataFile] = []
        for f in sorted(files, key=lambda f: f.rows):
            if not room.holds((*few, f)):
                break
            few.append(f)
        rows = _load_net_rows(self.work, table, few) if few else None
        if rows is None:
            return rows_with_weights(place.spark, place.storage, table, files)
        here = local_frame(place.spark, table, rows)
        many = tuple(f for f in files if f not in few)
        if not many:
            return here
        key = ("log", table.id, table.columns, tuple((f.path, f.role) for f in many))
        rest = place.view(key, lambda: rows_with_weights(place.spark, place.storage, table, many))
        return (place.spark.table(rest) if isinstance(rest, str) else rest).unionByName(here)

    def _read_source(self, name: Reference, at: At) -> Frame | str:
        source = next(s for s in self.stream.sources if TableRef(s.table_id) == name)
        table = source_table(self.work, source)
        if at is At.DELTA:
            return self._view_change(source, table)
        files = self.work.files(table) if at is At.NEW else self.source_before(table)
        return self._view_rows(table, files, source)

    def _view_rows(
        self, table: Table, files: Sequence[DataFile], source: Source | None = None
    ) -> Frame | str:
        """What is new now is old at the next refresh, and a table that did not change is both."""

        def make_frame() -> Frame:
            rows = _read_as_stored(table, self.work.rows_of(table, files))
            return rows if source is None else self._use_known_names(source, table, rows)

        names = source.columns if source is not None else ()
        key = ("rows", table.id, table.columns, names, tuple((f.path, f.as_of) for f in files))
        return self.work.place.view(key, make_frame)

    def _use_known_names(self, source: Source, table: Table, frame: Frame) -> Frame:
        """Columns under the names that the plan knows, whatever they are called by now."""
        by_id = {c.id: c.name for c in table.columns}
        if all(by_id[c.column_id] == c.name for c in source.columns):
            return frame
        weight = [WEIGHT] if WEIGHT in frame.columns else []
        listed = [f"{quote(by_id[c.column_id])} AS {quote(c.name)}" for c in source.columns]
        return frame.selectExpr(*listed, *weight)

    def source(self, name: Reference) -> Source | None:
        """The source that a scan names; None if it is a node or a step."""
        return next((s for s in self.stream.sources if TableRef(s.table_id) == name), None)

    def table(self, name: Reference) -> Table | None:
        """The table of a source or a node."""
        if isinstance(name, NodeRef):
            return self.tables.get(name)
        source = self.source(name)
        return None if source is None else source_table(self.work, source)

    def files(self, name: Reference, table: Table, at: At) -> tuple[DataFile, ...]:
        """What is to be read of a source or a node."""
        if at is At.NEW:
            return self.work.files(table)
        return self.node_before(table) if name in self.tables else self.source_before(table)

    def _view_change(self, source: Source, table: Table) -> Frame | str:
        """What changed since the frontier; few rows are summed here, so that what cancels out is gone.

        Stream tables that read the same change, with the same columns or not, share one scan of it.
        """
        files = self.source_change(table)
        place = self.work.place

        def make_frame() -> Frame:
            if room_of_tail(place.settings).holds(files):
                rows = _load_net_rows(self.work, table, files)
                if rows is not None:
                    return _read_as_stored(table, local_frame(place.spark, table, rows))
            return _read_as_stored(table, rows_with_weights(place.spark, place.storage, table, files))

        key = ("change", table.id, table.columns, tuple((f.path, f.role) for f in files))
        if not has_renamed_columns(source, table):
            return place.view(key, make_frame)
        named = (*key, source.columns)
        return place.view(named, lambda: self._use_known_names(source, table, make_frame()))


def _average_row_bytes(files: Sequence[DataFile]) -> int:
    """Bytes of a row."""
    rows = sum(f.rows for f in files)
    return sum(f.memory for f in files) // rows if rows else 0


def _read_as_stored(table: Table, frame: Frame) -> Frame:
    return as_stored(frame) if any(is_padded(c.type) for c in table.columns) else frame


def is_padded(kind: ColumnType) -> bool:
    """CHAR(n) has blanks at its end, and Spark adds them to what it is compared with."""
    return isinstance(kind, Scalar) and kind.name.startswith("char")


def has_renamed_columns(source: Source, table: Table) -> bool:
    """Whether a column has another name now than the plan knows."""
    names = {c.id: c.name for c in table.columns}
    return any(names.get(c.column_id) != c.name for c in source.columns)


def source_table(work: Work, source: Source) -> Table:
    table = work.catalog.table_by_id(source.table_id)
    if table is None:
        raise SourceLostError(source.full_name, "was dropped")
    known = {c.id for c in table.columns}
    for used in source.columns:
        if used.column_id not in known:
            raise SourceLostError(table.full_name, _describe_loss(table, used))
    return table


def _describe_loss(table: Table, used: ColumnUse) -> str:
    if not table.has_column(used.name):
        return f'has lost the column "{used.name}"'
    now = sql_name(table.column(used.name).type)
    return f'now has another column "{used.name}", of type {now} instead of {used.type}'


def find_retyped_columns(work: Work, stream: Stream) -> list[str]:
    """Columns of sources that have another type than when the query was bound."""
    found = []
    for source in stream.sources:
        table = source_table(work, source)
        types = {c.id: sql_name(c.type) for c in table.columns}
        found += [f"{table.full_name}.{c.name}" for c in source.columns if types[c.column_id] != c.type]
    return found


def pick_frontier(table: Table, frontier: Frontier) -> int:
    return frontier.streams if table.stream is not None else frontier.tables


def list_changed_files(work: Work, table: Table, frontier: Frontier) -> tuple[DataFile, ...]:
    """What changed since the frontier, and in this transaction."""
    committed = work.change_files(table, pick_frontier(table, frontier))
    change = work.changes.get(table.id)
    return committed + (change.feed if change is not None else ())


def _load_net_rows(work: Work, table: Table, files: Sequence[DataFile]) -> pa.Table | None:
    rows = load_rows(work, table, files)
    return None if rows is None else single_weights(sum_weights(table, rows))


def count_source_rows(inputs: Inputs) -> int:
    return sum(inputs.work.row_count(source_table(inputs.work, s)) for s in inputs.stream.sources)


def has_small_sources(inputs: Inputs) -> bool:
    """Whether all sources together are so little that everything may pass through the driver."""
    files = [f for s in inputs.stream.sources for f in inputs.work.files(source_table(inputs.work, s))]
    return room_of_statement(inputs.work.place.settings).holds(files)

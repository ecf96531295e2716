"""The tables of a plan -> rows at the driver, which what is computed here reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operators import Scan
from spark_trickle.model.arrow import arrow_schema, arrow_type, net_rows, single_weights, sum_weights
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import (
    Room,
    room_of_change,
    room_of_refresh,
    room_of_statement,
    room_of_tail,
)
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.refresh.inputs import Inputs, has_renamed_columns, is_padded
from spark_trickle.spark.child_session import create_frame, small_jobs
from spark_trickle.spark.collect import collect_within
from spark_trickle.spark.run import run_sql
from spark_trickle.sql.lexer.words import quote
from spark_trickle.txn.net import load_rows
from spark_trickle.txn.store import fits_arrow

_FETCHED = 20_000  # values of which a job may fetch the rows
_LISTED = 200  # values that are written into a text, where Spark tests them against the bounds of row groups


@dataclass(frozen=True)
class DriverInputs:
    """What the inputs of a refresh are, as far as they fit here."""

    inputs: Inputs
    rehearsal: bool = False  # tables without rows; what would be too many is refused all the same
    fetches: bool = True  # a job may fetch rows of a large table

    def without_rows(self) -> DriverInputs:
        return replace(self, rehearsal=True)

    def without_jobs(self) -> DriverInputs:
        """Only what is at the driver already."""
        return replace(self, fetches=False)

    def read_change(self, name: str) -> pa.Table | None:
        """The change of a source or a node, not summed; None if that takes Spark."""
        inputs = self.inputs
        if name in inputs.rows:
            return inputs.rows[name].slice(0, 0) if self.rehearsal else inputs.rows[name]
        source, table = inputs.source(name), inputs.table(name)
        if source is None or table is None or name in inputs.deltas or not self._may_read(name, table):
            return None
        files = inputs.source_change(table)
        if not files:
            return None
        room = room_of_change(inputs.work.place.settings, len(table.columns))
        if self.rehearsal:
            return _empty(table) if room.holds(files) else None
        parts = tuple((f.path, f.role) for f in files)  # a file tells that its rows came, and that they went
        key = ("change", "rows", table.id, table.columns, parts, room)
        return inputs.work.place.views.rows(key, lambda: self._few_rows(table, files, room))

    def read_content(self, scan: Scan) -> pa.Table | None:
        """All rows of a source or a node; as a log they keep their weights."""
        table = self.inputs.table(scan.source)
        if table is None or not self._may_read(scan.source, table):
            return None
        place, files = self.inputs.work.place, self.inputs.files(scan.source, table, scan.moment)
        room = room_of_statement(place.settings)
        if not room.holds(files):
            return None
        if self.rehearsal:
            rows = _empty(table)
            return rows if rows is None or scan.weighted else rows.drop_columns([WEIGHT])
        if scan.weighted:
            return self._few_rows(table, files, room)
        key = ("content", table.id, table.columns, tuple((f.path, f.as_of) for f in files), room)
        return place.views.rows(key, lambda: self._few_net_rows(table, files, room))

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> pa.Table | None:
        """The rows of a large table with some values in a column: in memory, or fetched by a small job."""
        table, place = self._large(scan), self.inputs.work.place
        if table is None:
            return None
        files = self.inputs.files(scan.source, table, scan.moment)
        if room_of_statement(place.settings).holds(files):
            return None  # it would have been read whole
        if values.type != arrow_type(table.column(column).type):
            return None  # only equal types are looked up
        if self.rehearsal:
            return _no_rows(scan, table)
        names, room = [c for _, c in scan.names], room_of_refresh(place.settings)
        most = room.rows
        if len(values) > most:
            return None
        if place.index.is_crowded(table, files, column, values, most):
            return None
        if (found := place.index.find(table, files, names, column, values, most)) is not None:
            return _as_scanned(scan, found)
        if not self.fetches or len(values) > _FETCHED:
            return None
        frames = {"log": self.inputs.log(table, files)}
        text = _listed(names, column, values)
        if text is None:
            text = _matched(names, column, values)
            frames["wanted"] = create_frame(place.spark, pa.table({"wanted": values}))
        with small_jobs(place.spark):
            frame = run_sql(place.spark, text, available=(), **frames)
            rows = collect_within(frame, room, self.inputs.row_bytes)
        if rows is None:
            place.index.note_crowded(table, files, column, values, most)
            return None
        return _as_scanned(scan, rows)

    def read_indexed_rows(self, scan: Scan) -> pa.Table | None:
        """The columns of a larger table that are kept in memory, of as many rows as a change may have."""
        table, place = self._large(scan), self.inputs.work.place
        if table is None:
            return None
        files = self.inputs.files(scan.source, table, scan.moment)
        if not room_of_refresh(place.settings).holds(files):
            return None
        if self.rehearsal:
            return _no_rows(scan, table)
        found = place.index.rows(table, files, [c for _, c in scan.names])
        return None if found is None else _as_scanned(scan, found)

    def _large(self, scan: Scan) -> Table | None:
        """The table of a scan, if Arrow can hold what is found in it."""
        table = self.inputs.table(scan.source)
        readable = table is not None and self._may_read(scan.source, table) and fits_arrow(table)
        return table if readable else None

    def keep(self, rows: pa.Table) -> str | None:
        """Rows that were made here, for Spark to read under a name."""
        place = self.inputs.work.place
        if not room_of_tail(place.settings).has(rows):
            return None
        name = f"h{len(self.inputs.found) + 1}"
        self.inputs.found[name] = create_frame(place.spark, rows.combine_chunks())
        return name

    def _may_read(self, name: str, table: Table) -> bool:
        """Columns have the names that the plan knows, and compare here as they do in Spark."""
        source = self.inputs.source(name)
        known = source is None or not has_renamed_columns(source, table)
        return known and name not in self.inputs.found and not any(is_padded(c.type) for c in table.columns)

    def _few_rows(self, table: Table, files: Sequence[DataFile], room: Room) -> pa.Table | None:
        return None if not room.holds(files) else load_rows(self.inputs.work, table, files)

    def _few_net_rows(self, table: Table, files: Sequence[DataFile], room: Room) -> pa.Table | None:
        rows = self._few_rows(table, files, room)
        if rows is None:
            return None
        if any(f.deletes for f in files):
            rows = single_weights(sum_weights(table, rows))
        return rows.drop_columns([WEIGHT])


def _empty(table: Table) -> pa.Table | None:
    return arrow_schema(table).empty_table() if fits_arrow(table) else None


def _no_rows(scan: Scan, table: Table) -> pa.Table:
    names = [*(c for _, c in scan.names), *[WEIGHT] * scan.weighted]
    return arrow_schema(table).empty_table().select(names)


def _as_scanned(scan: Scan, rows: pa.Table) -> pa.Table | None:
    """Rows with weights as a scan has them: as they are in a log, summed otherwise."""
    return rows if scan.weighted else net_rows(rows)


def _listed(names: Sequence[str], column: str, values: pa.Array) -> str | None:
    """Few whole numbers stand in the text."""
    if len(values) > _LISTED or not pa.types.is_signed_integer(values.type):
        return None
    numbers = ", ".join(map(str, values.to_pylist())) or "NULL"
    return f"SELECT {_columns(names)} FROM {{log}} AS l WHERE l.{quote(column)} IN ({numbers})"


def _matched(names: Sequence[str], column: str, values: pa.Array) -> str:
    bounds = ""
    if pa.types.is_signed_integer(values.type) and len(values):
        low, high = (end.as_py() for end in pc.min_max(values).values())
        bounds = f" WHERE l.{quote(column)} BETWEEN {low} AND {high}"
    return (
        f"SELECT /*+ BROADCAST(w) */ {_columns(names)} FROM {{log}} AS l "
        f"LEFT SEMI JOIN {{wanted}} AS w ON l.{quote(column)} = w.wanted{bounds}"
    )


def _columns(names: Sequence[str]) -> str:
    return ", ".join(f"l.{quote(n)}" for n in (*names, WEIGHT))

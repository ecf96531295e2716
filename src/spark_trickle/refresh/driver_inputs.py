"""The tables of a plan -> their rows at the driver, or why they cannot be there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operators import Scan
from spark_trickle.algebra.references import Reference
from spark_trickle.arrow.evaluate import Lookup
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.model.arrow import arrow_schema, arrow_type, net_rows, single_weights, sum_weights
from spark_trickle.model.files import DataFile
from spark_trickle.model.room import (
    room_of_change,
    room_of_refresh,
    room_of_statement,
)
from spark_trickle.model.table import WEIGHT, Table
from spark_trickle.refresh.inputs import Inputs, has_renamed_columns, is_padded
from spark_trickle.spark.child_session import create_frame
from spark_trickle.spark.collect import TooLarge, collect_within
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

    def read_change(self, name: Reference) -> pa.Table | Refusal:
        """The change of a source or a node, not summed."""
        inputs = self.inputs
        known = inputs.changes.get(name)
        if known is not None and known.rows is not None:
            return known.rows.slice(0, 0) if self.rehearsal else known.rows
        if name not in inputs.changes and inputs.source(name) is None:
            return Refusal(f"{name} is computed by Spark")
        if known is not None:
            return Refusal(f"the change of {name} is not at the driver")
        table = self._find_readable_table(name)
        if isinstance(table, Refusal):
            return table
        files = inputs.source_change(table)
        if not files:
            return Refusal(f'"{table.full_name}" has not changed')
        room = room_of_change(inputs.work.place.settings, len(table.columns))
        if not room.holds(files):
            return Refusal(f'the change of "{table.full_name}" is too large for the driver')
        if self.rehearsal:
            return _make_empty_table(table)
        parts = tuple((f.path, f.role) for f in files)  # a file tells that its rows came, and that they went
        key = ("change", "rows", table.id, table.columns, parts, room)
        rows = inputs.work.place.views.rows(key, lambda: load_rows(inputs.work, table, files))
        return _refuse_missing_rows(rows, table)

    def read_content(self, scan: Scan) -> pa.Table | Refusal:
        """All rows of a source or a node; as a log they keep their weights."""
        table = self._find_readable_table(scan.source)
        if isinstance(table, Refusal):
            return table
        place, files = self.inputs.work.place, self.inputs.files(scan.source, table, scan.moment)
        room = room_of_statement(place.settings)
        if not room.holds(files):
            return Refusal(f'"{table.full_name}" is too large for the driver')
        if self.rehearsal:
            rows = _make_empty_table(table)
            return rows if isinstance(rows, Refusal) or scan.weighted else rows.drop_columns([WEIGHT])
        if scan.weighted:
            return _refuse_missing_rows(load_rows(self.inputs.work, table, files), table)
        key = ("content", table.id, table.columns, tuple((f.path, f.as_of) for f in files), room)
        return _refuse_missing_rows(place.views.rows(key, lambda: self._load_content(table, files)), table)

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> Lookup | Refusal:
        """The rows of a large table with some values in a column: in memory, or fetched by a small job."""
        table, place = self._find_large_table(scan), self.inputs.work.place
        if isinstance(table, Refusal):
            return table
        files = self.inputs.files(scan.source, table, scan.moment)
        if room_of_statement(place.settings).holds(files):
            return Refusal(
                f'"{table.full_name}" cannot be read at the driver'
            )  # it would have been read whole
        if values.type != arrow_type(table.column(column).type):
            return Refusal(f'"{table.full_name}.{column}" is compared with another type')
        if self.rehearsal:
            return Lookup(_make_empty_scan(scan, table), by_job=self.fetches)
        names, room = [c for _, c in scan.names], room_of_refresh(place.settings)
        most, many = room.rows, Refusal(f'too many rows of "{table.full_name}" have a changed {column}')
        if len(values) > most or place.index.is_crowded(table, files, column, values, most):
            return many
        if (found := place.index.find(table, files, names, column, values, most)) is not None:
            return _look_up(scan, found)
        if not self.fetches or len(values) > _FETCHED:
            return Refusal(f'"{table.full_name}" is not in memory')
        rows = self._fetch_rows(scan, table, column, values)
        if isinstance(rows, TooLarge):
            place.index.note_crowded(table, files, column, values, most)
            return many
        return _look_up(scan, rows, by_job=True)

    def _fetch_rows(self, scan: Scan, table: Table, column: str, values: pa.Array) -> pa.Table | TooLarge:
        """By a small job."""
        place, names = self.inputs.work.place, [c for _, c in scan.names]
        with place.run_small_jobs():
            frames = {"log": self.inputs.log(table, self.inputs.files(scan.source, table, scan.moment))}
            text = _select_listed_values(names, column, values)
            if text is None:
                text = _select_matching_rows(names, column, values)
                frames["wanted"] = create_frame(place.spark, pa.table({"wanted": values}))
            frame = run_sql(place.spark, text, available=(), **frames)
            return collect_within(frame, room_of_refresh(place.settings), self.inputs.row_bytes)

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        """The columns of a larger table that are kept in memory, of as many rows as a change may have."""
        table, place = self._find_large_table(scan), self.inputs.work.place
        if isinstance(table, Refusal):
            return table
        files = self.inputs.files(scan.source, table, scan.moment)
        if not room_of_refresh(place.settings).holds(files):
            return Refusal(f'"{table.full_name}" is too large for the driver')
        if self.rehearsal:
            return _make_empty_scan(scan, table)
        found = place.index.read_rows(table, files, [c for _, c in scan.names])
        return (
            Refusal(f'"{table.full_name}" is not in memory') if found is None else _shape_as_scan(scan, found)
        )

    def _find_large_table(self, scan: Scan) -> Table | Refusal:
        """The table of a scan, if Arrow can hold what is found in it."""
        table = self._find_readable_table(scan.source)
        return table if isinstance(table, Refusal) or fits_arrow(table) else _refuse_columns(table)

    def _find_readable_table(self, name: Reference) -> Table | Refusal:
        """Columns have the names that the plan knows, and compare here as they do in Spark."""
        source, table = self.inputs.source(name), self.inputs.table(name)
        if table is None or name in self.inputs.steps:
            return Refusal(f"{name} is computed by Spark")
        if source is not None and has_renamed_columns(source, table):
            return Refusal(f'columns of "{table.full_name}" have other names than in the plan')
        if any(is_padded(c.type) for c in table.columns):
            return Refusal(f'"{table.full_name}" has CHAR columns, which Spark compares with their blanks')
        return table

    def _load_content(self, table: Table, files: Sequence[DataFile]) -> pa.Table | None:
        rows = load_rows(self.inputs.work, table, files)
        if rows is None:
            return None
        if any(f.deletes for f in files):
            rows = single_weights(sum_weights(table, rows))
        return rows.drop_columns([WEIGHT])


def _refuse_columns(table: Table) -> Refusal:
    return Refusal(f'Arrow cannot hold a column of "{table.full_name}"')


def _refuse_missing_rows(rows: pa.Table | None, table: Table) -> pa.Table | Refusal:
    return Refusal(f'only Spark can read the files of "{table.full_name}"') if rows is None else rows


def _make_empty_table(table: Table) -> pa.Table | Refusal:
    return arrow_schema(table).empty_table() if fits_arrow(table) else _refuse_columns(table)


def _make_empty_scan(scan: Scan, table: Table) -> pa.Table:
    names = [*(c for _, c in scan.names), *[WEIGHT] * scan.weighted]
    return arrow_schema(table).empty_table().select(names)


def _look_up(scan: Scan, rows: pa.Table, by_job: bool = False) -> Lookup | Refusal:
    found = _shape_as_scan(scan, rows)
    return found if isinstance(found, Refusal) else Lookup(found, by_job)


def _shape_as_scan(scan: Scan, rows: pa.Table) -> pa.Table | Refusal:
    """Rows with weights as a scan has them: as they are in a log, summed otherwise."""
    net = rows if scan.weighted else net_rows(rows)
    return Refusal("Arrow cannot group nested values") if net is None else net


def _select_listed_values(names: Sequence[str], column: str, values: pa.Array) -> str | None:
    """Few whole numbers stand in the text."""
    if len(values) > _LISTED or not pa.types.is_signed_integer(values.type):
        return None
    numbers = ", ".join(map(str, values.to_pylist())) or "NULL"
    return f"SELECT {_list_columns(names)} FROM {{log}} AS l WHERE l.{quote(column)} IN ({numbers})"


def _select_matching_rows(names: Sequence[str], column: str, values: pa.Array) -> str:
    bounds = ""
    if pa.types.is_signed_integer(values.type) and len(values):
        low, high = (end.as_py() for end in pc.min_max(values).values())
        bounds = f" WHERE l.{quote(column)} BETWEEN {low} AND {high}"
    return (
        f"SELECT /*+ BROADCAST(w) */ {_list_columns(names)} FROM {{log}} AS l "
        f"LEFT SEMI JOIN {{wanted}} AS w ON l.{quote(column)} = w.wanted{bounds}"
    )


def _list_columns(names: Sequence[str]) -> str:
    return ", ".join(f"l.{quote(n)}" for n in (*names, WEIGHT))

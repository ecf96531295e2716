"""The column index: columns of large tables in memory, in which refreshes look up a few rows quickly.

Files never change, so what was read of one stays right. The first time that a column of a table is asked for,
nothing is read: a single look is cheaper by a job than by reading all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TypeVar, cast

import numpy as np
import pyarrow as pa

from spark_trickle.lake.storage.files import Storage
from spark_trickle.model.arrow import FIELD_ID, arrow_schema, can_hold, from_storage, python_values
from spark_trickle.model.cache import Cache
from spark_trickle.model.files import DataFile
from spark_trickle.model.packed import Numbers, Packed, Places, index_places, pack_column
from spark_trickle.model.table import WEIGHT, WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import find_fixed_width

_Kept = TypeVar("_Kept", Packed, Places)
_Key = tuple[str, int, str, str]  # the file, the id of a column and its type, what is kept of it
_Columns = dict[str, Packed]

_CROWD, _CROWDS = 1_000, 100_000  # values that are remembered together, and in all
_ASKED = 10_000  # columns of which is remembered that somebody asked for them


@dataclass(frozen=True)
class _Crowd:
    """Values that had too many rows, when their table had so many."""

    values: frozenset[object]
    rows: int


class ColumnIndex:
    """The columns that were used last win; together they stay within a budget."""

    def __init__(self, storage: Storage, most_bytes: int) -> None:
        self._storage = storage
        self._most_bytes = most_bytes
        self.lookups = 0  # that needed no job
        self._cache = Cache[_Key, Packed | Places](most_bytes, weigh=attrgetter("bytes"))
        self._reading = Cache[tuple[_Key, ...], tuple[Packed, ...] | None](0)  # who asks for the same waits
        self._asked = Cache[tuple[int, str], bool](_ASKED)
        self._crowded = Cache[tuple[int, str, int], _Crowd](_CROWDS, weigh=lambda crowd: len(crowd.values))

    @property
    def bytes(self) -> int:
        return self._cache.weight

    def resize(self, most_bytes: int) -> None:
        """A smaller budget frees memory at once."""
        self._most_bytes = most_bytes
        self._cache.resize(most_bytes)

    def read_rows(self, table: Table, files: Sequence[DataFile], names: Sequence[str]) -> pa.Table | None:
        """All rows, with weights; None if they are for Spark to read."""

        def take_all(file: DataFile, columns: _Columns) -> Numbers:
            return np.arange(file.rows)

        return self._gather_rows(table, files, names, "", take_all)

    def find(
        self,
        table: Table,
        files: Sequence[DataFile],
        names: Sequence[str],
        by: str,
        values: pa.Array,
        most: int,
    ) -> pa.Table | None:
        """The rows in which a column has one of some different values; None also if there are too many."""
        room = most

        def scan_rows(file: DataFile, columns: _Columns) -> Numbers | None:
            nonlocal room
            column = columns[by]
            numbers = column.find_numbers(values)
            if numbers is None:
                found = column.scan_values(values)
            else:
                key = (file.path, table.column(by).id, str(column.type), "places")
                found = self._get_or_make(key, lambda: index_places(column)).find_rows(numbers)
            room -= 0 if found is None else len(found)
            return found if room >= 0 else None

        return self._gather_rows(table, files, names, by, scan_rows)

    def is_crowded(
        self, table: Table, files: Sequence[DataFile], by: str, values: pa.Array, most: int
    ) -> bool:
        """Whether some of these values alone had too many rows before, in a table that was not far larger."""
        crowd = self._crowded.find((table.id, by, most))
        if crowd is None:
            return False
        is_as_large = 2 * sum(f.rows for f in files) >= crowd.rows
        return is_as_large and crowd.values <= set(python_values(values))

    def note_crowded(
        self, table: Table, files: Sequence[DataFile], by: str, values: pa.Array, most: int
    ) -> None:
        if len(values) <= _CROWD:
            crowd = _Crowd(frozenset(python_values(values)), sum(f.rows for f in files))
            self._crowded.put((table.id, by, most), crowd)

    def _gather_rows(
        self,
        table: Table,
        files: Sequence[DataFile],
        names: Sequence[str],
        by: str,
        choose: Callable[[DataFile, _Columns], Numbers | None],
    ) -> pa.Table | None:
        needed = tuple(c for c in table.columns if c.name in {*names, by})
        if _estimate_memory(table, needed, files) > self._most_bytes:
            return None
        if not files or not all(can_hold(c.type) for c in needed):
            return None
        if self._asked.find((table.id, by)) is None:
            self._asked.put((table.id, by), True)
            return None
        narrow, parts = replace(table, columns=needed), []
        for file in files:
            columns = self._read_columns(narrow, file)
            chosen = None if columns is None else choose(file, columns)
            if columns is None or chosen is None:
                return None
            parts.append(pa.table({n: columns[n].take(chosen) for n in (*names, WEIGHT)}))
        self.lookups += 1
        return pa.concat_tables(parts)

    def _read_columns(self, table: Table, file: DataFile) -> _Columns | None:
        """The columns of a file by name, with weights; those that are not here yet are read."""
        keys = {f.name: _make_key(file, f) for f in arrow_schema(table)}
        columns = {n: self._cache.find(key) for n, key in keys.items()}
        missing = {n: keys[n] for n, column in columns.items() if column is None}
        if missing:
            wanted = tuple(missing.values())
            found = self._reading.get(wanted, lambda: self._read_missing(table, file, missing))
            if found is None:
                return None
            columns.update(zip(missing, found, strict=True))
        return cast(_Columns, columns)

    def _read_missing(
        self, table: Table, file: DataFile, missing: Mapping[str, _Key]
    ) -> tuple[Packed, ...] | None:
        """Read together, for a file is opened for all of them at once."""
        part = replace(table, columns=tuple(c for c in table.columns if c.name in missing))
        wanted = [*(c.id for c in part.columns), WEIGHT_ID]
        rows = from_storage(part, self._storage.read_columns(table, file, wanted))
        if rows is None:
            return None
        return tuple(
            self._get_or_make(key, partial(pack_column, rows.column(n))) for n, key in missing.items()
        )

    def _get_or_make(self, key: _Key, make: Callable[[], _Kept]) -> _Kept:
        return cast(_Kept, self._cache.get(key, make))


def _make_key(file: DataFile, field: pa.Field) -> _Key:
    return file.path, int(field.metadata[FIELD_ID]), str(field.type), "values"


def _estimate_memory(table: Table, needed: Sequence[TableColumn], files: Sequence[DataFile]) -> int:
    """What some columns take before they are packed; one of many texts may be as long as all of them."""
    rows, everything = sum(f.rows for f in files), sum(f.memory for f in files)
    numbers = [c for c in table.columns if find_fixed_width([c.type]) is not None]
    wanted = rows * (find_fixed_width(c.type for c in needed if c in numbers) or 0)
    if all(c in numbers for c in needed):
        return wanted
    return wanted + max(0, everything - rows * (find_fixed_width(c.type for c in numbers) or 0))

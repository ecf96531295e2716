"""How much may come to the driver at once, in rows and in bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from spark_trickle.model.files import DataFile
from spark_trickle.settings import Settings


@dataclass(frozen=True)
class Room:
    """Rows are counted because each takes time, bytes because all of them together take memory."""

    rows: int
    bytes: int

    def fits(self, rows: int, memory: int) -> bool:
        return rows <= self.rows and memory <= self.bytes

    def holds(self, files: Iterable[DataFile]) -> bool:
        """Whether the rows of some files fit, from what the catalog knows of each."""
        listed = tuple(files)
        return self.fits(sum(f.rows for f in listed), sum(f.memory for f in listed))

    def has(self, rows: pa.Table) -> bool:
        """Whether rows fit that are there already."""
        return self.fits(rows.num_rows, rows.nbytes)


def room_of_statement(settings: Settings) -> Room:
    return Room(settings.max_driver_rows, settings.driver_bytes)


def room_of_refresh(settings: Settings) -> Room:
    """A refresh knows beforehand how many rows changed, so it may bring more of them."""
    return Room(settings.max_refresh_rows, settings.driver_bytes)


def room_of_change(settings: Settings, columns: int) -> Room:
    """What a refresh reads of a change itself never passes through Spark, which would hold it once more."""
    return Room(settings.max_change_rows(columns), 2 * settings.driver_bytes)


def room_of_tail(settings: Settings) -> Room:
    """Rows that become a DataFrame, and are sent with every query that reads it."""
    rows = min(settings.local_tail_rows, settings.max_driver_rows)
    return Room(rows, settings.driver_bytes // 4)

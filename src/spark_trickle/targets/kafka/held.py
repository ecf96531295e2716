"""The records of a topic -> the rows that they come to, and by what others differ from them.

What a topic holds may be more than fits into memory, so it is kept in a file of SQLite's that goes with it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Protocol

from spark_trickle.sources.kafka.records import Record
from spark_trickle.sources.kafka.values import MisfitError
from spark_trickle.targets.kafka.changes import KeyChange
from spark_trickle.targets.kafka.envelope import Hear
from spark_trickle.targets.kafka.images import RowImage

_UNREADABLE = "?"  # what no row is


class HeldRows(Protocol):
    def note(self, record: Record) -> None:
        """What the next record of a topic says."""

    def compare(self, wanted: Iterable[RowImage]) -> Iterator[KeyChange]:
        """The changes after which the topic tells exactly these rows."""

    def list_all(self) -> Iterator[KeyChange]:
        """The changes after which it tells none."""


@contextmanager
def hold_rows(hear: Hear, by_key: bool) -> Iterator[HeldRows]:
    """Of a topic with keys the last row of each; else each row as often as it came and did not go."""
    with closing(sqlite3.connect("", isolation_level=None)) as connection:  # "" is a file without a name
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN")
        yield KeyedRows(connection, hear) if by_key else CountedRows(connection, hear)


class KeyedRows:
    """Records of one key are in one partition, unless it was given more: then their time decides."""

    def __init__(self, connection: sqlite3.Connection, hear: Hear) -> None:
        self._run, self._hear = connection.execute, hear
        self._run("CREATE TABLE held (key BLOB PRIMARY KEY, row TEXT, partition INT, time INT) WITHOUT ROWID")

    def note(self, record: Record) -> None:
        try:
            row = self._hear(record).after
        except MisfitError:
            row = _UNREADABLE
        self._run(
            "INSERT INTO held VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
            " SET row = excluded.row, partition = excluded.partition, time = excluded.time"
            " WHERE partition = excluded.partition OR time <= excluded.time",
            (record.key or b"", row, record.partition, record.timestamp or 0),
        )

    def compare(self, wanted: Iterable[RowImage]) -> Iterator[KeyChange]:
        for image in wanted:
            taken = self._run("DELETE FROM held WHERE key = ? RETURNING row", (image.key.encode(),))
            before = next((row for (row,) in taken.fetchall()), None)
            if before != image.row:
                yield KeyChange(image.key, None if before == _UNREADABLE else before, image.row)
        yield from self.list_all()

    def list_all(self) -> Iterator[KeyChange]:
        for key, row in self._run("SELECT key, row FROM held WHERE row IS NOT NULL"):
            yield KeyChange(key.decode(errors="surrogateescape"), None if row == _UNREADABLE else row, None)


class CountedRows:
    """Rows without a key, by all that they hold."""

    def __init__(self, connection: sqlite3.Connection, hear: Hear) -> None:
        self._run, self._hear = connection.execute, hear
        self._run("CREATE TABLE held (row TEXT PRIMARY KEY, n INT) WITHOUT ROWID")

    def note(self, record: Record) -> None:
        try:
            heard = self._hear(record)
        except MisfitError:
            return
        for row, weight in ((heard.before, -1), (heard.after, 1)):
            if row is not None:
                self._add(row, weight)

    def _add(self, row: str, weight: int) -> None:
        self._run(
            "INSERT INTO held VALUES (?, ?) ON CONFLICT (row) DO UPDATE SET n = n + excluded.n", (row, weight)
        )

    def compare(self, wanted: Iterable[RowImage]) -> Iterator[KeyChange]:
        for image in wanted:
            self._add(image.row, -1)
        yield from self.list_all()

    def list_all(self) -> Iterator[KeyChange]:
        """What is there too often goes, and what is not there often enough comes."""
        for row, n in self._run("SELECT row, n FROM held WHERE n > 0"):
            yield from [KeyChange(row, row, None)] * n
        for row, n in self._run("SELECT row, n FROM held WHERE n < 0"):
            yield from [KeyChange(row, None, row)] * -n

"""A reader of a kind of source -> the same reader, whose failures name the source and the table.

What lies in a source is not ours: it may be cut off, damaged, or made by a program that nobody knew. So
whatever goes wrong while it is read is an error of that table, with its cause, and the other tables go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from spark_trickle.errors import SourceUnavailableError, SourceUnreadableError, TrickleError
from spark_trickle.sources.interface import (
    Capabilities,
    Change,
    Configurable,
    Content,
    LoadedTable,
    Lost,
    Records,
    RemoteTable,
    RowChange,
    SourceReader,
    Version,
)

T = TypeVar("T")


@dataclass(frozen=True)
class GuardedReader:
    """`name` is what the source was attached as."""

    name: str
    reader: SourceReader

    @property
    def capabilities(self) -> Capabilities:
        return self.reader.capabilities

    def configure(self, table: str, options: Any) -> None:
        with self._explain(table):
            cast(Configurable, self.reader).configure(table, options)

    def discover(self) -> tuple[str, ...]:
        with self._explain():
            return self.reader.discover()

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        with self._explain():
            return self.reader.position(tables)

    def describe(self, table: str, at: Version) -> RemoteTable | LoadedTable:
        with self._explain(table):
            return self.reader.describe(table, at)

    def read(self, table: str, at: Version) -> Content:
        with self._explain(table):
            content = self.reader.read(table, at)
        return self._guard_pieces(table, content)

    def changes(self, table: str, after: Version, upto: Version) -> Change:
        with self._explain(table):
            change = self.reader.changes(table, after, upto)
        if isinstance(change, Lost) and change.rest is not None:
            return replace(change, rest=self._guard_pieces(table, change.rest))
        return self._guard_pieces(table, change)

    def release(self, upto: Mapping[str, Version]) -> None:
        with self._explain():
            self.reader.release(upto)

    def close(self) -> None:
        with self._explain():
            self.reader.close()

    def _guard_pieces(self, table: str, given: T) -> T:
        """Rows are read later, and may fail then."""
        if isinstance(given, RowChange | Records):
            return replace(given, pieces=self._read_pieces(table, given.pieces))
        return given

    def _read_pieces(self, table: str, pieces: Iterator[Any]) -> Iterator[Any]:
        with self._explain(table):
            yield from pieces

    @contextmanager
    def _explain(self, table: str = "") -> Iterator[None]:
        try:
            yield
        except TrickleError:
            raise
        except OSError as error:
            raise SourceUnavailableError(_describe(error)) from error
        except Exception as error:
            raise SourceUnreadableError(self.name, table, _describe(error)) from error


def _describe(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__

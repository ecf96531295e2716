"""Whatever a reader does wrong, the error says of which source and table it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pyarrow as pa
import pytest

from spark_trickle.errors import SourceLostError, TrickleError
from spark_trickle.sources.followed.guarded import GuardedReader
from spark_trickle.sources.interface import Capabilities, RemoteTable, RowChange, Version


class FailingReader:
    """A source whose every answer fails with one error."""

    capabilities: ClassVar = Capabilities(in_place=False)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def discover(self) -> tuple[str, ...]:
        raise self.error

    def position(self, tables: Sequence[str]) -> dict[str, Version]:
        raise self.error

    def describe(self, table: str, at: Version) -> RemoteTable:
        raise self.error

    def read(self, table: str, at: Version) -> RowChange:
        def read_pieces() -> Iterator[pa.Table]:
            yield pa.table({"a": [1]})
            raise self.error

        return RowChange(read_pieces())

    def changes(self, table: str, after: Version, upto: Version) -> RowChange:
        raise self.error

    def release(self, upto: Mapping[str, Version]) -> None:
        raise self.error

    def close(self) -> None:
        raise self.error


ERRORS = [
    (KeyError("add"), "SOURCE_UNREADABLE", "cannot be read: KeyError: 'add'"),
    (ValueError(), "SOURCE_UNREADABLE", "cannot be read: ValueError"),
    (OSError("timed out\nmore"), "SOURCE_UNAVAILABLE", "cannot be reached: OSError: timed out"),
    (SourceLostError("main.t", "was dropped"), "SOURCE_LOST", "was dropped"),
]


@pytest.mark.parametrize(("error", "code", "words"), ERRORS, ids=lambda v: str(v)[:20])
def test_errors_name_their_source(error: Exception, code: str, words: str) -> None:
    reader = GuardedReader("lake", FailingReader(error))
    pieces = reader.read("t", "1")
    assert isinstance(pieces, RowChange)
    calls = (
        reader.discover,
        lambda: reader.position(["t"]),
        lambda: reader.describe("t", "1"),
        lambda: list(pieces.pieces),
        lambda: reader.changes("t", "1", "2"),
        lambda: reader.release({}),
        reader.close,
    )
    for call in calls:
        with pytest.raises(TrickleError) as caught:
            call()
        assert caught.value.code == code
        assert words in caught.value.message

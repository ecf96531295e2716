"""A query -> its rows as columns of texts, in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from spark_trickle.sources.postgres.connect import Connection
from spark_trickle.sources.postgres.run import Statement, copy_out
from spark_trickle.sources.postgres.values import from_csv


@dataclass(frozen=True)
class Bounds:
    """The most that one piece holds; a single row may still be larger."""

    rows: int = 100_000
    bytes: int = 32 << 20


USUAL = Bounds()


def read_chunks(
    connection: Connection, query: Statement, width: int, bounds: Bounds
) -> Iterator[list[pa.Array]]:
    """COPY gives one line for each row, so a piece ends where a row ends."""
    lines: list[bytes] = []
    size = 0
    for line in copy_out(connection, query):
        lines.append(line)
        size += len(line)
        if len(lines) >= bounds.rows or size >= bounds.bytes:
            yield from_csv(lines, width)
            lines, size = [], 0
    if lines:
        yield from_csv(lines, width)

"""Attached sources -> connections to them, one for each, kept between uses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock

from spark_trickle.cdc.options import SourceOptions
from spark_trickle.cdc.postgres.connect import Connection, connect


@dataclass
class _Line:
    turn: RLock = field(default_factory=RLock)
    address: SourceOptions | None = None
    connection: Connection | None = None


@dataclass
class Links:
    """Whoever uses a source has its connection alone; a broken one is replaced at the next use."""

    _lines: dict[tuple[str, str], _Line] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def to(self, name: str, options: SourceOptions, role: str) -> Iterator[Connection]:
        with self._lock:
            line = self._lines.setdefault((name, role), _Line())
        with line.turn:
            if line.connection is not None and (line.connection.broken or line.address != options):
                line.connection.close()
                line.connection = None
            if line.connection is None or line.connection.closed:
                line.connection, line.address = connect(options.address, role, os.environ), options
            try:
                yield line.connection
            except BaseException:
                # Whatever it was in the middle of, its transaction and its locks end here.
                line.connection.close()
                line.connection = None
                raise

    def forget(self, name: str) -> None:
        with self._lock:
            lines = [self._lines.pop(key) for key in list(self._lines) if key[0] == name]
        _close(lines)

    def close(self) -> None:
        with self._lock:
            lines, self._lines = list(self._lines.values()), {}
        _close(lines)


def _close(lines: list[_Line]) -> None:
    for line in lines:
        with line.turn:
            if line.connection is not None:
                line.connection.close()
                line.connection = None

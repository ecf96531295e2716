"""Attached sources -> connections to them, one for each, kept between uses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock

from spark_trickle.errors import SourceUnavailableError
from spark_trickle.sources.postgres.connect import Connection, open_connection
from spark_trickle.sources.postgres.options import PostgresOptions
from spark_trickle.sources.postgres.run import ping_server

Greeting = Callable[[Connection], object]


@dataclass
class _Line:
    turn: RLock = field(default_factory=RLock)
    address: PostgresOptions | None = None
    connection: Connection | None = None

    def open_connection(self, options: PostgresOptions, role: str, greet: Greeting | None) -> Connection:
        """The connection that was kept, if it still answers, or a new one."""
        if self.connection is not None and self.address == options and not self.connection.closed:
            try:
                (greet or ping_server)(self.connection)
                return self.connection
            except SourceUnavailableError:  # it broke while nobody used it, or the server was restarted
                pass
        self.close()
        self.connection, self.address = open_connection(options.address, role, os.environ), options
        if greet is not None:
            greet(self.connection)
        return self.connection

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@dataclass
class Links:
    """Whoever uses a source has its connection alone; one that no longer answers is replaced."""

    _lines: dict[tuple[str, str], _Line] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def use_connection(
        self, name: str, options: PostgresOptions, role: str, greet: Greeting | None = None
    ) -> Iterator[Connection]:
        """`greet` is said first: if a kept connection does not answer, a new one is asked."""
        with self._lock:
            line = self._lines.setdefault((name, role), _Line())
        with line.turn:
            try:
                yield line.open_connection(options, role, greet)
            except BaseException:
                # Whatever it was in the middle of, its transaction and its locks end here.
                line.close()
                raise

    def forget(self, name: str) -> None:
        with self._lock:
            lines = [self._lines.pop(key) for key in list(self._lines) if key[0] == name]
        _close_lines(lines)

    def close(self) -> None:
        with self._lock:
            lines, self._lines = list(self._lines.values()), {}
        _close_lines(lines)


def _close_lines(lines: list[_Line]) -> None:
    for line in lines:
        with line.turn:
            line.close()

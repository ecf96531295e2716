"""A cache of the rows of small files; a file never changes, so it is read once."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

import pyarrow as pa

_MOST_BYTES_OF_ONE = 4 * 2**20


class RecentRows:
    """The newest rows win; together they stay within a budget."""

    def __init__(self) -> None:
        self._rows: OrderedDict[str, pa.Table] = OrderedDict()
        self.most_bytes = 64 * 2**20
        self.hits = self.misses = 0
        self._bytes = 0
        self._lock = Lock()

    def get(self, path: str) -> pa.Table | None:
        with self._lock:
            if path not in self._rows:
                self.misses += 1
                return None
            self.hits += 1
            self._rows.move_to_end(path)
            return self._rows[path]

    def put(self, path: str, rows: pa.Table) -> None:
        if rows.nbytes > _MOST_BYTES_OF_ONE:
            return
        with self._lock:
            if path in self._rows:
                self._bytes -= self._rows.pop(path).nbytes
            self._rows[path] = rows
            self._bytes += rows.nbytes
            while self._rows and self._bytes > self.most_bytes:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes

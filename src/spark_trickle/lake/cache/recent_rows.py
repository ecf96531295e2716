"""A cache of the rows of small files; a file never changes, so it is read once."""

from __future__ import annotations

from operator import attrgetter

import pyarrow as pa

from spark_trickle.model.cache import Cache

_MOST_BYTES_OF_ONE = 4 * 2**20


class RecentRows:
    """The newest rows win; together they stay within a budget in bytes."""

    def __init__(self) -> None:
        self._rows = Cache[str, pa.Table](64 * 2**20, weigh=attrgetter("nbytes"))
        self.hits = self.misses = 0

    def resize(self, most_bytes: int) -> None:
        self._rows.resize(most_bytes)

    def get(self, path: str) -> pa.Table | None:
        rows = self._rows.find(path)
        if rows is None:
            self.misses += 1
        else:
            self.hits += 1
        return rows

    def put(self, path: str, rows: pa.Table) -> None:
        if rows.nbytes <= _MOST_BYTES_OF_ONE:
            self._rows.put(path, rows)

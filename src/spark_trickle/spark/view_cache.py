"""DataFrames and rows that will be read again -> views of the session, so that making them is paid once."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.spark.errors import SPARK_LOST

Key = tuple[Any, ...]
# Small tables and changes at the driver: what one round of a scheduler may share.
_MOST_TABLES, _MOST_BYTES = 16, 128 * 2**20
_VERSIONS = 32  # of one table: what it was long ago is read no more, and a view may hold rows of a tail


class ViewCache:
    """Views by what they show: a key names everything that the rows depend on, such as a list of files.

    It begins with the kind of view and the id of the table.
    """

    def __init__(self, spark: SparkSession, most: int = 128) -> None:
        self._spark = spark
        self.most = most
        self._names: OrderedDict[Key, str] = OrderedDict()
        self._rows: OrderedDict[Key, pa.Table | None] = OrderedDict()
        self._lock = Lock()
        self.made: Counter[str] = Counter()  # by the kind that a key begins with
        self.shared: Counter[str] = Counter()

    def view(self, key: Key, make: Callable[[], DataFrame]) -> str:
        """The name of a view of these rows."""
        with self._lock:
            if key in self._names:
                self._names.move_to_end(key)
                self.shared[key[0]] += 1
                return self._names[key]
            self.made[key[0]] += 1
        name = f"trickle_held_{uuid4().hex}"
        make().createOrReplaceTempView(name)
        with self._lock:
            if key in self._names:  # another thread was faster
                self._spark.catalog.dropTempView(name)
                return self._names[key]
            self._names[key] = name
            versions = [k for k in self._names if k[:2] == key[:2]]
            for old in (*versions[:-_VERSIONS], *list(self._names)[: -self.most]):
                if (view := self._names.pop(old, None)) is not None:
                    self._spark.catalog.dropTempView(view)
        return name

    def rows(self, key: Key, make: Callable[[], pa.Table | None]) -> pa.Table | None:
        """The same for rows at the driver, of which only the last few are kept."""
        with self._lock:
            if key in self._rows:
                self._rows.move_to_end(key)
                self.shared[key[0]] += 1
                return self._rows[key]
            self.made[key[0]] += 1
        found = make()
        with self._lock:
            self._rows[key] = found
            while len(self._rows) > _MOST_TABLES or self._row_bytes() > _MOST_BYTES:
                self._rows.popitem(last=False)
        return found

    def _row_bytes(self) -> int:
        return sum(rows.nbytes for rows in self._rows.values() if rows is not None)

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            with suppress(*SPARK_LOST):  # they are gone with it
                while self._names:
                    self._spark.catalog.dropTempView(self._names.popitem()[1])

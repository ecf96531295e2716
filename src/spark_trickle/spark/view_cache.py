"""DataFrames and rows that will be read again -> views of our session, so that making them is paid once."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.spark.child_session import is_child
from spark_trickle.spark.errors import SPARK_LOST

Key = tuple[Any, ...]
# Small tables and changes at the driver: what one round of a scheduler may share.
_MOST_TABLES, _MOST_BYTES = 16, 128 * 2**20
_VERSIONS = 32  # of one table: what it was long ago is read no more, and a view may hold rows of a tail


class ViewCache:
    """Views by what they show: a key names everything that the rows depend on, such as a list of files.

    It begins with the kind of view and the id of the table. A session of the user gets no views, since they
    would be listed among its tables.
    """

    def __init__(self, most: int = 128) -> None:
        self.most = most
        self._names: OrderedDict[tuple[SparkSession, Key], str] = OrderedDict()
        self._rows: OrderedDict[Key, pa.Table | None] = OrderedDict()
        self._lock = Lock()
        self.made: Counter[str] = Counter()  # by the kind that a key begins with
        self.shared: Counter[str] = Counter()

    def view(self, spark: SparkSession, key: Key, make: Callable[[], DataFrame]) -> str | DataFrame:
        """The name of a view of these rows."""
        if not is_child(spark):
            return make()
        place = (spark, key)
        with self._lock:
            if place in self._names:
                self._names.move_to_end(place)
                self.shared[key[0]] += 1
                return self._names[place]
            self.made[key[0]] += 1
        name = f"trickle_held_{uuid4().hex}"
        make().createOrReplaceTempView(name)
        with self._lock:
            if place in self._names:  # another thread was faster
                spark.catalog.dropTempView(name)
                return self._names[place]
            self._names[place] = name
            versions = [p for p in self._names if p[0] is spark and p[1][:2] == key[:2]]
            for old in (*versions[:-_VERSIONS], *list(self._names)[: -self.most]):
                if (view := self._names.pop(old, None)) is not None:
                    old[0].catalog.dropTempView(view)
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
                    (spark, _), name = self._names.popitem()
                    spark.catalog.dropTempView(name)

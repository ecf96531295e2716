"""DataFrames that will be read again -> views of the session, so that making them is paid once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

_KEPT = 128


class Held:
    """Views by what they show: a key names everything that the rows depend on, such as a list of files."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = Lock()
        self.hits = 0
        self.misses = 0

    def view(self, key: Hashable, make: Callable[[], DataFrame]) -> str:
        """The name of a view of these rows."""
        with self._lock:
            if key in self._names:
                self._names.move_to_end(key)
                self.hits += 1
                return self._names[key]
            self.misses += 1
        name = f"trickle_held_{uuid4().hex}"
        make().createOrReplaceTempView(name)
        with self._lock:
            self._names[key] = name
            while len(self._names) > _KEPT:
                self._spark.catalog.dropTempView(self._names.popitem(last=False)[1])
        return name

    def clear(self) -> None:
        with self._lock:
            while self._names:
                self._spark.catalog.dropTempView(self._names.popitem()[1])

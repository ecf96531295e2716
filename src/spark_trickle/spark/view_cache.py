"""DataFrames and rows that will be read again -> views of our session, so that making them is paid once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_trickle.model.cache import Cache
from spark_trickle.spark.child_session import is_child
from spark_trickle.spark.errors import SPARK_LOST

Key = tuple[Any, ...]
_Place = tuple[SparkSession, Key]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# Small tables and changes at the driver: what one round of a scheduler may share.
_MOST_BYTES, _LEAST_BYTES = 128 * 2**20, 2**20  # of all together, and what each of them counts for
_VERSIONS = 32  # of one table: what it was long ago is read no more, and a view may hold rows of a tail


class ViewCache:
    """Views by what they show: a key names everything that the rows depend on, such as a list of files.

    It begins with the kind of view and the id of the table. A session of the user gets no views, since they
    would be listed among its tables.
    """

    def __init__(self, most: int = 128) -> None:
        self._names = Cache[_Place, str](most, on_drop=_drop_view)
        self._rows = Cache[Key, pa.Table | None](_MOST_BYTES, weigh=_memory)
        self.made: Counter[str] = Counter()  # by the kind that a key begins with
        self.shared: Counter[str] = Counter()

    def resize(self, most: int) -> None:
        """How many views there may be."""
        self._names.resize(most)

    def view(self, spark: SparkSession, key: Key, make: Callable[[], DataFrame]) -> str | DataFrame:
        """The name of a view of these rows."""
        if not is_child(spark):
            return make()
        name = self._counted(self._names, (spark, key), key[0], lambda: _make_view(make()))
        versions = [p for p in self._names.list_keys() if p[0] is spark and p[1][:2] == key[:2]]
        self._names.drop(*versions[:-_VERSIONS])
        return name

    def rows(self, key: Key, make: Callable[[], pa.Table | None]) -> pa.Table | None:
        """The same for rows at the driver, of which only the last few are kept."""
        return self._counted(self._rows, key, key[0], make)

    def _counted(
        self, cache: Cache[_Key, _Value], key: _Key, kind: str, make: Callable[[], _Value]
    ) -> _Value:
        made = False

        def note_made() -> _Value:
            nonlocal made
            made = True
            return make()

        value = cache.get(key, note_made)
        (self.made if made else self.shared)[kind] += 1
        return value

    def clear(self) -> None:
        self._rows.clear()
        with suppress(*SPARK_LOST):  # they are gone with it
            self._names.clear()


def _make_view(frame: DataFrame) -> str:
    name = f"trickle_held_{uuid4().hex}"
    frame.createOrReplaceTempView(name)
    return name


def _drop_view(place: _Place, name: str) -> None:
    with suppress(PySparkException):  # a server of Spark Connect may have forgotten the session
        place[0].catalog.dropTempView(name)


def _memory(rows: pa.Table | None) -> int:
    return max(_LEAST_BYTES, 0 if rows is None else rows.nbytes)

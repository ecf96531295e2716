"""The user's Spark session -> a child of it, where refreshes have settings and temporary views of their own.

A child shares the Spark application with its parent. It has the settings of the parent, so that it computes
the same values; on top of them come ours, with which no query of the user shall run.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cached_property
from threading import Lock
from weakref import WeakKeyDictionary, ref

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql.types import StructType

TIME_ZONE = "spark.sql.session.timeZone"
# They decide about values, so each refresh follows them. All others are followed when a child is made and
# before the executors write: to ask the parent for hundreds of settings takes longer than a small job.
_FOLLOWED = (
    TIME_ZONE,
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.mapKeyDedupPolicy",
)
# For few rows: one partition, and no stops to look at statistics.
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
_IDLE_SECONDS = 20 * 60  # a server of Spark Connect forgets sessions that nobody uses for an hour


def find_changed_settings(has: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    """What to set, and what to unset (None), so that a session has the settings that are wanted."""
    changed = {name: value for name, value in wanted.items() if has.get(name) != value}
    return {**dict.fromkeys(n for n in sorted(has) if n not in wanted), **changed}


class ChildSession:
    """A session of ours beside the user's: with a time zone of its own if one is given, or for few rows."""

    def __init__(self, parent: SparkSession, zone: str = "", is_small: bool = False) -> None:
        self._parent = ref(parent)
        self._own = {**({TIME_ZONE: zone} if zone else {}), **(_SMALL if is_small else {})}
        self._lock = Lock()
        self._small_users = 0
        self._used = time.monotonic()
        self.spark = parent.newSession()
        self._has = self._followed = dict(self.spark.conf.getAll)
        self.follow_all()

    @property
    def parent(self) -> SparkSession:
        parent = self._parent()
        assert parent is not None  # whoever works in a child holds its parent
        return parent

    @property
    def is_idle(self) -> bool:
        return time.monotonic() - self._used > _IDLE_SECONDS

    @cached_property
    def nothing(self) -> DataFrame:
        """No rows and no columns, in this session."""
        return self.spark.sql("SELECT 1 AS nothing WHERE false").drop("nothing")

    def follow(self) -> None:
        """Take over the settings of the parent that decide about values."""
        if is_remote():  # one request for all of them is quicker than one for each
            return self.follow_all()
        found = {name: self.parent.conf.get(name, None) for name in _FOLLOWED}
        with self._lock:
            kept = {n: v for n, v in self._followed.items() if n not in found}
            self._settle({**kept, **{n: v for n, v in found.items() if v is not None}})

    def follow_all(self) -> None:
        """Take over all settings of the parent."""
        found = dict(self.parent.conf.getAll)
        with self._lock:
            self._settle(found)

    @contextmanager
    def with_small_settings(self) -> Iterator[None]:
        """For few rows in a child that is for many too: the first sets them, and the last resets them."""
        self._count_small_user(1)
        try:
            yield
        finally:
            self._count_small_user(-1)

    def _count_small_user(self, more: int) -> None:
        with self._lock:
            self._small_users += more
            self._settle(self._followed)

    def _settle(self, followed: dict[str, str]) -> None:
        self._followed, self._used = followed, time.monotonic()
        wanted = {**followed, **self._own, **(_SMALL if self._small_users else {})}
        conf = self.spark.conf
        for name, value in find_changed_settings(self._has, wanted).items():
            with suppress(PySparkException):  # some hold for the whole application, and nobody may set them
                if value is None:
                    conf.unset(name)
                else:
                    conf.set(name, value)
        self._has = wanted


_BY_USE: WeakKeyDictionary[SparkSession, dict[tuple[str, bool], ChildSession]] = WeakKeyDictionary()
_BY_SESSION: WeakKeyDictionary[SparkSession, ref[ChildSession]] = WeakKeyDictionary()
_ONE = Lock()


def child_of(parent: SparkSession, zone: str = "", is_small: bool = False) -> ChildSession | None:
    """The child of a session; None on a server of Spark Connect that is too old to make one."""
    with _ONE:
        children = _BY_USE.setdefault(parent, {})
        known = children.get((zone, is_small))
        if known is None or (is_remote() and known.is_idle):
            try:
                known = ChildSession(parent, zone, is_small)
            except PySparkException:
                return None
            children[zone, is_small] = known
            _BY_SESSION[known.spark] = ref(known)
        return known


@atexit.register
def _close_channels() -> None:
    """A client of Spark Connect that is collected while Python ends would wait for threads that are gone."""
    for session in list(_BY_SESSION) if is_remote() else ():
        session.client.close()


def is_child(session: SparkSession) -> bool:
    return _child_behind(session) is not None


def _child_behind(session: SparkSession) -> ChildSession | None:
    found = _BY_SESSION.get(session)
    return None if found is None else found()


def create_frame(session: SparkSession, rows: pa.Table, schema: StructType | None = None) -> DataFrame:
    """Rows that are at the driver, as a DataFrame of a session.

    PySpark makes the session that does this the active one of the process, which must stay the user's. So the
    parent does it for a child, which takes the rows as a union with nothing; Spark leaves the union out.
    """
    child = _child_behind(session)
    if child is None or is_remote():
        return session.createDataFrame(rows, schema)
    frame = _take_frame(child, child.parent.createDataFrame(rows, schema))
    described = {f.name: f.metadata for f in schema.fields if f.metadata} if schema is not None else {}
    for name, metadata in described.items():
        frame = frame.withMetadata(name, metadata)
    return frame


def move_frame(session: SparkSession, frame: DataFrame) -> DataFrame:
    """A frame that was made in another session of the same user, to be read in this one."""
    child = _child_behind(session)
    return frame if child is None or frame.sparkSession is session else _take_frame(child, frame)


def _take_frame(child: ChildSession, frame: DataFrame) -> DataFrame:
    return child.nothing.unionByName(frame, allowMissingColumns=True)


class LazyChild:
    """The child sessions for one piece of work: made or brought up to date when it first needs them.

    Few rows have a session of their own, whose settings are in nobody's way. Over Spark Connect, where frames
    cannot move from one session to another, they share that of many rows.
    """

    def __init__(self, parent: SparkSession, zone: str = "") -> None:
        self._parent, self._zone = parent, zone
        self._is_small = False

    @contextmanager
    def run_small_jobs(self) -> Iterator[None]:
        """Plan for few rows while the block runs."""
        if is_remote():
            with nullcontext() if self._child is None else self._child.with_small_settings():
                yield
            return
        before, self._is_small = self._is_small, True
        try:
            yield
        finally:
            self._is_small = before

    @cached_property
    def _for_many(self) -> ChildSession | None:
        return self._find_child(is_small=False)

    @cached_property
    def _for_few(self) -> ChildSession | None:
        return self._find_child(is_small=True)

    def _find_child(self, is_small: bool) -> ChildSession | None:
        child = child_of(self._parent, self._zone, is_small)
        if child is not None:
            child.follow()
        return child

    @property
    def _child(self) -> ChildSession | None:
        return self._for_few if self._is_small else self._for_many

    @property
    def spark(self) -> SparkSession:
        return self._parent if self._child is None else self._child.spark

    def follow_all(self) -> None:
        """Take over all settings of the user, not just those that decide about values."""
        if self._child is not None and not is_remote():
            self._child.follow_all()

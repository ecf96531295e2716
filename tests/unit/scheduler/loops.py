"""A scheduler of a warehouse without stream tables: it looks and decides, and Spark has nothing to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from time import monotonic
from typing import Any, cast

from spark_trickle.lake.cache.column_index import ColumnIndex
from spark_trickle.lake.catalog.lease import SessionLease
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.lake.warehouse import Warehouse
from spark_trickle.scheduler.loop import Scheduler
from spark_trickle.settings import Settings
from spark_trickle.sources.report import SyncReport
from spark_trickle.spark.view_cache import ViewCache
from spark_trickle.txn.work import Place

FAST = Settings(scheduler_interval_ms=10.0)


def idle_scheduler(warehouse: Warehouse, told: list[Alert]) -> Scheduler:
    nothing = cast(Any, None)
    lease = SessionLease(warehouse.engine, "me", timedelta(minutes=30))
    shelf = ColumnIndex(warehouse.storage, 0)
    place = Place(warehouse, nothing, FAST, "main", lease, nothing, ViewCache(), shelf)
    return Scheduler(place, lambda *_: [], lambda name: SyncReport(name, ""), listeners=[told.append])


def until(done: Callable[[], bool]) -> None:
    end = monotonic() + 60
    while not done():
        assert monotonic() < end, "it did not happen"


def goes_on(scheduler: Scheduler) -> None:
    """Until a whole round is over that begins now, or it has ended."""
    ticks = scheduler.ticks
    until(lambda: scheduler.ticks > ticks + 2 or not scheduler.running)

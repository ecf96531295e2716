"""Periodic work of a running scheduler: trim the history, vacuum, and watch the size of buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta

from spark_trickle.errors import TrickleError
from spark_trickle.lake.catalog import reports, scheduling
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.storage.vacuum import Retention, vacuum
from spark_trickle.refresh.resting import advance_resting_streams
from spark_trickle.scheduler.due import World
from spark_trickle.scheduler.streaks import Streaks
from spark_trickle.scheduler.workers import Workers
from spark_trickle.txn.work import Place, now

_LOOK_SECONDS = 10.0
_PRUNE_SECONDS = 60.0

Tell = Callable[[str, str, str], None]  # event, name, message


@dataclass
class Upkeep:
    """Each task at its own pace, and never the same one twice at once."""

    place: Place
    tell: Tell
    merge: Callable[[], None]  # compacts what refreshes left
    workers: Workers
    _done: dict[str, float] = field(default_factory=dict)
    _running: dict[str, Future[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._growing: Streaks[int] = Streaks(self.place.settings.buffer_alert_cycles)

    def run_due_tasks(self, world: World, pool: ThreadPoolExecutor) -> None:
        if self._is_due("buffers", _LOOK_SECONDS):
            self._watch_buffers(world)
        if self._is_due("prune", _PRUNE_SECONDS):
            oldest = now() - timedelta(days=self.place.settings.history_days)
            scheduling.prune_history(self.place.warehouse.engine, oldest)
        self._submit_task("merge", self.merge, pool)
        hours = self.place.settings.vacuum_interval_hours
        if hours and self._is_due("vacuum", hours * 3600, at_once=False):
            self._submit_task("vacuum", self._run_vacuum, pool)

    def _submit_task(self, task: str, run: Callable[[], None], pool: ThreadPoolExecutor) -> None:
        """One at a time of each kind; it takes the place of one refresh."""
        last = self._running.get(task)
        if last is None or last.done():
            self._running[task] = pool.submit(self._run_task, run)

    def _run_task(self, run: Callable[[], None]) -> None:
        with self.workers.measure_work():
            run()

    def _is_due(self, task: str, seconds: float, at_once: bool = True) -> bool:
        here = time.monotonic()
        if here - self._done.setdefault(task, here - seconds if at_once else here) < seconds:
            return False
        self._done[task] = here
        return True

    def _watch_buffers(self, world: World) -> None:
        """Raise one alert for each table of which too many changes wait at several checks in a row."""
        oldest = world.oldest_seen()
        with open_reader(self.place.warehouse.engine) as connection:
            waiting = reports.read_unseen(connection, oldest)
        limit = self.place.settings.buffer_alert_rows
        many = {i: w.rows for i, w in waiting.items() if w.rows > limit}
        for i in sorted(self._growing.note_found(many)):
            name = world.graph.tables[i].full_name
            self.tell(
                "change_buffer_backpressure",
                name,
                f"{many[i]} changed rows wait for stream tables that read them",
            )

    def _run_vacuum(self) -> None:
        try:
            settings = self.place.settings
            retention = Retention(settings.retain_hours, settings.orphan_hours)
            advance_resting_streams(self.place)
            vacuum(self.place.warehouse, now(), retention, None)
        except TrickleError as error:
            self.tell("vacuum_failed", "warehouse", error.message)

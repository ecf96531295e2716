"""Attached sources -> one thread for each, which syncs it at its own pace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Event, Thread

from spark_trickle.errors import Kind, TrickleError
from spark_trickle.scheduler.outage import compute_pause
from spark_trickle.scheduler.streaks import Streaks
from spark_trickle.sources.report import SyncReport

Sync = Callable[[str], SyncReport]
Rest = Callable[[str, float, Event], object]  # the source, seconds, and what ends it at once
Tell = Callable[[str, str, str], None]  # event, name, message


@dataclass
class Followers:
    """One for each source: a slow one does not hold up the others, nor the refreshes."""

    sync: Sync
    tell: Tell
    seconds: float
    rest: Rest = lambda _, seconds, stop: stop.wait(seconds)
    listeners: list[Callable[[SyncReport], object]] = field(default_factory=list)
    cycles: int = 1  # syncs in a row that must find too many waiting changes before that is told
    _running: dict[str, tuple[Thread, Event]] = field(default_factory=dict)
    _wrong: dict[str, str] = field(default_factory=dict)
    _growing: dict[str, Streaks[str]] = field(default_factory=dict)

    def follow(self, names: Iterable[str]) -> None:
        """Follow these sources and no others; a thread that ended by an error begins again."""
        wanted = set(names)
        for name in [n for n, (t, _) in self._running.items() if n not in wanted or not t.is_alive()]:
            self._end_thread(name)
        for name in wanted - set(self._running):
            stop = Event()
            thread = Thread(
                target=self._run_thread, args=(name, stop), name=f"trickle-source-{name}", daemon=True
            )
            self._running[name] = (thread, stop)
            thread.start()

    def stop(self) -> None:
        for _, stop in self._running.values():
            stop.set()
        for name in list(self._running):
            self._end_thread(name)

    def sync_once(self, names: Iterable[str]) -> list[SyncReport]:
        """Bring the changes of these sources now; what fails is told and left for the next time."""
        return [report for name in names if (report := self._sync_source(name)) is not None]

    def _end_thread(self, name: str) -> None:
        thread, stop = self._running.pop(name)
        stop.set()
        thread.join()

    def _run_thread(self, name: str, stop: Event) -> None:
        failures = 0
        while not stop.is_set():
            failures = 0 if self._bring_changes(name) else failures + 1
            self._rest_between(name, compute_pause(self.seconds, failures), stop)

    def _rest_between(self, name: str, seconds: float, stop: Event) -> None:
        try:
            self.rest(name, seconds, stop)
        except TrickleError:  # the catalog is away, or the source is not attached any more
            stop.wait(seconds)

    def _bring_changes(self, name: str) -> bool:
        try:
            return self._sync_source(name) is not None
        except TrickleError:  # telling needs the catalog too; what is still wrong is told next time
            return False

    def _sync_source(self, name: str) -> SyncReport | None:
        try:
            report = self.sync(name)
        except TrickleError as error:
            event = "source_unavailable" if error.kind is Kind.TRANSIENT else "source_failed"
            self._tell_once(name, event, error.message)
            return None
        for table, reason in report.resynced.items():
            self.tell("source_resynced", table, reason)
        growing = self._growing.setdefault(name, Streaks(self.cycles))
        for mirror in sorted(growing.note_found(report.waiting)):
            message = f"more than {report.waiting[mirror]} changes wait in the source {name}"
            self.tell("change_buffer_backpressure", mirror, message)
        trouble = "; ".join(f"{table}: {reason}" for table, reason in sorted(report.problems.items()))
        self._tell_once(name, "source_needs_help", trouble)
        for listener in self.listeners:
            listener(report)
        return report

    def _tell_once(self, name: str, event: str, message: str) -> None:
        if message and self._wrong.get(name) != message:
            self.tell(event, name, message)
        self._wrong[name] = message

"""The scheduler: finds what is due and lets workers refresh it, round by round, until it is stopped."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Event, Thread

from spark_trickle.errors import CatalogBusyError, Kind, SparkLostError, TrickleError, WarehouseError
from spark_trickle.lake.catalog import scheduling, sources, states
from spark_trickle.lake.catalog.engine import open_reader
from spark_trickle.lake.catalog.scheduling import Alert
from spark_trickle.model.stream import RefreshReport, Status
from spark_trickle.refresh.graph import Graph
from spark_trickle.scheduler.due import Plan, Unit, World, plan_refreshes, retry_delay
from spark_trickle.scheduler.followers import Followers, Rest, Sync
from spark_trickle.scheduler.outage import Outage, compute_pause
from spark_trickle.scheduler.survey import survey_world
from spark_trickle.scheduler.upkeep import Upkeep
from spark_trickle.scheduler.workers import Workers
from spark_trickle.sources.report import SyncReport
from spark_trickle.spark.errors import notice_loss
from spark_trickle.spark.session import described
from spark_trickle.txn.work import Place, now

Refresh = Callable[[tuple[int, ...], float | None], list[RefreshReport]]
Listener = Callable[[Alert], None]


@dataclass(frozen=True)
class Tick:
    """What one round did."""

    active: bool  # false if another scheduler holds the lease
    reports: tuple[RefreshReport, ...] = ()
    failures: tuple[tuple[str, str], ...] = ()  # name and error of each stream table that failed
    waiting: int = 0  # stream tables that are not due, or held back
    plan_ms: float = 0.0


@dataclass
class Scheduler:
    """One for a warehouse: a second one stands by and takes over when the first is gone."""

    place: Place
    refresh: Refresh
    sync: Sync
    push: Callable[[], object] = lambda: None
    merge: Callable[[], None] = lambda: None
    await_change: Rest = lambda _, seconds, stop: stop.wait(seconds)
    listeners: list[Listener] = field(default_factory=list)
    report_listeners: list[Callable[[RefreshReport], object]] = field(default_factory=list)
    sync_listeners: list[Callable[[SyncReport], object]] = field(default_factory=list)
    ticks: int = 0
    failure: BaseException | None = None  # what ended it, if nobody asked it to end
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None
    _active: bool = False
    _reached: bool = False  # the catalog answered since it was started
    _outage: Outage = field(default_factory=Outage)
    _told: datetime = field(default_factory=now)
    _graphs: dict[int, Graph] = field(default_factory=dict)
    _stale_alerts: dict[int, datetime] = field(default_factory=dict)
    _unpushed: str = ""  # what kept published tables behind when it was last tried

    def __post_init__(self) -> None:
        settings = self.place.settings
        seconds, cycles = settings.source_sync_interval_ms / 1000, settings.buffer_alert_cycles
        self._workers = Workers(settings.max_concurrent_refreshes, self.place.warehouse.tally)
        self._upkeep = Upkeep(self.place, self._alert_named, self.merge, self._workers)
        self._followers = Followers(
            self.sync, self._alert_named, seconds, self.await_change, self.sync_listeners, cycles
        )

    @property
    def session_id(self) -> str:
        return self.place.storage.session_id

    # --- running -----------------------------------------------------------------------------------

    def start(self) -> Scheduler:
        """Run in the background until `stop`."""
        if self._thread is None or not self._thread.is_alive():
            self._stop.clear()
            self._thread = Thread(target=self._run_in_background, name="trickle-scheduler", daemon=True)
            self._thread.start()
        return self

    def _run_in_background(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Stop once the running refreshes have finished."""
        self._stop.set()
        self.place.warehouse.changed.ring()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Scheduler:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, seconds: float | None = None) -> None:
        """Refresh what is due, until `stop` or for this many seconds."""
        end = None if seconds is None else time.monotonic() + seconds
        workers = self.place.settings.max_concurrent_refreshes
        try:
            with ThreadPoolExecutor(workers, thread_name_prefix="trickle-worker") as pool:
                while not self._stop.is_set() and (end is None or time.monotonic() < end):
                    start = time.perf_counter()
                    heard = self.place.warehouse.changed.heard
                    found, tick = self._attempt_round(pool)
                    if not tick.reports:
                        self._rest_until_due(heard, found, end)
                    self._workers.pass_time((time.perf_counter() - start) * 1000)
        finally:
            self._active = self._reached = False
            self._followers.stop()
            with suppress(CatalogBusyError, WarehouseError):  # then the lease runs out by itself
                scheduling.release_scheduler(self.place.warehouse.engine, self.session_id)

    def tick(self) -> Tick:
        """Run one round: refresh everything that is due now, and nothing else."""
        with ThreadPoolExecutor(self.place.settings.max_concurrent_refreshes) as pool:
            return self._run_round(pool)[1]

    def drain(self, seconds: float = 60.0) -> bool:
        """Refresh until nothing is due any more; False if that takes too long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            heard = self.place.warehouse.changed.heard
            tick = self.tick()
            if tick.active and not tick.reports and not tick.failures:
                return True
            if not tick.active:  # another scheduler is at work
                self._rest_until_due(heard, None, end)
        return False

    def _attempt_round(self, pool: ThreadPoolExecutor) -> tuple[Plan | None, Tick]:
        """A round, or none while the catalog is away; one that never answered is a wrong address."""
        try:
            done = self._run_round(pool, follow=True)
            self._note_outage()
        except CatalogBusyError:  # others are slow; the next round will see
            return None, Tick(False)
        except WarehouseError as error:
            if not self._reached:
                raise
            self._note_loss(error)
            return None, Tick(False)
        self._reached = True
        return done

    def _note_loss(self, error: WarehouseError) -> None:
        self._active = False  # another may have taken over, and died, before it is back
        alert = Alert(now(), "catalog_unavailable", "warehouse", error.message)
        if self._outage.note_failure(alert):
            self._tell_listeners(alert)

    def _note_outage(self) -> None:
        if self._outage.unnoted is not None:
            scheduling.raise_alert(self.place.warehouse.engine, self._outage.unnoted)
        self._outage.note_recovery()

    def _rest_until_due(self, heard: int, found: Plan | None, end: float | None) -> None:
        """Until someone commits here, something falls due, or it is time to look for commits elsewhere."""
        limits = [compute_pause(self.place.settings.scheduler_interval_ms / 1000, self._outage.failures)]
        if found is not None and found.wake is not None:
            limits.append(max(0.0, (found.wake - now()).total_seconds()))
        if end is not None:
            limits.append(max(0.0, end - time.monotonic()))
        self.place.warehouse.changed.wait(heard, min(limits))

    # --- one round ---------------------------------------------------------------------------------

    def _run_round(self, pool: ThreadPoolExecutor, follow: bool = False) -> tuple[Plan | None, Tick]:
        settings, engine = self.place.settings, self.place.warehouse.engine
        if not scheduling.claim_scheduler(engine, self.session_id, now(), settings.scheduler_lease_seconds):
            self._active = False
            self._followers.stop()
            return None, Tick(False)
        if not self._active:
            self._active = True
            for i in scheduling.recover_orphans(engine, self.session_id):
                self._alert_table("orphan_recovered", i, "its refresh was interrupted; it is due again")
        paused, names = self._read_sources()
        if follow:
            self._followers.follow(() if paused else names)
        elif not paused:
            self._followers.sync_once(names)
        start = time.perf_counter()
        world = survey_world(self.place, self._graphs)
        found = plan_refreshes(world, now(), settings)
        took = (time.perf_counter() - start) * 1000
        self.ticks += 1
        reports, failures = self._execute_plan(pool, world, found)
        self._push_published()
        self._watch_staleness(world)
        self._deliver_alerts()
        self._upkeep.run_due_tasks(world, pool)
        return found, Tick(True, tuple(reports), tuple(failures), len(found.waiting), took)

    def _execute_plan(
        self, pool: ThreadPoolExecutor, world: World, found: Plan
    ) -> tuple[list[RefreshReport], list[tuple[str, str]]]:
        """Units that do not read each other run at the same time; the others are due in a later round."""
        reports: list[RefreshReport] = []
        failures: list[tuple[str, str]] = []
        futures: dict[Future[list[RefreshReport]], Unit] = {}
        busy: set[int] = set()
        for unit in found.due:
            if any(a in busy for i in unit.ids for a in world.graph.ancestors(i)):
                continue
            busy.update(unit.ids)
            futures[pool.submit(self._refresh_unit, world, unit)] = unit
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, self.place.settings.scheduler_lease_seconds / 3, FIRST_COMPLETED)
            scheduling.claim_scheduler(
                self.place.warehouse.engine,
                self.session_id,
                now(),
                self.place.settings.scheduler_lease_seconds,
            )
            for future in done:
                try:
                    done_here = [r for r in future.result() if r.action != "NO_DATA"]
                    reports += done_here
                    for listener in self.report_listeners:
                        for report in done_here:
                            listener(report)
                except SparkLostError:
                    raise  # no table is to blame, and nothing works until Spark is started again
                except TrickleError as error:
                    failures.append((self._handle_failure(world, futures[future], error), error.message))
        return reports, failures

    def _refresh_unit(self, world: World, unit: Unit) -> list[RefreshReport]:
        engine = self.place.warehouse.engine
        scheduling.mark_running(engine, unit.ids, self.session_id, now())
        names = ", ".join(world.graph.tables[i].full_name for i in unit.ids)
        since = [s for i in unit.ids if (s := world.standings[i].changed_since) is not None]
        waited = (now() - min(since)).total_seconds() * 1000 if since else None
        try:
            with (
                self._workers.measure_work(),
                notice_loss(),
                described(self.place.spark, f"trickle: refresh {names}"),
            ):
                return self.refresh(unit.ids, waited)
        finally:
            scheduling.mark_done(engine, unit.ids)

    def _handle_failure(self, world: World, unit: Unit, error: TrickleError) -> str:
        """Later again; a stream table that goes on failing is suspended, unless only the moment was bad."""
        engine, settings = self.place.warehouse.engine, self.place.settings
        with open_reader(engine) as connection:
            found = [states.read_state(connection, i) for i in unit.ids]
        failed = max(found, key=lambda s: s.errors_in_a_row)
        name = world.graph.tables[failed.table_id].full_name
        if failed.status is Status.FUSED:
            self._alert_table("fuse_blown", failed.table_id, error.message)
        elif error.kind is not Kind.TRANSIENT and failed.errors_in_a_row >= settings.max_consecutive_errors:
            scheduling.set_status(engine, failed.table_id, Status.SUSPENDED, error.message)
            self._alert_table("auto_suspended", failed.table_id, error.message)
        else:
            later = now() + timedelta(seconds=retry_delay(failed.errors_in_a_row, random.random()))
            scheduling.set_retry(engine, failed.table_id, later)
            self._alert_table("refresh_failed", failed.table_id, error.message)
        return name

    # --- sources -----------------------------------------------------------------------------------

    def _read_sources(self) -> tuple[bool, list[str]]:
        with open_reader(self.place.warehouse.engine) as connection:
            return scheduling.is_paused(connection), [s.name for s in sources.all_sources(connection)]

    def _push_published(self) -> None:
        """Published tables follow; what keeps one of them behind is told once."""
        try:
            self.push()
        except TrickleError as error:
            if error.message != self._unpushed:
                self._alert_named("publish_failed", "published tables", error.message)
            self._unpushed = error.message
        else:
            self._unpushed = ""

    # --- watching ----------------------------------------------------------------------------------

    def _watch_staleness(self, world: World) -> None:
        """Tell once of each stream table that is far behind its schedule."""
        limit = self.place.settings.stale_alert_seconds
        for i, standing in world.standings.items():
            since = standing.changed_since
            if since is None or (now() - since).total_seconds() <= limit:
                self._stale_alerts.pop(i, None)
            elif i not in self._stale_alerts:
                self._stale_alerts[i] = since
                self._alert_table(
                    "stale_data", i, f"has lagged behind its sources since {since:%Y-%m-%d %H:%M:%S} UTC"
                )

    def _alert_table(self, event: str, table_id: int, message: str) -> None:
        with open_reader(self.place.warehouse.engine) as connection:
            name = states.read_name(connection, table_id) or str(table_id)
        self._alert_named(event, name, message)

    def _alert_named(self, event: str, name: str, message: str) -> None:
        scheduling.raise_alert(self.place.warehouse.engine, Alert(now(), event, name, message))

    def _deliver_alerts(self) -> None:
        """Whoever raised it, in whatever process: each alert is told once."""
        if not self.listeners:
            return
        for alert in scheduling.alerts_after(self.place.warehouse.engine, self._told):
            self._told = alert.raised
            if alert != self._outage.told:
                self._tell_listeners(alert)

    def _tell_listeners(self, alert: Alert) -> None:
        for listener in self.listeners:
            listener(alert)

"""The state of all stream tables, and the time -> which are refreshed now, and why the others wait.

Pure: everything that matters is in the arguments, so every decision can be shown and tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from spark_trickle.model.backoff import Backoff
from spark_trickle.model.schedule import Calculated, Cron, Every
from spark_trickle.model.stream import Mode, Status, StreamState
from spark_trickle.model.stream_options import Tier
from spark_trickle.refresh.graph import Graph
from spark_trickle.settings import Settings

_RETRIES = Backoff(1.0, 300.0)
_FACTOR = {Tier.HOT: 1.0, Tier.WARM: 2.0, Tier.COLD: 10.0}
_MOST_BACKOFF = 8.0


@dataclass(frozen=True)
class Standing:
    """What the catalog knows of one stream table."""

    state: StreamState
    last_started: datetime | None = None
    last_duration_ms: float = 0.0
    changed_since: datetime | None = None  # the first change of a source that it has not seen


@dataclass(frozen=True)
class World:
    """What the catalog knows of all of them."""

    graph: Graph
    standings: Mapping[int, Standing]
    gates: frozenset[int] = frozenset()
    held_back: Mapping[int, str] = field(default_factory=dict)  # sources whose watermark lags, and why
    paused: bool = False

    def oldest_seen(self) -> dict[int, int]:
        """For each source the snapshot that all of its readers know."""
        found: dict[int, int] = {}
        for i in self.graph.order:
            knows = self.standings[i].state.knows
            for source in self.graph.reads[i] if knows is not None else ():
                assert knows is not None
                upto = knows.streams if source in self.graph.reads else knows.tables
                found[source] = min(upto, found.get(source, upto))
        return found


@dataclass(frozen=True)
class Unit:
    """Stream tables that are refreshed in one commit."""

    ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Plan:
    due: tuple[Unit, ...]
    waiting: Mapping[int, str]  # why a stream table is not refreshed now
    wake: datetime | None  # when something may be due although nothing else happens


def plan_refreshes(world: World, now: datetime, settings: Settings) -> Plan:
    """The units that are due, those first that have waited longest beyond their schedule."""
    graph, waiting = world.graph, dict[int, str]()
    ripe: dict[int, datetime] = {}
    wakes: list[datetime] = []
    for i in graph.order:
        moment, why = _find_due_time(world, i, now, settings)
        if moment is None or moment > now:
            waiting[i] = why
            wakes += [moment] if moment is not None else []
        else:
            ripe[i] = moment
    units = []
    for group in graph.groups:
        members = [i for i in group if i in ripe]
        if not members:
            continue
        if blocked := next((w for i in group if (w := _find_block(world, i, now))), None):
            waiting.update(dict.fromkeys(members, blocked))
            continue
        chosen = tuple(i for i in group if not _is_immediate(world, i))
        units.append((min(ripe[i] for i in members), Unit(chosen, _explain_wait(world, members, now))))
    ordered = tuple(u for _, u in sorted(units, key=lambda pair: (pair[0], pair[1].ids)))
    return Plan(ordered, waiting, min(wakes, default=None))


def _explain_wait(world: World, members: list[int], now: datetime) -> str:
    since = [world.standings[i].changed_since for i in members]
    waited = max(((now - s).total_seconds() for s in since if s is not None), default=0.0)
    return f"sources changed {waited:.1f} s ago"


def _is_immediate(world: World, i: int) -> bool:
    stream = world.graph.tables[i].stream
    return stream is not None and stream.mode is Mode.IMMEDIATE


def _find_due_time(world: World, i: int, now: datetime, settings: Settings) -> tuple[datetime | None, str]:
    """When a stream table is due, and the reason if that is not now."""
    stream, standing = world.graph.tables[i].stream, world.standings[i]
    assert stream is not None
    if stream.mode is Mode.IMMEDIATE:
        return None, "IMMEDIATE: every commit refreshes it"
    if why := _find_block(world, i, now):
        retry = standing.state.retry_at
        return (retry, why) if retry is not None and retry > now else (None, why)
    filled = standing.state.frontier is not None
    if filled and standing.changed_since is None and not stream.moments:
        return None, "no source changed"
    last = standing.last_started
    if last is None or not filled:
        return now, "not refreshed yet"
    schedule = stream.timing
    if isinstance(schedule, Cron):
        return (at := schedule.find_next(last)), f"cron {schedule.text}: next at {at:%Y-%m-%d %H:%M} UTC"
    seconds = compute_interval(world, i, settings)
    at = last + timedelta(seconds=seconds)
    return at, f"every {seconds:g} s: next at {at:%H:%M:%S} UTC"


def _find_block(world: World, i: int, now: datetime) -> str:
    standing, stream = world.standings[i], world.graph.tables[i].stream
    assert stream is not None
    if world.paused:
        return "all refreshes are paused"
    if standing.state.status in (Status.SUSPENDED, Status.FUSED):
        return f"{standing.state.status}: {standing.state.error or 'resume it'}"
    if stream.options.tier is Tier.FROZEN:
        return "tier frozen"
    if standing.state.retry_at is not None and standing.state.retry_at > now:
        return f"retry after an error at {standing.state.retry_at:%H:%M:%S} UTC"
    for source in world.graph.reads[i]:
        if source in world.gates:
            return f'the gate of "{world.graph.name(source)}" is closed'
        if source in world.held_back:
            return world.held_back[source]
    return ""


def compute_interval(world: World, i: int, settings: Settings) -> float:
    """Seconds between two refreshes: its schedule, slower by tier and where it cannot keep up."""
    stream, standing = world.graph.tables[i].stream, world.standings[i]
    assert stream is not None
    base = read_interval(world, i, settings)
    base *= _FACTOR.get(stream.options.tier, 1.0)
    took = standing.last_duration_ms / 1000
    if settings.auto_backoff and took > base:
        base *= min(_MOST_BACKOFF, took / base)
    return base


def read_interval(world: World, i: int, settings: Settings) -> float:
    """Seconds between two refreshes as its schedule says, whatever its tier."""
    return max(_read_schedule(world, i, settings), settings.min_schedule_seconds)


def _read_schedule(world: World, i: int, settings: Settings) -> float:
    """What is written, or for `calculated` the tightest of all that read it."""
    return min(_list_demands(world, i, settings, set()), default=settings.default_schedule_seconds)


def _list_demands(world: World, i: int, settings: Settings, seen: set[int]) -> list[float]:
    """The schedules that one follows; `seen` keeps a circle from asking itself."""
    stream = world.graph.tables[i].stream
    assert stream is not None
    seen.add(i)
    match stream.timing:
        case Every(seconds):
            return [seconds]
        case Cron():
            return [60.0]
        case Calculated():
            below = [r for r in world.graph.readers.get(i, ()) if not _is_immediate(world, r)]
            if not below:
                return [settings.default_schedule_seconds]
            return [d for r in below if r not in seen for d in _list_demands(world, r, settings, seen)]


def find_lagging(
    groups: Mapping[str, tuple[tuple[int, ...], float]],
    marks: Mapping[int, datetime],
    names: Mapping[int, str],
) -> dict[int, str]:
    """Members of a watermark group that are further apart than it tolerates, and what they wait for."""
    found: dict[int, str] = {}
    for name, (members, tolerance) in sorted(groups.items()):
        known = {i: marks[i] for i in members if i in marks}
        if missing := [i for i in members if i not in marks]:
            why = f'watermark group "{name}": "{names.get(missing[0], missing[0])}" has no watermark yet'
        elif known and (max(known.values()) - min(known.values())).total_seconds() > tolerance:
            behind = min(known, key=lambda i: (known[i], i))
            why = f'watermark group "{name}": "{names.get(behind, behind)}" lags by more than {tolerance:g} s'
        else:
            continue
        found.update(dict.fromkeys(members, why))
    return found


def retry_delay(errors: int, chance: float) -> float:
    """Seconds to wait after failures in a row; `chance` in [0, 1) spreads those that failed together."""
    return _RETRIES.compute_pause(errors) * (0.5 + chance / 2)

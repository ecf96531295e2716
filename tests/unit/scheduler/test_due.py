"""What is due: decisions of the scheduler from states written by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from spark_trickle.model.stream import Mode, Source, Status, Stream, StreamState
from spark_trickle.model.stream_options import StreamOptions, Tier
from spark_trickle.model.table import Table
from spark_trickle.refresh.graph import Graph, graph_of
from spark_trickle.scheduler.due import (
    Standing,
    World,
    compute_interval,
    find_lagging,
    plan_refreshes,
    retry_delay,
)
from spark_trickle.settings import LONGEST_SCHEDULE_SECONDS, Settings

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SETTINGS = Settings()


def table(i: int, reads: tuple[int, ...] = (), **stream: object) -> Table:
    made = Table(i, "main", f"t{i}", (), (), False, "", 1, i + 1000)
    if not reads:
        return made
    given = {"mode": Mode.AUTO, "schedule": "10s", "options": StreamOptions(), **stream}
    defined = Stream(
        "SELECT", "main", sources=tuple(Source(r, ()) for r in reads), nodes=(), plan="", **given
    )  # type: ignore[arg-type]
    return replace(made, stream=defined)


def graph(*tables: Table) -> Graph:
    return graph_of(tables)


def standing(i: int, ago: float = 60.0, changed: float | None = 5.0, **state: object) -> Standing:
    known = {"frontier": 7, "status": Status.ACTIVE, **state}
    since = NOW - timedelta(seconds=changed) if changed is not None else None
    return Standing(StreamState(i, **known), NOW - timedelta(seconds=ago), 100.0, since)  # type: ignore[arg-type]


def world(g: Graph, **standings: Standing) -> World:
    return World(g, {s.state.table_id: s for s in standings.values()})


ONE = graph(table(1), table(10, (1,)))


def test_due_when_its_time_has_come_and_a_source_changed() -> None:
    found = plan_refreshes(world(ONE, a=standing(10)), NOW, SETTINGS)
    assert [u.ids for u in found.due] == [(10,)]
    assert found.due[0].reason == "sources changed 5.0 s ago"


def test_not_due_before_its_time_but_then_it_wakes() -> None:
    found = plan_refreshes(world(ONE, a=standing(10, ago=4)), NOW, SETTINGS)
    assert found.due == ()
    assert found.wake == NOW + timedelta(seconds=6)
    assert found.waiting[10].startswith("every 10 s")


def test_nothing_changed_means_nothing_to_do_and_no_waking() -> None:
    found = plan_refreshes(world(ONE, a=standing(10, changed=None)), NOW, SETTINGS)
    assert (found.due, found.wake) == ((), None)


def test_reasons_to_wait() -> None:
    cases = {
        "SUSPENDED": standing(10, status=Status.SUSPENDED, error="it failed"),
        "FUSED": standing(10, status=Status.FUSED, error="too much"),
        "retry": standing(10, retry_at=NOW + timedelta(seconds=3)),
    }
    for word, known in cases.items():
        found = plan_refreshes(world(ONE, a=known), NOW, SETTINGS)
        assert found.due == ()
        assert word in found.waiting[10]
    gated = replace(world(ONE, a=standing(10)), gates=frozenset((1,)))
    assert plan_refreshes(gated, NOW, SETTINGS).waiting[10] == 'the gate of "main.t1" is closed'
    paused = replace(world(ONE, a=standing(10)), paused=True)
    assert plan_refreshes(paused, NOW, SETTINGS).waiting[10] == "all refreshes are paused"
    late = replace(world(ONE, a=standing(10)), held_back={1: "watermark"})
    assert plan_refreshes(late, NOW, SETTINGS).waiting[10] == "watermark"


def test_an_immediate_one_is_never_due() -> None:
    g = graph(table(1), table(10, (1,), mode=Mode.IMMEDIATE))
    assert "IMMEDIATE" in plan_refreshes(world(g, a=standing(10)), NOW, SETTINGS).waiting[10]


def test_tiers_and_backoff_stretch_the_interval() -> None:
    for tier, seconds in ((Tier.HOT, 10), (Tier.WARM, 20), (Tier.COLD, 100)):
        g = graph(table(1), table(10, (1,), options=StreamOptions(tier=tier)))
        assert compute_interval(world(g, a=standing(10)), 10, SETTINGS) == seconds
    frozen = graph(table(1), table(10, (1,), options=StreamOptions(tier=Tier.FROZEN)))
    assert plan_refreshes(world(frozen, a=standing(10)), NOW, SETTINGS).waiting[10] == "tier frozen"
    slow = replace(standing(10), last_duration_ms=25_000.0)
    assert compute_interval(world(ONE, a=slow), 10, SETTINGS) == 25
    assert compute_interval(world(ONE, a=slow), 10, replace(SETTINGS, auto_backoff=False)) == 10


@pytest.mark.parametrize(
    ("schedule", "settings"),
    [
        ("3650d", SETTINGS),
        ("calculated", replace(SETTINGS, default_schedule_seconds=float(LONGEST_SCHEDULE_SECONDS))),
    ],
)
def test_the_longest_schedule_has_a_date(schedule: str, settings: Settings) -> None:
    g = graph(table(1), table(10, (1,), schedule=schedule, options=StreamOptions(tier=Tier.COLD)))
    slow = replace(standing(10), last_duration_ms=1e18)
    found = plan_refreshes(world(g, a=slow), NOW, settings)
    assert found.wake is not None
    assert found.wake > NOW + timedelta(days=36_500)


def test_calculated_is_the_tightest_of_its_readers() -> None:
    g = graph(
        table(1),
        table(10, (1,), schedule="calculated"),
        table(11, (10,), schedule="5s"),
        table(12, (10,), schedule="3s"),
    )
    known = world(g, a=standing(10), b=standing(11), c=standing(12))
    assert compute_interval(known, 10, SETTINGS) == 3
    alone = world(graph(table(1), table(10, (1,), schedule=None)), a=standing(10))
    assert compute_interval(alone, 10, SETTINGS) == SETTINGS.default_schedule_seconds


def test_cron_is_due_after_its_minute() -> None:
    g = graph(table(1), table(10, (1,), schedule="cron */5 * * * *"))
    assert plan_refreshes(world(g, a=standing(10, ago=30)), NOW, SETTINGS).due != ()
    waiting = plan_refreshes(world(g, a=standing(10, ago=0)), NOW, SETTINGS)
    assert waiting.wake == NOW + timedelta(minutes=5)


def test_a_diamond_is_one_unit_and_the_longest_waiting_come_first() -> None:
    g = graph(table(1), table(10, (1,)), table(11, (1,)), table(12, (10, 11)), table(13, (1,)))
    known = world(g, a=standing(10), b=standing(11), c=standing(12, changed=None), d=standing(13, ago=300))
    assert [u.ids for u in plan_refreshes(known, NOW, SETTINGS).due] == [(13,), (10, 11, 12)]


def test_watermarks_hold_back_what_is_too_far_apart() -> None:
    groups = {"day": ((1, 2), 60.0)}
    names = {1: "main.t1", 2: "main.t2"}
    assert find_lagging(groups, {1: NOW, 2: NOW - timedelta(seconds=59)}, names) == {}
    late = find_lagging(groups, {1: NOW, 2: NOW - timedelta(seconds=61)}, names)
    assert late[1] == late[2] == 'watermark group "day": "main.t2" lags by more than 60 s'
    assert "has no watermark yet" in find_lagging(groups, {1: NOW}, names)[2]


def test_retries_wait_longer_each_time_and_not_for_ever() -> None:
    waits = [retry_delay(n, 0.0) for n in range(20)]
    assert waits == sorted(waits)
    assert waits[-1] == 150
    assert retry_delay(3, 0.99) < 2 * retry_delay(3, 0.0)


def test_calculated_schedules_in_a_circle_follow_those_that_read_it() -> None:
    calculated = {"schedule": None}
    alone = graph(table(1), table(10, (1, 11), **calculated), table(11, (10,), **calculated))
    for i in (10, 11):
        assert compute_interval(world(alone, a=standing(10), b=standing(11)), i, SETTINGS) == 1.0
    read = graph(*alone.tables.values(), table(12, (11,), schedule="7s"))
    for i in (10, 11):
        known = world(read, a=standing(10), b=standing(11), c=standing(12))
        assert compute_interval(known, i, SETTINGS) == 7.0


def test_a_circle_is_due_as_one() -> None:
    circle = graph(table(1), table(10, (1, 11)), table(11, (10,)))
    found = plan_refreshes(world(circle, a=standing(10), b=standing(11, changed=None)), NOW, SETTINGS)
    assert [u.ids for u in found.due] == [(10, 11)]
    held = plan_refreshes(
        world(circle, a=standing(10), b=standing(11, status=Status.SUSPENDED)), NOW, SETTINGS
    )
    assert held.due == ()

"""Which tier fits, from how often a stream table is read; what happens often enough to be told; idle workers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_trickle.lake.catalog.read_counts import ReadCount
from spark_trickle.lake.catalog.tally import Tally
from spark_trickle.model.stream_options import Tier
from spark_trickle.scheduler.streaks import Streaks
from spark_trickle.scheduler.tiers import TableUse, suggest_tier
from spark_trickle.scheduler.workers import Workers

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


HOUR = 3_600.0
# every so many seconds it is refreshed, known since, reads, whether others follow it; the tier and the reason
USES = [
    (60.0, ago(hours=3), None, False, Tier.WARM, "its history is shorter than a day"),
    (60.0, ago(days=3), None, True, Tier.WARM, "other stream tables or a published table depend on it"),
    (60.0, ago(days=3), None, False, Tier.COLD, "nobody has read it in 3 days"),
    (60.0, ago(days=20), None, False, Tier.FROZEN, "nobody has read it in 20 days"),
    (
        60.0,
        ago(days=9),
        ReadCount(500, ago(days=9), ago(days=8)),
        False,
        Tier.FROZEN,
        "nobody has read it for 8 days",
    ),
    (
        60.0,
        ago(days=2),
        ReadCount(2_881, ago(days=2), NOW),
        False,
        Tier.HOT,
        "one read every 60 s, one refresh every 60 s",
    ),
    (
        60.0,
        ago(days=2),
        ReadCount(577, ago(days=2), NOW),
        False,
        Tier.WARM,
        "one read every 300 s, one refresh every 60 s",
    ),
    (
        1.0,
        ago(days=2),
        ReadCount(49, ago(days=2), NOW),
        False,
        Tier.COLD,
        "one read every 3,600 s, one refresh every 1 s",
    ),
    (
        HOUR,
        ago(days=2),
        ReadCount(49, ago(days=2), NOW),
        False,
        Tier.HOT,
        "one read every 3,600 s, one refresh every 3600 s",
    ),
    # read often once, then not for two hours
    (
        60.0,
        ago(days=2),
        ReadCount(999, ago(days=2), ago(hours=2)),
        False,
        Tier.COLD,
        "one read every 7,200 s,",
    ),
]


@pytest.mark.parametrize(("seconds", "since", "reads", "followed", "tier", "reason"), USES)
def test_a_tier_for_every_use(
    seconds: float, since: datetime, reads: ReadCount | None, followed: bool, tier: Tier, reason: str
) -> None:
    found, why = suggest_tier(TableUse(Tier.WARM, seconds, since, reads, followed), NOW)
    assert found is tier
    assert why.startswith(reason)


def test_a_peak_is_not_told() -> None:
    streaks: Streaks[str] = Streaks(3)
    looks: list[list[str]] = [
        ["a"],
        ["a", "b"],
        ["a", "b"],
        ["a"],
        ["a", "b"],
        ["b"],
        ["a", "b"],
        ["a"],
        ["a"],
    ]
    told = [sorted(streaks.note_found(look)) for look in looks]
    assert told == [[], [], ["a"], [], [], [], ["b"], [], ["a"]]


work = st.lists(st.tuples(st.integers(0, 10), st.integers(0, 40)), max_size=20)


@settings(max_examples=50, derandomize=True)
@given(st.integers(1, 4), work)
def test_workers_are_busy_or_idle(count: int, rounds: list[tuple[int, int]]) -> None:
    """Idle time only grows, and with the busy time it is all the time there was."""
    tally = Tally()
    workers, passed, before = Workers(count, tally), 0.0, 0.0
    for ms, busy in rounds:
        workers.work_for(min(busy, count * ms))
        workers.pass_time(ms)
        passed += count * ms
        totals = tally.totals()
        assert totals["worker_idle_ms"] >= before
        assert totals["worker_idle_ms"] + totals["worker_busy_ms"] == pytest.approx(passed)
        before = totals["worker_idle_ms"]

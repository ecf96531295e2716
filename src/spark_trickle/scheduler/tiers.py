"""How often a stream table is read and refreshed -> the tier that would fit, and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from spark_trickle.lake.catalog.read_counts import ReadCount
from spark_trickle.model.stream_options import Tier

_ENOUGH = timedelta(days=1)  # of watching before anything is suggested
_UNUSED = timedelta(days=7)  # without a read, and it need not be kept fresh
_WARM, _COLD = 2.0, 10.0  # refreshes for each read beyond which it is refreshed too often


@dataclass(frozen=True)
class TableUse:
    """What is known of how a stream table is used."""

    tier: Tier
    schedule_seconds: float
    watched_since: datetime | None  # its oldest refresh that is remembered
    reads: ReadCount | None
    followed: bool = False  # by another stream table or a published copy

    def seconds_between_reads(self, now: datetime) -> float | None:
        """None if it was never read; a long silence since the last one counts."""
        if self.reads is None:
            return None
        between = (self.reads.last - self.reads.first).total_seconds() / max(self.reads.count - 1, 1)
        return max(between, (now - self.reads.last).total_seconds())


def suggest_tier(use: TableUse, now: datetime) -> tuple[Tier, str]:
    """The tier it has, unless there is a reason for another."""
    if use.followed:
        return use.tier, "other stream tables or a published table depend on it"
    watched = now - use.watched_since if use.watched_since is not None else timedelta()
    between = use.seconds_between_reads(now)
    if watched < _ENOUGH:
        return use.tier, "its history is shorter than a day"
    if between is None:
        tier = Tier.FROZEN if watched >= _UNUSED else Tier.COLD
        return tier, f"nobody has read it in {watched.days} days"
    if between >= _UNUSED.total_seconds():
        return Tier.FROZEN, f"nobody has read it for {between / 86_400:.0f} days"
    refreshes = between / use.schedule_seconds
    said = f"one read every {between:,.0f} s, one refresh every {use.schedule_seconds:g} s"
    return (Tier.HOT if refreshes <= _WARM else Tier.WARM if refreshes <= _COLD else Tier.COLD), said

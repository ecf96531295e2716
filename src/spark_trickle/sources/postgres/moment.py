"""Snapshots and log positions of PostgreSQL -> which transactions a moment has seen.

A transaction is taken exactly once if it is taken between the last moment that had not seen it and the first
that has. Sequence numbers and transaction ids cannot say this: they are given out long before the commit.
"""

from __future__ import annotations

from dataclasses import dataclass

_HALF = 1 << 31


@dataclass(frozen=True)
class ServerSnapshot:
    """PostgreSQL's pg_snapshot: all below `low`, nothing from `high` on, between them all but `running`."""

    low: int
    high: int
    running: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> ServerSnapshot:
        low, high, running = text.split(":")
        return cls(int(low), int(high), tuple(int(x) for x in running.split(",") if x))

    def __str__(self) -> str:
        return f"{self.low}:{self.high}:{','.join(map(str, self.running))}"

    def sees(self, xid: int) -> bool:
        """Whether the transaction had ended by then; the same rule as pg_visible_in_snapshot."""
        return xid < self.low or (xid < self.high and xid not in self.running)

    def widen(self, xid: int) -> int:
        """The full id of a transaction of this time, of which the log gives only the lower 32 bits."""
        near = (self.high & ~0xFFFFFFFF) | xid
        if near - self.high > _HALF:
            return near - (1 << 32)
        return near + (1 << 32) if self.high - near > _HALF else near


@dataclass(frozen=True)
class Moment:
    """A snapshot, and a position in the log after the commits of all that it has seen."""

    snapshot: ServerSnapshot
    lsn: int

    def has_seen(self, xid: int, commit_lsn: int) -> bool:
        """Whether it has seen a transaction of the log, known by 32 bits of its id and where it committed."""
        # Beyond the position the short id could belong to another time, and nothing can have been seen.
        return commit_lsn < self.lsn and self.snapshot.sees(self.snapshot.widen(xid))


def parse_lsn(text: str) -> int:
    high, low = text.split("/")
    return (int(high, 16) << 32) | int(low, 16)


def show_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"

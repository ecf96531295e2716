"""Offsets of a topic <-> the version of a table; how much of a topic one batch reads, and what was lost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # of topics whose brokers know no ids


@dataclass(frozen=True)
class Offsets:
    """For each partition the offset of the next record; `topic` is the id of the topic."""

    topic: str = ""
    next: Mapping[int, int] = field(default_factory=dict)

    def to_text(self) -> str:
        ordered = {str(p): self.next[p] for p in sorted(self.next)}
        return json.dumps({"topic": self.topic, "next": ordered}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Offsets:
        if not text:
            return cls()
        value = json.loads(text)
        return cls(value["topic"], {int(p): offset for p, offset in value["next"].items()})


@dataclass(frozen=True)
class Gap:
    """Records of one partition that were deleted before they were read."""

    partition: int
    first: int
    end: int

    @property
    def reason(self) -> str:
        return (
            f"the offsets {self.first} to {self.end - 1} of partition {self.partition} were deleted"
            " before they were read"
        )


@dataclass(frozen=True)
class RecordRange:
    """The records from `begin` up to `end`; `waiting` come after them, as far as offsets tell."""

    begin: Mapping[int, int]
    end: Mapping[int, int]
    waiting: int

    @property
    def size(self) -> int:
        return sum(self.end[p] - self.begin[p] for p in self.end)


def find_loss(after: Offsets, upto: Offsets, earliest: Mapping[int, int]) -> str:
    """Why a topic cannot be read on from where we are, or nothing."""
    if after.topic and after.topic != upto.topic:
        return "the topic was deleted and created again"
    if missing := sorted(set(after.next) - set(upto.next)):
        return f"partition {missing[0]} is gone: the topic was deleted and created again"
    for partition in sorted(after.next):
        read, end = after.next[partition], upto.next[partition]
        if end < read:
            return (
                f"partition {partition} ends at offset {end}, and was read up to {read}:"
                " records were lost, or the topic was deleted and created again"
            )
    gaps = find_gaps(after, earliest)
    return "; ".join(gap.reason for gap in gaps)


def ends_before(after: Offsets, upto: Offsets) -> bool:
    """Whether a topic ends before what was read, as it may for a moment while its leader changes."""
    same = after.topic == upto.topic
    return same and any(upto.next.get(p, 0) < offset for p, offset in after.next.items())


def find_restart(after: Offsets, upto: Offsets) -> Offsets:
    """Where reading goes on after a loss: a topic that was made again is read from its beginning."""
    is_same = after.topic == upto.topic and upto.topic != _NO_ID and after.next.keys() <= upto.next.keys()
    if not is_same:
        return Offsets()
    return Offsets(after.topic, {p: min(offset, upto.next[p]) for p, offset in after.next.items()})


def find_gaps(after: Offsets, earliest: Mapping[int, int]) -> tuple[Gap, ...]:
    """What retention deleted; before the first reading nothing is missed."""
    if not after.topic:
        return ()
    known = {p: after.next.get(p, 0) for p in earliest}
    return tuple(Gap(p, known[p], earliest[p]) for p in sorted(earliest) if earliest[p] > known[p])


def choose_range(after: Offsets, upto: Offsets, earliest: Mapping[int, int], most: int) -> RecordRange:
    """The next records, at most so many; partitions that have more behind them give more."""
    begin = {p: max(after.next.get(p, 0), min(earliest[p], upto.next[p])) for p in upto.next}
    begin = {p: min(begin[p], upto.next[p]) for p in begin}
    there = {p: upto.next[p] - begin[p] for p in begin}
    total = sum(there.values())
    if total <= most:
        return RecordRange(begin, dict(upto.next), 0)
    shares: dict[int, int] = {}
    rest = most
    for partition in sorted(there, key=lambda p: (there[p], p)):
        left = len(there) - len(shares)
        shares[partition] = min(there[partition], -(-rest // left))
        rest -= shares[partition]
    return RecordRange(begin, {p: begin[p] + shares[p] for p in begin}, total - most)

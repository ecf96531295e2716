"""Offsets of partitions: versions, batches and losses, by data and by random topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.sources.kafka.offsets import (
    Gap,
    Offsets,
    choose_range,
    ends_before,
    find_gaps,
    find_loss,
    find_restart,
)


def test_a_version_is_one_text() -> None:
    text = Offsets("id", {10: 5, 2: 7}).to_text()
    assert text == '{"topic":"id","next":{"2":7,"10":5}}'
    assert Offsets.from_text(text) == Offsets("id", {2: 7, 10: 5})
    assert Offsets.from_text("") == Offsets()


LOSSES = [
    (Offsets(), Offsets("a", {0: 9}), {0: 5}, ""),
    (Offsets("a", {0: 5}), Offsets("a", {0: 9}), {0: 5}, ""),
    (Offsets("a", {0: 5}), Offsets("a", {0: 9, 1: 2}), {0: 5, 1: 0}, ""),
    (Offsets("a", {0: 5}), Offsets("a", {0: 9}), {0: 6}, "offsets 5 to 5 of partition 0"),
    (Offsets("a", {0: 5}), Offsets("a", {0: 9, 1: 2}), {0: 5, 1: 1}, "offsets 0 to 0 of partition 1"),
    (Offsets("a", {0: 5}), Offsets("b", {0: 9}), {0: 0}, "created again"),
    (Offsets("a", {0: 5}), Offsets("a", {0: 4}), {0: 0}, "ends at offset 4"),
    (Offsets("a", {0: 5, 1: 0}), Offsets("a", {0: 5}), {0: 0}, "partition 1 is gone"),
]


@pytest.mark.parametrize(("after", "upto", "earliest", "words"), LOSSES)
def test_what_is_lost(after: Offsets, upto: Offsets, earliest: dict[int, int], words: str) -> None:
    reason = find_loss(after, upto, earliest)
    assert words in reason
    assert bool(words) == bool(reason)


def test_where_reading_goes_on() -> None:
    before = Offsets("a", {0: 5, 1: 3})
    assert find_restart(before, Offsets("b", {0: 9, 1: 9})) == Offsets()
    assert find_restart(before, Offsets("a", {0: 4, 1: 9})) == Offsets("a", {0: 4, 1: 3})
    assert find_gaps(before, {0: 7, 1: 3}) == (Gap(0, 5, 7),)
    nameless = "A" * 22
    assert find_restart(Offsets(nameless, {0: 5}), Offsets(nameless, {0: 4})) == Offsets()


@pytest.mark.parametrize(
    ("after", "upto", "expected"),
    [
        (Offsets("a", {0: 5}), Offsets("a", {0: 4}), True),
        (Offsets("a", {0: 5}), Offsets("a", {0: 5}), False),
        (Offsets("a", {0: 5, 1: 1}), Offsets("a", {0: 5}), True),
        (Offsets("a", {0: 5}), Offsets("b", {0: 4}), False),
        (Offsets(), Offsets("a", {0: 4}), False),
    ],
)
def test_a_topic_that_ends_before_what_was_read(after: Offsets, upto: Offsets, expected: bool) -> None:
    assert ends_before(after, upto) is expected


_topics = st.lists(st.tuples(*[st.integers(0, 50)] * 3), min_size=1, max_size=5)


@given(_topics, st.integers(1, 60))
def test_batches_read_everything_once(partitions: list[tuple[int, int, int]], most: int) -> None:
    """Whatever retention leaves and however small the batches are."""
    ordered = [sorted(p) for p in partitions]
    earliest = {n: p[0] for n, p in enumerate(ordered)}
    after = Offsets("a", {n: p[1] for n, p in enumerate(ordered) if n % 2})
    upto = Offsets("a", {n: p[2] for n, p in enumerate(ordered)})
    start = {n: max(after.next.get(n, 0), earliest[n]) for n in earliest}
    expected = {(n, o) for n in start for o in range(start[n], upto.next[n])}
    read: list[tuple[int, int]] = []
    while True:
        batch = choose_range(after, upto, earliest, most)
        read += [(n, o) for n in batch.begin for o in range(batch.begin[n], batch.end[n])]
        assert batch.size == min(most, batch.size + batch.waiting)
        assert len(read) + batch.waiting == len(expected)
        if not batch.waiting:
            break
        after = Offsets("a", batch.end)
    assert batch.end == upto.next
    assert len(read) == len(set(read))
    assert set(read) == expected

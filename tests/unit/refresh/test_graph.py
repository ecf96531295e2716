"""Who reads whom: order, diamonds, groups and cycles, on graphs written by hand and at random."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.refresh.graph import Graph

# 1 and 2 are tables; 10 and 11 read 1; 12 reads both of them; 13 reads 12 and 2; 14 reads 2.
SHOP = Graph({}, {10: (1,), 11: (1,), 12: (10, 11), 13: (12, 2), 14: (2,)})


def test_order_and_ways() -> None:
    assert SHOP.order == (10, 11, 14, 12, 13)
    assert SHOP.ancestors(13) == (10, 11, 12)
    assert SHOP.descendants(1) == (10, 11, 12, 13)
    assert SHOP.descendants(2) == (14, 13)


def test_a_diamond_moves_on_together() -> None:
    assert [i for i in SHOP.order if SHOP.is_diamond(i)] == [12]
    assert SHOP.groups == ((10, 11, 12), (14,), (13,))


def test_a_join_of_a_table_and_what_is_derived_from_it_is_a_diamond() -> None:
    graph = Graph({}, {10: (1,), 11: (1, 10)})
    assert graph.is_diamond(11)
    assert not graph.is_diamond(10)


def test_a_chain_is_no_diamond() -> None:
    graph = Graph({}, {10: (1, 2), 11: (10,), 12: (11,)})
    assert graph.groups == ((10,), (11,), (12,))


def test_a_cycle_is_told_by_its_way() -> None:
    assert SHOP.cycle_through(10, [12]) in ((10, 12, 10), (10, 12, 11, 10))
    assert SHOP.cycle_through(10, [10]) == (10, 10)
    assert SHOP.cycle_through(13, [1, 10]) is None


@given(st.lists(st.sets(st.integers(0, 19)), min_size=1, max_size=20))
def test_every_stream_table_comes_after_what_it_reads(reads: list[set[int]]) -> None:
    """Stream table 100 + n reads any of the first n, or tables."""
    graph = Graph(
        {}, {100 + n: tuple(100 + r if r < n else r for r in sorted(s)) for n, s in enumerate(reads)}
    )
    place = {i: n for n, i in enumerate(graph.order)}
    assert sorted(place) == sorted(graph.reads)
    for i in graph.order:
        assert all(place[s] < place[i] for s in graph.streams_read_by(i))
        assert graph.cycle_through(i, graph.reads[i]) is None
    together = {i: group for group in graph.groups for i in group}
    for i in graph.order:
        if graph.is_diamond(i):
            assert set(graph.ancestors(i)) <= set(together[i])

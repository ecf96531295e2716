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


# 10 and 11 read each other and table 1; 12 reads both; 13 reads itself and 14, which reads table 2.
CIRCLES = Graph({}, {10: (1, 11), 11: (10,), 12: (10, 11), 13: (13, 14), 14: (2,)})


def test_a_circle_is_one_step_of_the_order() -> None:
    assert CIRCLES.circles == ((10, 11), (13,))
    assert CIRCLES.circle_of(11) == (10, 11)
    assert CIRCLES.circle_of(12) == ()
    assert CIRCLES.order == (10, 11, 14, 12, 13)
    assert CIRCLES.units((14, 11, 12, 10)) == ((14,), (10, 11), (12,))


def test_ways_through_a_circle_end() -> None:
    assert CIRCLES.ancestors(10) == (11,)
    assert CIRCLES.ancestors(12) == (10, 11)
    assert CIRCLES.ancestors(13) == (14,)
    assert CIRCLES.descendants(11) == (10, 12)
    assert CIRCLES.descendants(13) == ()
    assert CIRCLES.cycle_through(14, [12]) is None
    assert CIRCLES.cycle_through(10, [12]) in ((10, 12, 10), (10, 12, 11, 10))


def test_a_circle_moves_on_together_with_what_it_reads() -> None:
    assert CIRCLES.groups == ((10, 11, 12), (14, 13))
    assert CIRCLES.with_reads(10, [1]).circles == ((13,),)


@given(st.lists(st.sets(st.integers(0, 11)), min_size=1, max_size=12))
def test_any_graph_has_an_order(reads: list[set[int]]) -> None:
    """Stream table n reads any others, itself among them."""
    graph = Graph({}, {n: tuple(sorted(s)) for n, s in enumerate(reads)})
    place = {i: n for n, i in enumerate(graph.order)}
    assert sorted(place) == sorted(graph.reads)
    together = {i: group for group in graph.groups for i in group}
    for i in graph.order:
        circle = graph.circle_of(i)
        assert all(place[s] < place[i] for s in graph.streams_read_by(i) if s not in circle)
        assert bool(circle) == (graph.cycle_through(i, graph.reads[i]) is not None)
        assert set(circle) <= set(together[i])
        assert all(set(graph.ancestors(m)) | {m} == set(graph.ancestors(i)) | {i} for m in circle)

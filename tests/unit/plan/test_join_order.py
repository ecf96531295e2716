"""Inner joins in another order: what is connected, where filters go, and where a change begins."""

from __future__ import annotations

from spark_trickle.algebra.operators import At, Expr, Filter, Join, JoinKind, Operator, Project, Scan
from spark_trickle.plan.join_order import connect_joins, order_joins
from spark_trickle.plan.sizes import Sizes

ROWS = {"t1": 1_000_000, "t2": 10_000, "t3": 25}
KEYS = {"t1": ("id",), "t2": ("id",), "t3": ("id",)}


def scan(number: int, at: At = At.NEW) -> Scan:
    return Scan(f"t{number}", tuple((f"{c}{number}", c) for c in ("id", "ref", "v")), at)


def cross(left: Operator, right: Operator) -> Join:
    return Join(left, right, JoinKind.INNER)


def where(op: Operator, text: str, *columns: str) -> Filter:
    return Filter(op, Expr(text, frozenset(columns)))


def sizes(few: int = 1000) -> Sizes:
    return Sizes(ROWS.__getitem__, lambda _: 10, KEYS.__getitem__, few)


def test_tables_without_a_condition_in_common_wait_for_one_that_connects_them() -> None:
    query = where(
        cross(cross(scan(2), scan(3)), scan(1)),
        "`ref1` = `id2` AND `id3` = `v1` AND `v2` > 5",
        "ref1",
        "id2",
        "id3",
        "v1",
        "v2",
    )
    made = connect_joins(query)
    assert made.columns == query.columns
    assert isinstance(made, Project)
    last = made.input
    assert isinstance(last, Join)
    assert (last.right.sources, len(last.keys), last.residual) == ({"t3"}, 1, None)
    first = last.left
    assert isinstance(first, Join)
    assert [k.right.sql for k in first.keys] == ["`ref1`"]
    assert isinstance(first.left, Filter)
    assert first.left.predicate.sql == "`v2` > 5"


def test_a_condition_over_two_tables_that_is_no_equality_is_tested_by_their_join() -> None:
    made = connect_joins(
        where(cross(scan(1), scan(2)), "`v1` < `v2` AND `ref1` = `id2`", "v1", "v2", "ref1", "id2")
    )
    assert isinstance(made, Join)
    assert made.residual is not None
    assert (made.residual.sql, len(made.keys)) == ("`v1` < `v2`", 1)


def test_an_outer_join_is_a_relation_like_others() -> None:
    outer = Join(scan(1), scan(2), JoinKind.LEFT)
    made = connect_joins(where(cross(outer, scan(3)), "`v1` = `id3` AND `v2` = 1", "v1", "id3", "v2"))
    assert isinstance(made, Join)
    assert isinstance(made.left, Filter)
    assert made.left.input == outer


def test_a_change_comes_first_and_small_tables_next() -> None:
    plan = connect_joins(
        where(
            cross(cross(scan(1), scan(2)), scan(3)),
            "`ref1` = `id2` AND `ref2` = `id3`",
            "ref1",
            "id2",
            "ref2",
            "id3",
        )
    )
    assert isinstance(plan, Join)
    inner = plan.left
    assert isinstance(inner, Join)
    delta = Join(
        Join(scan(1), scan(2, At.DELTA), JoinKind.INNER, inner.keys), scan(3), JoinKind.INNER, plan.keys
    )
    made = order_joins(delta, sizes())
    assert made.columns == delta.columns
    assert isinstance(made, Project)
    outermost = made.input
    assert isinstance(outermost, Join)
    assert outermost.right.sources == {"t1"}
    assert outermost.broadcast
    second = outermost.left
    assert isinstance(second, Join)
    assert second.left == scan(2, At.DELTA)


def test_what_may_have_become_many_rows_is_not_sent_around() -> None:
    """A row of a small table meets many of a large one."""
    pair = connect_joins(where(cross(scan(3), scan(1)), "`id3` = `v1`", "id3", "v1"))
    assert isinstance(pair, Join)
    last = connect_joins(where(cross(scan(1), scan(2)), "`ref1` = `id2`", "ref1", "id2"))
    assert isinstance(last, Join)
    delta = Join(
        Join(scan(3, At.DELTA), scan(1), JoinKind.INNER, pair.keys), scan(2), JoinKind.INNER, last.keys
    )
    made = order_joins(delta, sizes(few=1000))
    assert isinstance(made, Join)
    assert not made.broadcast
    assert isinstance(made.left, Join)
    assert made.left.broadcast


def test_content_keeps_its_order() -> None:
    plan = cross(scan(1), scan(2))
    assert order_joins(plan, sizes()) == plan


def test_a_key_with_many_values_goes_before_one_with_few_wherever_that_is_known() -> None:
    """Ten suppliers find more customers by their nation than lines by their number."""
    rows = {"t1": 6_000_000, "t2": 150_000, "t3": 25, "t4": 10_000}
    lines, customers, nations, suppliers = scan(1), scan(2), scan(3), scan(4, At.DELTA)
    query = where(
        cross(cross(cross(suppliers, customers), lines), nations),
        "`ref2` = `ref4` AND `ref1` = `id4` AND `ref4` = `id3`",
        *("ref1", "ref2", "ref4", "id3", "id4"),
    )
    known = Sizes(rows.__getitem__, lambda _: 10, lambda _: ("id",), 1000)
    order = []
    made = order_joins(connect_joins(query), known)
    while not isinstance(made, Join):
        made = made.inputs[0]
    while isinstance(made, Join):
        order.insert(0, *made.right.sources)
        made = made.left
    assert order == ["t3", "t1", "t2"]

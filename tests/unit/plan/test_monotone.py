"""What may stand in a circle: operators that only add, and a DISTINCT on every way around."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_trickle.algebra.expressions import TRUE, Comparison, Opaque, integer
from spark_trickle.algebra.operators import (
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    Scan,
    SetKind,
    SetOperation,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import NodeRef, RoundRef, TableRef
from spark_trickle.algebra.stateful_operators import Aggregate, Call, Recursive, TopK, Window
from spark_trickle.errors import CircleRefusedError
from spark_trickle.model.stream import Mode
from spark_trickle.model.table import Table
from spark_trickle.plan.monotone import find_taking_operator, sources_kept_as_bags
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.refresh.circular_definition import check_growth, check_member, check_mode

MEMBER, OTHER = Scan(TableRef(1), (("a", "x"),)), Scan(TableRef(2), (("b", "x"),))
CIRCLE = frozenset((TableRef(1),))
ON = (KeyPair(column("a"), column("b")),)
COUNTED = Aggregate(MEMBER, (Output("k", column("a")),), (), "n")
DISTINCT = Project(COUNTED, (Output("k", column("k")),))
SUM = Call("s", Opaque("sum(`a`)", frozenset("a")))


def join(left: Operator, right: Operator, kind: JoinKind) -> Join:
    keys = ON if left is MEMBER else (KeyPair(column("b"), column("a")),)
    return Join(left, right, kind, keys, mark="m" if kind is JoinKind.MARK else None)


ADDING: dict[str, Operator] = {
    "filter": Filter(MEMBER, Comparison(">", column("a"), integer(1))),
    "union": UnionAll((MEMBER, OTHER, Constant(("c",), ((integer(1),),)))),
    "inner": join(MEMBER, OTHER, JoinKind.INNER),
    "semi right": join(OTHER, MEMBER, JoinKind.SEMI),
    "distinct": DISTINCT,
    "explode": Generate(MEMBER, Opaque("explode(`a`)", frozenset("a")), ("e",)),
    "intersect": SetOperation(MEMBER, OTHER, SetKind.INTERSECT),
    "anti left": join(MEMBER, OTHER, JoinKind.ANTI),
    "outer left": join(MEMBER, OTHER, JoinKind.LEFT),
    "except left": SetOperation(MEMBER, OTHER, SetKind.EXCEPT),
    "sums outside": join(MEMBER, Aggregate(OTHER, (), (SUM,), "n"), JoinKind.INNER),
}
TAKING: dict[str, tuple[Operator, str]] = {
    "sum": (Aggregate(MEMBER, (Output("k", column("a")),), (SUM,), "n"), "an aggregate"),
    "count": (Project(COUNTED, (Output("n2", column("n")),)), "an aggregate"),
    "exists": (Aggregate(MEMBER, (), (), "n"), "EXISTS"),
    "anti right": (join(OTHER, MEMBER, JoinKind.ANTI), "NOT IN"),
    "outer right": (join(OTHER, MEMBER, JoinKind.LEFT), "an outer join"),
    "full": (join(MEMBER, OTHER, JoinKind.FULL), "an outer join"),
    "mark": (join(OTHER, MEMBER, JoinKind.MARK), "a subquery"),
    "except": (SetOperation(OTHER, MEMBER, SetKind.EXCEPT_ALL), "EXCEPT"),
    "window": (Window(MEMBER, (), (Output("r", Opaque("rank()")),)), "a window"),
    "limit": (TopK(MEMBER, (), 3), "LIMIT"),
    "recursion": (Recursive(MEMBER, OTHER, RoundRef(1), True), "WITH RECURSIVE"),
    "above": (Window(DISTINCT, (), (Output("r", Opaque("rank()")),)), "a window"),
}


@pytest.mark.parametrize("name", ADDING)
def test_more_rows_make_more_rows(name: str) -> None:
    assert find_taking_operator(split_into_nodes(ADDING[name]), CIRCLE) is None


@pytest.mark.parametrize("name", TAKING)
def test_more_rows_may_take_rows_away(name: str) -> None:
    plan, word = TAKING[name]
    assert (find_taking_operator(split_into_nodes(plan), CIRCLE) or "").startswith(word)
    assert find_taking_operator(split_into_nodes(plan), frozenset((TableRef(9),))) is None
    with pytest.raises(CircleRefusedError, match=word):
        check_member(table(1), split_into_nodes(plan), {1: split_into_nodes(plan)})


def test_what_grows_outside_is_judged_in_the_same_way() -> None:
    assert find_taking_operator(split_into_nodes(ADDING["anti left"]), frozenset((TableRef(2),))) is not None
    assert find_taking_operator(split_into_nodes(ADDING["inner"]), frozenset((TableRef(2),))) is None


def test_rows_are_repeated_unless_a_distinct_is_between() -> None:
    both = frozenset((TableRef(1), TableRef(2)))
    assert sources_kept_as_bags(split_into_nodes(MEMBER), both) == {TableRef(1)}
    assert sources_kept_as_bags(split_into_nodes(DISTINCT), both) == frozenset()
    assert sources_kept_as_bags(split_into_nodes(join(OTHER, MEMBER, JoinKind.SEMI)), both) == {TableRef(2)}
    # One way passes a DISTINCT, the other does not.
    mixed = UnionAll((DISTINCT, Filter(replace(MEMBER), TRUE)))
    assert sources_kept_as_bags(split_into_nodes(mixed), both) == {TableRef(1)}


def test_every_way_around_needs_a_distinct() -> None:
    tables = {1: table(1), 2: table(2)}
    reads_one, reads_two = split_into_nodes(MEMBER), split_into_nodes(OTHER)
    check_growth(tables, {1: reads_two, 2: split_into_nodes(DISTINCT)})
    with pytest.raises(CircleRefusedError, match="DISTINCT") as caught:
        check_growth(tables, {1: reads_two, 2: reads_one})
    assert "UNION" in caught.value.hint
    # Two circles share a member; only one of them has a DISTINCT.
    with pytest.raises(CircleRefusedError):
        check_growth(tables, {1: split_into_nodes(UnionAll((MEMBER, OTHER))), 2: split_into_nodes(DISTINCT)})


def test_immediate_members_are_refused() -> None:
    check_mode(table(1), Mode.AUTO)
    with pytest.raises(CircleRefusedError, match="IMMEDIATE"):
        check_mode(table(1), Mode.IMMEDIATE)


def table(i: int) -> Table:
    return Table(i, "main", f"t{i}", (), (), False, "", 1, i + 1000)


def test_nodes_carry_it_on() -> None:
    nodes = (Node(NodeRef(1), COUNTED), Node(NodeRef(2), TopK(Scan(NodeRef(1), (("k", "k"),)), (), 3)))
    assert find_taking_operator(nodes, CIRCLE) == "LIMIT"

"""The passes in their order, and what each of them needs to know."""

from __future__ import annotations

import pytest

from spark_trickle.algebra.change_operators import Signed
from spark_trickle.algebra.operators import (
    At,
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Scan,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import NodeRef, Reference, TableRef
from spark_trickle.algebra.stateful_operators import Aggregate
from spark_trickle.errors import InternalError
from spark_trickle.plan.pipeline import (
    CHANGE,
    CONTENT,
    DEFINITION,
    FOR_SPARK,
    Context,
    Pass,
    Stage,
    Tree,
    plan_trees,
    run_passes,
)

T1, T2, N1 = TableRef(1), TableRef(2), NodeRef(1)
ORDERS, SHOPS = Scan(T1, (("a", "a"), ("s", "s"))), Scan(T2, (("z", "z"), ("c", "c")))
JOINED = Join(ORDERS, SHOPS, JoinKind.INNER, (KeyPair(column("s"), column("z")),))
BY_CITY = Aggregate(JOINED, (Output("city", column("c")),), (), "n")
NODE = (Tree(JOINED, N1),)


def test_every_pass_has_a_name_of_its_own() -> None:
    names = [each.name for passes in (DEFINITION, CHANGE, CONTENT, FOR_SPARK) for each in passes]
    assert len(set(names)) == len(names)


def test_stages_are_what_a_refresh_runs() -> None:
    context = Context(frozenset((T1,)))
    stages = run_passes(Stage("split", "", NODE), (*CHANGE, *FOR_SPARK), context)
    assert [s.name for s in stages[1:]] == [p.name for p in (*CHANGE, *FOR_SPARK)]
    assert stages[-1].trees == plan_trees(NODE, (*CHANGE, *FOR_SPARK), context)


def _moments(plan: Operator) -> set[tuple[Reference, At]]:
    return {(op.source, op.moment) for op in plan.walk() if isinstance(op, Scan)}


def test_only_what_changed_has_a_term() -> None:
    (one,) = plan_trees(NODE, CHANGE, Context(frozenset((T1,))))
    assert _moments(one.plan) == {(T1, At.DELTA), (T2, At.NEW)}
    (both,) = plan_trees(NODE, CHANGE, Context())
    assert _moments(both.plan) == {(T1, At.DELTA), (T2, At.NEW), (T1, At.OLD), (T2, At.DELTA)}
    assert plan_trees(NODE, CHANGE, Context(frozenset((TableRef(9),)))) == ()


def test_what_the_driver_finds_empty_is_left_out() -> None:
    def without_shops(plan: Operator) -> Operator | None:
        return plan.parts[0] if isinstance(plan, UnionAll) else plan

    (left,) = plan_trees(NODE, (*CHANGE, *FOR_SPARK), Context(reduce=without_shops))
    assert _moments(left.plan) == {(T1, At.DELTA), (T2, At.NEW)}
    assert plan_trees(NODE, (*CHANGE, *FOR_SPARK), Context(reduce=lambda _: None)) == ()


def test_steps_come_before_the_rest_and_have_names() -> None:
    trees = plan_trees((Tree(BY_CITY, N1),), (*CHANGE, *FOR_SPARK), Context())
    assert trees[-1].step is None
    assert [t.label for t in trees] == [*(f"n1 {t.step}" for t in trees[:-1]), "n1"]


def test_content_is_compared_only_where_it_is_asked_for() -> None:
    (alone,) = plan_trees(NODE, CONTENT, Context())
    assert alone.plan == Signed(JOINED, 1)
    (compared,) = plan_trees(NODE, CONTENT, Context(compared=True))
    assert isinstance(compared.plan, UnionAll)
    assert _moments(compared.plan) == {(T1, At.NEW), (T2, At.NEW), (N1, At.OLD)}


def test_filters_and_names_go_through_a_definition() -> None:
    query = (Tree(Filter(BY_CITY, column("city"))),)
    assert [t.label for t in plan_trees(query, DEFINITION, Context())] == ["n1", "n2"]


def test_a_pass_that_breaks_a_plan_is_found_out() -> None:
    """Here as in all tests: `tests/conftest.py` switches it on."""
    broken = Pass("break", "", lambda trees, _: (Tree(Filter(BY_CITY, column("nowhere"))),))
    with pytest.raises(InternalError, match="names nowhere"):
        plan_trees(NODE, (broken,), Context())

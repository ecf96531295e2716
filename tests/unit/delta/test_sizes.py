"""How large the change of a join becomes with its depth: trees and texts must not grow faster than they do now."""

from __future__ import annotations

import pytest

from benchmarks.joins import change_of, join_node
from spark_trickle.algebra.operators import Join, JoinKind, KeyPair, Operator, Scan, column
from spark_trickle.algebra.references import TableRef
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.plan.arrange import arrange_change
from spark_trickle.plan.join_order import order_joins
from spark_trickle.plan.sizes import Sizes
from spark_trickle.plan.steps import with_steps
from spark_trickle.sql.render.query import render

# Tables of the join -> operators and characters if all of them changed, and if only one did.
SIZES = {
    2: ((11, 1_000), (6, 450)),
    4: ((31, 3_900), (10, 1_100)),
    6: ((59, 8_800), (14, 1_900)),
    8: ((95, 16_200), (18, 2_900)),
}


# The same for a chain of outer joins of which every table changed: parts, steps, and all texts together.
OUTER = {2: (43, 1, 3_500), 4: (101, 3, 8_300), 8: (265, 7, 23_400), 16: (785, 15, 83_000)}


@pytest.mark.parametrize("depth", OUTER)
def test_the_change_of_many_outer_joins(depth: int) -> None:
    """Each join touches the keys of those before it; what they have in common is there once."""
    names = frozenset(map(TableRef, range(depth + 1)))
    plan: Operator = _scan(0)
    for n in range(1, depth + 1):
        plan = Join(plan, _scan(n), JoinKind.LEFT, (KeyPair(column("k_0"), column(f"k_{n}")),))
    change = differentiate(plan, names)
    assert change is not None
    sizes = Sizes(lambda _: 10, lambda _: 10, lambda _: (), 100)
    steps, rest = with_steps(order_joins(arrange_change(change, True, lambda _: 0), sizes))
    texts = [render(plan) for plan in (*(s.plan for s in steps), rest)]
    parts, most_steps, most_text = OUTER[depth]
    assert len(list(change.walk())) <= parts
    assert len(steps) <= most_steps
    assert sum(map(len, texts)) <= most_text


def _scan(number: int) -> Scan:
    return Scan(TableRef(number), ((f"k_{number}", "k"), (f"v_{number}", "v")))


@pytest.mark.parametrize("depth", SIZES)
def test_the_change_of_a_deep_join(depth: int) -> None:
    node = join_node(depth)
    (all_operators, all_text), (one_operators, one_text) = SIZES[depth]
    everything = change_of(node)
    one = differentiate_node(node.plan, node.own, frozenset((TableRef(1),)))
    assert one is not None
    assert len(list(everything.walk())) <= all_operators
    assert len(render(everything)) <= all_text
    assert len(list(one.walk())) <= one_operators
    assert len(render(one)) <= one_text

"""How large the change of a join becomes with its depth: trees and texts must not grow faster than they do now."""

from __future__ import annotations

import pytest

from benchmarks.joins import change_of, join_node
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.sql.render import render

# Tables of the join -> operators and characters if all of them changed, and if only one did.
SIZES = {
    2: ((11, 1_000), (6, 450)),
    4: ((31, 3_900), (10, 1_100)),
    6: ((59, 8_800), (14, 1_900)),
    8: ((95, 16_200), (18, 2_900)),
}


@pytest.mark.parametrize("depth", SIZES)
def test_the_change_of_a_deep_join(depth: int) -> None:
    node = join_node(depth)
    (all_operators, all_text), (one_operators, one_text) = SIZES[depth]
    everything = change_of(node)
    one = differentiate_node(node.plan, node.own, frozenset(("t1",)))
    assert one is not None
    assert len(list(everything.walk())) <= all_operators
    assert len(render(everything)) <= all_text
    assert len(list(one.walk())) <= one_operators
    assert len(render(one)) <= one_text

"""How large the change of a join becomes with its depth: trees and texts must not grow faster than they do now."""

from __future__ import annotations

import pytest

from benchmarks.joins import change_of, join_node
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.sql.render import render

# Tables of the join -> operators and characters if all of them changed, and if only one did.
SIZES = {
    2: ((9, 1_000), (5, 450)),
    4: ((27, 3_900), (9, 1_100)),
    6: ((53, 8_800), (13, 1_900)),
    8: ((87, 16_200), (17, 2_900)),
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

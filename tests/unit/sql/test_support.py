"""What the reference says of supported SQL is what the binder does with each example."""

from __future__ import annotations

import pytest

from spark_trickle.errors import TrickleError
from spark_trickle.sql.support import FEATURES, Feature, Support
from tests.laws.duck import Table, World


def world(query: str) -> World:
    columns = {"t": (("k", "int"), ("v", "int")), "u": (("k", "int"), ("w", "int"))}
    return World({name: Table(c) for name, c in columns.items()}, query)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_every_example(feature: Feature) -> None:
    if feature.state in (Support.INCREMENTAL, Support.IN_FULL):
        assert world(feature.example).nodes
        return
    with pytest.raises(TrickleError) as caught:
        world(feature.example)
    assert caught.value.code in ("UNSUPPORTED", "SYNTAX_ERROR"), caught.value
    assert caught.value.hint

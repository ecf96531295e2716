"""Pauses between attempts."""

from __future__ import annotations

import pytest

from spark_trickle.model.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 5.0), (1, 10.0), (2, 20.0), (5, 160.0), (6, 300.0), (10**9, 300.0)]
)
def test_pauses_double_up_to_the_longest(failures: int, seconds: float) -> None:
    assert Backoff(5.0, 300.0).compute_pause(failures) == seconds

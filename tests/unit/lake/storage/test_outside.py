"""Masks of files that another system keeps are read once, as long as there is room for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_trickle.lake.storage import outside
from spark_trickle.lake.storage.masks import list_numbers
from spark_trickle.lake.storage.outside import read_mask
from spark_trickle.model.cache import Cache


def test_masks_take_no_more_room_than_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(1_000, weigh=lambda numbers: numbers.nbytes)
    monkeypatch.setattr(outside, "_masks", cache)
    small, large = (list_numbers(pa.array(range(n))) for n in (10, 1_000))
    assert read_mask(small) is read_mask(small)
    assert cache.weight == 80
    assert read_mask(large).to_pylist() == list(range(1_000))
    assert cache.list_keys() == []
    for first in range(50):
        assert read_mask(list_numbers(pa.array([first, 99]))).to_pylist() == [first, 99]
    assert cache.weight <= 1_000

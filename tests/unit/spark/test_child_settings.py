"""Settings of two sessions -> what to set and unset so that the second has those of the first."""

from __future__ import annotations

import pytest

from spark_trickle.spark.child_session import find_changed_settings

CASES: list[tuple[dict[str, str], dict[str, str], dict[str, str | None]]] = [
    ({}, {}, {}),
    ({"a": "1"}, {"a": "1"}, {}),
    ({}, {"a": "1"}, {"a": "1"}),
    ({"a": "1"}, {"a": "2"}, {"a": "2"}),
    ({"a": "1", "b": "2"}, {"b": "2"}, {"a": None}),
    ({"a": "1", "b": "2"}, {"c": "3", "b": "4"}, {"a": None, "c": "3", "b": "4"}),
]


@pytest.mark.parametrize(("has", "wanted", "changed"), CASES)
def test_what_differs_is_set_or_unset(
    has: dict[str, str], wanted: dict[str, str], changed: dict[str, str | None]
) -> None:
    assert find_changed_settings(has, wanted) == changed

"""Names of time zones that mean the same."""

from __future__ import annotations

import pytest

from spark_trickle.model.time_zones import canonical_zone

_SAME = [
    ("UTC", "Etc/UTC", "GMT", "Z", "Etc/GMT0", "GMT+0", "Etc/GMT-0", "Zulu", "+00:00", "UTC+00:00", "Universal"),
    ("+02:00", "UTC+2", "GMT+02:00", "UTC+02", "Etc/GMT-2", "+02:00:00", "+0200"),
    ("-05:30", "GMT-05:30"),
    ("Europe/Berlin",),
    ("Europe/Paris",),
    ("Europe/London",),
    ("+05:00", "Etc/GMT-5"),
    ("-05:00", "Etc/GMT+5"),
]  # fmt: skip


@pytest.mark.parametrize("names", _SAME)
def test_zones_of_one_line_are_one_and_others_are_not(names: tuple[str, ...]) -> None:
    assert {canonical_zone(n) for n in names} == {canonical_zone(names[0])}
    others = {canonical_zone(n) for line in _SAME if line is not names for n in line}
    assert canonical_zone(names[0]) not in others

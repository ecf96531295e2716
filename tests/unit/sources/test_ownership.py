"""Which copy of a warehouse a source serves: every kind of evidence, and what follows."""

from __future__ import annotations

import pytest

from spark_trickle.model.source import Site
from spark_trickle.sources.ownership import Evidence, Ownership, judge_site

A, B = Site("one", "/a/catalog.sqlite"), Site("one", "/b/catalog.sqlite")
A_ELSEWHERE, B_ELSEWHERE = Site("two", "/a/catalog.sqlite"), Site("two", "/b/catalog.sqlite")

# the site that is served, ours, behind, whether the original exists, the verdict
CASES = [
    (A, A, False, True, Ownership.SAME),
    (A, A, True, True, Ownership.RESTORED),
    (A, B, False, True, Ownership.COPY),
    (A, B, True, True, Ownership.COPY),
    (A, B, False, False, Ownership.MOVED),
    (A, B, True, False, Ownership.RESTORED),
    (A, A_ELSEWHERE, False, True, Ownership.MOVED),  # a container that was started again
    (A, A_ELSEWHERE, True, True, Ownership.COPY),  # a machine that was cloned
    (A, B_ELSEWHERE, False, True, Ownership.COPY),
    (A, B_ELSEWHERE, True, True, Ownership.COPY),
]


@pytest.mark.parametrize(("served", "ours", "behind", "exists", "verdict"), CASES)
def test_verdicts(served: Site, ours: Site, behind: bool, exists: bool, verdict: Ownership) -> None:
    assert judge_site(Evidence(served, ours, behind, exists)) is verdict


@pytest.mark.parametrize(("served", "ours", "behind", "exists", "verdict"), CASES)
def test_whoever_takes_over_is_served(
    served: Site, ours: Site, behind: bool, exists: bool, verdict: Ownership
) -> None:
    found = judge_site(Evidence(served, ours, behind, exists), take_over=True)
    assert found is not Ownership.COPY
    assert (found is Ownership.RESTORED) == behind

"""Which copy of a warehouse a source serves: every kind of evidence, and what follows."""

from __future__ import annotations

import pytest

from spark_trickle.model.source import Site
from spark_trickle.sources.ownership import Evidence, Verdict, judge_site

A, B = Site("one", "/a/catalog.sqlite"), Site("one", "/b/catalog.sqlite")
A_ELSEWHERE, B_ELSEWHERE = Site("two", "/a/catalog.sqlite"), Site("two", "/b/catalog.sqlite")

# the site that is served, ours, behind, whether the original exists, the verdict
CASES = [
    (A, A, False, True, Verdict.SAME),
    (A, A, True, True, Verdict.RESTORED),
    (A, B, False, True, Verdict.COPY),
    (A, B, True, True, Verdict.COPY),
    (A, B, False, False, Verdict.MOVED),
    (A, B, True, False, Verdict.RESTORED),
    (A, A_ELSEWHERE, False, True, Verdict.MOVED),  # a container that was started again
    (A, A_ELSEWHERE, True, True, Verdict.COPY),  # a machine that was cloned
    (A, B_ELSEWHERE, False, True, Verdict.COPY),
    (A, B_ELSEWHERE, True, True, Verdict.COPY),
]


@pytest.mark.parametrize(("served", "ours", "behind", "exists", "verdict"), CASES)
def test_verdicts(served: Site, ours: Site, behind: bool, exists: bool, verdict: Verdict) -> None:
    assert judge_site(Evidence(served, ours, behind, exists)) is verdict


@pytest.mark.parametrize(("served", "ours", "behind", "exists", "verdict"), CASES)
def test_whoever_takes_over_is_served(
    served: Site, ours: Site, behind: bool, exists: bool, verdict: Verdict
) -> None:
    found = judge_site(Evidence(served, ours, behind, exists), take_over=True)
    assert found is not Verdict.COPY
    assert (found is Verdict.RESTORED) == behind

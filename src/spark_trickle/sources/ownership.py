"""Who a source or a target serves, and who asks -> go on, take over, start again, or refuse.

A copy of a warehouse has the identity of the original. What a source gives to one of them is gone for the
other, so at most one of them is served, and the others are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from spark_trickle.model.source import Site


class Ownership(Enum):
    SAME = "the same warehouse as before"
    MOVED = "the same warehouse at another site, with all that was given to it"
    RESTORED = "an older state of the warehouse"
    COPY = "another copy of the warehouse, while the one that is served may live"


@dataclass(frozen=True)
class Evidence:
    """`behind`: the one that is served was given something that we do not know of."""

    served: Site
    ours: Site
    behind: bool
    original_exists: bool


def judge_site(found: Evidence, take_over: bool = False) -> Ownership:
    """A site that is gone, or a host that has another name since, was moved; all else may be a copy."""
    allowed = Ownership.RESTORED if found.behind else Ownership.MOVED
    if found.served == found.ours:
        return Ownership.RESTORED if found.behind else Ownership.SAME
    if take_over:
        return allowed
    if found.served.catalog == found.ours.catalog:  # a container that was started again, or a cloned machine
        return Ownership.COPY if found.behind else Ownership.MOVED
    moved_here = found.served.host == found.ours.host and not found.original_exists
    return allowed if moved_here else Ownership.COPY


def catalog_exists(served: Site, ours: Site) -> bool:
    """Whether a catalog is still where it was; of what is on another machine we assume that it is."""
    is_file = served.catalog.startswith("/")
    return not is_file or served.host != ours.host or Path(served.catalog).exists()

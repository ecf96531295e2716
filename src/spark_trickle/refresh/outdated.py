"""A stream table -> what it was made for and is so no longer; each is a reason to make it anew."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spark_trickle.dml.work import Work
from spark_trickle.model.stream import Source
from spark_trickle.model.table import Table
from spark_trickle.refresh.identity import lost_identity
from spark_trickle.refresh.inputs import retyped
from spark_trickle.spark.session import time_zone

_INSTANT = re.compile(r"timestamp(?!_ntz)", re.IGNORECASE)
_OF_INSTANTS = re.compile(r"timestamp|unix", re.IGNORECASE)


def outdated(work: Work, table: Table) -> tuple[str, ...]:
    stream = table.stream
    assert stream is not None
    found = [f"{column} has another type now" for column in retyped(work, stream)]
    found += lost_identity(work, table)
    here = time_zone(work.place.spark) if stream.time_zone else ""
    if here != stream.time_zone:
        found.append(f"the time zone of the session is {here}, and was {stream.time_zone} when it was made")
    return tuple(found)


def zone_of(work: Work, query: str, sources: Iterable[Source]) -> str:
    """The time zone of the session, if what a query finds may depend on it: which day is an instant in?"""
    has_instants = any(_INSTANT.search(kind) for source in sources for _, _, kind in source.columns)
    return time_zone(work.place.spark) if has_instants or _OF_INSTANTS.search(query) else ""

"""A stream table -> what has changed since it was defined; each change is a reason to rebuild it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from spark_trickle.algebra.operators import Operator
from spark_trickle.model.stream import Source, Stream
from spark_trickle.model.table import Table
from spark_trickle.model.time_zones import canonical_zone
from spark_trickle.refresh.identity import find_lost_identity
from spark_trickle.refresh.inputs import find_retyped_columns
from spark_trickle.spark.session import time_zone
from spark_trickle.sql.dialect.moments import list_words
from spark_trickle.txn.work import Work

_TIME = re.compile(r"date|timestamp", re.IGNORECASE)
_OF_TIMES = re.compile(
    r"date|time|unix|utc|zone|year|quarter|month|week|day|hour|minute|second|interval|trunc|extract",
    re.IGNORECASE,
)


def find_reasons_to_rebuild(work: Work, table: Table) -> tuple[str, ...]:
    stream = table.stream
    assert stream is not None
    found = [f"the type of {column} has changed" for column in find_retyped_columns(work, stream)]
    found += find_lost_identity(work, table)
    found += _find_replaced_views(work, stream)
    here = time_zone(work.place.session) if stream.time_zone else ""
    if canonical_zone(here) != canonical_zone(stream.time_zone):
        found.append(
            f"the time zone of the session is {here}, but the stream table was created in {stream.time_zone}"
        )
    return tuple(found)


def _find_replaced_views(work: Work, stream: Stream) -> list[str]:
    """A view that is replaced gets another id."""
    if not stream.views:
        return []
    there = {relation.id for relation in work.catalog.relations.values()}
    return [f"the view {name} was replaced" for number, name in stream.views if number not in there]


def zone_of(work: Work, plans: Iterable[Operator], sources: Iterable[Source]) -> str:
    """The time zone of the session, if what plans find may depend on it: which day is an instant in?

    Whoever has neither times nor functions and types with such names cannot; the others may.
    """
    has_times = any(_TIME.search(c.type) for source in sources for c in source.columns)
    return time_zone(work.place.session) if has_times or any(map(_OF_TIMES.search, list_words(plans))) else ""

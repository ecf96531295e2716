"""What a refresh mode does not allow: functions of the clock, and mirrors."""

from __future__ import annotations

from collections.abc import Sequence

from spark_trickle.errors import (
    UnsupportedError,
)
from spark_trickle.model.stream import Mode, Source
from spark_trickle.plan.split import Node
from spark_trickle.refresh.inputs import source_table
from spark_trickle.sql.dialect.moments import list_moments
from spark_trickle.txn.work import Work


def find_moments(nodes: Sequence[Node], mode: Mode) -> tuple[str, ...]:
    """Functions of the clock: a difference cannot know when they change."""
    found = list_moments(n.plan for n in nodes)
    if found and mode in (Mode.DIFFERENTIAL, Mode.IMMEDIATE):
        raise UnsupportedError(
            f"{found[0]}() in REFRESH MODE {mode}",
            "Use AUTO or FULL, or store the time in a table and read it from there.",
        )
    return found


def refuse_mirrors(work: Work, mode: Mode, used: Sequence[Source]) -> None:
    """Changes of a mirror were committed elsewhere long before we see them."""
    for table in (source_table(work, source) for source in used):
        if mode is Mode.IMMEDIATE and table.mirror is not None:
            raise UnsupportedError(
                f'REFRESH MODE IMMEDIATE over "{table.full_name}", a mirror of {table.mirror.full_name}',
                "Use AUTO with a short schedule: the scheduler refreshes as soon as changes arrive.",
            )

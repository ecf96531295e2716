"""A table as it was captured, and as it is now -> what changed about its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_trickle.sources.postgres.discover import SourceColumn


@dataclass(frozen=True)
class RecordedColumn:
    """A column as it was when its capture was installed."""

    number: int
    name: str
    type: int
    modifier: int


@dataclass(frozen=True)
class Drift:
    change: str  # dropped, renamed, retyped, added
    column: str
    detail: str

    @property
    def breaks(self) -> bool:
        """Whether changes can no longer be captured as before; a new column is only not captured yet."""
        return self.change != "added"


def record_column(column: SourceColumn) -> RecordedColumn:
    return RecordedColumn(column.number, column.name, column.type.oid, column.type.modifier)


def find_drift(
    recorded: Sequence[RecordedColumn], known: Sequence[int], now: Sequence[SourceColumn]
) -> list[Drift]:
    """`known` numbers the columns that existed then, captured or not; a number is never used again."""
    current = {c.number: c for c in now}
    found = [d for r in recorded if (d := _compare_column(r, current.get(r.number)))]
    new = [c for c in now if c.number > max(known, default=0)]
    return found + [Drift("added", c.name, f'column "{c.name}" was added') for c in new]


def _compare_column(then: RecordedColumn, now: SourceColumn | None) -> Drift | None:
    if now is None:
        return Drift("dropped", then.name, f'column "{then.name}" was dropped')
    if now.name != then.name:
        return Drift("renamed", then.name, f'column "{then.name}" was renamed to "{now.name}"')
    if (now.type.oid, now.type.modifier) != (then.type, then.modifier):
        return Drift("retyped", then.name, f'column "{then.name}" now has type {now.type.shown}')
    return None

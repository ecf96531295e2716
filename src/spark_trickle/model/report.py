"""The result of a statement: how many rows it changed, and warnings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Rows a statement changed, and the snapshot that holds them."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    snapshot: int = 0  # the one that the statement made, or the newest
    warnings: tuple[str, ...] | None = None  # what makes a new stream table expensive; otherwise None

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if name in COUNTS}


COUNTS = ("rows_inserted", "rows_updated", "rows_deleted", "snapshot")

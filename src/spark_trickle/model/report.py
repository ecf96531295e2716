"""The result of a statement: how many rows it changed, and warnings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Rows a statement changed, and the snapshot that holds them."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    snapshot: int = 0
    warnings: tuple[str, ...] | None = None  # None where there is nothing to warn of by its nature

    @property
    def counts(self) -> dict[str, int]:
        return {name: value for name, value in vars(self).items() if name in COUNTS}


COUNTS = ("rows_inserted", "rows_updated", "rows_deleted", "snapshot")

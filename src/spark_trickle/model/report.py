"""What a statement did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """Rows a statement changed, and the snapshot that holds them."""

    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    snapshot: int = 0

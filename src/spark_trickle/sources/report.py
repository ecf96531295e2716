"""What one sync of a source did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SyncReport:
    """What one sync did: rows by mirror, mirrors that were copied again, and what is wrong."""

    source: str
    capture: str
    rows_inserted: int = 0
    rows_deleted: int = 0
    tables: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # inserted and deleted, by mirror
    copied: tuple[str, ...] = ()  # mirrors whose first copy was completed
    resynced: Mapping[str, str] = field(default_factory=dict)  # why, by mirror
    problems: Mapping[str, str] = field(default_factory=dict)  # why a mirror has stopped, by mirror
    transactions: int = 0
    snapshot: int = 0
    duration_ms: float = 0.0
    waiting: Mapping[str, int] = field(default_factory=dict)  # changes, or files, that are left in the source
    rejected: Mapping[str, int] = field(default_factory=dict)  # files and records that could not be loaded

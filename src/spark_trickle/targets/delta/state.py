"""What our commits note in the log of a Delta table: whose it is, and how far."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from spark_trickle.model.source import Site
from spark_trickle.sources.delta.actions import DeltaCommit
from spark_trickle.sources.delta.log import DeltaLog, VersionGoneError

NOTE = "spark_trickle"  # the field of a commit that holds the state
_OWNED = "spark-trickle keeps the stream table {} of warehouse {} here"


@dataclass(frozen=True)
class DeltaState:
    """How far a table is, as the last of our commits says."""

    snapshot: int | None
    mark: str
    host: str
    catalog: str
    rows: int = 0
    inserted: int = 0
    deleted: int = 0
    applied: str = ""
    key: tuple[str, ...] = ()
    kept: bool = False  # it is not published any more

    @property
    def site(self) -> Site:
        return Site(self.host, self.catalog)

    @property
    def applied_at(self) -> datetime | None:
        return datetime.fromisoformat(self.applied) if self.applied else None

    def move(self, snapshot: int, mark: str, inserted: int, deleted: int) -> DeltaState:
        return replace(
            self,
            snapshot=snapshot,
            mark=mark,
            rows=self.rows + inserted - deleted,
            inserted=self.inserted + inserted,
            deleted=self.deleted + deleted,
            applied=datetime.now(UTC).isoformat(),
        )

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> DeltaState:
        given = json.loads(text)
        return cls(**{**given, "key": tuple(given["key"])})


@dataclass(frozen=True)
class Found:
    """The log of a published table: its newest version, what we noted last, and what others did since."""

    version: int
    state: DeltaState | None
    changes: tuple[str, ...] = ()


def describe_owner(stream: str, warehouse: str) -> str:
    """The description of a table that we write."""
    return _OWNED.format(stream, warehouse)


def find_state(log: DeltaLog) -> Found:
    """From the newest commit back to the last one of ours; compaction by others does no harm."""
    newest = log.find_newest()
    changes: list[str] = []
    for version in range(newest, -1, -1):
        try:
            (commit,) = log.read_commits(version - 1, version)
        except VersionGoneError:
            break
        if (text := commit.info.get(NOTE)) is not None:
            return Found(newest, DeltaState.from_text(text), tuple(reversed(changes)))
        changes += _describe_change(commit)
    return Found(newest, None)


def _describe_change(commit: DeltaCommit) -> list[str]:
    if commit.changes_data:
        return [f"another writer changed its rows in version {commit.version}"]
    return []

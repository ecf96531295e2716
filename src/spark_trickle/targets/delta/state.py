"""What our commits note in the log of a Delta table: whose it is, and how far."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.sources.delta.actions import DeltaCommit
from spark_trickle.sources.delta.log import DeltaLog, VersionGoneError
from spark_trickle.targets.state import TargetState

NOTE = "spark_trickle"  # the field of a commit that holds the state


@dataclass(frozen=True)
class DeltaHistory:
    """The log of a published table: its newest version, what we noted last, and what others did since."""

    version: int
    state: TargetState | None
    changes: tuple[str, ...] = ()


def find_state(log: DeltaLog, newest: int) -> DeltaHistory:
    """From the newest commit back to the last one of ours; compaction by others does no harm."""
    changes: list[str] = []
    for version in range(newest, -1, -1):
        try:
            (commit,) = log.read_commits(version - 1, version)
        except VersionGoneError:
            break
        if (text := commit.info.get(NOTE)) is not None:
            return DeltaHistory(newest, TargetState.from_text(text), tuple(reversed(changes)))
        changes += _describe_change(commit)
    return DeltaHistory(newest, None)


def _describe_change(commit: DeltaCommit) -> list[str]:
    if commit.changes_data:
        return [f"another writer changed its rows in version {commit.version}"]
    return []

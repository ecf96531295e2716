"""The snapshots between two versions of an Iceberg table -> what became of its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Never

from pyiceberg.table.snapshots import Operation, Snapshot

from spark_trickle.errors import UnsupportedError
from spark_trickle.sources.followed.file_groups import FileGroups, FileStep, group_steps
from spark_trickle.sources.iceberg.deletes import DeleteContents, refuse_unreadable
from spark_trickle.sources.iceberg.manifests import EntryStatus, FileKind, ListedFile, ManifestLine, Manifests

Step = FileStep[str, ListedFile, Never]


class HistoryLostError(Exception):
    """The snapshots do not tell what changed; the reason is the text."""


@dataclass(frozen=True)
class TouchedFiles:
    """Data files that came and went, by path, and those of which rows were deleted."""

    groups: FileGroups[str, ListedFile, Never]
    gone: Mapping[str, ListedFile]
    masked: frozenset[str]


def list_between(snapshots: Mapping[int, Snapshot], after: int, upto: int | None) -> list[Snapshot]:
    """The snapshots in (after, upto], the oldest first."""
    if after not in snapshots:
        raise HistoryLostError(f"snapshot {after} of the table has expired")
    found: list[Snapshot] = []
    at = upto
    while at != after:
        if at is None or at not in snapshots:  # one whose parent expired may have none any more
            raise HistoryLostError(
                f"snapshot {after} does not lead to {upto}: the table was rolled back, or some expired"
            )
        found.append(snapshots[at])
        at = snapshots[at].parent_snapshot_id
    return found[::-1]


def find_touched(manifests: Manifests, contents: DeleteContents, between: Sequence[Snapshot]) -> TouchedFiles:
    """What all these snapshots did with the files of the table."""
    steps: list[Step] = []
    gone: dict[str, ListedFile] = {}
    masked: set[str] = set()
    for snapshot in between:
        changed = manifests.list_changed(snapshot)
        changes_data = snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE
        of_data = [e for e in changed if e.file.kind is FileKind.DATA]
        steps += _split_data(of_data, changes_data)
        gone.update((e.file.path, e.file) for e in of_data if e.status is EntryStatus.DELETED)
        deletes = [e.file for e in changed if e.file.kind is not FileKind.DATA]
        _require_readable(deletes)
        contents.load(deletes)
        paths = {path for file in deletes for path in contents.list_paths(file)}
        steps += [FileStep(frozenset([path]), changes_data=changes_data) for path in sorted(paths)]
        masked |= paths
    return TouchedFiles(group_steps(steps), gone, frozenset(masked))


def _require_readable(deletes: Sequence[ListedFile]) -> None:
    """If one cannot be read, nobody knows which rows it deleted; it may be gone again by now."""
    for file in deletes:
        try:
            refuse_unreadable(file)
        except UnsupportedError as error:
            raise HistoryLostError(f"since the last sync, the table has had {error.feature}") from None


def _split_data(entries: Sequence[ManifestLine], changes_data: bool) -> Iterator[Step]:
    """Files that only came, or only went, are each a matter of their own."""
    gone = [e.file for e in entries if e.status is EntryStatus.DELETED]
    come = [e.file for e in entries if e.status is EntryStatus.ADDED]
    if (gone and come) or not changes_data:
        if entries:
            yield _make_step(gone, come, changes_data)
        return
    for file in gone:
        yield _make_step([file], [], changes_data)
    for file in come:
        yield _make_step([], [file], changes_data)


def _make_step(gone: Sequence[ListedFile], come: Sequence[ListedFile], changes_data: bool) -> Step:
    return FileStep(
        paths=frozenset(f.path for f in (*gone, *come)),
        removed=tuple(f.path for f in gone),
        added={f.path: f for f in come},
        changes_data=changes_data,
    )

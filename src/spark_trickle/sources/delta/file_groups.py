"""Commits of a Delta table -> steps that say which of its files belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spark_trickle.sources.delta.actions import AddedFile, ChangeFile, DeltaCommit, FileKey, RemovedFile
from spark_trickle.sources.followed.file_groups import FileGroups, FileStep, group_steps

Step = FileStep[FileKey, AddedFile, ChangeFile]


def group_files(commits: Iterable[DeltaCommit]) -> FileGroups[FileKey, AddedFile, ChangeFile]:
    return group_steps(step for commit in commits for step in _split_commit(commit))


def _split_commit(commit: DeltaCommit) -> list[Step]:
    """A file that stays with another mask is a matter of its own, and so is each of many that only came."""
    removed, added = {r.path: r for r in commit.removed}, {a.path: a for a in commit.added}
    if commit.recorded or len(removed) < len(commit.removed) or len(added) < len(commit.added):
        return [_make_step(commit.removed, commit.added, commit.recorded)]
    masked = removed.keys() & added.keys()
    found = [_make_step([removed[p]], [added[p]]) for p in sorted(masked)]
    gone = [r for p, r in removed.items() if p not in masked]
    come = [a for p, a in added.items() if p not in masked]
    if gone and come:
        return [*found, _make_step(gone, come)]
    return [*found, *(_make_step([r], []) for r in gone), *(_make_step([], [a]) for a in come)]


def _make_step(
    removed: Sequence[RemovedFile], added: Sequence[AddedFile], recorded: Sequence[ChangeFile] = ()
) -> Step:
    return FileStep(
        paths=frozenset([*(r.path for r in removed), *(a.path for a in added)]),
        removed=tuple(r.key for r in removed),
        added={a.key: a for a in added},
        changes_data=any(r.changes_data for r in removed) or any(a.changes_data for a in added),
        recorded=tuple(recorded),
    )

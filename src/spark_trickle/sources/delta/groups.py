"""Commits of a Delta table -> what became of its files, so that only changed rows are read.

A commit says which files it removed and which it added, not which of them belong together. All that it did
with files that already were part of the table is one group: rows that were only moved cancel out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_trickle.sources.delta.actions import AddedFile, DeltaCommit, FileKey, RemovedFile


@dataclass(frozen=True)
class FileGroups:
    """Files that came and files that went, by what that means for rows."""

    inserted: tuple[AddedFile, ...]
    deleted: tuple[FileKey, ...]
    rewritten: tuple[AddedFile, ...]
    replaced: tuple[FileKey, ...]
    moved_to: tuple[AddedFile, ...]
    moved_from: tuple[FileKey, ...]


@dataclass
class _Group:
    """What some commits did with files that belong together; only the difference counts."""

    come: dict[FileKey, AddedFile] = field(default_factory=dict)
    gone: dict[FileKey, None] = field(default_factory=dict)
    changes_data: bool = False

    def absorb(self, other: _Group) -> None:
        self.come.update(other.come)
        self.gone.update(other.gone)
        self.changes_data = self.changes_data or other.changes_data

    def take(self, removed: Sequence[RemovedFile], added: Sequence[AddedFile]) -> None:
        for r in removed:
            if r.key in self.come:
                del self.come[r.key]
            else:
                self.gone[r.key] = None
            self.changes_data = self.changes_data or r.changes_data
        for a in added:
            if a.key in self.gone:  # it is back, as RESTORE does
                del self.gone[a.key]
            else:
                self.come[a.key] = a
            self.changes_data = self.changes_data or a.changes_data


def group_files(commits: Iterable[DeltaCommit]) -> FileGroups:
    groups: list[_Group] = []
    by_path: dict[str, _Group] = {}
    for commit in commits:
        for removed, added in _connect(commit):
            own = _Group()
            paths = {r.path for r in removed} | {a.path for a in added}
            for group in {id(g): g for path in paths if (g := by_path.get(path)) is not None}.values():
                own.absorb(group)
                groups.remove(group)
                by_path.update((p, own) for p in [p for p, g in by_path.items() if g is group])
            own.take(removed, added)
            groups.append(own)
            by_path.update((p, own) for p in paths)
    return _classify(groups)


def _connect(commit: DeltaCommit) -> list[tuple[list[RemovedFile], list[AddedFile]]]:
    """A file that stays with another mask is a matter of its own, and so is each of many that only came."""
    removed, added = {r.path: r for r in commit.removed}, {a.path: a for a in commit.added}
    if len(removed) < len(commit.removed) or len(added) < len(commit.added):
        return [(list(commit.removed), list(commit.added))]
    masked = removed.keys() & added.keys()
    found = [([removed[p]], [added[p]]) for p in sorted(masked)]
    gone = [r for p, r in removed.items() if p not in masked]
    come = [a for p, a in added.items() if p not in masked]
    if gone and come:
        return [*found, (gone, come)]
    return [*found, *(([r], []) for r in gone), *(([], [a]) for a in come)]


def _classify(groups: Iterable[_Group]) -> FileGroups:
    inserted: list[AddedFile] = []
    rewritten: list[AddedFile] = []
    moved_to: list[AddedFile] = []
    deleted: list[FileKey] = []
    replaced: list[FileKey] = []
    moved_from: list[FileKey] = []
    for group in groups:
        if not group.changes_data:
            moved_to += group.come.values()
            moved_from += group.gone
        elif group.come and group.gone:
            rewritten += group.come.values()
            replaced += group.gone
        else:
            inserted += group.come.values()
            deleted += group.gone
    return FileGroups(
        tuple(inserted),
        tuple(deleted),
        tuple(rewritten),
        tuple(replaced),
        tuple(moved_to),
        tuple(moved_from),
    )

"""Commits of a Delta table -> what became of its files, so that only changed rows are read.

A commit says which files it removed and which it added, not which of them belong together. All that it did
with files that already were part of the table is one group: rows that were only moved cancel out. Where the
table has a change data feed, it tells what a group changed, and none of its files has to be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark_trickle.sources.delta.actions import AddedFile, ChangeFile, DeltaCommit, FileKey, RemovedFile


@dataclass(frozen=True)
class FileGroups:
    """Files that came and files that went, by what that means for rows."""

    inserted: tuple[AddedFile, ...]
    deleted: tuple[FileKey, ...]
    rewritten: tuple[AddedFile, ...]
    replaced: tuple[FileKey, ...]
    moved_to: tuple[AddedFile, ...]
    moved_from: tuple[FileKey, ...]
    recorded: tuple[ChangeFile, ...] = ()  # what changed in files that are listed as moved


@dataclass(frozen=True)
class _Step:
    """Files that one commit changed together; `recorded` is what the feed has of that."""

    removed: Sequence[RemovedFile]
    added: Sequence[AddedFile]
    recorded: Sequence[ChangeFile] = ()

    @property
    def paths(self) -> set[str]:
        return {r.path for r in self.removed} | {a.path for a in self.added}

    @property
    def changes_data(self) -> bool:
        return any(r.changes_data for r in self.removed) or any(a.changes_data for a in self.added)


@dataclass
class _Group:
    """What some commits did with files that belong together; only the difference counts."""

    come: dict[FileKey, AddedFile] = field(default_factory=dict)
    gone: dict[FileKey, None] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    recorded: list[ChangeFile] = field(default_factory=list)
    changes_data: bool = False
    is_recorded: bool = True  # whether the feed has all that changed

    def absorb(self, other: _Group) -> None:
        self.come.update(other.come)
        self.gone.update(other.gone)
        self.paths |= other.paths
        self.recorded += other.recorded
        self.changes_data = self.changes_data or other.changes_data
        self.is_recorded = self.is_recorded and other.is_recorded

    def take(self, step: _Step) -> None:
        for r in step.removed:
            if r.key in self.come:
                del self.come[r.key]
            else:
                self.gone[r.key] = None
        for a in step.added:
            if a.key in self.gone:  # it is back, as RESTORE does
                del self.gone[a.key]
            else:
                self.come[a.key] = a
        self.paths |= step.paths
        self.recorded += step.recorded
        self.changes_data = self.changes_data or step.changes_data
        self.is_recorded = self.is_recorded and (bool(step.recorded) or not step.changes_data)


def group_files(commits: Iterable[DeltaCommit]) -> FileGroups:
    by_path: dict[str, _Group] = {}
    for commit in commits:
        for step in _split_commit(commit):
            touched = {id(g): g for path in step.paths if (g := by_path.get(path)) is not None}
            # The largest takes in the others, so that each path moves only a few times.
            own, *others = sorted(touched.values(), key=lambda g: -len(g.paths)) or [_Group()]
            for other in others:
                own.absorb(other)
                by_path.update(dict.fromkeys(other.paths, own))
            own.take(step)
            by_path.update(dict.fromkeys(step.paths, own))
    return _classify(list({id(g): g for g in by_path.values()}.values()))


def _split_commit(commit: DeltaCommit) -> list[_Step]:
    """A file that stays with another mask is a matter of its own, and so is each of many that only came."""
    removed, added = {r.path: r for r in commit.removed}, {a.path: a for a in commit.added}
    if commit.recorded or len(removed) < len(commit.removed) or len(added) < len(commit.added):
        return [_Step(commit.removed, commit.added, commit.recorded)]
    masked = removed.keys() & added.keys()
    found = [_Step([removed[p]], [added[p]]) for p in sorted(masked)]
    gone = [r for p, r in removed.items() if p not in masked]
    come = [a for p, a in added.items() if p not in masked]
    if gone and come:
        return [*found, _Step(gone, come)]
    return [*found, *(_Step([r], []) for r in gone), *(_Step([], [a]) for a in come)]


def _classify(groups: Iterable[_Group]) -> FileGroups:
    inserted: list[AddedFile] = []
    rewritten: list[AddedFile] = []
    moved_to: list[AddedFile] = []
    deleted: list[FileKey] = []
    replaced: list[FileKey] = []
    moved_from: list[FileKey] = []
    recorded: list[ChangeFile] = []
    for group in groups:
        rewrites = bool(group.come and group.gone)
        if not group.changes_data or (rewrites and group.is_recorded):
            moved_to += group.come.values()
            moved_from += group.gone
            recorded += group.recorded if group.changes_data else ()
        elif rewrites:
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
        tuple(recorded),
    )

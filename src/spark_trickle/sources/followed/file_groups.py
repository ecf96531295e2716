"""Commits of a table in place -> what became of its files, so that only changed rows are read.

A commit says which files it removed and which it added, not which of them belong together. All that it did
with files that already were part of the table is one group: rows that were only moved cancel out. Where the
table has a change data feed, it tells what a group changed, and none of its files has to be read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)  # what tells a file from others, and from itself with another mask
F = TypeVar("F")  # what is known of a file that came
R = TypeVar("R")  # a file of the feed


@dataclass(frozen=True)
class FileStep(Generic[K, F, R]):
    """Files that one commit changed together; `paths` are those of all that it touched.

    `recorded` is what the feed has of that.
    """

    paths: frozenset[str]
    removed: tuple[K, ...] = ()
    added: Mapping[K, F] = field(default_factory=dict)
    changes_data: bool = True
    recorded: tuple[R, ...] = ()


@dataclass(frozen=True)
class FileGroups(Generic[K, F, R]):
    """Files that came and files that went, by what that means for rows."""

    inserted: tuple[F, ...]
    deleted: tuple[K, ...]
    rewritten: tuple[F, ...]
    replaced: tuple[K, ...]
    moved_to: tuple[F, ...]
    moved_from: tuple[K, ...]
    recorded: tuple[R, ...] = ()  # what changed in files that are listed as moved


@dataclass
class _Group(Generic[K, F, R]):
    """What some commits did with files that belong together; only the difference counts."""

    added: dict[K, F] = field(default_factory=dict)
    removed: dict[K, None] = field(default_factory=dict)
    paths: set[str] = field(default_factory=set)
    recorded: list[R] = field(default_factory=list)
    changes_data: bool = False
    is_recorded: bool = True  # whether the feed has all that changed

    def absorb(self, other: _Group[K, F, R]) -> None:
        self.added.update(other.added)
        self.removed.update(other.removed)
        self.paths |= other.paths
        self.recorded += other.recorded
        self.changes_data = self.changes_data or other.changes_data
        self.is_recorded = self.is_recorded and other.is_recorded

    def take(self, step: FileStep[K, F, R]) -> None:
        for key in step.removed:
            if key in self.added:
                del self.added[key]
            else:
                self.removed[key] = None
        for key, file in step.added.items():
            if key in self.removed:  # it is back, as after a restore
                del self.removed[key]
            else:
                self.added[key] = file
        self.paths |= step.paths
        self.recorded += step.recorded
        self.changes_data = self.changes_data or step.changes_data
        self.is_recorded = self.is_recorded and (bool(step.recorded) or not step.changes_data)


def group_steps(steps: Iterable[FileStep[K, F, R]]) -> FileGroups[K, F, R]:
    by_path: dict[str, _Group[K, F, R]] = {}
    for step in steps:
        touched = {id(g): g for path in step.paths if (g := by_path.get(path)) is not None}
        # The largest takes in the others, so that each path moves only a few times.
        own, *others = sorted(touched.values(), key=lambda g: -len(g.paths)) or [_Group()]
        for other in others:
            own.absorb(other)
            by_path.update(dict.fromkeys(other.paths, own))
        own.take(step)
        by_path.update(dict.fromkeys(step.paths, own))
    return _classify(list({id(g): g for g in by_path.values()}.values()))


def _classify(groups: Iterable[_Group[K, F, R]]) -> FileGroups[K, F, R]:
    inserted: list[F] = []
    rewritten: list[F] = []
    moved_to: list[F] = []
    deleted: list[K] = []
    replaced: list[K] = []
    moved_from: list[K] = []
    recorded: list[R] = []
    for group in groups:
        rewrites = bool(group.added and group.removed)
        if not group.changes_data or (rewrites and group.is_recorded):
            moved_to += group.added.values()
            moved_from += group.removed
            recorded += group.recorded if group.changes_data else ()
        elif rewrites:
            rewritten += group.added.values()
            replaced += group.removed
        else:
            inserted += group.added.values()
            deleted += group.removed
    return FileGroups(
        tuple(inserted),
        tuple(deleted),
        tuple(rewritten),
        tuple(replaced),
        tuple(moved_to),
        tuple(moved_from),
        tuple(recorded),
    )

"""Commits of a Delta table: which files are read to know what they changed."""

from __future__ import annotations

import pytest

from spark_trickle.sources.delta.actions import AddedFile, ChangeFile, DeltaCommit, RemovedFile, Vector
from spark_trickle.sources.delta.file_groups import FileGroups, group_files

_MASK = Vector("u", "x", 1, 1, 0)


def commit(
    added: str = "",
    removed: str = "",
    changes: bool = True,
    feed: str = "",
    masked: str = "",
    unmasked: str = "",
) -> DeltaCommit:
    """Files are letters; `masked` ones get a deletion vector, `unmasked` ones lose it."""
    come = [AddedFile(p, 1, (), changes, None, None) for p in (*added, *unmasked)]
    come += [AddedFile(p, 1, (), changes, None, _MASK) for p in masked]
    gone = [RemovedFile(p, changes, None) for p in (*removed, *masked)]
    gone += [RemovedFile(p, changes, _MASK) for p in unmasked]
    return DeltaCommit(1, tuple(come), tuple(gone), recorded=tuple(ChangeFile(p, 1, ()) for p in feed))


def show(found: FileGroups) -> dict[str, str]:
    """Only what is not empty, a file with a deletion vector in upper case."""

    def name(path: str, vector: Vector | None) -> str:
        return path if vector is None else path.upper()

    shown = {
        "inserted": "".join(sorted(name(*f.key) for f in found.inserted)),
        "deleted": "".join(sorted(name(*k) for k in found.deleted)),
        "rewritten": "".join(sorted(name(*f.key) for f in found.rewritten)),
        "replaced": "".join(sorted(name(*k) for k in found.replaced)),
        "moved_to": "".join(sorted(name(*f.key) for f in found.moved_to)),
        "moved_from": "".join(sorted(name(*k) for k in found.moved_from)),
        "recorded": "".join(sorted(f.path for f in found.recorded)),
    }
    return {k: v for k, v in shown.items() if v}


CASES = {
    "appended": ([commit("ab")], {"inserted": "ab"}),
    "whole files deleted": ([commit(removed="ab")], {"deleted": "ab"}),
    "written again": ([commit("b", "a")], {"rewritten": "b", "replaced": "a"}),
    "compacted": ([commit("c", "ab", changes=False)], {"moved_to": "c", "moved_from": "ab"}),
    "appended and compacted": (
        [commit("b"), commit("c", "ab", changes=False)],
        {"rewritten": "c", "replaced": "a"},
    ),
    "only new files compacted": ([commit("ab"), commit("c", "ab", changes=False)], {"inserted": "c"}),
    "came and went": ([commit("a"), commit(removed="a")], {}),
    "written again twice": ([commit("b", "a"), commit("c", "b")], {"rewritten": "c", "replaced": "a"}),
    "restored": ([commit("b", "a"), commit("a", "b")], {}),
    "a mask": ([commit(masked="a")], {"rewritten": "A", "replaced": "a"}),
    "a mask and an append": ([commit("b", masked="a")], {"inserted": "b", "rewritten": "A", "replaced": "a"}),
    "a mask that is gone again": ([commit(masked="a"), commit(unmasked="a")], {}),
    "two commits that have nothing in common": (
        [commit("b", "a"), commit("d", "c", changes=False)],
        {"rewritten": "b", "replaced": "a", "moved_to": "d", "moved_from": "c"},
    ),
    "a feed": ([commit("b", "a", feed="x")], {"moved_to": "b", "moved_from": "a", "recorded": "x"}),
    "a feed of two commits": (
        [commit("b", "a", feed="x"), commit("c", "b", feed="y")],
        {"moved_to": "c", "moved_from": "a", "recorded": "xy"},
    ),
    "a feed, compacted": (
        [commit("b", "a", feed="x"), commit("c", "b", changes=False)],
        {"moved_to": "c", "moved_from": "a", "recorded": "x"},
    ),
    "a feed of masks": (
        [commit("d", masked="ab", feed="x")],
        {"moved_to": "ABd", "moved_from": "ab", "recorded": "x"},
    ),
    "a feed that lacks a commit": (
        [commit("b", "a", feed="x"), commit("c"), commit("d", "bc", changes=False)],
        {"rewritten": "d", "replaced": "a"},
    ),
    "a feed of files that went after all": (
        [commit("b", "a", feed="x"), commit(removed="b")],
        {"deleted": "a"},
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_what_is_read(name: str) -> None:
    commits, expected = CASES[name]
    assert show(group_files(commits)) == expected


def test_many_files_are_grouped_quickly() -> None:
    """Each path moves from group to group only a few times."""
    names = [chr(0x4E00 + n) for n in range(20_000)]
    appended = [commit(name) for name in names]
    assert len(group_files([*appended, commit("z", "".join(names), changes=False)]).inserted) == 1

"""What became of files after several commits, as steps with letters for files."""

from __future__ import annotations

from typing import Never

import pytest

from spark_trickle.sources.followed.file_groups import FileGroups, FileStep, group_steps


def step(text: str) -> FileStep[str, str, Never]:
    """Such as "-a +b": a went, b came. With "=", no data changed; "~a" touches a."""
    words = text.split()
    removed = tuple(w[1:] for w in words if w[0] == "-")
    added = {w[1:]: w[1:] for w in words if w[0] == "+"}
    touched = [w[1:] for w in words if w[0] == "~"]
    return FileStep(frozenset([*removed, *added, *touched]), removed, added, "=" not in words)


def write_groups(found: FileGroups[str, str, Never]) -> str:
    names = ("inserted", "deleted", "rewritten", "replaced", "moved_to", "moved_from")
    parts = [(name, "".join(sorted(getattr(found, name)))) for name in names]
    return " ".join(f"{name}:{files}" for name, files in parts if files)


CASES = [
    (["+a", "+b"], "inserted:ab"),
    (["-a", "-b"], "deleted:ab"),
    (["-a +b"], "rewritten:b replaced:a"),
    (["-a +b ="], "moved_to:b moved_from:a"),
    (["+a", "-a"], ""),
    (["+a", "-a +b"], "inserted:b"),
    (["-a +b", "-b +c"], "rewritten:c replaced:a"),
    (["-a +b =", "-b +c"], "rewritten:c replaced:a"),
    (["-a +b", "-b -c +d ="], "rewritten:d replaced:ac"),
    (["+a", "-a -b +c ="], "rewritten:c replaced:b"),  # the rows of a are new
    (["~a", "-a +b ="], "rewritten:b replaced:a"),  # rows of a were deleted before it moved
    (["~a ="], ""),
    (["~a"], ""),
    (["-a", "+a"], ""),
]


@pytest.mark.parametrize(("steps", "expected"), CASES, ids=[", ".join(s) for s, _ in CASES])
def test_groups(steps: list[str], expected: str) -> None:
    assert write_groups(group_steps(step(s) for s in steps)) == expected

"""A log is split at its first deletion: before it every row counts once, after it rows are summed."""

from __future__ import annotations

import pytest

from spark_trickle.model.files import DataFile, Mask, Outside, Role, split_log


def file(path: str, as_of: int, rows: int = 10, deletes: int = 0, role: Role = Role.CHANGE) -> DataFile:
    return DataFile(path, role, rows, deletes, 100, 10, as_of)


SPLITS = [
    ([], "", ""),
    ([file("a", 1)], "a", ""),
    ([file("b", 2), file("a", 1)], "ab", ""),
    ([file("a", 1, deletes=3)], "", "a"),
    ([file("a", 1), file("b", 2, deletes=1), file("c", 3)], "a", "bc"),
    ([file("c", 3), file("b", 2, deletes=1), file("a", 1)], "a", "bc"),
    ([file("a", 1), file("b", 2), file("c", 3, deletes=10)], "ab", "c"),
    # Files of one commit stay together, whichever of them holds the deletions.
    ([file("a", 1), file("b", 2), file("c", 2, deletes=1)], "a", "bc"),
    # A base that compaction made of snapshot 5 comes before a change that was committed meanwhile.
    ([file("change", 6, deletes=2), file("base", 5, role=Role.BASE)], ["base"], ["change"]),
    ([file("base", 5, role=Role.BASE), file("net", 7, 4, 2, Role.NET), file("z", 8)], ["base"], ["net", "z"]),
]


@pytest.mark.parametrize(("files", "settled", "tail"), SPLITS)
def test_split(files: list[DataFile], settled: list[str], tail: list[str]) -> None:
    log = split_log(files)
    assert [f.path for f in log.settled] == list(settled)
    assert [f.path for f in log.tail] == list(tail)
    assert log.files == log.settled + log.tail
    assert sorted(log.files, key=lambda f: f.path) == sorted(files, key=lambda f: f.path)


def test_the_tail_knows_its_size() -> None:
    one = split_log([file("a", 1), file("b", 2, 4, 3), file("c", 2, 2, 1)])
    assert (one.tail_deletes, one.tail_is_one_change) == (4, True)
    two = split_log([file("b", 2, 4, 3), file("c", 3)])
    assert (two.tail_deletes, two.tail_is_one_change) == (3, False)


def test_weight_counts_deletions_against_insertions() -> None:
    assert [file("a", 1, rows, deletes).weight for rows, deletes in [(10, 0), (10, 10), (7, 3)]] == [
        10,
        -10,
        1,
    ]


def test_a_long_mask_makes_no_long_name() -> None:
    short, long = (Outside("/t/f", mask=Mask("form", "d" * n, 4, 1, 1)).path for n in (10, 5_000))
    assert short == "/t/f#dddddddddd@4"
    assert len(long) < 100
    assert long != Outside("/t/f", mask=Mask("form", "d" * 5_001, 4, 1, 1)).path

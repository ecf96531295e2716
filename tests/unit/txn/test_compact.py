"""After a commit, files are merged exactly when a threshold is crossed, and only as many as needed."""

from __future__ import annotations

import pytest

from spark_trickle.model.files import DataFile, Role
from spark_trickle.settings import Settings
from spark_trickle.txn.compact import compact_everything, decide_compaction

SETTINGS = Settings().with_values(
    {
        "max_driver_rows": 1_000,
        "target_file_rows": 10_000,
        "compact_change_ratio": 0.5,
        "compact_change_files": 3,
    }
)


def base(rows: int, number: int = 0) -> DataFile:
    return DataFile(f"base{number}", Role.BASE, rows, 0, 100, 10, number)


def changes(count: int, rows: int, deletes: int = 1) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"change{n}", Role.CHANGE, rows, deletes, 100, 10, 100 + n) for n in range(count))


CASES = [
    # files, which of them are merged
    ((), "none"),
    ((base(5_000),), "none"),
    # few changes beside a big base
    ((base(50_000), *changes(3, 10)), "none"),
    # too many change files: of a big table only they are merged, of a small one everything
    ((base(50_000), *changes(4, 10)), "changes"),
    ((base(900), *changes(4, 10)), "all"),
    ((base(970), *changes(4, 10)), "changes"),
    # too many changed rows against the settled ones, but not for a handful of rows
    ((base(50_000), *changes(1, 25_001)), "all"),
    ((base(50_000), *changes(1, 25_000)), "none"),
    ((base(50), *changes(1, 101)), "all"),
    ((base(50), *changes(1, 100)), "none"),
    (changes(1, 101), "all"),
    # inserts alone make no tail, but many small files
    (changes(3, 10, deletes=0), "none"),
    (changes(4, 10, deletes=0), "all"),
    ((base(50_000), *changes(4, 10, deletes=0)), "changes"),
    ((base(999, 1), base(1_000, 2), base(999, 3), base(999, 4)), "none"),
    # small files are merged only before the first deletion: beyond it the order of the log counts
    ((base(50_000), *changes(3, 10), *(base(5, n) for n in range(200, 204))), "changes and later"),
]


@pytest.mark.parametrize(("files", "merged"), CASES)
def test_decide(files: tuple[DataFile, ...], merged: str) -> None:
    plan = decide_compaction(files, SETTINGS)
    chosen = {
        "none": (),
        "all": files,
        "changes": tuple(f for f in files if f.path.startswith("change")),
        "changes and later": tuple(f for f in files if f.as_of >= 100),
    }[merged]
    assert (set(plan.files) if plan else set()) == set(chosen)
    assert plan is None or plan.reason


def test_a_plan_never_ends_the_whole_tail_by_halves() -> None:
    """What is merged is all of the settled files, all of the tail, some settled ones, or everything."""
    for count in range(10):
        for rows in (1, 400, 4_000):
            files = (base(100, 1), base(20_000, 2), *changes(count, rows))
            plan = decide_compaction(files, SETTINGS)
            tail = set(files[2:])
            assert plan is None or not tail & set(plan.files) or tail <= set(plan.files)


def test_optimize_merges_everything_once() -> None:
    assert compact_everything(()) is None
    assert compact_everything((base(5),)) is None
    only_deletes = changes(1, 5)
    assert compact_everything(only_deletes).files == only_deletes  # type: ignore[union-attr]
    two = (base(5, 1), base(5, 2))
    assert compact_everything(two).files == two  # type: ignore[union-attr]

"""What a transaction saw just before COMMIT is what everybody sees after it, and what its feed adds up to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Location, rows
from tests.crash.witness import bag, feed_sum, ordered

SETUP = (
    "INSERT INTO t VALUES (1, 10), (2, 20)",
    "UPDATE t SET n = 21 WHERE id = 2",
)
SEQUENCES = [
    "TRUNCATE TABLE t; INSERT INTO t VALUES (1, 1), (5, 5); DELETE FROM t WHERE id = 5",
    "TRUNCATE TABLE t; INSERT INTO t VALUES (1, 1), (5, 5); UPDATE t SET n = 7",
    "INSERT OVERWRITE t VALUES (1, 1), (3, 3); UPDATE t SET n = 4 WHERE id = 3",
    "UPDATE t SET n = n + 1; TRUNCATE TABLE t; INSERT INTO t VALUES (1, 10); UPDATE t SET n = n + 1",
    "INSERT INTO t VALUES (5, 5); UPDATE t SET n = 6 WHERE id = 5; DELETE FROM t WHERE id = 5",
    "DELETE FROM t; INSERT INTO t VALUES (1, 10), (2, 20)",
    "DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (1, 10); DELETE FROM t WHERE id = 2",
]
WAYS: dict[str, dict[str, Any]] = {
    "at the driver": {},
    "by the executors": {"max_driver_rows": 1, "local_tail_rows": 0},
}


@pytest.mark.one_in(12)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"], ids=["keyless", "keyed"])
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_commit_changes_nothing_that_was_seen(sequence: str, key: str, way: str, tmp_path: Path) -> None:
    with Location(str(tmp_path / "warehouse"), None).connect(settings=WAYS[way]) as tr:
        for statement in (f"CREATE TABLE t (id INT, n INT{key})", *SETUP):
            tr.sql(statement)
        before, old = tr.snapshot, bag(rows(tr.table("t")))
        with tr.transaction():
            for statement in sequence.split("; "):
                tr.sql(statement)
            inside = rows(tr.table("t"))
        assert rows(tr.table("t")) == inside
        difference = bag(inside)
        difference.subtract(old)
        assert feed_sum(tr, "t", before, tr.snapshot) == ordered(difference)
        tr.sql("OPTIMIZE t")
        assert rows(tr.table("t")) == inside

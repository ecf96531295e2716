"""The change feed: its labels, its bounds, and the law that it sums to the difference of the contents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from spark_trickle.errors import SnapshotNotFoundError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.spark.paths import Lake, difference, net_feed

_HISTORY = [
    "INSERT INTO {} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)",
    "UPDATE {} SET v = 'B' WHERE id = 2",
    "DELETE FROM {} WHERE id >= 3",
    "UPDATE {} SET id = id + 1",
    "MERGE INTO {} t USING (VALUES (2, 'm'), (9, 'n')) AS s(id, v) ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    "INSERT OVERWRITE {} VALUES (2, 'z'), (5, 'e')",
    "UPDATE {} SET v = v",
    "TRUNCATE TABLE {}",
    "INSERT INTO {} VALUES (1, 'a')",
]
_LABELS: dict[str, list[list[tuple[Any, ...]]]] = {
    ", PRIMARY KEY (id)": [
        [(1, "a", "+"), (2, "b", "+"), (3, "c", "+"), (4, None, "+")],
        [(2, "B", ">"), (2, "b", "<")],
        [(3, "c", "-"), (4, None, "-")],
        # key 1 leaves, key 3 comes, key 2 has another value
        [(1, "a", "-"), (2, "B", "<"), (2, "a", ">"), (3, "B", "+")],
        [(2, "a", "<"), (2, "m", ">"), (9, "n", "+")],
        [(2, "m", "<"), (2, "z", ">"), (3, "B", "-"), (5, "e", "+"), (9, "n", "-")],
        [],
        [(2, "z", "-"), (5, "e", "-")],
        [(1, "a", "+")],
    ],
    "": [
        [(1, "a", "+"), (2, "b", "+"), (3, "c", "+"), (4, None, "+")],
        [(2, "B", ">"), (2, "b", "<")],
        [(3, "c", "-"), (4, None, "-")],
        # without a key, an UPDATE is one because the statement says so
        [(1, "a", "<"), (2, "B", "<"), (2, "a", ">"), (3, "B", ">")],
        # and a MERGE is not
        [(2, "a", "-"), (2, "m", "+"), (9, "n", "+")],
        [(2, "m", "-"), (2, "z", "+"), (3, "B", "-"), (5, "e", "+"), (9, "n", "-")],
        [],
        [(2, "z", "-"), (5, "e", "-")],
        [(1, "a", "+")],
    ],
}
_SIGNS = {"insert": "+", "delete": "-", "update_preimage": "<", "update_postimage": ">"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("key", list(_LABELS), ids=["keyed", "keyless"])
def test_labels_and_the_law(lake: Lake, key: str) -> None:
    """For all a ≤ b: the feed over (a, b] sums to content(b) − content(a), also after compaction."""
    tr, name = lake.tr, f"feed{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (id INT, v STRING{key})")
    snapshots = [tr.snapshot]
    for statement in _HISTORY:
        tr.sql(statement.format(name))
        snapshots.append(tr.snapshot)
    _check_law(tr, name, snapshots)
    commits: dict[int, list[tuple[Any, ...]]] = {s: [] for s in snapshots[1:]}
    for row in rows(tr.changes(name, after=snapshots[0])):
        commits[row[3]].append((row[0], row[1], _SIGNS[row[2]]))
    found = [sorted(commits[s], key=repr) if s != b else [] for b, s in pairwise(snapshots)]
    assert found == _LABELS[key]
    tr.sql(f"OPTIMIZE {name}")
    tr.sql(f"INSERT INTO {name} VALUES (7, 'after')")
    _check_law(tr, name, [*snapshots, tr.snapshot])


def _check_law(tr: Trickle, name: str, snapshots: list[int]) -> None:
    content = {s: rows(tr.table(name, snapshot=s)) for s in dict.fromkeys(snapshots)}
    whole = [(*row[:2], row[2], row[3]) for row in rows(tr.changes(name, after=snapshots[0]))]
    for a in content:
        for b in content:
            if a <= b:
                between = [r for r in whole if a < r[3] <= b]
                signed = [r[:2] for r in between if r[2] in ("insert", "update_postimage")]
                gone = [r[:2] for r in between if r[2] in ("delete", "update_preimage")]
                assert difference(signed, gone) == difference(content[b], content[a]), (a, b)


def test_bounds_of_the_feed(tr: Trickle) -> None:
    """The function and the method take (after, upto]; so does CHANGES, unless INCLUSIVE or EXCLUSIVE say otherwise."""
    tr.sql("CREATE TABLE t (a INT)")
    for n in range(4):
        tr.sql(f"INSERT INTO t VALUES ({n})")
    first = tr.snapshot - 3
    times = {r.snapshot_id: r.snapshot_time for r in tr.sql("SELECT * FROM trickle.snapshots()").collect()}

    def found(query: str) -> list[int]:
        return [r[0] for r in rows(tr.sql(query))]

    assert found(f"SELECT a FROM trickle.changes('t', {first})") == [1, 2, 3]
    assert found(f"SELECT a FROM trickle.changes('main.t', {first}, {first + 2})") == [1, 2]
    assert found(f"SELECT a FROM trickle.changes('t', {first}, {first})") == []
    assert [r[0] for r in rows(tr.changes("t", after=first, upto=first + 1))] == [1]
    changes = (
        f"SELECT c.a FROM t CHANGES FROM VERSION {first} {{}} TO VERSION {first + 2} {{}} AS c WHERE c.a >= 0"
    )
    assert found(changes.format("EXCLUSIVE", "INCLUSIVE")) == [1, 2]
    assert found(changes.format("INCLUSIVE", "EXCLUSIVE")) == [0, 1]
    assert found(changes.format("EXCLUSIVE", "EXCLUSIVE")) == [1]
    assert found(f"SELECT t.a FROM t CHANGES FROM VERSION {first + 1} EXCLUSIVE") == [2, 3]
    by_time = (
        f"SELECT a FROM t CHANGES FROM TIMESTAMP '{times[first]}' EXCLUSIVE TO TIMESTAMP '{times[first + 2]}'"
    )
    assert found(by_time) == [1, 2]
    row = tr.sql(f"SELECT * FROM t CHANGES FROM VERSION {first} EXCLUSIVE TO VERSION {first + 1}").collect()[
        0
    ]
    assert tuple(row) == (1, "insert", first + 1, times[first + 1])
    assert row.asDict().keys() == {"a", "_change_type", "_commit_version", "_commit_timestamp"}
    for wrong in (f"{first}, {first - 1}", f"{first}, 999", "999"):
        with pytest.raises(SnapshotNotFoundError):
            tr.sql(f"SELECT * FROM trickle.changes('t', {wrong})")


def test_the_feed_of_a_table_that_was_altered(tr_sqlite: Trickle) -> None:
    """Old changes are shown in the columns of now."""
    tr = tr_sqlite
    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b STRING)")
    start = tr.snapshot
    tr.sql("INSERT INTO t VALUES (1, 1, 'x')")
    tr.sql("ALTER TABLE t DROP COLUMN b")
    tr.sql("ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
    tr.sql("ALTER TABLE t RENAME COLUMN a TO c")
    tr.sql("ALTER TABLE t ALTER COLUMN c TYPE BIGINT")
    tr.sql("UPDATE t SET c = 5000000000")
    feed = tr.changes("t", after=start)
    assert feed.columns[:3] == ["id", "c", "b"]
    assert [r[:4] for r in rows(feed)] == [
        (1, 1, 7, "insert"), (1, 1, 7, "update_preimage"), (1, 5000000000, 7, "update_postimage"),
    ]  # fmt: skip
    assert net_feed(tr, "t", start) == difference(rows(tr.table("t")), [])


def test_what_the_warehouse_tells_about_itself(tr: Trickle) -> None:
    tr.sql("CREATE TABLE t (id INT, v STRING, PRIMARY KEY (id, v))")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    tr.sql("DELETE FROM t WHERE id = 1")
    tables = tr.sql(
        "SELECT schema_name, table_name, primary_key, row_count, file_count FROM trickle.tables()"
    )
    assert rows(tables) == [("main", "t", "id, v", 2, 2)]
    files = tr.sql(
        "SELECT sum(row_count) AS n, sum(deleted_rows) AS d, sum(size_bytes) > 0 FROM trickle.files('t')"
    )
    assert rows(files) == [(4, 1, True)]
    snapshots = tr.sql(
        "SELECT snapshot_id, snapshot_time FROM trickle.snapshots() ORDER BY snapshot_id"
    ).collect()
    assert [r[0] for r in snapshots] == list(range(tr.snapshot + 1))
    assert sorted(r[1] for r in snapshots) == [r[1] for r in snapshots]
    joined = "SELECT t.id FROM t JOIN trickle.changes('t', 0) c ON t.id = c.id, trickle.tables() x WHERE x.row_count = t.id"
    assert rows(tr.sql(joined)) == [(2,)]

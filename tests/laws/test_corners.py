"""Histories that once went wrong, in their shortest form; each with what must be there in the end."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import spark_trickle
from spark_trickle.errors import DuplicateKeyError, TrickleError
from tests.laws.conditions import LIMITS
from tests.laws.oracle import LakeClient
from tests.laws.run import content_of, feed_of, feed_sum
from tests.laws.values import cell

Row = tuple[Any, ...]


class Case(NamedTuple):
    title: str
    create: str
    setup: list[str]
    change: list[str]
    rows: list[Row]
    feed: list[Row] | None = None  # of the change alone, with the label of each row


NAN = math.nan
_KEYED, _KEYLESS = "k INT, v INT, PRIMARY KEY (k)", "k INT, v INT"
_FOUR = ["INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (4, 4)"]
_THREE = "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)"
_ONE = "INSERT INTO t VALUES (1, 10)"

CASES = [
    Case(
        "a source of MERGE may name its columns behind its alias",
        _KEYED,
        _FOUR,
        [
            "MERGE INTO t USING (VALUES (1, 10), (5, 50)) AS s(k, v) ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ],
        [(1, 10), (2, 2), (3, 3), (4, 4), (5, 50)],
    ),
    Case(
        "UPDATE FROM hits many rows",
        _KEYED,
        _FOUR,
        ["UPDATE t SET v = s.v FROM (SELECT k, v + 10 AS v FROM t) AS s WHERE t.k = s.k"],
        [(1, 11), (2, 12), (3, 13), (4, 14)],
    ),
    Case(
        "UPDATE FROM hits no row",
        _KEYLESS,
        _FOUR,
        ["UPDATE t SET v = s.v FROM (VALUES (6, 0), (7, 0), (8, 0)) AS s(k, v) WHERE t.k = s.k"],
        [(1, 1), (2, 2), (3, 3), (4, 4)],
        [],
    ),
    Case(
        "MERGE deletes all rows that no source row matches",
        _KEYLESS,
        _FOUR,
        ["MERGE INTO t USING (SELECT 1 AS k) AS s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE"],
        [(1, 1)],
        [(2, 2, "delete"), (3, 3, "delete"), (4, 4, "delete")],
    ),
    Case(
        "a table with lists loses a row",
        "k INT, x ARRAY<INT>, PRIMARY KEY (k)",
        ["INSERT INTO t VALUES (1, array(1)), (2, NULL), (3, array(NULL))"],
        ["DELETE FROM t WHERE k = 2"],
        [(1, [1]), (3, [None])],
        [(2, None, "delete")],
    ),
    Case(
        "NaN is above every number",
        "k INT, d DOUBLE",
        ["INSERT INTO t VALUES (1, 0.5D), (2, CAST('NaN' AS DOUBLE)), (3, 0.1D)"],
        ["DELETE FROM t WHERE d > 100"],
        [(1, 0.5), (3, 0.1)],
    ),
    Case(
        "NaN equals itself",
        "k INT, d DOUBLE",
        ["INSERT INTO t VALUES (1, 0.5D), (2, CAST('NaN' AS DOUBLE)), (3, 0.1D)"],
        ["UPDATE t SET k = 9 WHERE d = CAST('NaN' AS DOUBLE)"],
        [(1, 0.5), (3, 0.1), (9, NAN)],
    ),
    Case(
        "zero changes its sign",
        "k INT, d DOUBLE, PRIMARY KEY (k)",
        ["INSERT INTO t VALUES (1, 0.0D), (2, -0.0D), (3, 0.0D)"],
        ["UPDATE t SET d = -0.0D"],
        [(1, -0.0), (2, -0.0), (3, -0.0)],
    ),
    Case(
        "zeros of both signs stand side by side",
        "k INT, d DOUBLE",
        ["INSERT INTO t VALUES (1, 0.0D), (1, -0.0D), (1, 0.0D), (2, 1.0D)"],
        ["DELETE FROM t WHERE k = 2"],
        [(1, 0.0), (1, 0.0), (1, -0.0)],
    ),
    Case(
        "zero changes its sign inside a list",
        "k INT, d ARRAY<DOUBLE>",
        ["INSERT INTO t VALUES (1, array(0.0D)), (2, array(0.0D)), (3, NULL)"],
        ["UPDATE t SET d = array(-0.0D) WHERE k < 3", "DELETE FROM t WHERE k = 3"],
        [(1, [-0.0]), (2, [-0.0])],
    ),
    Case(
        "a default may look like a placeholder",
        "k INT, s STRING DEFAULT '{source}'",
        [],
        ["INSERT INTO t (k) VALUES (1), (2), (3)"],
        [(1, "{source}"), (2, "{source}"), (3, "{source}")],
    ),
    Case(
        "a NaN key stays where it is",
        "d DOUBLE, v INT, PRIMARY KEY (d)",
        ["INSERT INTO t VALUES (CAST('NaN' AS DOUBLE), 1), (1, 1), (2, 2)"],
        ["UPDATE t SET d = d + 0, v = 7"],
        [(NAN, 7), (1.0, 7), (2.0, 7)],
    ),
    Case(
        "a transaction empties a table, fills it again and changes it",
        _KEYED,
        _FOUR,
        [
            "BEGIN",
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
            "UPDATE t SET v = v + 1",
            "COMMIT",
        ],
        [(1, 11), (2, 21), (3, 31)],
        [
            *((k, k, "update_preimage") for k in (1, 2, 3)),
            *((k, 10 * k + 1, "update_postimage") for k in (1, 2, 3)),
            (4, 4, "delete"),
        ],
    ),
    Case(
        "the same without a key",
        _KEYLESS,
        _FOUR,
        [
            "BEGIN",
            "TRUNCATE TABLE t",
            "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)",
            "DELETE FROM t WHERE k < 3",
            "INSERT INTO t VALUES (1, 10)",
            "COMMIT",
        ],
        [(1, 10), (3, 30)],
        [*((k, k, "delete") for k in (1, 2, 3, 4)), (1, 10, "insert"), (3, 30, "insert")],
    ),
    Case(
        "a transaction changes a table, then empties it",
        _KEYED,
        _FOUR,
        ["BEGIN", "UPDATE t SET v = v + 1", "TRUNCATE TABLE t", "COMMIT"],
        [],
        [(k, k, "delete") for k in (1, 2, 3, 4)],
    ),
    Case(
        "a list column is renamed between two inserts of a transaction",
        "k INT, a ARRAY<INT>",
        [],
        [
            "BEGIN",
            "INSERT INTO t VALUES (1, array(1)), (2, array(2)), (3, NULL)",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "INSERT INTO t VALUES (4, array(1)), (5, array(2)), (6, NULL)",
            "COMMIT",
        ],
        [(1, [1]), (2, [2]), (3, None), (4, [1]), (5, [2]), (6, None)],
    ),
]


def _bag(rows: list[Row]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(cell(v) for v in row) for row in rows)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_corner(case: Case, limit: int, tmp_path: Path, lake: LakeClient) -> None:
    warehouse = tmp_path / "warehouse"
    with spark_trickle.connect(warehouse, settings={"max_driver_rows": limit}) as tr:
        tr.sql(f"CREATE TABLE t ({case.create})")
        created = tr.snapshot
        for statement in case.setup:
            tr.sql(statement)
        before = tr.snapshot
        for statement in case.change:
            tr.sql(statement)
        due = _bag(case.rows)
        assert content_of(tr) == due
        assert lake.bag(warehouse, tr.snapshot) == due
        assert feed_sum(tr, created) == due
        if case.feed is not None:
            assert feed_of(tr, before) == _bag(case.feed)


REFUSED = [
    ("0.0 and −0.0 are one key", ["(0.0D), (-0.0D), (1D)"], DuplicateKeyError),
    ("0.0 meets −0.0 that is there", ["(0.0D), (1D), (2D)", "(-0.0D), (3D), (4D)"], DuplicateKeyError),
    ("NaN is a key like others", ["(CAST('NaN' AS DOUBLE)), (1D), (2D)"] * 2, DuplicateKeyError),
]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(("title", "batches", "error"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refused(
    title: str, batches: list[str], error: type[TrickleError], limit: int, tmp_path: Path
) -> None:
    with spark_trickle.connect(tmp_path / "warehouse", settings={"max_driver_rows": limit}) as tr:
        tr.sql("CREATE TABLE t (d DOUBLE, PRIMARY KEY (d))")
        *first, last = batches
        for rows in first:
            tr.sql(f"INSERT INTO t VALUES {rows}")
        before = content_of(tr)
        with pytest.raises(error):
            tr.sql(f"INSERT INTO t VALUES {last}")
        assert content_of(tr) == before, title

"""The shortest way through the warehouse, on both catalogs, read by Spark and by DuckDB."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spark_trickle.session import Trickle
from tests.conftest import DuckQuery, rows

pytestmark = pytest.mark.both_catalogs


def test_create_change_and_read(tr: Trickle, duck: DuckQuery) -> None:
    tr.sql("CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id))")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    first = tr.snapshot
    tr.sql("UPDATE t SET name = 'B' WHERE id = 2")
    tr.sql("DELETE FROM t WHERE id = 1")
    now = [(2, "B"), (3, None)]
    assert rows(tr.sql("SELECT * FROM t")) == now
    assert sorted(duck("SELECT * FROM lake.t")) == now
    assert rows(tr.table("t", snapshot=first)) == [(1, "a"), (2, "b"), (3, None)]
    assert sorted(duck("SELECT * FROM lake.t", snapshot=first)) == [(1, "a"), (2, "b"), (3, None)]


def test_a_session_has_what_exact_results_need(tr: Trickle) -> None:
    """A guide lists them; without one of them some query is wrong."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "spark-and-postgresql.md").read_text()
    listed = re.findall(r"^\| `(spark\.[\w.]+)` \| `(\w+)` \|", guide, re.MULTILINE)
    assert len(listed) == 6
    assert {name: tr.spark.conf.get(name) for name, _ in listed} == dict(listed)

"""Rows that are long: what comes to the driver is bounded in bytes, whatever is changed, read or refreshed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle import Trickle, connect
from spark_trickle.model.room import Room
from spark_trickle.spark import collect as collecting
from spark_trickle.spark.collect import TooLarge, collect_few, collect_known, collect_within
from spark_trickle.spark.width import width_of

ROOM = {"driver_megabytes": 1.0, "broadcast_megabytes": 0.1}
MIB = 2**20


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of everything that comes to the driver through spark/collect."""
    found: list[int] = []
    real = collecting.collect

    def noting(frame: Any) -> pa.Table:
        rows = real(frame)
        found.append(rows.nbytes)
        return rows

    monkeypatch.setattr(collecting, "collect", noting)
    return found


# --- one frame -------------------------------------------------------------------------------------


FRAMES = {
    "numbers": ("SELECT id, id * 2.5 AS d FROM range(1000)", True),
    "short texts": ("SELECT id, concat('text ', id) AS s FROM range(1000)", True),
    "a few long ones": ("SELECT id, repeat('x', 30000) AS s FROM range(20)", True),
    "a few long ones behind short ones": (
        "SELECT id, repeat('x', IF(id % 400 = 399, 30000, 3)) AS s FROM range(2000)",
        True,
    ),
    "long texts": ("SELECT id, repeat('x', 30000) AS s FROM range(1000)", False),
    "long at the end": ("SELECT id, repeat('x', IF(id < 950, 1, 300000)) AS s FROM range(1000)", False),
    "binaries": ("SELECT CAST(repeat('x', 30000) AS BINARY) AS b FROM range(1000)", False),
    "lists": ("SELECT sequence(1, 3000) AS a FROM range(1000)", False),
    "lists of texts": ("SELECT array(repeat('x', 9000), NULL, 'y') AS a FROM range(1000)", False),
    "in parts": ("SELECT struct(id, array(struct(repeat('x', 9000) AS t))) AS p FROM range(1000)", False),
    "nulls": ("SELECT CAST(NULL AS STRING) AS s, CAST(NULL AS ARRAY<STRING>) AS a FROM range(1000)", True),
    "nothing": ("SELECT 'x' AS s WHERE false", True),
    "too many": ("SELECT id FROM range(6000)", False),
    "too many short texts": ("SELECT string(id) AS s FROM range(6000)", False),
    "wide": (f"SELECT {', '.join(f'id + {n} AS c{n}' for n in range(300))} FROM range(1000)", False),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("known", [False, True])
def test_rows_come_if_there_is_room(module_tr: Trickle, brought: list[int], name: str, known: bool) -> None:
    sql, fits = FRAMES[name]
    frame, room = module_tr.spark.sql(sql), Room(5000, 2 * MIB)
    rows = collect_known(frame, room, frame.count()) if known else collect_few(frame, room)
    assert (rows is not None) is fits
    if rows is not None:
        assert Counter(map(json.dumps, _listed(rows))) == Counter(map(json.dumps, _listed(frame.toArrow())))
        assert rows.column_names == frame.columns
    assert max(brought, default=0) <= 40 * MIB  # of 300 MB and more, few times the room


def _listed(rows: pa.Table) -> list[Any]:
    return [list(map(str, row.values())) for row in rows.to_pylist()]


WIDTHS = {
    "id": "CAST(7 AS BIGINT)",
    "s": "repeat('ä', 50)",
    "b": "CAST('abc' AS BINARY)",
    "a": "array(1L, 2L, NULL)",
    "t": "array('abc', NULL, 'defg')",
    "p": "struct(1L AS x, 'abc' AS y, array('q') AS z)",
    "l": "array(array('ab', 'c'), NULL, array())",
    "m": "map('k', array('v', 'w'))",
    "n": "CAST(NULL AS ARRAY<STRUCT<a: STRING>>)",
    "d": "CAST(1.5 AS DECIMAL(20, 2))",
}


@pytest.mark.parametrize("name", WIDTHS)
def test_the_width_of_a_row_is_near_what_arrow_takes(module_tr: Trickle, name: str) -> None:
    frame = module_tr.spark.sql(f"SELECT {WIDTHS[name]} AS `{name} .` FROM range(1000)")
    told = frame.selectExpr(f"sum({width_of(frame.schema.fields).sql}) AS n").collect()[0].n
    taken = frame.toArrow().nbytes
    assert 0.5 * taken <= told <= 2 * taken + 9000


# --- statements and refreshes ----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_walk_over_short_and_long_documents(tmp_path: Path, brought: list[int], seed: int) -> None:
    """Tiny changes and large ones, short texts and long ones, in any order: exact, and never too much."""
    choose = random.Random(seed)
    with connect(tmp_path / "w", settings=ROOM) as tr:
        tr.sql("CREATE TABLE docs (id BIGINT PRIMARY KEY, body STRING)")
        tr.sql("CREATE TABLE copies (id BIGINT, body STRING)")
        tr.sql("CREATE STREAM TABLE shown REFRESH MODE DIFFERENTIAL AS SELECT id, upper(body) AS b FROM docs")
        tr.sql(
            "CREATE STREAM TABLE paired REFRESH MODE DIFFERENTIAL AS "
            "SELECT c.id, length(d.body) AS n, left(c.body, 3) AS c FROM docs d JOIN copies c ON d.id = c.id"
        )
        first = 0
        for _ in range(16):
            size = choose.choice([5, 30_000])
            by, rest = choose.choice([(2, 0), (3, 1), (50, 7)])
            many = choose.choice([1, 40, 150])
            statements = [
                f"INSERT INTO docs SELECT id, repeat('x', {size}) FROM range({first}, {first + many})",
                f"UPDATE docs SET body = concat(left(body, {size}), 'y') WHERE id % {by} = {rest}",
                f"UPDATE docs SET body = repeat('z', {size}) WHERE id % {by} = {rest}",
                f"DELETE FROM docs WHERE id % {by} = {rest}",
                f"INSERT INTO copies SELECT * FROM docs WHERE id % {by} = {rest}",
                "MERGE INTO copies USING docs ON docs.id = copies.id WHEN MATCHED THEN UPDATE "
                f"SET body = left(docs.body, {size}) WHEN NOT MATCHED AND docs.id % {by} = {rest} THEN INSERT *",
                f"DELETE FROM copies WHERE id % {by} = {rest}",
                "OPTIMIZE copies",
                "TRUNCATE TABLE copies",
            ]
            text = choose.choice([statements[0], *statements])
            if text is statements[0]:
                first += many
            tr.sql(text)
            for name in ("shown", "paired"):
                tr.refresh(name)
                assert tr.sql(f"SELECT * FROM trickle.audit('{name}')").collect() == [], (text, name)
    assert max(brought) <= 20 * MIB


def test_keys_without_a_broadcast(tmp_path: Path) -> None:
    """What went from a table without a key is too much to be sent around: it is merged."""
    with connect(tmp_path / "w", settings={**ROOM, "auto_compact": False, "local_tail_rows": 0}) as tr:
        tr.sql("CREATE TABLE k (s STRING)")
        tr.sql("INSERT INTO k SELECT concat(id % 5000, repeat('x', 300)) FROM range(10000)")
        tr.sql("DELETE FROM k WHERE s LIKE '1%'")
        tr.sql("DELETE FROM k WHERE s LIKE '2%'")
        plan = tr.table("k")._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
        assert "strategy=merge" in plan
        assert "strategy=broadcast" not in plan
        left = [n for n in range(5000) if str(n)[0] not in "12"]
        assert tr.sql("SELECT count(*) AS n, count(DISTINCT s) AS d FROM k").collect()[0][:] == (
            2 * len(left),
            len(left),
        )


def test_files_tell_what_their_rows_take(tmp_path: Path) -> None:
    """Also where equal texts are in the file only once."""
    with connect(tmp_path / "w", settings={"max_driver_rows": 100}) as tr:
        tr.sql("CREATE TABLE t (id BIGINT, body STRING)")
        for rows in (50, 3000):
            tr.sql(f"INSERT INTO t SELECT id, repeat('x', 1000) FROM range({rows})")
        work = tr._connection.read()
        files = work.files(work.catalog.table(("t",), "main"))
        for rows in (50, 3000):
            memory = sum(f.memory for f in files if (f.rows > 50) == (rows > 50))
            assert 1000 * rows <= memory <= 1100 * rows
        assert sum(f.bytes for f in files) < 100_000


SMALL_RESULTS = """
import sys
from pyspark.sql import SparkSession
import spark_trickle
spark = (SparkSession.builder.master("local[2]").config("spark.driver.maxResultSize", "8m")
         .config("spark.ui.enabled", "false").config("spark.sql.timeType.enabled", "true")
         .config("spark.log.level", "OFF").getOrCreate())
with spark_trickle.connect(sys.argv[1], spark=spark) as tr:
    tr.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, body STRING)")
    tr.sql("CREATE STREAM TABLE s AS SELECT id, upper(body) AS b FROM t")
    tr.sql("INSERT INTO t SELECT id, repeat(string(id % 10), 39000) FROM range(600)")
    tr.refresh("s")
    tr.sql("UPDATE t SET body = concat(body, 'y') WHERE id % 2 = 0")
    tr.refresh("s")
    print(tr.sql("SELECT count(*), sum(length(b)) FROM s").collect()[0][:])
    try:
        tr.arrow("SELECT * FROM s")
    except spark_trickle.TrickleError as refused:
        print(refused.code)
"""


@pytest.mark.slow
def test_less_than_expected_may_come(tmp_path: Path) -> None:
    """A session whose maxResultSize is smaller than the room: what does not come stays on the executors."""
    done = subprocess.run(
        [sys.executable, "-c", SMALL_RESULTS, str(tmp_path / "w")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": "pyspark-shell"},
        check=False,
        timeout=300,
    )
    assert done.stdout.split("\n")[:2] == [f"(600, {600 * 39000 + 300})", "RESULT_TOO_LARGE"], done.stderr[
        -3000:
    ]


def test_columns_of_one_name(module_tr: Trickle) -> None:
    frame = module_tr.spark.sql("SELECT 1 AS a, 'x' AS a, 'y' AS A")
    rows = collect_within(frame, Room(10, MIB))
    assert not isinstance(rows, TooLarge)
    assert (rows.column_names, [c.to_pylist() for c in rows.columns]) == (
        ["a", "a", "A"],
        [[1], ["x"], ["y"]],
    )


TOO_LARGE = {
    "many rows": ("SELECT id FROM range(6000)", None, "the result has more than 5,000 rows"),
    "rows of many columns": (
        f"SELECT {', '.join(f'id + {n} AS c{n}' for n in range(300))} FROM range(1000)",
        None,
        "the result has more than 873 rows, which may take more than 2,097,152 bytes",
    ),
    "rows that were long so far": (
        "SELECT id FROM range(30)",
        MIB // 20,
        "the result has more than 20 rows, which may take more than 2,097,152 bytes",
    ),
    "long texts": (
        "SELECT repeat('x', 30000) AS s FROM range(300)",
        None,
        "the result takes more than 2,097,152 bytes",
    ),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_it_says_why_there_is_no_room(module_tr: Trickle, name: str) -> None:
    sql, row_bytes, reason = TOO_LARGE[name]
    assert collect_within(module_tr.spark.sql(sql), Room(5000, 2 * MIB), row_bytes) == TooLarge(reason)

"""What it costs that an update is a delete and an insert: writing, scanning and collapsing changes.

The reference system expects of its change tables that an update written as two rows costs up to 15% more to
write than one wide row; that a scan of a 50-column change gains 20% because columns are stored once; and that
rows which changed more than once gain 30% because nothing has to look for their first and last change. Our
storage has no wide form to compare with: a change is rows with weights in Parquet, −1 for the old row and +1
for the new one. Restated for it:

- An UPDATE writes twice the rows of an append, so at most about twice its bytes, and it writes one file.
  A DELETE by key writes one row for each that goes. Widths of 3 to 50 columns change none of that.
- A refresh that needs 3 of 50 columns must cost less than one that needs all of them.
- Weights are summed before anything is computed: a row that changed 100 times between two refreshes costs
  its 100 small files, but the same one row of work.

A fourth expectation, that pages are read 40% less often because a change is scanned once, is a count and no
time: tests/spark/test_refresh_costs.py holds that a change is scanned once for all who read it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median

import spark_trickle
from benchmarks.contest import require_exact
from benchmarks.timing import add, clocked, measured, ratio, timed
from spark_trickle.session import Trickle

WIDTHS = (3, 8, 20, 50)
BATCH = 1_000
TIMES = (1, 10, 100)
_WARM_UP = 1
_KINDS = (("INT", "int(id % 1000)"), ("STRING", "concat('item ', id % 5000)"), ("DOUBLE", "id * 0.37"))


def run(rows: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Compaction would write at times of its own choice.
        settings = {"auto_compact": False}
        with spark_trickle.connect(f"{folder}/warehouse", settings=settings) as tr:
            for width in WIDTHS:
                # Enough for every statement to have rows of its own.
                _create(tr, width, max(rows // 10, 8 * BATCH * (_WARM_UP + rounds + 1)))
                _writes(tr, Path(folder) / "warehouse", width, rounds)
            _scans(tr, WIDTHS[-1], rounds)
            _collapse(tr, WIDTHS[0], rounds)


def _columns(width: int) -> list[tuple[str, str, str]]:
    """Name, type and value of the columns after the key."""
    return [(f"c{n}", *_KINDS[n % len(_KINDS)]) for n in range(width - 1)]


def _create(tr: Trickle, width: int, rows: int) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in _columns(width))
    tr.sql(f"CREATE TABLE w{width} (id BIGINT, {columns}, PRIMARY KEY (id))")
    tr.append(f"w{width}", tr.spark.range(rows).selectExpr("id", *_values(width)))


def _values(width: int) -> list[str]:
    return [f"{value} AS {name}" for name, _, value in _columns(width)]


# --- writing -------------------------------------------------------------------------------------


def _writes(tr: Trickle, folder: Path, width: int, rounds: int) -> None:
    """Each statement on a thousand rows of its own, and an append of a thousand to a table without a key."""
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in _columns(width))
    tr.sql(f"CREATE TABLE plain{width} (id BIGINT, {columns})")
    number = count(1)
    listed = ", ".join(_values(width))

    def between(n: int) -> str:
        return f"id BETWEEN {n * 2 * BATCH} AND {n * 2 * BATCH + BATCH - 1}"

    statements: dict[str, Callable[[int], str]] = {
        "append": lambda n: f"INSERT INTO plain{width} SELECT id, {listed} FROM range({n}, {n + BATCH})",
        "INSERT": lambda n: (
            f"INSERT INTO w{width} SELECT id, {listed} "
            f"FROM range({10**9 + n * BATCH}, {10**9 + n * BATCH + BATCH})"
        ),
        "UPDATE": lambda n: f"UPDATE w{width} SET c0 = c0 + 1 WHERE {between(n)}",
        "DELETE": lambda n: f"DELETE FROM w{width} WHERE {between(n)}",
    }
    times: dict[str, list[float]] = {name: [] for name in statements}
    written: dict[str, list[tuple[int, int]]] = {name: [] for name in statements}
    for turn in range(_WARM_UP + rounds):
        for name, statement in statements.items():
            before = _stored(folder)
            ms = timed(partial(tr.sql, statement(next(number))))
            now = _stored(folder)
            if turn >= _WARM_UP:
                times[name].append(ms)
                written[name].append((len(now) - len(before), sum(now.values()) - sum(before.values())))
    base = measured("append", times.pop("append"))
    size = median(b for _, b in written["append"])
    for name, found in times.items():
        assert all(files for files, _ in written[name]), name
        files, bytes_ = (median(values) for values in zip(*written[name], strict=True))
        detail = {"files": files, "bytes": bytes_, "bytes ÷ append": round(bytes_ / size, 2)}
        label = f"write {BATCH:,} rows, {width} columns"
        add("dplusi", [ratio(label, measured(name, found), base, None, detail)])


def _stored(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*.parquet")}


# --- scanning ------------------------------------------------------------------------------------


def _scans(tr: Trickle, width: int, rounds: int) -> None:
    """Both refreshes are one Spark job over the same change; the one needs all columns of it."""
    every = ", ".join(f"max({name}) AS {name}" for name, _, _ in _columns(width))
    queries = {
        "3 columns": f"SELECT c0, count(*) AS n, min(c1) AS low FROM w{width} GROUP BY c0",
        f"{width} columns": f"SELECT c0 AS k, count(*) AS n, {every} FROM w{width} GROUP BY c0",
    }
    names = {label: f"needs_{n}" for n, label in enumerate(queries)}
    for label, query in queries.items():
        tr.sql(f"CREATE STREAM TABLE {names[label]} REFRESH MODE DIFFERENTIAL AS {query}")
    times: dict[str, list[float]] = {label: [] for label in queries}
    for turn in range(_WARM_UP + rounds):
        tr.sql(f"UPDATE w{width} SET c2 = c2 + 1 WHERE id % 10 = {turn % 10}")
        for label, name in names.items():
            ms = timed(partial(tr.refresh, name))
            if turn >= _WARM_UP:
                times[label].append(ms)
    for name in names.values():
        require_exact(tr, name)
        tr.sql(f"DROP STREAM TABLE {name}")
    few, all_ = (measured(label, found) for label, found in times.items())
    add("dplusi", [ratio(f"scan a change of {width} columns", few, all_, 1.0)])


# --- collapsing ----------------------------------------------------------------------------------


def _collapse(tr: Trickle, width: int, rounds: int) -> None:
    """A hundred rows that change again and again before anyone looks."""
    tr.sql(
        f"CREATE STREAM TABLE collapsed REFRESH MODE DIFFERENTIAL AS "
        f"SELECT c1, sum(c0) AS total, count(*) AS n FROM w{width} GROUP BY c1"
    )
    rows: dict[int, int] = {}
    times: dict[int, list[float]] = {n: [] for n in TIMES}
    for turn in range(_WARM_UP + rounds):
        for changes in TIMES:
            for _ in range(changes):
                tr.sql(f"UPDATE w{width} SET c0 = c0 + 1 WHERE id BETWEEN 100 AND 199")
            ms, report = clocked(lambda: tr.refresh("collapsed"))
            rows[changes] = report.delta_rows
            if turn >= _WARM_UP:
                times[changes].append(ms)
    require_exact(tr, "collapsed")
    found = {n: measured(f"changed {n} times", t) for n, t in times.items()}
    for n in TIMES[1:]:
        detail = {"changed rows": float(rows[n])}
        add("dplusi", [ratio("refresh after 100 rows changed", found[n], found[TIMES[0]], None, detail)])

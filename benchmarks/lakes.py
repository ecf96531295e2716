"""A refresh over a Delta table in place, against one over a table of ours, and against computing all."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

import spark_trickle
from benchmarks.timing import Measured, Ratio, add, clocked, measured, ratio
from spark_trickle.session import Trickle

_ROOT = Path(__file__).parents[1]
_OFFICIAL = _ROOT / ".connectors" / "bin" / "python"  # made by `make .connectors`
_COLUMNS = "id BIGINT, customer INT, amount BIGINT, item STRING"
_ROWS = (
    "SELECT id, CAST(id % 1000 AS INT) AS customer, id % 777 AS amount, concat('item ', id % 5000) AS item "
    "FROM range({})"
)
_QUERY = "SELECT customer, count(*) AS n, sum(amount) AS total FROM {} GROUP BY customer"
_SHARE = 100  # one row of so many changes
_FILES = 10
_FEED = {"delta.enableChangeDataFeed": "true"}

Merge = Callable[
    [Trickle, str, int, int], None
]  # …, the folder of the table, its rows, the number of the round


def run(rows: int, rounds: int) -> None:
    """In each round a MERGE changes one row of a hundred; only the sync and the refreshes are timed."""
    add("lakes", _compare("files rewritten", {}, rows, rounds, _merge_with_library))
    add("lakes", _compare("change data feed", _FEED, rows, rounds, _merge_with_library))
    if not _OFFICIAL.exists():  # the library for Python cannot write deletion vectors
        print("deletion vectors are left out: run make .connectors first")
        return
    with _open_official() as merge:
        add("lakes", _compare("deletion vectors", {}, rows, rounds, merge))


def _compare(
    way: str,
    properties: dict[str, str],
    rows: int,
    rounds: int,
    merge: Merge,
) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        path = f"{folder}/lake/there"
        for n in range(_FILES):
            part = tr.spark.sql(_ROWS.format(f"{n * rows // _FILES}, {(n + 1) * rows // _FILES}"))
            write_deltalake(path, part.toArrow(), mode="append", configuration=properties)
        tr.attach_source("lake", "delta", path=f"{folder}/lake")
        tr.sql("CREATE TABLE there FROM SOURCE lake.there")
        tr.sql(f"CREATE TABLE here ({_COLUMNS})")
        tr.append("here", tr.table("there"))
        for name in ("there", "here"):
            tr.sql(f"CREATE STREAM TABLE of_{name} AS {_QUERY.format(name)}")
        times: dict[str, list[float]] = {}
        for n in range(rounds + 1):
            merge(tr, path, rows, n)
            tr.sql(f"UPDATE here SET amount = amount + 1 WHERE id % {_SHARE} = {n}")
            timed: dict[str, Callable[[], object]] = {
                "sync": lambda: tr.sync("lake"),
                "refresh in place": lambda: tr.refresh("of_there"),
                "refresh of a table of ours": lambda: tr.refresh("of_here"),
                "computing everything": lambda: _compute_all(tr, path),
            }
            for name, action in timed.items():
                took, _ = clocked(action)
                if n:  # the first round warms up
                    times.setdefault(name, []).append(took)
        assert sorted(tr.table("of_there").collect()) == sorted(tr.table("of_here").collect())
    medians = {name: measured(name, taken) for name, taken in times.items()}
    return _make_lines(f"1% of {rows:,} rows, {way}", medians)


def _make_lines(benchmark: str, medians: dict[str, Measured]) -> list[Ratio]:
    refresh, full = medians["refresh in place"], medians["computing everything"]
    return [
        ratio(benchmark, refresh, medians["refresh of a table of ours"], 1.5),
        ratio(benchmark, refresh, full, 0.1),
        ratio(benchmark, medians["sync"], full),
    ]


def _compute_all(tr: Trickle, path: str) -> None:
    files = DeltaTable(path).file_uris()
    tr.spark.read.parquet(*files).createOrReplaceTempView("lake_files")
    tr.spark.sql(_QUERY.format("lake_files")).write.format("noop").mode("overwrite").save()


def _merge_with_library(tr: Trickle, path: str, rows: int, number: int) -> None:
    changed = tr.spark.range(number, rows, _SHARE).toArrow()
    merging = DeltaTable(path).merge(changed, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update({"amount": "t.amount + 1"}).execute()


@contextmanager
def _open_official() -> Iterator[Merge]:
    """Another Spark with the official jar."""
    with tempfile.TemporaryDirectory() as folder:
        command = [str(_OFFICIAL), str(_ROOT / "tests" / "connectors" / "writer.py"), folder]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()

        def ask(statement: str) -> None:
            process.stdin.write(json.dumps(statement) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert "error" not in answer, answer

        def merge(tr: Trickle, path: str, rows: int, number: int) -> None:
            if number == 0:
                ask(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
            source = f"(SELECT id FROM range({number}, {rows}, {_SHARE}))"
            ask(
                f"MERGE INTO delta.`{path}` t USING {source} s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET t.amount = t.amount + 1"
            )

        yield merge
        process.stdin.close()
        process.wait(60)

"""A few changed rows of a large stream table that is published, against writing all of it again.

What is timed is the refresh with its push. The same change, worked out by hand, is merged into another Delta
table by the library.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from deltalake import DeltaTable, write_deltalake

import spark_trickle
from benchmarks.timing import Ratio, add, clocked, measured, ratio
from spark_trickle.session import Trickle

_CHANGED = 10_000
_ROWS = (
    "SELECT id, CAST(id % 1000 AS INT) AS customer, id % 777 AS amount, concat('item ', id % 5000) AS item "
    "FROM range({})"
)
# Which rows change in a round: as many from all over the table, or those that lie together.
_MIXES = {
    "spread": "id % {share} = {number}",
    "together": "id >= {first} AND id < {first} + {changed}",
}


def run(rows: int, rounds: int) -> None:
    for feed in (False, True):
        add("publish", _compare(rows, rounds, feed))


def _compare(rows: int, rounds: int, feed: bool) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder, spark_trickle.connect(f"{folder}/warehouse") as tr:
        tr.sql("CREATE TABLE orders (id BIGINT, customer INT, amount BIGINT, item STRING, PRIMARY KEY (id))")
        tr.append("orders", tr.spark.sql(_ROWS.format(rows)))
        tr.sql("CREATE STREAM TABLE live AS SELECT * FROM orders")
        lake = Path(folder) / "lake"
        write_deltalake(lake / "by_hand", tr.spark.sql(_ROWS.format(rows)).toArrow())
        tr.attach_source("lake", "delta", path=str(lake))
        tr.publish("live", "lake", change_data_feed=str(feed).lower())
        found: list[Ratio] = []
        for mix in _MIXES:
            found += _measure_mix(tr, lake, rows, rounds, mix, feed)
        return found


def _measure_mix(tr: Trickle, lake: Path, rows: int, rounds: int, mix: str, feed: bool) -> list[Ratio]:
    times: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        which = _MIXES[mix].format(
            share=rows // _CHANGED, number=number, first=number * _CHANGED, changed=_CHANGED
        )
        tr.sql(f"UPDATE orders SET amount = amount + 1 WHERE {which}")
        timed: dict[str, Callable[[], object]] = {
            "refresh and publish": partial(tr.refresh, "live"),
            "writing all rows": partial(_write_all, tr, lake.parent / "all"),
            "MERGE by hand": partial(_merge_by_hand, tr, lake / "by_hand", which),
        }
        for name, action in timed.items():
            took, _ = clocked(action)
            if number:  # the first round warms up
                times.setdefault(name, []).append(took)
    there = DeltaTable(lake / "live")
    assert there.count() == rows
    medians = {name: measured(name, taken) for name, taken in times.items()}
    way = "with a change data feed" if feed else "without a change data feed"
    benchmark = f"{_CHANGED:,} of {rows:,} rows, {mix}, {way}"
    ours = medians["refresh and publish"]
    return [ratio(benchmark, ours, medians[name]) for name in ("writing all rows", "MERGE by hand")]


def _write_all(tr: Trickle, path: Path) -> None:
    tr.table("live").write.mode("overwrite").parquet(str(path))
    shutil.rmtree(path)


def _merge_by_hand(tr: Trickle, path: Path, which: str) -> None:
    changed = tr.spark.sql(f"{_ROWS.format(DeltaTable(path).count())} WHERE {which}").toArrow()
    merging = DeltaTable(path).merge(changed, "t.id = s.id", source_alias="s", target_alias="t")
    merging.when_matched_update({"amount": "t.amount + 1"}).execute()

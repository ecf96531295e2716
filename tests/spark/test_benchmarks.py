"""The benchmarks still run, at tiny sizes; each checks by itself that what it measured is exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import floor, lakes, matrix, nexmark_speed, peers, publish, store, timing, tpch_speed

RUNS: dict[str, Callable[[], object]] = {
    "matrix": lambda: matrix.run(2_000, (1.0,), 1, ("scan", "join_agg")),
    "floor": lambda: floor.run(2_000, 1, ("scan", "aggregate")),
    "tpch": lambda: tpch_speed.run(0.01, (1.0,), 1, ("q1",), tpch_speed.MIXES),
    "nexmark": lambda: nexmark_speed.run(500, 100, 0, 1, ("q3",)),
    "peers": lambda: peers.run(2_000, 1, ("join",)),
    "lakes": lambda: lakes.run(2_000, 1),
    "publish": lambda: publish.run(20_000, 1),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", RUNS)
def test_a_benchmark_keeps_what_it_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    RUNS[name]()
    (kept,) = tmp_path.iterdir()
    assert kept.stem == name
    assert kept.read_text().strip()

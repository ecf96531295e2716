"""The page of the benchmarks says what was measured, and results of other sizes and older runs stay readable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import render, store, timing
from benchmarks.contest import Cell, Took
from benchmarks.matrix import STORE
from benchmarks.plots import Line, chart
from benchmarks.sections import mean_speed_up
from benchmarks.timing import add, load, measured, ratio

CELL = Cell("scan", 1_000, 1.0, 100.0, 50.0, 2.0, 0.1, "DIFFERENTIAL", 3)


def test_the_page_is_what_the_results_make() -> None:
    assert list(render.stale()) == [], "run make bench-render"


def test_results_of_other_sizes_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    larger, again = replace(CELL, rows=2_000), replace(CELL, speed_up=3.0)
    for cell in (CELL, larger, again):
        STORE.add([cell])
    assert STORE.load() == [again, larger]


def test_older_lines_have_no_newer_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "RESULTS", tmp_path)
    (tmp_path / "matrix.jsonl").write_text(
        '{"scenario": "scan", "rows": 1000, "percent": 1.0, "full_ms": 100.0, "differential_ms": 50.0, '
        '"speed_up": 2.0, "spread": 0.1, "chosen": "DIFFERENTIAL", "rounds": 3}\n'
    )
    assert STORE.load() == [CELL]


def test_the_same_comparison_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "RESULTS", tmp_path)
    slow, fast, base = measured("a", [4.0, 4.0]), measured("a", [2.0, 2.0]), measured("b", [2.0, 2.0])
    other = ratio("y", fast, base, detail={"files": 1.0})
    add("x", [ratio("y", slow, base), ratio("z", slow, base)])
    add("x", [other])
    assert load("x") == [other, ratio("z", slow, base)]


@pytest.mark.parametrize(("chosen", "regret"), [("DIFFERENTIAL", 2.0), ("FULL", 1.0)])
def test_regret_is_against_the_better_of_our_ways(chosen: str, regret: float) -> None:
    took = Took("scan", full=[30.0], differential=[10.0, 10.0, 100.0], own_full=[20.0], chosen=chosen)
    assert took.cell(1_000, 1.0).regret == regret


def test_the_mean_is_geometric() -> None:
    assert mean_speed_up([CELL, replace(CELL, speed_up=8.0)]) == pytest.approx(4.0)


def test_a_chart_is_drawn_on_powers_of_ten() -> None:
    svg = chart("a < b", "x", "y", [Line("one", ((0.01, 100.0), (1.0, 1.0)))])
    texts = [t.text for t in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "0.01", "0.1", "1", "10", "100", "one"} <= set(texts)

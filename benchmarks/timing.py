"""Contenders -> medians and ratios, run in turn so that a noisy machine disturbs all of them alike."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Measured:
    """Milliseconds of one contender over all rounds."""

    name: str
    median_ms: float
    low_ms: float
    high_ms: float
    rounds: int


@dataclass(frozen=True)
class Ratio:
    """One line of a result: a contender against its baseline, and the bar it should stay under."""

    benchmark: str
    what: str
    baseline: str
    ratio: float
    bar: float | None
    median_ms: float
    baseline_ms: float
    spread: float
    rounds: int


def race(
    contenders: dict[str, Callable[[], object]],
    rounds: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measured]:
    """Run all contenders in turn, round after round; the first rounds only warm up."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warm_up + rounds):
        for name, run in contenders.items():
            start = clock()
            run()
            if number >= warm_up:
                times[name].append((clock() - start) * 1000)
    return {n: Measured(n, statistics.median(t), min(t), max(t), rounds) for n, t in times.items()}


def ratio(benchmark: str, what: Measured, baseline: Measured, bar: float | None = None) -> Ratio:
    return Ratio(
        benchmark,
        what.name,
        baseline.name,
        round(what.median_ms / baseline.median_ms, 2),
        bar,
        round(what.median_ms, 2),
        round(baseline.median_ms, 2),
        round((what.high_ms - what.low_ms) / what.median_ms, 2),
        what.rounds,
    )


def save(name: str, lines: list[Ratio]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps([asdict(line) for line in lines], indent=1) + "\n")


def load_all() -> list[Ratio]:
    return [Ratio(**line) for path in sorted(RESULTS.glob("*.json")) for line in json.loads(path.read_text())]

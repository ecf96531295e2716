"""Contenders -> medians and ratios, run in turn so that a noisy machine disturbs all of them alike."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
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
    detail: dict[str, float] | None = None  # what belongs to it: phases, bytes, files


def clocked(action: Callable[[], Value]) -> tuple[float, Value]:
    """Milliseconds that something takes, and what it gives."""
    start = time.perf_counter()
    value = action()
    return (time.perf_counter() - start) * 1000, value


def timed(action: Callable[[], object]) -> float:
    return clocked(action)[0]


def measured(name: str, times: Sequence[float]) -> Measured:
    return Measured(name, statistics.median(times), min(times), max(times), len(times))


def bar(name: str, ms: float) -> Measured:
    """A bar of its own instead of a baseline that ran beside it."""
    return Measured(name, ms, ms, ms, 1)


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
    return {name: measured(name, found) for name, found in times.items()}


def ratio(
    benchmark: str,
    what: Measured,
    baseline: Measured,
    bar: float | None = None,
    detail: dict[str, float] | None = None,
) -> Ratio:
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
        detail,
    )


def save(name: str, lines: Sequence[Ratio]) -> None:
    RESULTS.mkdir(exist_ok=True)
    kept = [{k: v for k, v in asdict(line).items() if k != "detail" or v is not None} for line in lines]
    (RESULTS / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n")


def add(name: str, lines: Sequence[Ratio]) -> None:
    """Keep lines beside those that were measured before; the same comparison is replaced."""
    kept = {_identity(line): line for line in (*load(name), *lines)}
    save(name, list(kept.values()))


def _identity(line: Ratio) -> tuple[str, str, str]:
    return line.benchmark, line.what, line.baseline


def load(name: str) -> list[Ratio]:
    path = RESULTS / f"{name}.json"
    return [Ratio(**line) for line in json.loads(path.read_text())] if path.exists() else []


def load_all() -> dict[str, list[Ratio]]:
    """All ratios, by the name of their benchmark."""
    return {path.stem: load(path.stem) for path in sorted(RESULTS.glob("*.json"))}

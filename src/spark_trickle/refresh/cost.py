"""What refreshes cost so far -> what the next one would cost, differentially and in full."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from statistics import mean, median

from spark_trickle.model.stream import Action, Run

_LEAST_RUNS = 2
_NEWEST = 20
_LATEST = 5  # of these the median counts: machines and tables change
_STALE = 10  # full refreshes in a row after which a differential one may be tried again
_TRIAL = 0.1  # the share of the time that they took, which the trial may cost
_GROWN = 8.0  # by how much a table may have grown since a full refresh that tells what the next one costs
_APART = 2.0  # how far numbers of changed rows must lie apart to tell what one of them costs
_CLEAR_GAIN = 1.1
_WORTH_MS = 100.0
_ENOUGH_ROWS = 50_000  # below that either way costs what starting a job costs


@dataclass(frozen=True)
class Estimate:
    """Milliseconds that a refresh is expected to take either way."""

    differential: float
    full: float
    runs: int
    source_rows: int
    worth_a_trial: bool = False  # full refreshes are all that happened lately

    @property
    def text(self) -> str:
        return (
            f"learned from {self.runs} refreshes: differential {self.differential:.0f} ms, "
            f"full {self.full:.0f} ms"
        )

    @property
    def full_is_clearly_better(self) -> bool:
        """Small changes are noise; a full refresh must save something that is worth it."""
        gain = self.differential - self.full
        enough = self.source_rows >= _ENOUGH_ROWS
        return enough and gain > _WORTH_MS and self.differential > _CLEAR_GAIN * self.full


def estimate(runs: tuple[Run, ...], changed_rows: int, source_rows: int) -> Estimate | None:
    """None while too little is known."""
    differential = [r for r in runs if r.action is Action.DIFFERENTIAL][:_NEWEST]
    full = [r for r in runs if r.action in (Action.FULL, Action.REINITIALIZE)][:_NEWEST]
    in_full = _full(full, source_rows)
    if len(differential) < _LEAST_RUNS or in_full is None:
        return None
    found = _differential(differential, changed_rows)
    since = _since_tried(runs)
    return Estimate(
        found,
        in_full,
        len(differential) + len(full),
        source_rows,
        worth_a_trial=len(since) >= _STALE and found - in_full <= _TRIAL * sum(r.total_ms for r in since),
    )


def gave_up_on(runs: tuple[Run, ...], changed_rows: int) -> bool:
    """Whether the last change that was tried, no larger than this by far, turned out to be everything.

    It is tried again when the time that was lost is little beside what full refreshes took since.
    """
    since = _since_tried(runs)
    tried = runs[len(since)] if len(since) < len(runs) else None
    if tried is None or not tried.given_up_ms or tried.delta_rows > _APART * changed_rows:
        return False
    return tried.given_up_ms > _TRIAL * sum(r.total_ms for r in (tried, *since))


def leads_to_many(runs: tuple[Run, ...], changed_rows: int, many: int) -> bool:
    """Whether the last such change, no larger than this by far, made more rows of the result come and go."""
    alike = (r for r in runs if r.action is Action.DIFFERENTIAL and r.delta_rows <= _APART * changed_rows)
    last = next(alike, None)
    return last is not None and last.result_rows > many


def _since_tried(runs: tuple[Run, ...]) -> list[Run]:
    """The full refreshes since a differential one was done, or begun."""
    return list(takewhile(lambda r: r.action is not Action.DIFFERENTIAL and not r.given_up_ms, runs))


def _differential(runs: list[Run], changed_rows: int) -> float:
    """What changes of such a size cost lately; else what those of other sizes let expect."""
    least, most = changed_rows / _APART, changed_rows * _APART
    alike = [r for r in runs if least <= r.delta_rows <= most][:_LATEST]
    if len(alike) < _LEAST_RUNS:
        return _by_line(runs, changed_rows)
    # One refresh merges the files that several left, so all of them bear it.
    return _typical([r.duration_ms for r in alike]) + mean(r.compact_ms for r in alike)


def _typical(durations: list[float]) -> float:
    """Of two the better one: the first of a process compiles everything."""
    return median(durations) if len(durations) > 2 else min(durations)


def _by_line(runs: list[Run], changed_rows: int) -> float:
    """A fixed part and a part for each changed row: the line of least squares, never falling.

    The slowest one is left out: it may be the first of a process, which compiles everything.
    """
    if len(runs) > 2:
        runs = sorted(runs, key=lambda r: r.total_ms)[:-1]
    x = [float(r.delta_rows) for r in runs]
    y = [r.total_ms for r in runs]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((v - mean_x) ** 2 for v in x)
    slope = sum((v - mean_x) * (w - mean_y) for v, w in zip(x, y, strict=True)) / spread if spread else 0.0
    if slope <= 0 or max(x) < _APART * min(x):
        # All alike so far, so a line would be drawn by chance: more rows than ever seen are assumed to cost
        # in proportion.
        largest = max(max(x), 1.0)
        return _typical(y) * max(1.0, changed_rows / largest)
    return max(min(y), mean_y + slope * (changed_rows - mean_x))


def _full(runs: list[Run], source_rows: int) -> float | None:
    """In proportion to the rows that are read; a table of another size by far tells nothing of this one."""
    alike = [r for r in runs if r.source_rows / _GROWN <= source_rows <= r.source_rows * _GROWN]
    if not alike:
        return None
    return median(r.total_ms * (source_rows / max(r.source_rows, 1) or 1.0) for r in alike[:_LATEST])

"""What refreshes cost so far -> what the next one would cost, differentially and in full.

Two things are taken for granted of a differential refresh: more changed rows do not cost less, and twice as
many do not cost more than twice as much. So every run bounds what another size can cost, and where no run is
near these bounds are all that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from spark_trickle.model.experience import Experience
from spark_trickle.model.stream import Action, Run

_ALIKE = 2.0  # changes of up to twice or half as many rows cost about the same
_NEAR = 8.0  # beyond the largest run, and below the smallest, a line is followed so far and no further
_LATEST = 5  # of these the median counts: machines and tables change
_TRIAL = 0.1  # the share of the time spent one way that trying the other may cost
_CLEAR_GAIN = 1.1
_WORTH_MS = 100.0
_ENOUGH_ROWS = 50_000  # below that either way costs what starting a job costs
_SHOWN = 3


@dataclass(frozen=True)
class CostEstimate:
    """Milliseconds that a refresh is expected to take, between bounds, and the runs this rests on."""

    ms: float
    low: float
    high: float
    runs: tuple[Run, ...]
    firm: bool = True  # False: only the bounds are known
    seen: bool = False  # the runs are of this very size


@dataclass(frozen=True)
class Estimate:
    """What is known of either way; None if that is nothing."""

    differential: CostEstimate | None
    full: CostEstimate | None
    source_rows: int
    full_at_most: float | None = None  # milliseconds, from runs of any size

    @property
    def better(self) -> Action | None:
        """The cheaper way; None while the runs do not tell."""
        if self.differential is None or self.full is None:
            return None
        differential, full = self.differential, self.full.ms
        if differential.high <= full:
            return Action.DIFFERENTIAL
        if differential.low > full:
            return Action.FULL
        if not differential.firm:
            return None
        return Action.FULL if full < differential.ms else Action.DIFFERENTIAL

    @property
    def full_is_clearly_better(self) -> bool:
        """Small gains are noise; a full refresh must save something that is worth it."""
        if self.differential is None or self.full is None or self.better is not Action.FULL:
            return False
        return is_clearly_better(
            self.full.ms, max(self.differential.ms, self.differential.low), self.source_rows
        )

    @property
    def text(self) -> str:
        parts = []
        if self.differential is not None:
            parts.append(
                f"differential {_format_range(self.differential)} ({_format_runs(self.differential.runs)})"
            )
        if self.full is not None:
            parts.append(f"full {_format_range(self.full)} ({_format_runs(self.full.runs)})")
        return (
            f"expected: {', '.join(parts)}" if parts else "no earlier refresh shows what this one would cost"
        )


def is_clearly_better(ms: float, other_ms: float, source_rows: int) -> bool:
    return source_rows >= _ENOUGH_ROWS and other_ms - ms > _WORTH_MS and other_ms > _CLEAR_GAIN * ms


def estimate_cost(known: Experience, changed_rows: int, source_rows: int) -> Estimate:
    return Estimate(
        _guess_differential(known.differential, max(changed_rows, 1)),
        _guess_full(known.in_full, source_rows),
        source_rows,
        _bound_full(known, source_rows),
    )


def was_given_up(known: Experience, changed_rows: int) -> bool:
    """Whether the last change that was tried, no larger than this by far, turned out to be everything.

    It is tried again when the time that was lost is little beside what full refreshes took since.
    """
    tried = next((r for r in known.tried if r.delta_rows <= _ALIKE * changed_rows), None)
    if tried is None or not tried.given_up_ms:
        return False
    return tried.given_up_ms > _TRIAL * known.find_full_cost(changed_rows).ms


def leads_to_many(known: Experience, changed_rows: int, many: int) -> bool:
    """Whether the last such change, no larger than this by far, made more rows of the result come and go."""
    last = next((r for r in known.differential if r.delta_rows <= _ALIKE * changed_rows), None)
    return last is not None and last.result_rows > many


# --- a differential refresh --------------------------------------------------------------------------


def _guess_differential(runs: Sequence[Run], rows: int) -> CostEstimate | None:
    """What changes of such a size cost lately; else what those of other sizes let expect."""
    alike = _select_alike(runs, rows)
    below = [r for r in runs if r.delta_rows < rows / _ALIKE]
    above = [r for r in runs if r.delta_rows > rows * _ALIKE]
    if len(alike) == 1:
        # It may have been the first of a process, which compiles everything: others must agree.
        ms = _compute_cost(alike)
        return CostEstimate(ms, min(ms, _bound_by_smaller(below)), ms, tuple(alike), firm=False, seen=True)
    if alike:
        ms = _compute_cost(alike)
        return CostEstimate(ms, ms, ms, tuple(alike), seen=True)
    if below and above:
        return _guess_between(_select_largest(below), _select_smallest(above), rows)
    if below:
        return _guess_beyond(runs, _select_largest(below), rows)
    return _guess_below(runs, _select_smallest(above), rows) if above else None


def _select_alike(runs: Sequence[Run], rows: float) -> list[Run]:
    return [r for r in runs if rows / _ALIKE <= r.delta_rows <= rows * _ALIKE][:_LATEST]


def _select_largest(runs: Sequence[Run]) -> list[Run]:
    return _select_alike(runs, max(r.delta_rows for r in runs))


def _select_smallest(runs: Sequence[Run]) -> list[Run]:
    return _select_alike(runs, min(r.delta_rows for r in runs))


def _bound_by_smaller(smaller: Sequence[Run]) -> float:
    """What smaller changes cost, where more than one of them says so."""
    groups = (_select_alike(smaller, r.delta_rows) for r in smaller)
    return max((_compute_cost(g) for g in groups if len(g) > 1), default=0.0)


def _guess_between(below: list[Run], above: list[Run], rows: int) -> CostEstimate:
    (x0, y0), (x1, y1) = _average_runs(below), _average_runs(above)
    share = (rows - x0) / (x1 - x0)
    return CostEstimate(y0 + share * (y1 - y0), min(y0, y1), max(y0, y1), (*below, *above))


def _guess_beyond(runs: Sequence[Run], largest: list[Run], rows: int) -> CostEstimate:
    """More rows than were ever seen: at least what the largest change took, at most in proportion."""
    x, y = _average_runs(largest)
    low, high = y, y * rows / x
    slope = _compute_slope(runs)
    if slope is None:
        return CostEstimate(high, low, high, tuple(largest), firm=False)
    ms = min(max(y + slope * (rows - x), low), high)
    return CostEstimate(ms, low, high, tuple(largest), firm=rows <= _NEAR * x)


def _guess_below(runs: Sequence[Run], smallest: list[Run], rows: int) -> CostEstimate:
    """Fewer rows than were ever seen: at most what the smallest change took, at least in proportion."""
    x, y = _average_runs(smallest)
    low, high = y * rows / x, y
    slope = _compute_slope(runs)
    if slope is None:
        return CostEstimate(high, low, high, tuple(smallest), firm=False)
    ms = min(max(y - slope * (x - rows), low), high)
    return CostEstimate(ms, low, high, tuple(smallest), firm=rows * _NEAR >= x)


def _compute_slope(runs: Sequence[Run]) -> float | None:
    """Milliseconds for each row: the median over pairs of runs, so that a slow one does not decide."""
    found = [
        (a.total_ms - b.total_ms) / (a.delta_rows - b.delta_rows)
        for a, b in combinations(runs, 2)
        if max(a.delta_rows, b.delta_rows) >= _ALIKE * max(min(a.delta_rows, b.delta_rows), 1)
    ]
    return max(median(found), 0.0) if found else None


def _average_runs(runs: list[Run]) -> tuple[float, float]:
    """Rows and milliseconds of changes that are alike."""
    return max(fmean(r.delta_rows for r in runs), 1.0), _compute_cost(runs)


def _compute_cost(runs: Sequence[Run]) -> float:
    """One refresh merges the files that several left, so all of them bear it."""
    return _pick_typical_duration([r.duration_ms for r in runs]) + fmean(r.compact_ms for r in runs)


def _pick_typical_duration(durations: Sequence[float]) -> float:
    """The median, or the newest if it was faster: chance makes a refresh slow, never fast.

    Of two the better one: the first of a process compiles everything.
    """
    return min(durations[0], median(durations)) if len(durations) > 2 else min(durations)


# --- a full refresh ----------------------------------------------------------------------------------


def _guess_full(runs: Sequence[Run], source_rows: int) -> CostEstimate | None:
    """In proportion to the rows that are read; a table of another size by far tells nothing of this one."""
    alike = [r for r in runs if r.source_rows / _NEAR <= source_rows <= r.source_rows * _NEAR][:_LATEST]
    if not alike:
        return None
    costs = [r.total_ms * (source_rows / max(r.source_rows, 1) or 1.0) for r in alike]
    # The rows that are read decide, and all else only makes it slower: one of the faster ones tells most.
    ms = min(costs[0], sorted(costs)[(len(costs) - 1) // 3])
    return CostEstimate(ms, min(costs), max(costs), tuple(alike), firm=len(alike) > 2, seen=True)


def _bound_full(known: Experience, source_rows: int) -> float | None:
    """To change all rows is no less work than everything; twice the rows are at most twice the work."""
    found = (*known.in_full, *known.differential)
    return min((r.total_ms * max(1.0, source_rows / max(_count_rows(r), 1)) for r in found), default=None)


# --- in words ----------------------------------------------------------------------------------------


def _format_range(guess: CostEstimate) -> str:
    if guess.firm or guess.seen:
        return f"about {guess.ms:,.0f} ms"
    return f"{guess.low:,.0f} to {guess.high:,.0f} ms"


def _format_runs(runs: Sequence[Run]) -> str:
    shown = [f"{_count_rows(r):,} rows took {r.total_ms:,.0f} ms" for r in runs[:_SHOWN]]
    more = [f"{len(runs) - _SHOWN} more"] if len(runs) > _SHOWN else []
    return ", ".join([*shown, *more])


def _count_rows(run: Run) -> int:
    return run.delta_rows if run.action is Action.DIFFERENTIAL else run.source_rows

"""What refreshes cost so far, and the sizes of recent changes -> the mode that fits them, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

from spark_trickle.model.experience import Experience
from spark_trickle.model.stream import Mode
from spark_trickle.refresh.cost import estimate_cost

_MANY = 3  # runs of such a size that make it certain


@dataclass(frozen=True)
class Advice:
    mode: Mode
    confidence: str  # high, medium or low
    reason: str


def recommend_mode(
    known: Experience, changes: Sequence[int], source_rows: int, moments: Sequence[str] = ()
) -> Advice:
    """FULL only where several runs of either way agree that it is clearly better for the usual change."""
    if moments:
        names = ", ".join(f"{m}()" for m in moments)
        return Advice(Mode.FULL, "high", f"{names} may return a different value at every refresh")
    if not changes:
        return Advice(Mode.AUTO, "low", "nothing has changed so far; AUTO learns from the first changes")
    usual = median_low(changes)
    found = estimate_cost(known, usual, source_rows)
    reason = f"for {usual:,} changed rows, {found.text}"
    if found.better is None:
        return Advice(Mode.AUTO, "low", f"{reason}; AUTO learns from the next refreshes")
    sure = all(g is not None and g.firm and len(g.runs) >= _MANY for g in (found.differential, found.full))
    mode = Mode.FULL if sure and found.full_is_clearly_better else Mode.AUTO
    return Advice(mode, "high" if sure else "medium", reason)

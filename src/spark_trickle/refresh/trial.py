"""What refreshes cost so far -> whether the other way should be tried, as what is known of it is old or thin.

A trial may cost a tenth of the time that was spent the other way since. So all trials together add at most a
tenth, and whatever was learned once is put to the test again after a number of refreshes that is bounded.
"""

from __future__ import annotations

from spark_trickle.model.experience import Experience
from spark_trickle.refresh.cost import Estimate, Guess, is_clearly_better

_SHARE = 0.1
_STALE = 10  # refreshes one way before the other is tried
_OLD = 30  # refreshes after which a full one tells less
_UNKNOWN = 2.0  # how many times as long as a full refresh one that nothing is known of may take
_HOPE = 2.0  # how many times faster than expected a full refresh may be
_HOPE_OF_FEW = 10.0  # if just one or two were seen, one of which was the first of a process


def should_try_differential(known: Experience, found: Estimate, changed_rows: int) -> bool:
    """Changes of this size were computed in full for long."""
    spent = known.spent_in_full(changed_rows)
    if found.full is None or spent.refreshes < _STALE:
        return False
    return _expected(found.differential, found.full.ms) - found.full.ms <= _SHARE * spent.ms


def _expected(guess: Guess | None, full_ms: float) -> float:
    if guess is None:
        return _UNKNOWN * full_ms
    seen = guess.firm or len(guess.runs) == 1
    return guess.ms if seen else min(max(_UNKNOWN * full_ms, guess.low), guess.high)


def should_try_full(known: Experience, found: Estimate) -> bool:
    """Such a change takes long, and a full refresh may take less than the few or old ones that were seen.

    What it takes follows from the rows that it reads, so it is tried only if it may well be better.
    """
    differential, full, spent = found.differential, found.full, known.differential_since
    ms = full.ms if full is not None else found.full_at_most
    if differential is None or ms is None or spent.refreshes < _STALE:
        return False
    firm = full is not None and full.firm
    if full is not None and firm and known.count - full.runs[0].number < _OLD:
        return False
    hoped = ms / (_HOPE if firm else _HOPE_OF_FEW)
    may_pay = is_clearly_better(hoped, differential.ms, found.source_rows)
    return may_pay and ms - differential.ms <= _SHARE * spent.ms

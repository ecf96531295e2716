"""What refreshes cost so far -> whether to try the other mode because its known cost is old or uncertain.

A trial may cost a tenth of the time that was spent the other way since, but for the first of its kind. So all
trials together add at most a tenth, and whatever was learned once is put to the test again after a number of
refreshes that is bounded.
"""

from __future__ import annotations

from spark_trickle.model.experience import Experience
from spark_trickle.refresh.cost import Estimate, is_clearly_better, was_given_up

_SHARE = 0.1
_UNTRIED = 3  # refreshes one way before the other is tried, if little or nothing is known of it
_STALE = 10  # … if it is known
_OLD = 30  # refreshes after which a full one tells less
_LEAST_MS = 100.0  # what starting the jobs of a full refresh takes
_HOPE = 2.0  # how many times faster than expected a full refresh may be
_HOPE_OF_FEW = 10.0  # if just one or two were seen, one of which was the first of a process


def should_try_differential(known: Experience, found: Estimate, changed_rows: int) -> bool:
    """Changes of this size were computed in full for long, or as often as it takes to try them at all."""
    spent, guess = known.find_full_cost(changed_rows), found.differential
    if found.full is None or was_given_up(known, changed_rows):
        return False
    known_of = guess is not None and (guess.firm or guess.seen)
    if guess is None or (not known_of and guess.low <= found.full.ms):
        return spent.refreshes >= _UNTRIED
    expected = guess.ms if known_of else guess.low
    return spent.refreshes >= _STALE and expected - found.full.ms <= _SHARE * spent.ms


def should_try_full(known: Experience, found: Estimate) -> bool:
    """Such a change takes long, and a full refresh may take less than the few or old ones that were seen.

    What it takes follows from the rows that it reads, so it is tried only if it may well be better.
    """
    differential, full, spent = found.differential, found.full, known.differential_since
    ms = full.ms if full is not None else found.full_at_most
    firm = full is not None and full.firm
    if differential is None or not (differential.firm or differential.seen) or ms is None:
        return False
    if spent.refreshes < (_STALE if firm else _UNTRIED):
        return False
    if full is not None and firm and known.count - full.runs[0].number < _OLD:
        return False
    hoped = max(ms / (_HOPE if firm else _HOPE_OF_FEW), _LEAST_MS)
    may_pay = is_clearly_better(hoped, differential.ms, found.source_rows)
    return may_pay and ms - differential.ms <= _SHARE * spent.ms

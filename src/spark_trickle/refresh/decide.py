"""Facts known before a refresh -> the decision what it does, with the reason."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.model.experience import Experience
from spark_trickle.model.stream import Action, Mode
from spark_trickle.refresh.cost import Estimate, estimate_cost, was_given_up
from spark_trickle.refresh.trial import should_try_differential, should_try_full
from spark_trickle.settings import Settings


@dataclass(frozen=True)
class Facts:
    """What is known about a stream table before it is refreshed."""

    mode: Mode
    frontier: int | None
    upto: int
    changed: tuple[str, ...]  # names of sources whose rows changed
    changed_rows: int
    source_rows: int
    outdated: tuple[str, ...] = ()  # changes since it was defined that require a rebuild
    moments: tuple[str, ...] = ()  # functions whose value depends on when they are asked
    deleted_rows: int = 0  # those of the changed rows that go
    changed_memory: int = 0  # bytes that the changed rows take at the driver
    known: Experience = Experience()  # noqa: RUF009 a value; what earlier refreshes cost


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str
    revocable: bool = False  # its cost is unknown, so it may be given up when it turns out too high


def decide_refresh(facts: Facts, settings: Settings) -> Decision:
    if facts.frontier is None:
        return Decision(Action.FULL, "the stream table is not filled yet")
    if facts.outdated:
        return Decision(Action.REINITIALIZE, "; ".join(facts.outdated))
    if facts.moments:
        names = ", ".join(f"{m}()" for m in facts.moments)
        return Decision(Action.FULL, f"{names} may return a different value at every refresh")
    if not facts.changed:
        return Decision(Action.NO_DATA, f"no source changed since snapshot {facts.frontier}")
    changed = f"rows changed in {', '.join(facts.changed)}: {facts.changed_rows:,}"
    match facts.mode:
        case Mode.FULL:
            return Decision(Action.FULL, f"refresh mode FULL; {changed}")
        case Mode.DIFFERENTIAL | Mode.IMMEDIATE:
            return Decision(Action.DIFFERENTIAL, f"refresh mode {facts.mode}; {changed}")
    return _decide_by_cost(facts, settings, changed)


def _decide_by_cost(facts: Facts, settings: Settings, changed: str) -> Decision:
    known = estimate_cost(facts.known, facts.changed_rows, facts.source_rows)
    few = facts.changed_rows <= settings.differential_free_rows
    if known.full_is_clearly_better or (not few and known.better is Action.FULL):
        chosen = Decision(Action.FULL, f"{changed}; {known.text}")
    elif not few and known.better is Action.DIFFERENTIAL:
        chosen = Decision(Action.DIFFERENTIAL, f"{changed}; {known.text}")
    else:
        chosen = _decide_by_share(facts, settings, changed, known)
    return _put_to_the_test(facts, known, chosen)


def _decide_by_share(facts: Facts, settings: Settings, changed: str, known: Estimate) -> Decision:
    """While earlier refreshes do not tell, the number of changed rows does."""
    if was_given_up(facts.known, facts.changed_rows):
        return Decision(
            Action.FULL, f"{changed}; the last such change was as much work as computing everything"
        )
    unknown = known.better is None
    share = facts.changed_rows / max(facts.source_rows, 1)
    limit = settings.differential_max_change_ratio
    if facts.changed_rows <= settings.differential_free_rows:
        free = settings.differential_free_rows
        cheap = f"{changed}, within the limit of {free:,} for always computing the difference"
        return Decision(Action.DIFFERENTIAL, cheap, revocable=unknown)
    said = f"{changed} of {facts.source_rows:,} ({share:.1%})"
    if share > limit:
        return Decision(Action.FULL, f"{said}, above the limit of {limit:.0%}")
    return Decision(Action.DIFFERENTIAL, f"{said}, within the limit of {limit:.0%}", revocable=unknown)


def _put_to_the_test(facts: Facts, known: Estimate, chosen: Decision) -> Decision:
    """Try the other mode now and then, so that old measurements are checked again."""
    if chosen.action is Action.FULL and should_try_differential(facts.known, known, facts.changed_rows):
        times = facts.known.find_full_cost(facts.changed_rows).refreshes
        text = f"{chosen.reason}; trying a differential refresh again after {times} full ones"
        return Decision(Action.DIFFERENTIAL, text, revocable=True)
    if chosen.action is Action.DIFFERENTIAL and should_try_full(facts.known, known):
        times = facts.known.differential_since.refreshes
        text = f"{chosen.reason}; trying a full refresh again after {times} differential ones"
        return Decision(Action.FULL, text)
    return chosen

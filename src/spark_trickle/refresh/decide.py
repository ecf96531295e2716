"""What a refresh should do, from what is known before it: a value with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.model.stream import Action, Mode, Run
from spark_trickle.refresh.cost import estimate, gave_up_on
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
    outdated: tuple[str, ...] = ()  # what it was made for and is so no longer
    moments: tuple[str, ...] = ()  # functions whose value depends on when they are asked
    deleted_rows: int = 0  # those of the changed rows that go
    runs: tuple[Run, ...] = ()  # what earlier refreshes cost, newest first


@dataclass(frozen=True)
class Decision:
    action: Action
    reason: str
    revocable: bool = False  # what it takes is not known, or no longer, and may turn out to be too much


def decide(facts: Facts, settings: Settings) -> Decision:
    if facts.frontier is None:
        return Decision(Action.FULL, "it was not filled yet")
    if facts.outdated:
        return Decision(Action.REINITIALIZE, "; ".join(facts.outdated))
    if facts.moments:
        names = ", ".join(f"{m}()" for m in facts.moments)
        return Decision(Action.FULL, f"{names} may have another value at every refresh")
    if not facts.changed:
        return Decision(Action.NO_DATA, f"no source changed since snapshot {facts.frontier}")
    changed = f"{facts.changed_rows} changed rows in {', '.join(facts.changed)}"
    match facts.mode:
        case Mode.FULL:
            return Decision(Action.FULL, f"refresh mode FULL; {changed}")
        case Mode.DIFFERENTIAL | Mode.IMMEDIATE:
            return Decision(Action.DIFFERENTIAL, f"refresh mode {facts.mode}; {changed}")
    return _automatic(facts, settings, changed)


def _automatic(facts: Facts, settings: Settings, changed: str) -> Decision:
    known = estimate(facts.runs, facts.changed_rows, facts.source_rows)
    few = facts.changed_rows <= settings.differential_free_rows
    if known is not None and known.worth_a_trial:
        tried = f"{changed}; {known.text}; long ago, so it is tried again"
        return Decision(Action.DIFFERENTIAL, tried, revocable=True)
    if known is not None and known.full_is_clearly_better:
        return Decision(Action.FULL, f"{changed}; {known.text}")
    if known is not None and not few:
        better = Action.FULL if known.full < known.differential else Action.DIFFERENTIAL
        return Decision(better, f"{changed}; {known.text}")
    if gave_up_on(facts.runs, facts.changed_rows):
        return Decision(Action.FULL, f"{changed}; such a change was as much work as everything")
    share = facts.changed_rows / max(facts.source_rows, 1)
    limit = settings.differential_max_change_ratio
    if few:
        cheap = f"{changed}, at most {settings.differential_free_rows} are always cheap"
        return Decision(Action.DIFFERENTIAL, cheap, revocable=known is None)
    said = f"{changed}, {share:.1%} of {facts.source_rows} source rows"
    if share > limit:
        return Decision(Action.FULL, f"{said}, more than {limit:.0%}")
    return Decision(Action.DIFFERENTIAL, f"{said}, at most {limit:.0%}", revocable=True)

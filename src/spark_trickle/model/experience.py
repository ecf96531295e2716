"""Refreshes and their cost -> what a stream table remembers: the newest runs for each size of change.

Changes of one size cannot push out what was learned of another, so the largest run is known for as long as
the query stays the same, however many small ones follow it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace

from spark_trickle.model.stream import Action, Run

_KEPT = 5  # runs of each size: machines and tables change


@dataclass(frozen=True)
class Spent:
    """Refreshes, and the milliseconds that they took together."""

    refreshes: int = 0
    ms: float = 0.0

    def plus(self, ms: float) -> Spent:
        return Spent(self.refreshes + 1, self.ms + ms)


@dataclass(frozen=True)
class Experience:
    """What is known from the refreshes of one query; sizes are powers of two."""

    count: int = 0
    tried: tuple[Run, ...] = ()  # differential refreshes, also those that were given up; newest first
    in_full: tuple[Run, ...] = ()  # newest first
    full_since: Mapping[int, Spent] = field(default_factory=dict)  # since such a change was last tried
    differential_since: Spent = Spent()  # since the last one in full

    @property
    def differential(self) -> tuple[Run, ...]:
        return tuple(r for r in self.tried if r.action is Action.DIFFERENTIAL)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All that are remembered, newest first."""
        found = {r.number: r for r in (*self.tried, *self.in_full)}
        return tuple(found[n] for n in sorted(found, reverse=True))

    def find_full_cost(self, changed_rows: int) -> Spent:
        return self.full_since.get(classify_size(changed_rows), Spent())


def classify_size(rows: int) -> int:
    return max(rows, 1).bit_length()


def add_run(known: Experience, run: Run) -> Experience:
    """With one more refresh; what another query cost is forgotten."""
    if run.action is Action.REINITIALIZE:
        known = Experience(known.count)
    run = replace(run, number=known.count + 1)
    size, known = classify_size(run.delta_rows), replace(known, count=run.number)
    if run.action is Action.DIFFERENTIAL:
        known = replace(
            known,
            full_since={k: v for k, v in known.full_since.items() if k != size},
            differential_since=known.differential_since.plus(run.total_ms),
        )
    else:
        since = {k: v for k, v in known.full_since.items() if k != size or not run.given_up_ms}
        known = replace(
            known,
            in_full=_keep_newest(run, known.in_full, lambda r: r.source_rows),
            full_since=_add_spent(since, size, run.total_ms),
            differential_since=Spent(),
        )
    if run.action is Action.DIFFERENTIAL or run.given_up_ms:
        known = replace(known, tried=_keep_newest(run, known.tried, lambda r: r.delta_rows))
    return known


def charge_compaction(known: Experience, ms: float) -> Experience:
    """What merging files took belongs to what the newest refresh cost."""

    def charge_runs(runs: Iterable[Run]) -> tuple[Run, ...]:
        return tuple(replace(r, compact_ms=r.compact_ms + ms) if r.number == known.count else r for r in runs)

    return replace(known, tried=charge_runs(known.tried), in_full=charge_runs(known.in_full))


def _add_spent(spent: Mapping[int, Spent], size: int, ms: float) -> dict[int, Spent]:
    return {**spent, size: spent.get(size, Spent()).plus(ms)}


def _keep_newest(run: Run, runs: tuple[Run, ...], rows: Callable[[Run], int]) -> tuple[Run, ...]:
    kept: list[Run] = []
    sizes: Counter[int] = Counter()
    for r in (run, *runs):
        sizes[classify_size(rows(r))] += 1
        if sizes[classify_size(rows(r))] <= _KEPT:
            kept.append(r)
    return tuple(kept)


# --- as text ---------------------------------------------------------------------------------------


def write_experience(known: Experience) -> str:
    return json.dumps(
        {
            "count": known.count,
            "tried": [_round_figures(r) for r in known.tried],
            "in_full": [_round_figures(r) for r in known.in_full],
            "full_since": {k: astuple(v) for k, v in known.full_since.items()},
            "differential_since": astuple(known.differential_since),
        }
    )


def read_experience(text: str | None) -> Experience:
    if text is None:
        return Experience()
    value = json.loads(text)
    return Experience(
        value["count"],
        tuple(Run(Action(action), *rest) for action, *rest in value["tried"]),
        tuple(Run(Action(action), *rest) for action, *rest in value["in_full"]),
        {int(k): Spent(*v) for k, v in value["full_since"].items()},
        Spent(*value["differential_since"]),
    )


def _round_figures(run: Run) -> list[object]:
    return [round(v, 3) if isinstance(v, float) else v for v in astuple(run)]

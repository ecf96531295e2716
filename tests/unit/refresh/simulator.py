"""Worlds in which refreshes cost what a function says -> what AUTO decides there, refresh by refresh."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from random import Random

from spark_trickle.model.experience import Experience, add_run
from spark_trickle.model.stream import Action, Mode, Run
from spark_trickle.refresh.decide import Decision, Facts, decide_refresh
from spark_trickle.settings import Settings

D, F = Action.DIFFERENTIAL, Action.FULL
COLD = 5.0  # the first refresh of a process compiles everything
OUTLIER = 6.0
SETTINGS = Settings()


@dataclass(frozen=True)
class World:
    """Costs in milliseconds: a fixed part, a part for each row, and a step where another way is taken."""

    fixed: float
    per_row: float
    full: float
    source_rows: int = 1_000_000
    step_at: int | None = None
    step: float = 0.0
    noise: float = 0.0
    outliers: float = 0.0  # the share of refreshes that are slow for no reason

    def differential(self, rows: int) -> float:
        return (
            self.fixed + self.per_row * rows + (self.step if self.step_at and rows >= self.step_at else 0.0)
        )

    def cost(self, action: Action, rows: int) -> float:
        return self.differential(rows) if action is D else self.full

    def better(self, rows: int) -> float:
        return min(self.differential(rows), self.full)


@dataclass(frozen=True)
class Past:
    """One simulated refresh; costs without chance."""

    rows: int
    decision: Decision
    cost: float
    better: float

    @property
    def regret(self) -> float:
        return self.cost - self.better


class Simulator:
    """A stream table in REFRESH MODE AUTO: created in full, then refreshed as it decides."""

    def __init__(self, world: World, chance: Random, cold: bool = False) -> None:
        self.world, self._chance, self._cold = world, chance, cold
        self.known = add_run(Experience(), self._run(F, 0))

    def refresh(self, rows: int) -> Past:
        decision = decide_refresh(self.facts(rows), SETTINGS)
        self.take(decision.action, rows)
        cost = self.world.cost(decision.action, rows)
        return Past(rows, decision, cost, self.world.better(rows))

    def take(self, action: Action, rows: int) -> None:
        self.known = add_run(self.known, self._run(action, rows))

    def play(self, sizes: Iterable[int]) -> list[Past]:
        return [self.refresh(rows) for rows in sizes]

    def facts(self, rows: int) -> Facts:
        return Facts(Mode.AUTO, 1, 2, ("t",), rows, self.world.source_rows, known=self.known)

    def becomes(self, **changes: float) -> None:
        self.world = replace(self.world, **changes)  # type: ignore[arg-type]

    def _run(self, action: Action, rows: int) -> Run:
        ms = self.world.cost(action, rows) * (1 + self.world.noise * self._chance.uniform(-1, 1))
        if self._cold:
            ms, self._cold = ms * COLD, False
        elif self._chance.random() < self.world.outliers:
            ms *= OUTLIER
        return Run(action, rows, self.world.source_rows, ms, result_rows=rows)

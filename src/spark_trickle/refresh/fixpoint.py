"""A fixpoint -> its rows: its program is run by an engine that keeps rows under names."""

from __future__ import annotations

from typing import Protocol

from spark_trickle.algebra.change_operators import Assign, Fixpoint, Rounds
from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import RoundRef, StepRef
from spark_trickle.errors import RecursionTooDeepError


class PlanRunner(Protocol):
    """Where the plans of a program are computed."""

    @property
    def table(self) -> str:
        """Whose rows they are."""

    @property
    def most_rounds(self) -> int: ...

    @property
    def most_rows(self) -> int:
        """Beyond which another way to the same rows is better."""

    def put(self, name: RoundRef, plan: Operator) -> int:
        """Keep the rows of a plan under a name, and tell how many they are, by their weights."""

    def copy(self, name: RoundRef, source: RoundRef) -> None: ...

    def add(self, name: RoundRef, source: RoundRef) -> None: ...

    def put_answer(self, name: StepRef, plan: Operator) -> None:
        """Keep what is read only once."""

    def add_remark(self, text: str) -> None:
        """Tell what was done otherwise than planned."""


def run_fixpoint(op: Fixpoint, name: StepRef, engine: PlanRunner) -> None:
    """Leave the rows under a name."""
    for part in op.program:
        if isinstance(part, Assign):
            engine.put(part.name, part.plan)
        elif why := _run_rounds(part, engine, engine.most_rows if op.again is not None else None):
            if op.again is None:
                raise RecursionTooDeepError(engine.table, engine.most_rounds)
            engine.add_remark(f"the recursion was computed again because its change {why}")
            engine.put_answer(name, op.again)
            return
    engine.put_answer(name, op.result)


def _run_rounds(rounds: Rounds, engine: PlanRunner, most: int | None) -> str | None:
    """What there was too much of before nothing new was left, if so."""
    count = total = [engine.put(a.name, a.plan) for a in rounds.start][-1]
    engine.copy(rounds.found, rounds.last)
    if not count and not rounds.from_nothing:
        return None
    for _ in range(engine.most_rounds):
        if most is not None and total > most:
            return f"led to more than {most} rows"
        count = _run_round(rounds, engine)
        if not count:
            return None
        total += count
    return f"took more than {engine.most_rounds} rounds"


def _run_round(rounds: Rounds, engine: PlanRunner) -> int:
    """How many rows are new; nothing leads to nothing."""
    count = 0
    for part in rounds.body:
        count = engine.put(part.name, part.plan)
        if not count:
            return 0
    engine.add(rounds.found, rounds.last)
    return count

"""A tree -> steps: touched keys that take work, and fixpoints, are found once, before the rest."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.algebra.change import Keys, Partial, Shaken, Unfit
from spark_trickle.algebra.operator import At, Operator, Recursive, Scan
from spark_trickle.refresh.fit import takes_work


@dataclass(frozen=True)
class Step:
    """Rows to be computed first; later steps and the plan read them under a name."""

    name: str
    plan: Operator


def with_steps(plan: Operator) -> tuple[tuple[Step, ...], Operator]:
    """Keys that follow from changes alone are cheap enough to be computed in place; sums are read twice."""
    steps: dict[Operator, Step] = {}

    def visit(op: Operator) -> Operator:
        inner = op.with_inputs(tuple(visit(child) for child in op.inputs))
        needed_first = isinstance(inner, Partial) or (
            isinstance(inner, Keys | Shaken | Unfit) and takes_work(inner)
        )
        if not isinstance(inner, Recursive) and not needed_first:
            return inner
        step = steps.setdefault(inner, Step(f"k{len(steps) + 1}", inner))
        return Scan(step.name, tuple((c, c) for c in inner.columns), At.NEW)

    rest = visit(plan)
    return tuple(steps.values()), rest

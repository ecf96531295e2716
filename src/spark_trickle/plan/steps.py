"""A tree -> steps: touched keys that take work, and fixpoints, are found once, before the rest."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.algebra.change_operators import Fixpoint
from spark_trickle.algebra.memo import memoize
from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.algebra.references import ComputedRef, StepRef
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.delta.recursive import build_fixpoint
from spark_trickle.plan.arrange import takes_work


@dataclass(frozen=True)
class Step:
    """Rows to be computed first; later steps and the plan read them under a name."""

    name: StepRef
    plan: Operator


def with_steps(plan: Operator, within: ComputedRef | None = None) -> tuple[tuple[Step, ...], Operator]:
    """Keys that follow from changes alone are cheap enough to be computed in place; sums are read twice.

    The plans of a fixpoint have steps of their own, `within` it: they read rows that are there only then.
    """
    steps: dict[Operator, Step] = {}

    @memoize
    def visit(op: Operator) -> Operator:
        if isinstance(op, Recursive):
            return compute_first(build_fixpoint(op))
        if isinstance(op, Fixpoint):
            return compute_first(op)
        inner = op.with_inputs(tuple(visit(child) for child in op.inputs))
        needed_first = inner.read_twice or (inner.gives_keys and takes_work(inner))
        return compute_first(inner) if needed_first else inner

    def compute_first(op: Operator) -> Operator:
        step = steps.setdefault(op, Step(StepRef(len(steps) + 1, within), op))
        return Scan(step.name, tuple((c, c) for c in op.columns), At.DELTA if op.weighted else At.NEW)

    rest = visit(plan)
    return tuple(steps.values()), rest

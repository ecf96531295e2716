"""A recursion -> why its change does not follow from the change of its inputs, if so; and its start."""

from __future__ import annotations

from spark_trickle.algebra.operators import Join, JoinKind, Operator, Scan, UnionAll
from spark_trickle.algebra.references import RoundRef
from spark_trickle.algebra.stateful_operators import Recursive


def find_obstacle(op: Recursive) -> str | None:
    """None if each row found last leads on by itself: step(A + B) = step(A) + step(B)."""
    return _find_obstacle_above(op.step, op.source)


def replace_by_start(plan: Operator) -> Operator:
    """The tree with the start of each recursion in its place: other rows, but columns of the same types."""
    if isinstance(plan, Recursive):
        return replace_by_start(plan.base)
    return plan.with_inputs(tuple(replace_by_start(child) for child in plan.inputs))


def _find_obstacle_above(op: Operator, last: RoundRef) -> str | None:
    if last not in op.sources:
        return "a part of the step does not read the rows of the previous step"
    match op:
        case Scan():
            return None
        case UnionAll():
            return next((why for part in op.parts if (why := _find_obstacle_above(part, last))), None)
        case Join(left, right, kind):
            if last in left.sources and last in right.sources:
                return "the step joins the rows of the previous step with themselves"
            if last in left.sources and kind is not JoinKind.FULL:
                return _find_obstacle_above(left, last)
            if kind is JoinKind.INNER:
                return _find_obstacle_above(right, last)
        case _ if op.maps_changes:
            return _find_obstacle_above(op.inputs[0], last)
    return f"the step has {type(op).__name__.lower()} over the rows of the previous step"

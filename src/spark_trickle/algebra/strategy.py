"""An operator -> how its change is computed, what that costs, and what would make it cheaper."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import singledispatch

from spark_trickle.algebra.operators import Join, JoinKind, Operator, SetOperation
from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.require import refuse
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Recursive, TopK, Window


class Cost(StrEnum):
    """What a refresh costs, by how the work grows."""

    CHANGE = "O(Δ)"
    GROUPS = "O(Δ + touched groups)"
    ROWS = "O(Δ + rows of touched keys)"
    ALL = "O(n)"

    @property
    def rank(self) -> int:
        return list(Cost).index(self)


@dataclass(frozen=True)
class Strategy:
    """How the change of an operator is computed; `advice` is for those who can do without what is dear."""

    cost: Cost
    how: str
    advice: str = ""


def find_cost(op: Operator) -> Cost:
    """The dearest operator decides."""
    return max((choose_strategy(part).cost for part in op.walk()), key=lambda c: c.rank)


@singledispatch
def choose_strategy(op: Operator) -> Strategy:
    if not op.row_by_row:
        refuse(op, "has no strategy")
    return Strategy(Cost.CHANGE, "linear: applied to the changed rows")


@choose_strategy.register
def _(op: Join) -> Strategy:
    if op.kind is JoinKind.INNER:
        return Strategy(Cost.CHANGE, "one term for each changed side: ΔL ⋈ R_new + L_old ⋈ ΔR")
    if op.keys:
        return Strategy(Cost.ROWS, "touched keys are joined again; linear while only the left side changes")
    return Strategy(
        Cost.ALL,
        "without an equality, the whole join is computed again when the right side changes",
        "Join on an equality, so that only touched keys are joined again.",
    )


@choose_strategy.register
def _(op: SetOperation) -> Strategy:
    return Strategy(Cost.ROWS, "touched rows are counted again on both sides")


@choose_strategy.register
def _(op: Aggregate) -> Strategy:
    if op.algebraic:
        return Strategy(Cost.GROUPS, "algebraic: sums of the change are added to the stored sums")
    if op.foldable and not any(c.pick for c in op.calls):
        return Strategy(
            Cost.GROUPS,
            "algebraic: sums of the change are added to the stored sums; a group is read again while it has"
            " numbers that an exact sum cannot hold",
        )
    if op.foldable:
        return Strategy(
            Cost.GROUPS,
            "extremum: new rows update it; a group is read again when the last row with its smallest or"
            " largest value is deleted",
        )
    names = ", ".join(sorted({c.expr.sql.split("(")[0].lower() for c in op.calls if c.term is None}))
    how = f"touched groups are computed again because of {names}"
    if not op.keys:
        return Strategy(Cost.ALL, how, "Add GROUP BY, so that only touched groups are recomputed.")
    return Strategy(
        Cost.ROWS, how, "Keep the groups small, or use sums and counts, which need only the change."
    )


@choose_strategy.register
def _(op: Window) -> Strategy:
    if op.partition:
        return Strategy(Cost.ROWS, "touched partitions are computed again")
    return Strategy(
        Cost.ALL,
        "a window without PARTITION BY is computed again",
        "Add PARTITION BY, so that only touched partitions are recomputed.",
    )


@choose_strategy.register
def _(op: TopK) -> Strategy:
    if op.buffered:
        return Strategy(Cost.CHANGE, "the first rows are chosen again from a small buffer")
    return Strategy(
        Cost.ALL,
        "the first rows are chosen again from the whole input",
        "Add LIMIT, so that a small buffer of the first rows is enough.",
    )


@choose_strategy.register
def _(op: Buffer) -> Strategy:
    return Strategy(
        Cost.CHANGE,
        f"the first {op.keep} rows are kept; the input is read again when fewer than {op.need} are left",
    )


@choose_strategy.register
def _(op: Recursive) -> Strategy:
    if why := find_obstacle(op):
        return Strategy(
            Cost.ALL,
            f"the whole recursion is computed again: {why}",
            "Make the recursion linear, or give the stream table a schedule that allows for the cost.",
        )
    if op.distinct:
        return Strategy(
            Cost.ROWS,
            "inserted rows are followed step by step; rows that may be gone are removed, and derived again"
            " where another path leads to them",
        )
    return Strategy(Cost.ROWS, "the change is followed step by step, with weights")

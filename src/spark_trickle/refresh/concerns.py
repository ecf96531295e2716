"""The nodes of a stream table -> what makes its refreshes dear, told when it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_trickle.algebra.explain import Cost, strategy
from spark_trickle.algebra.operators import Join, Operator, Scan
from spark_trickle.algebra.stateful_operators import Aggregate, Recursive, TopK, Window
from spark_trickle.model.stream import Mode
from spark_trickle.plan.split import Node
from spark_trickle.settings import Settings
from spark_trickle.sql.dialect.moments import moments_of

_ADVICE: dict[type[Operator], str] = {
    Window: "Add PARTITION BY, so that only touched partitions are computed again.",
    Join: "Join on an equality, so that only touched keys are joined again.",
    Aggregate: "Add GROUP BY, so that only touched groups are computed again.",
    TopK: "Add LIMIT, so that a buffer of the first rows can be kept.",
    Recursive: "Write the recursion so that it is linear, or give it a schedule that allows for its cost.",
}
_ANY_ADVICE = "Give it a schedule that allows for its cost."


@dataclass(frozen=True)
class Concern:
    """Why refreshes of a stream table cost more than its changes do, and what to do about it."""

    subject: str
    reason: str
    advice: str

    @property
    def text(self) -> str:
        return f"{self.subject}: {self.reason}. {self.advice}"


def find_concerns(nodes: Sequence[Node], mode: Mode, settings: Settings) -> tuple[Concern, ...]:
    """What should be known of a definition; nothing of one that is computed in full as its user wants."""
    if mode is Mode.FULL:
        return ()
    if moments := moments_of(n.plan for n in nodes):
        names = ", ".join(f"{m}()" for m in moments)
        reason = f"AUTO computes everything at every refresh, because {names} depends on when it is asked"
        return (
            Concern("clock", reason, "Keep the moment in a table that you update, and read that instead."),
        )
    return tuple(c for node in nodes for c in _of_node(node, settings))


def count_joined_tables(plan: Operator) -> int:
    """Tables below the largest join: each that changes is a term of its own."""
    return max((_count_scans(op) for op in plan.walk() if isinstance(op, Join)), default=1)


def _count_scans(plan: Operator) -> int:
    return sum(isinstance(op, Scan) for op in plan.walk())


def _of_node(node: Node, settings: Settings) -> Iterator[Concern]:
    tables, limit = count_joined_tables(node.plan), settings.deep_join_scan_threshold
    if tables > limit:
        yield Concern(
            "deep join",
            f"{tables} tables are joined, deep_join_scan_threshold is {limit},"
            " and each that changes is a term of its own",
            "Make a stream table of a part of the join, and read that.",
        )
    for op in node.plan.walk():
        cost, how = strategy(op)
        if cost is Cost.ALL:
            yield Concern(
                "whole input", f"{how}, which reads all of its input", _ADVICE.get(type(op), _ANY_ADVICE)
            )
        elif isinstance(op, Aggregate) and cost is Cost.ROWS:
            yield Concern(
                "group recomputation",
                f"{how}, which reads all rows of these groups",
                "Keep groups small, or use sums and counts, which follow from the change alone.",
            )

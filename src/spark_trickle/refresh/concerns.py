"""The nodes of a stream table -> what makes its refreshes expensive, reported when it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spark_trickle.algebra.operators import Join, Operator, Scan
from spark_trickle.algebra.strategy import Cost, choose_strategy
from spark_trickle.model.stream import Mode
from spark_trickle.plan.split import Node
from spark_trickle.settings import Settings
from spark_trickle.sql.dialect.moments import list_moments


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
    if moments := list_moments(n.plan for n in nodes):
        names = ", ".join(f"{m}()" for m in moments)
        reason = f"AUTO computes everything at every refresh because the value of {names} depends on the time"
        return (
            Concern("clock", reason, "Store the time in a table that you update, and read it from there."),
        )
    return tuple(c for node in nodes for c in _find_node_concerns(node, settings))


def count_joined_tables(plan: Operator) -> int:
    """Tables below the largest join: each that changes is a term of its own."""
    return max((_count_scans(op) for op in plan.walk() if isinstance(op, Join)), default=1)


def _count_scans(plan: Operator) -> int:
    return sum(isinstance(op, Scan) for op in plan.walk())


def _find_node_concerns(node: Node, settings: Settings) -> Iterator[Concern]:
    tables, limit = count_joined_tables(node.plan), settings.deep_join_scan_threshold
    if tables > limit:
        yield Concern(
            "deep join",
            f"the join has {tables} tables, more than deep_join_scan_threshold allows ({limit}),"
            " and each changed table adds a term",
            "Put a part of the join into a stream table of its own, and read that.",
        )
    for strategy in map(choose_strategy, node.plan.walk()):
        if strategy.cost is Cost.ALL:
            yield Concern("whole input", f"{strategy.how}, which reads the whole input", strategy.advice)
        elif strategy.advice:
            reason = f"{strategy.how}, which reads all rows of these groups"
            yield Concern("group recomputation", reason, strategy.advice)

"""A tree -> nodes: every operator that keeps rows gets a table of its own, which the others read."""

from __future__ import annotations

from dataclasses import dataclass

from spark_trickle.algebra.operator import (
    Aggregate,
    At,
    Buffer,
    Materialized,
    Operator,
    Recursive,
    Scan,
    TopK,
    Window,
)

_STATEFUL = (Aggregate, Window, TopK, Buffer, Recursive, Materialized)


@dataclass(frozen=True)
class Node:
    """A part of a plan with a table of its own; its sources are tables and earlier nodes."""

    name: str  # n1, n2, …; the last one is the stream table itself
    plan: Operator

    @property
    def own(self) -> Scan:
        return Scan(self.name, tuple((c, c) for c in self.plan.columns), At.OLD)

    @property
    def sources(self) -> frozenset[str]:
        return self.plan.sources


def split(plan: Operator) -> tuple[Node, ...]:
    """The nodes of a plan, each after those it reads; equal parts share one."""
    nodes: dict[Operator, Node] = {}

    def visit(op: Operator, top: bool) -> Operator:
        inner = op.with_inputs(tuple(visit(child, False) for child in op.inputs))
        if top or not isinstance(op, _STATEFUL):
            return inner
        if inner not in nodes:
            nodes[inner] = Node(f"n{len(nodes) + 1}", inner)
        node = nodes[inner]
        return Scan(node.name, tuple((c, c) for c in inner.columns))

    # The root gets a table of its own anyway; one that keeps more than it shows must not be it.
    root = visit(plan, False)
    return (*nodes.values(), Node(f"n{len(nodes) + 1}", root))

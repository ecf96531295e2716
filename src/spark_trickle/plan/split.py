"""A tree -> nodes: every operator that keeps rows gets a table, which the others read, or the user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_trickle.algebra.operators import At, Operator, Output, Project, Scan, column
from spark_trickle.algebra.references import NodeRef, Reference


@dataclass(frozen=True)
class Node:
    """A part of a plan with a table of its own; its sources are tables and earlier nodes."""

    name: NodeRef  # the last one is the stream table itself
    plan: Operator

    @property
    def own(self) -> Scan:
        return Scan(self.name, tuple((c, c) for c in self.plan.columns), At.OLD)

    @property
    def sources(self) -> frozenset[Reference]:
        return self.plan.sources


def number_nodes(plans: Iterable[Operator]) -> tuple[Node, ...]:
    """The nodes that have these plans, in order."""
    return tuple(Node(NodeRef(n), plan) for n, plan in enumerate(plans, start=1))


def split_into_nodes(plan: Operator) -> tuple[Node, ...]:
    """The nodes of a plan, each after those it reads; equal parts share one."""
    nodes: dict[Operator, Node] = {}

    def visit(op: Operator) -> Operator:
        inner = op.with_inputs(tuple(visit(child) for child in op.inputs))
        if not op.keeps_rows:
            return inner
        if inner not in nodes:
            nodes[inner] = Node(NodeRef(len(nodes) + 1), inner)
        node = nodes[inner]
        return Scan(node.name, tuple((c, c) for c in inner.columns))

    root = visit(plan)
    found = tuple(nodes.values())
    if found and (shown := _merge_root(root, found[-1])) is not None:
        return (*found[:-1], Node(found[-1].name, shown))
    return (*found, Node(NodeRef(len(found) + 1), root))


def _merge_root(root: Operator, node: Node) -> Operator | None:
    """A node under the names that the root has for it, if the root shows all of it and nothing else.

    Then the table of the result serves for both. It must be the node that was found last: no other reads it.
    """
    inner = {c: c for c in root.columns}  # what a column of the root is called further down
    op = root
    while isinstance(op, Project):
        below = {o.name: o.expr.column for o in op.outputs}
        inner = {name: c for name, known in inner.items() if (c := below[known]) is not None}
        op = op.input
    if not isinstance(op, Scan) or op.source != node.name or not node.plan.shares_table:
        return None
    if len(inner) < len(root.columns) or sorted(inner.values()) != sorted(node.plan.columns):
        return None
    return Project(node.plan, tuple(Output(name, column(c)) for name, c in inner.items()))

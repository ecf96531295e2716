"""What happens to a query between its text and its SQL: the passes in their order, and what each leaves.

This list is the table of contents of compilation: a definition goes through `DEFINITION`, the change of
its nodes through `CHANGE`, and `trickle.explain_query_rewrite` prints the same stages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.prune import prune
from spark_trickle.algebra.validate import validate
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.plan.arrange import arrange_change
from spark_trickle.plan.join_order import connect_joins
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.plan.steps import with_steps

Trees = tuple[tuple[str, Operator], ...]  # by name: the query, then its nodes, then what is found first


@dataclass(frozen=True)
class Pass:
    name: str
    meaning: str
    run: Callable[[Trees], Trees]


@dataclass(frozen=True)
class Stage:
    """The trees that a pass left."""

    name: str
    meaning: str
    trees: Trees


def _joined(trees: Trees) -> Trees:
    return tuple((name, connect_joins(tree)) for name, tree in trees)


def _pruned(trees: Trees) -> Trees:
    return tuple((name, prune(tree)) for name, tree in trees)


def _split(trees: Trees) -> Trees:
    return tuple((node.name, node.plan) for _, tree in trees for node in split_into_nodes(tree))


def _differentiated(trees: Trees) -> Trees:
    """As if everything changed: a refresh leaves out the terms of what did not."""
    nodes = [Node(name, tree) for name, tree in trees]
    changes = [(n.name, differentiate_node(n.plan, n.own, n.sources)) for n in nodes]
    return tuple((name, change) for name, change in changes if change is not None)


def _fitted(trees: Trees) -> Trees:
    return tuple((name, arrange_change(tree, True, lambda _: 0)) for name, tree in trees)


def _stepped(trees: Trees) -> Trees:
    found: list[tuple[str, Operator]] = []
    for name, tree in trees:
        steps, rest = with_steps(tree)
        found += [(f"{name} {step.name}", step.plan) for step in steps]
        found.append((name, rest))
    return tuple(found)


BIND = "names are found; views, CTEs and subqueries become joins, semi joins and aggregates"
RENDER = "each tree becomes one SQL text, in which {t1_new} stands for the rows of a table"
DEFINITION = (
    Pass("connect", "filters go to their tables, and tables are joined by what they have in common", _joined),
    Pass("prune", "only columns that are used are read", _pruned),
    Pass("split", "each operator that keeps rows becomes a node with a table", _split),
)
CHANGE = (
    Pass("differentiate", "a node becomes its change, here as if every source changed", _differentiated),
    Pass("fit", "the change is arranged for few changed rows", _fitted),
    Pass("steps", "touched keys that take work, and fixpoints, are found before the rest", _stepped),
)


def run_passes(stage: Stage, passes: tuple[Pass, ...]) -> tuple[Stage, ...]:
    """The stage and those that follow from it; a plan that makes no sense goes no further."""
    stages = [_checked(stage)]
    for each in passes:
        stages.append(_checked(Stage(each.name, each.meaning, each.run(stages[-1].trees))))
    return tuple(stages)


def _checked(stage: Stage) -> Stage:
    for _, tree in stage.trees:
        validate(tree)
    return stage

"""What happens to a query between its text and its SQL: the passes in their order, and what each leaves.

These lists are the table of contents of compilation, and what runs: a definition goes through `DEFINITION`;
at a refresh each node goes through `CHANGE`, or `CONTENT` where everything is computed, and what Spark is to
compute of it through `FOR_SPARK`. EXPLAIN prints the stages of the same lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import ClassVar

from spark_trickle.algebra.change_operators import Signed
from spark_trickle.algebra.operators import At, Operator, UnionAll
from spark_trickle.algebra.prune import prune
from spark_trickle.algebra.references import ComputedRef, NodeRef, Reference, StepRef, TableRef
from spark_trickle.algebra.validate import validate
from spark_trickle.delta.stateful import differentiate_node
from spark_trickle.plan.arrange import arrange_change, count_ties
from spark_trickle.plan.join_order import connect_joins, order_joins
from spark_trickle.plan.sizes import NO_SIZES, Sizes
from spark_trickle.plan.split import Node, split_into_nodes
from spark_trickle.plan.steps import with_steps
from spark_trickle.sql.dialect.moments import stop_clock


@dataclass(frozen=True)
class Tree:
    """The plan of a query, of a node, or of a step that is computed before the plan of a node."""

    plan: Operator
    node: NodeRef | None = None  # none: the whole query
    step: StepRef | None = None

    @property
    def label(self) -> str:
        node = "query" if self.node is None else str(self.node)
        return node if self.step is None else f"{node} {self.step}"


Trees = tuple[Tree, ...]


Reduce = Callable[[Operator], Operator | None]


def keep_whole(plan: Operator) -> Operator | None:
    return plan


@dataclass(frozen=True)
class Context:
    """What the passes know besides the plan."""

    validates: ClassVar[bool] = False  # after each pass, which takes as long as planning: tests switch it on

    changed: frozenset[Reference] | None = None  # tables and nodes; None: as if every source had changed
    sizes: Sizes = NO_SIZES
    few: bool = True  # the change is few rows, so that one task computes it
    compared: bool = False  # everything is computed, and compared with the rows that a node has stored
    moment: datetime | None = None  # what functions of the clock answer; None: they are left as they are
    reduce: Reduce = keep_whole  # by what the driver finds out without a job
    within: ComputedRef | None = None  # the recursion whose plan it is


@dataclass(frozen=True)
class Pass:
    name: str
    meaning: str
    run: Callable[[Trees, Context], Trees]


@dataclass(frozen=True)
class Stage:
    """The trees that a pass left."""

    name: str
    meaning: str
    trees: Trees


# --- a definition --------------------------------------------------------------------------------------


def _connect_trees(trees: Trees, _: Context) -> Trees:
    return _map_trees(trees, connect_joins)


def _prune_trees(trees: Trees, _: Context) -> Trees:
    return _map_trees(trees, prune)


def _split_trees(trees: Trees, _: Context) -> Trees:
    return tuple(Tree(node.plan, node.name) for tree in trees for node in split_into_nodes(tree.plan))


# --- the change of a node ------------------------------------------------------------------------------


def _differentiate_trees(trees: Trees, context: Context) -> Trees:
    nodes = ((tree, _find_node(tree)) for tree in trees)
    changes = (
        (tree, _differentiate_node(node, _find_changed_sources(node, context))) for tree, node in nodes
    )
    return tuple(replace(tree, plan=change) for tree, change in changes if change is not None)


def _find_node(tree: Tree) -> Node:
    assert tree.node is not None, "the query was not split"
    return Node(tree.node, tree.plan)


def _find_changed_sources(node: Node, context: Context) -> frozenset[Reference]:
    """Rows that a recursion finds are no source of it."""
    if context.changed is not None:
        return context.changed & node.sources
    return frozenset(s for s in node.sources if isinstance(s, TableRef | NodeRef))


@lru_cache(maxsize=1024)  # a plan is small: their number is bound enough
def _differentiate_node(node: Node, changed: frozenset[Reference]) -> Operator | None:
    return differentiate_node(node.plan, node.own, changed)


def _arrange_trees(trees: Trees, context: Context) -> Trees:
    return _map_trees(trees, lambda plan: arrange_change(plan, context.few, context.sizes.rows))


def _order_trees(trees: Trees, context: Context) -> Trees:
    if not context.few:  # Spark knows better, with the statistics of its shuffles
        return trees
    return _map_trees(trees, lambda plan: order_joins(plan, context.sizes))


# --- all of a node -------------------------------------------------------------------------------------


def _compute_content(trees: Trees, context: Context) -> Trees:
    return tuple(replace(tree, plan=_build_content(_find_node(tree), context)) for tree in trees)


def _build_content(node: Node, context: Context) -> Operator:
    content = node.plan.at(At.NEW)
    if not context.compared:
        return Signed(content, 1)
    counted = count_ties(content, context.sizes) if context.few else content
    return UnionAll((Signed(counted, 1), Signed(node.own, -1)))


def _stop_clocks(trees: Trees, context: Context) -> Trees:
    """All nodes of a refresh see the clock at one moment."""
    moment = context.moment
    return trees if moment is None else _map_trees(trees, lambda plan: stop_clock(plan, moment))


# --- what Spark computes -------------------------------------------------------------------------------


def _reduce_trees(trees: Trees, context: Context) -> Trees:
    return _map_trees(trees, context.reduce)


def _find_steps(trees: Trees, context: Context) -> Trees:
    found: list[Tree] = []
    for tree in trees:
        steps, rest = with_steps(tree.plan, context.within)
        found += [Tree(step.plan, tree.node, step.name) for step in steps]
        found.append(replace(tree, plan=rest))
    return tuple(found)


def _map_trees(trees: Trees, run: Callable[[Operator], Operator | None]) -> Trees:
    """The trees of which something is left."""
    made = ((tree, run(tree.plan)) for tree in trees)
    return tuple(replace(tree, plan=plan) for tree, plan in made if plan is not None)


BIND = "names are resolved; views, CTEs and subqueries become joins, semi joins and aggregates"
RENDER = "each tree becomes one SQL text, in which {t1_new} stands for the rows of a table"
DEFINITION = (
    Pass(
        "connect",
        "filters move down to their tables, and tables are joined on the columns that they share",
        _connect_trees,
    ),
    Pass("prune", "only columns that are used are read", _prune_trees),
    Pass("split", "each operator that keeps rows becomes a node with a table", _split_trees),
)
CHANGE = (
    Pass(
        "differentiate",
        "each node becomes its change, with one term for each changed input",
        _differentiate_trees,
    ),
    Pass(
        "arrange",
        "the change is arranged for the rows that changed and those that are stored",
        _arrange_trees,
    ),
    Pass(
        "order",
        "joins start with the change, and continue with the table that matches the fewest rows",
        _order_trees,
    ),
)
CONTENT = (
    Pass(
        "content",
        "each node becomes all of its rows, compared with its stored rows if they are few",
        _compute_content,
    ),
    Pass("clock", "functions of the clock become the moment at which the refresh began", _stop_clocks),
)
STEPS = Pass(
    "steps", "touched keys that are expensive, and fixpoints, are computed before the rest", _find_steps
)
FOR_SPARK = (
    Pass(
        "reduce",
        "parts that the driver finds empty are left out, and parts of few rows are replaced by their rows",
        _reduce_trees,
    ),
    STEPS,
)


def run_passes(stage: Stage, passes: tuple[Pass, ...], context: Context = Context()) -> tuple[Stage, ...]:  # noqa: B008
    """The stage and those that follow from it; a plan that makes no sense goes no further."""
    _validate_trees(stage.trees)
    stages = [stage]
    for each in passes:
        left = _validate_trees(each.run(stages[-1].trees, context))
        stages.append(Stage(each.name, each.meaning, left))
    return tuple(stages)


def _validate_trees(trees: Trees) -> Trees:
    for tree in trees:
        validate(tree.plan)
    return trees


@dataclass(frozen=True)
class Planning:
    """A tree, and the passes that make its plan once somebody asks for it."""

    tree: Tree
    passes: tuple[Pass, ...]
    context: Context

    @cached_property
    def trees(self) -> Trees:
        """What the passes leave of it: a plan comes after its steps."""
        return plan_trees((self.tree,), self.passes, self.context)

    @property
    def plan(self) -> Operator:
        return self.trees[-1].plan

    def list_stages(self) -> tuple[Stage, ...]:
        """What each of the same passes leaves."""
        return run_passes(
            Stage("stored", "the plan as it is stored", (self.tree,)), self.passes, self.context
        )


def plan_trees(trees: Trees, passes: tuple[Pass, ...], context: Context) -> Trees:
    """What the last of the passes leaves."""
    for each in passes:
        trees = each.run(trees, context)
        if context.validates:
            _validate_trees(trees)
    return trees

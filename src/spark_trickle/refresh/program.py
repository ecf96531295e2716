"""The changes of sources -> the changes of all nodes of a stream table, one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.references import NodeRef, Reference
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.errors import QueryError
from spark_trickle.model.room import room_of_refresh
from spark_trickle.plan.pipeline import CHANGE, Context, Planning, Tree
from spark_trickle.plan.split import Node
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.execute import Filled, GaveUp, NodeJob, PlannedJob, execute_job
from spark_trickle.refresh.inputs import Inputs, has_small_sources
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.refresh.place import Load, place_plan, try_at_driver
from spark_trickle.refresh.sizes import sizes_of
from spark_trickle.sql.render.beside import shows_only
from spark_trickle.txn.store import fits_arrow


@dataclass(frozen=True)
class Changes:
    """What a refresh has to follow."""

    of: frozenset[Reference]  # the sources and nodes that changed
    few: bool  # so few rows that what takes Spark takes one task; what the driver can do, it does
    may_give_up: bool = False  # if it turns out to be more than everything
    remark: str | None = None  # why they are planned otherwise than their number tells


def run_program(inputs: Inputs, changes: Changes, clock: Clock) -> Outcome | GaveUp:
    """The program of every node in order; a node without change leaves those above it alone.

    A change may hold what never was at one time: the old row of a table beside the new one of another, which
    cancel out, or a row that came and went. A query need not bear that, so its change may fail alone.
    """
    nodes = nodes_of(inputs.stream.plan)
    outcome = Outcome(remarks=(changes.remark,) if changes.remark else ())
    done_nodes = dict[NodeRef, Filled]()
    for node in nodes:
        if node.name in done_nodes:
            continue
        planned = plan_change(inputs, node, changes, clock)
        if isinstance(planned, UnchangedNode):
            continue
        try:
            done = execute_job(planned, clock)
        except QueryError as error:
            if not error.by_value:
                raise
            done = GaveUp(f"the change alone could not be computed: {error.condition}", error=error)
        if isinstance(done, GaveUp):
            return replace(done, executions=(*outcome.executions, *done.executions))
        done_nodes |= done.filled
        inputs, outcome = done.inputs, outcome.add_node(done, node.name)
        changes = _extend_changes(inputs, changes, node, done.filled[node.name])
    return replace(outcome, filled=done_nodes.get(nodes[-1].name, Filled()))


def _extend_changes(inputs: Inputs, changes: Changes, node: Node, filled: Filled) -> Changes:
    """What follows a node is large if its change is."""
    if filled == Filled():
        return changes
    few = changes.few and room_of_refresh(inputs.work.place.settings).fits(filled.rows, filled.memory)
    return replace(changes, of=changes.of | {node.name}, few=few)


@dataclass(frozen=True)
class UnchangedNode:
    """Nothing comes of the changes for a node: it reads none of what changed."""


def plan_change(inputs: Inputs, node: Node, changes: Changes, clock: Clock) -> PlannedJob | UnchangedNode:
    """How the change of a node is computed, and where."""
    tree, context = Tree(node.plan, node.name), Context(changes.of, sizes_of(inputs))
    for_few, for_many = (Planning(tree, CHANGE, replace(context, few=few)) for few in (True, False))
    with clock.phase("plan"):
        if not for_few.trees:
            return UnchangedNode()
    with clock.phase("driver"):
        load = Load(
            few_changed=changes.few,
            few_in_all=not changes.few and has_small_sources(inputs),
            fits_driver=fits_arrow(inputs.tables[node.name]),
        )
        reader, settings = DriverInputs(inputs), inputs.work.place.settings
        placement = place_plan(try_at_driver(for_few.plan, reader, load, settings), load)
    job = NodeJob(
        inputs,
        node,
        for_few,
        for_many,
        shown_by=_find_result_beside(inputs, node),
        may_give_up=changes.may_give_up,
        remarks=_list_remarks(node),
    )
    return PlannedJob(job, placement)


def _find_result_beside(inputs: Inputs, node: Node) -> Node | None:
    """The result, if its change follows from that of its only node row by row, by the same job."""
    *inner, result = nodes_of(inputs.stream.plan)
    if not inner or node != inner[-1] or not shows_only(result.plan, node.name):
        return None
    return result if all(fits_arrow(inputs.tables[n.name]) for n in (node, result)) else None


def _list_remarks(node: Node) -> tuple[str, ...]:
    why = find_obstacle(node.plan) if isinstance(node.plan, Recursive) else None
    return (f"the recursion was computed again because {why}",) if why else ()

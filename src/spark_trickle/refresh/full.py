"""A full refresh of all nodes: few rows are compared with the stored rows, many rows replace them.

Comparing sorts all old and new rows together, which takes several times as long as computing them. So
many rows are compared only for somebody who follows the changes: another stream table, or a published copy.
"""

from __future__ import annotations

from spark_trickle.algebra.operators import Operator, Scan
from spark_trickle.algebra.references import NodeRef
from spark_trickle.model.table import Table
from spark_trickle.plan.pipeline import CONTENT, Context, Planning, Tree
from spark_trickle.plan.split import Node
from spark_trickle.refresh.clock import Clock
from spark_trickle.refresh.compile import nodes_of
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.execute import Done, NodeJob, PlannedJob, execute_job
from spark_trickle.refresh.followed import is_followed
from spark_trickle.refresh.inputs import Inputs, has_small_sources
from spark_trickle.refresh.outcome import Outcome
from spark_trickle.refresh.place import Load, place_plan, try_at_driver
from spark_trickle.refresh.sizes import sizes_of
from spark_trickle.txn.store import fits_arrow
from spark_trickle.txn.work import Work


def run_in_full(inputs: Inputs, clock: Clock) -> Outcome:
    """What was inserted into the result and deleted from it."""
    outcome = Outcome()
    for node in nodes_of(inputs.stream.plan):
        done = execute_job(plan_in_full(inputs, node, clock), clock)
        assert isinstance(done, Done), done  # only a change is given up
        inputs, outcome = done.inputs, outcome.add_node(done, node.name)
    return outcome


def plan_in_full(inputs: Inputs, node: Node, clock: Clock) -> PlannedJob:
    """How all of a node is computed, and where."""
    work, table = inputs.work, inputs.tables[node.name]
    few, stored = _has_few_rows(work, table), bool(work.files(table))
    compared = stored and (few or is_followed(work, table))
    with clock.phase("plan"):
        moment = inputs.moment if inputs.stream.moments else None
        context = Context(sizes=sizes_of(inputs), few=few, compared=compared, moment=moment)
        planning = Planning(Tree(node.plan, node.name), CONTENT, context)
        load = Load(
            few_changed=False,
            few_in_all=(few and compared) or has_small_sources(inputs),
            fits_driver=fits_arrow(table),
            replaces=stored and not compared,
            reads_many=not compared or not _reads_few_nodes(inputs, planning.plan),
        )
        reader, settings = DriverInputs(inputs), work.place.settings
        placement = place_plan(try_at_driver(planning.plan, reader, load, settings), load)
    return PlannedJob(NodeJob(inputs, node, planning, planning, replaces=load.replaces), placement)


def _reads_few_nodes(inputs: Inputs, plan: Operator) -> bool:
    """What reads just few rows of other nodes needs no job."""
    read = [s.source for s in plan.walk() if isinstance(s, Scan)]
    return all(isinstance(ref, NodeRef) and _has_few_rows(inputs.work, inputs.tables[ref]) for ref in read)


def _has_few_rows(work: Work, table: Table) -> bool:
    """A hundred thousand rows are replaced in half the time that it takes to compare them."""
    return work.row_count(table) <= work.place.settings.max_driver_rows // 10

"""All nodes of a stream table, computed anew: few rows are compared with what is there, many take its place.

To compare is to sort all old and new rows together, which takes several times as long as to compute them. So
many rows are compared only for somebody who follows the changes: another stream table, or a published copy.
"""

from __future__ import annotations

from spark_trickle.algebra.change_operators import Counted, Signed
from spark_trickle.algebra.operators import Aggregate, Operator, Scan, UnionAll
from spark_trickle.dml.delete import truncate
from spark_trickle.lake.catalog import sources
from spark_trickle.lake.catalog.engine import reading
from spark_trickle.model.table import Table
from spark_trickle.plan.split import Node
from spark_trickle.refresh.compile import content_of, nodes_of
from spark_trickle.refresh.driver_inputs import DriverInputs
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.refresh.node import (
    Clock,
    Filled,
    plan_frame,
    run_at_driver,
    run_node,
    run_steps_first,
    store_change,
)
from spark_trickle.txn.store import store_frame
from spark_trickle.txn.work import Work


def run_in_full(inputs: Inputs, clock: Clock) -> Filled:
    """What came to the result and what went from it."""
    nodes = nodes_of(inputs.stream.plan)
    filled = Filled()
    for number, node in enumerate(nodes):
        work, table = inputs.work, inputs.tables[node.name]
        few = _has_few_rows(work, table)
        with clock.phase("plan"):
            content = content_of(inputs.stream.plan, number)
            come = Signed(_counted(inputs, content) if few and work.files(table) else content, 1)
        if not work.files(table):
            filled = run_node(inputs, node, come, False, clock)
        elif few or is_followed(work, table):
            filled = _compared(inputs, node, UnionAll((come, Signed(node.own, -1))), few, clock)
        else:
            filled = _replaced(inputs, node, come, clock)
    return filled


def _counted(inputs: Inputs, content: Operator) -> Operator:
    """With how many rows have an extremum, where that is one more look at one large table for few groups.

    Otherwise it is found out when a group is read again; small tables are read again in no time.
    """
    if not isinstance(content, Aggregate) or not any(c.ties_of for c in content.calls):
        return content
    most, tables = inputs.work.place.settings.max_driver_rows, map(inputs.table, content.sources)
    large = [t for t in tables if t is not None and inputs.work.row_count(t) > most]
    return Counted(content) if len(large) == 1 else content


def _compared(inputs: Inputs, node: Node, plan: Operator, few: bool, clock: Clock) -> Filled:
    """What reads just few rows of other nodes needs no job."""
    read = [inputs.tables.get(s.source) for s in plan.walk() if isinstance(s, Scan)]
    if all(table is not None and _has_few_rows(inputs.work, table) for table in read):
        filled = run_at_driver(DriverInputs(inputs), node, plan, clock)
        if filled is not None:
            return filled
    return run_node(inputs, node, plan, few, clock)


def _has_few_rows(work: Work, table: Table) -> bool:
    """A hundred thousand rows are replaced in half the time that it takes to compare them."""
    return work.row_count(table) <= work.place.settings.max_driver_rows // 10


def is_followed(work: Work, table: Table) -> bool:
    """Whether somebody takes its changes."""
    if work.catalog.readers(table):
        return True
    with reading(work.place.warehouse.engine) as connection:
        return table.id in sources.published(connection)


def _replaced(inputs: Inputs, node: Node, come: Signed, clock: Clock) -> Filled:
    """The new rows are written before the old ones go, because queries may read them."""
    work, table = inputs.work, inputs.tables[node.name]
    work.place.follow_all_settings()
    frame = plan_frame(inputs, run_steps_first(inputs, node, come, clock), clock)
    with clock.phase("write"):
        files = store_frame(work, table, frame)
        gone = truncate(work, table, in_sum=True).rows_deleted  # nobody follows
        store_change(inputs, node, files)
    return Filled(sum(f.rows for f in files), gone)

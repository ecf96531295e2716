"""A plan that ran -> the record of it, which `trickle.explain_refresh` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from spark_trickle.algebra.explain import write_scan_title, write_title
from spark_trickle.algebra.operators import At, Operator, Scan
from spark_trickle.algebra.references import NodeRef, Reference
from spark_trickle.arrow.evaluate import Evaluated
from spark_trickle.model.execution import Engine, Execution, OperatorRun
from spark_trickle.plan.pipeline import Tree
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.refresh.place import Placement
from spark_trickle.refresh.sizes import sizes_of

_MOST_OPERATORS = 200  # of a plan in the record


def note_driver(name: str, reason: str, plan: Operator, found: Evaluated, inputs: Inputs) -> Execution:
    """The driver has counted the rows of every operator."""

    def record_operator(op: Operator, depth: int) -> OperatorRun:
        title, cost = _title_operator(op, inputs), found.costs.get(op)
        if cost is None:  # another part of the plan was empty, so nobody asked for its rows
            return OperatorRun(depth, title)
        read = sum(found.costs[i].rows for i in op.inputs if i in found.costs) if op.inputs else None
        return OperatorRun(depth, title, read, cost.rows, cost.ms, cost.by_job)

    operators = tuple(_list_operators(plan, record_operator))
    return Execution(name, Engine.DRIVER, reason, sum(c.ms for c in found.costs.values()), operators)


def note_reduced(name: str, computed: Mapping[Operator, Evaluated], inputs: Inputs) -> list[Execution]:
    """The parts of a plan that the driver computed before Spark got the rest."""
    reason = "few rows; computed at the driver before Spark gets the rest"
    return [note_driver(f"{name} part", reason, op, found, inputs) for op, found in computed.items()]


def note_empty(name: str, plan: Operator) -> Execution:
    """The driver has looked at the parts of a plan, and nothing was left for Spark."""
    nothing = OperatorRun(0, write_title(plan), rows_out=0)
    return Execution(name, Engine.DRIVER, "nothing is left of the change", 0.0, (nothing,))


def note_spark(
    tree: Tree, placement: Placement, inputs: Inputs, seconds: float, rows: int | None
) -> Execution:
    """Spark computes a plan as a whole: known are the rows of the tables that it reads, and of the result."""
    sizes = sizes_of(inputs)

    def record_operator(op: Operator, depth: int) -> OperatorRun:
        read = None
        if isinstance(op, Scan):
            step = inputs.steps.get(op.source)
            of_table = sizes.changed if op.moment is At.DELTA else sizes.rows
            read = step.count if step is not None else of_table(op.source)
        return OperatorRun(depth, _title_operator(op, inputs), read, rows if depth == 0 else None)

    operators = tuple(_list_operators(tree.plan, record_operator))
    return Execution(tree.label, placement.engine, placement.reason, seconds * 1000, operators)


def note_beside(tree: Tree, placement: Placement, node: NodeRef, inputs: Inputs, rows: int) -> Execution:
    """The result was shown by the job that computed a node, whose time is told there."""
    beside = replace(placement, reason=f"computed by the job of {node}")
    return note_spark(tree, beside, inputs, 0.0, rows)


def note_rounds(
    label: str, placement: Placement, plan: Operator, rounds: int, inputs: Inputs, seconds: float, rows: int
) -> Execution:
    """A plan of a recursion, over all rounds in which it ran."""
    reason = f"{placement.reason}; computed in {rounds} round{'s' * (rounds != 1)}"
    operators = tuple(
        _list_operators(plan, lambda op, depth: OperatorRun(depth, _title_operator(op, inputs)))
    )
    first, *others = operators
    return Execution(
        label, placement.engine, reason, seconds * 1000, (replace(first, rows_out=rows), *others)
    )


def add_round(before: Execution, again: Execution) -> Execution:
    """The same plan in one more round."""
    first, *others = before.operators
    rows = [n for n in (first.rows_out, again.operators[0].rows_out) if n is not None]
    first = replace(first, rows_out=sum(rows) if rows else None)
    return replace(before, ms=before.ms + again.ms, operators=(first, *others))


def _list_operators(plan: Operator, run: Callable[[Operator, int], OperatorRun]) -> Iterator[OperatorRun]:
    """Inputs below and further right; a part that stands in several places is told of once."""
    seen: set[int] = set()
    rest, count = [(plan, 0)], 0
    while rest and count < _MOST_OPERATORS:
        op, depth = rest.pop()
        count += 1
        if id(op) in seen:
            yield OperatorRun(depth, f"{write_title(op)} (as above)")
            continue
        seen.add(id(op))
        yield run(op, depth)
        rest += [(child, depth + 1) for child in reversed(op.inputs)]
    if rest:
        yield OperatorRun(0, f"… and more: a record keeps {_MOST_OPERATORS} operators of a plan")


def _title_operator(op: Operator, inputs: Inputs) -> str:
    """With the names of tables that users know."""

    def name_table(source: Reference) -> str:
        table = inputs.table(source)
        return str(source) if table is None else table.full_name

    return write_scan_title(op, name_table) if isinstance(op, Scan) else write_title(op)

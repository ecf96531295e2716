"""An operator that keeps rows -> what each column of its table is for."""

from __future__ import annotations

from spark_trickle.algebra.operators import Operator, Project, SetOperation
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Call, Recursive, TopK, Window


def purposes_of(plan: Operator) -> dict[str, str]:
    """For each column of the table of a node, one sentence."""
    match plan:
        case Aggregate():
            found = {k.name: f"groups the rows by {k.expr.sql}" for k in plan.keys}
            found |= {c.name: _purpose_of_call(c) for c in plan.calls}
            found[plan.count] = "counts the rows of the group: when it reaches zero, the group is deleted"
            return {c: found.get(c, "part of the state of the aggregate") for c in plan.columns}
        case Window():
            made = {o.name: f"the result of {o.expr.sql}" for o in plan.outputs}
            return {c: made.get(c, "a column of the rows that the window ranks") for c in plan.columns}
        case TopK() | Buffer():
            return dict.fromkeys(plan.columns, "a column of the first rows and of some spare rows after them")
        case SetOperation():
            return dict.fromkeys(plan.columns, f"a column of the rows that {plan.kind} keeps")
        case Recursive():
            return dict.fromkeys(plan.columns, "a column of the rows that the recursion found")
        case Project():
            inner = purposes_of(plan.input)
            return {o.name: inner.get(o.expr.column or "", f"holds {o.expr.sql}") for o in plan.outputs}
    return dict.fromkeys(plan.columns, "an intermediate result, kept so that it need not be computed again")


def _purpose_of_call(call: Call) -> str:
    if call.ties_of:
        return f'counts the rows that share the value of "{call.ties_of}"'
    if call.pick:
        extreme = "smallest" if call.pick == "min" else "largest"
        return f"the {extreme} value of {call.term.sql}" if call.term is not None else f"the {extreme} value"
    if call.term is not None:
        return f"the sum of {call.term.sql}"
    return f"the result of {call.expr.sql}, computed again for each group that changes"

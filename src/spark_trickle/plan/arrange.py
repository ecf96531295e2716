"""A delta -> the same delta, arranged for the number of rows that are at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spark_trickle.algebra.change_operators import Added, Counted, Fixpoint, Keys, Partial, Terms
from spark_trickle.algebra.memo import memoize
from spark_trickle.algebra.operators import At, Operator, Scan, column
from spark_trickle.algebra.references import ComputedRef, NodeRef
from spark_trickle.algebra.stateful_operators import Aggregate
from spark_trickle.delta.touched import restrict_to_keys
from spark_trickle.plan.sizes import Sizes

_HERE = 200_000  # stored groups that one task sums faster than several tasks exchange them


def arrange_change(plan: Operator, small: bool, rows: Callable[[NodeRef], int]) -> Operator:
    """`small` says that the change is few rows, `rows` how many a node has stored."""

    @memoize
    def visit(op: Operator) -> Operator:
        if isinstance(op, Fixpoint):
            return op.map_plans(visit)
        inner = op.with_inputs(tuple(visit(child) for child in op.inputs))
        match inner:
            case Added(Terms() as terms, Scan(NodeRef() as own)):
                return _arrange_added(inner, terms, small, rows(own))
            case Keys() if small and not takes_work(inner):
                return replace(inner, distinct=False)
        return inner

    return visit(plan)


def _arrange_added(op: Added, terms: Terms, small: bool, stored: int) -> Operator:
    """Few stored groups are read as they are; of many only those that the change touches."""
    if stored <= _HERE:
        return replace(op, here=small)
    partial = Partial(terms.input, terms.keys, terms.calls, terms.count)
    keys = tuple(column(k) for k in op.keys)
    return replace(op, terms=partial, own=restrict_to_keys(op.own, keys, Keys(partial, keys)))


def count_ties(content: Operator, sizes: Sizes) -> Operator:
    """With how many rows have an extremum, where that is one more look at one large table for few groups.

    Otherwise it is found out when a group is read again; small tables are read again in no time.
    """
    if not isinstance(content, Aggregate) or not any(c.ties_of for c in content.calls):
        return content
    large = [s for s in content.sources if sizes.rows(s) > sizes.large]
    return Counted(content) if len(large) == 1 else content


def takes_work(op: Operator) -> bool:
    """Whether more is read than changes and what was found already."""
    return any(
        isinstance(s, Scan) and s.moment is not At.DELTA and not isinstance(s.source, ComputedRef)
        for s in op.walk()
    )

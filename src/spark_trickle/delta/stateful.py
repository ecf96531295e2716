"""An operator that keeps its rows in a table of its own -> its change, from that table and its input.

What goes is read from the own table, never computed again: ties and unordered functions may come out
differently a second time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from spark_trickle.algebra.change_operators import (
    Added,
    Counted,
    Fold,
    Partial,
    Shaken,
    Terms,
    Touched,
    Unfit,
    Untouched,
    Within,
)
from spark_trickle.algebra.operators import At, Operator, Project, Scan, UnionAll, column
from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Recursive, TopK, Window
from spark_trickle.delta.differentiate import Changed, differentiate
from spark_trickle.delta.recursive import follow_change, recompute_fixpoint, rederive
from spark_trickle.delta.touched import collect_touched_keys, restrict_to_keys, subtract


@singledispatch
def differentiate_node(op: Operator, own: Scan, changed: Changed) -> Operator | None:
    """The change of a node; most need no rows of their own for it."""
    return differentiate(op, changed)


@differentiate_node.register
def differentiate_shown(op: Project, own: Scan, changed: Changed) -> Operator | None:
    """What shows all rows that an operator keeps has its table too, where columns have the names it shows."""
    if not op.input.keeps_rows:
        return differentiate(op, changed)
    names = {o.expr.column: o.name for o in op.outputs}
    kept = replace(own, names=tuple((c, names[c]) for c in op.input.columns))
    delta = differentiate_node(op.input, kept, changed)
    return None if delta is None else replace(op, input=delta)


@differentiate_node.register
def differentiate_aggregate(op: Aggregate, own: Scan, changed: Changed) -> Operator | None:
    delta = differentiate(op.input, changed)
    if delta is None:
        return None
    if op.algebraic:
        return fold_sums(op, own, delta)
    return fold_extrema(op, own, delta) if op.foldable else recompute_groups(op, own, delta)


def fold_sums(op: Aggregate, own: Scan, delta: Operator) -> Operator:
    """Sums of the change are added to the sums that are stored; a group without rows is gone.

    Whole numbers and decimals may be summed in any order, so the stored rows need not be settled first.
    Doubles may not: the row that goes must be the stored one to the last bit.
    """
    stored = At.OLD if any(c.inexact for c in op.calls) else At.LOG
    terms = Terms(delta, op.keys, op.calls, op.count)
    return Added(terms, own.at(stored), tuple(k.name for k in op.keys), op.calls, op.count)


def fold_extrema(op: Aggregate, own: Scan, delta: Operator) -> Operator:
    """Better values move an extremum; a group is read again only where the last of its best ones goes.

    So is a group with values that do not fit into its sums.
    """
    partial = Partial(delta, op.keys, op.calls, op.count)
    names = tuple(k.name for k in op.keys)
    before = own.at(At.OLD)
    picks = tuple(c for c in op.calls if c.pick)
    ties = tuple(c for c in op.calls if c.ties_of)
    left_out = tuple(dict.fromkeys(c.again_if for c in op.calls if c.again_if))
    shaken = Shaken(partial, before, names, picks, ties, op.count, left_out)
    columns = tuple(column(n) for n in names)
    calm = Fold(Untouched(partial, columns, shaken), before, names, op.calls, op.count)
    again = Counted(replace(op, input=Touched(op.input.at(At.NEW), tuple(k.expr for k in op.keys), shaken)))
    if not op.keys:
        # The one row of everything: there is nothing to compute unless it is shaken.
        again_rows: Operator = Touched(again, (), shaken)
        return UnionAll((calm, subtract(again_rows, Touched(before, (), shaken))))
    return UnionAll((calm, subtract(again, Touched(before, columns, shaken))))


def recompute_groups(op: Aggregate, own: Scan, delta: Operator) -> Operator:
    """Touched groups are computed again from all their rows: right for every function."""
    exprs = tuple(k.expr for k in op.keys)
    keys = collect_touched_keys((delta, exprs))
    new = replace(op, input=restrict_to_keys(op.input.at(At.NEW), exprs, keys))
    return subtract(new, restrict_to_keys(own.at(At.OLD), tuple(column(k.name) for k in op.keys), keys))


@differentiate_node.register
def differentiate_window(op: Window, own: Scan, changed: Changed) -> Operator | None:
    """A row can change every value in its partition, and none outside it."""
    delta = differentiate(op.input, changed)
    if delta is None:
        return None
    keys = collect_touched_keys((delta, op.partition))
    new = replace(op, input=restrict_to_keys(op.input.at(At.NEW), op.partition, keys))
    return subtract(new, restrict_to_keys(own.at(At.OLD), op.partition, keys))


@differentiate_node.register
def differentiate_recursive(op: Recursive, own: Scan, changed: Changed) -> Operator | None:
    """Only what changed leads on, if each row of the step leads on by itself."""
    if not op.sources & (changed - {op.source}):
        return None
    if find_obstacle(op):
        return recompute_fixpoint(op, own)
    return rederive(op, own, changed) if op.distinct else follow_change(op, own, changed)


@differentiate_node.register
def differentiate_top_k(op: TopK, own: Scan, changed: Changed) -> Operator | None:
    """The first rows of the whole input, again."""
    if differentiate(op.input, changed) is None:
        return None
    return subtract(replace(op, input=op.input.at(At.NEW)), own.at(At.OLD))


@differentiate_node.register
def differentiate_buffer(op: Buffer, own: Scan, changed: Changed) -> Operator | None:
    """Rows come and go within the buffer; the whole input is read only when too few are left.

    All rows of the input up to the last row of the buffer are in it. That stays true when rows go.
    """
    delta = differentiate(op.input, changed)
    if delta is None:
        return None
    before = own.at(At.OLD)
    within = Within(delta, before, op.order, op.need)
    unfit = Unfit(within, before, op.need, op.most)
    again = replace(op, input=op.input.at(At.NEW))
    anew = subtract(Touched(again, (), unfit), Touched(before, (), unfit))
    return UnionAll((Untouched(within, (), unfit), anew))

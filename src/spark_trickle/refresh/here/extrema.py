"""Changed rows and stored groups at the driver -> the change of an aggregate with least or greatest ones."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change import Fold, Partial, Shaken
from spark_trickle.algebra.operator import Aggregate, Call
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.here.groups import Column, grouped, plus, stored_beside, weighed, with_sign
from spark_trickle.sql.for_spark import ForSpark
from spark_trickle.sql.here import evaluate
from spark_trickle.sql.here_values import cast_to, comparable

_BETTER = {"min": pc.min_element_wise, "max": pc.max_element_wise}


def aggregated(op: Aggregate, rows: pa.Table) -> pa.Table:
    """A whole group anew: all of its rows come."""
    come = with_sign(rows, 1)
    return partial(Partial(op.input, op.keys, op.calls, op.count), come).select(list(op.columns))


def partial(op: Partial, changed: pa.Table) -> pa.Table:
    """What each group gains or loses, and the best of what comes to it and of what goes."""
    weight = changed.column(WEIGHT)
    keys = {k.name: evaluate(k.expr, changed) for k in op.keys}
    sums: dict[str, Column] = {}
    picks: dict[str, tuple[Column, str]] = {}
    for c in op.calls:
        if c.term is None:
            raise ForSpark
        value = evaluate(c.term, changed)
        if not c.pick:
            sums[c.name] = weighed(value, weight)
            continue
        comparable(value, value)  # NaN and nested values have an order of their own
        nothing = pa.scalar(None, value.type)
        picks[c.name] = pc.if_else(pc.greater(weight, 0), value, nothing), c.pick
        picks[c.gone] = pc.if_else(pc.less(weight, 0), value, nothing), c.pick
    sums[op.count] = weight
    values = {n: v for n, (v, _) in picks.items()}
    kinds = {n: pick for n, (_, pick) in picks.items()}
    made = grouped(pa.table({**keys, **sums, **values}), list(keys), list(sums), kinds)
    return made.select(list(op.columns))


def shaken(op: Shaken, part: pa.Table, own: pa.Table) -> pa.Table:
    """The keys of groups that may lose an extremum."""
    best = stored_beside(part, own, list(op.keys), [c.name for c in op.picks])
    hit = pa.repeat(pa.scalar(False), part.num_rows)
    for c in op.picks:
        gone, was = part.column(c.gone), best[c.name]
        one, other = comparable(gone, was)
        reaches = pc.less_equal(one, other) if c.pick == "min" else pc.greater_equal(one, other)
        hit = pc.or_(hit, pc.and_(pc.is_valid(gone), pc.fill_null(reaches, True)))
    found = part.filter(hit)
    if not op.keys:
        return pa.table({"nothing": pa.repeat(pa.scalar(1), found.num_rows)})
    return pa.table({f"k{n}": found.column(k) for n, k in enumerate(op.keys)})


def folded(op: Fold, part: pa.Table, own: pa.Table) -> pa.Table:
    """Each group that moved gives the row that goes and the row that comes."""
    names, keys = [*(c.name for c in op.sums), op.count], list(op.keys)
    was = stored_beside(part, own, keys, names)
    calls: dict[str, Call | None] = {**{c.name: c for c in op.sums}, op.count: None}
    now = {n: _moved_on(c, was[n], part.column(n)) for n, c in calls.items()}
    moved = pa.repeat(pa.scalar(False), part.num_rows)
    for n, c in calls.items():
        gains = part.column(n)
        step = (
            pc.is_valid(gains) if c is not None and c.pick else pc.not_equal(gains, pa.scalar(0, gains.type))
        )
        moved = pc.or_(moved, step)
    there, comes = pc.is_valid(was[op.count]), pc.greater(now[op.count], 0) if keys else moved
    parts = []
    for values, chosen, sign in ((was, there, -1), (now, comes, 1)):
        columns = {k: part.column(k) for k in keys} | values
        rows = pa.table(columns).filter(pc.and_(moved, chosen))
        parts.append(with_sign(rows, sign))
    return pa.concat_tables(parts)


def _moved_on(call: Call | None, was: Column, gains: Column) -> Column:
    if call is not None and call.pick:
        return _BETTER[call.pick](was, cast_to(gains, was.type))  # null is no value
    return plus(pc.fill_null(was, pa.scalar(0, was.type)), cast_to(gains, was.type))

"""Changed rows and stored groups at the driver -> the change of an aggregate with least or greatest ones."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Fold, Partial, Shaken, Signed
from spark_trickle.algebra.stateful_operators import Aggregate, Call
from spark_trickle.arrow.expressions import evaluate
from spark_trickle.arrow.groups import (
    Column,
    add_values,
    apply_sign,
    combine_values,
    find_stored,
    group_rows,
    list_summed_names,
    list_totals,
    list_xored_names,
    with_sign,
)
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.arrow.values import cast_to, make_comparable
from spark_trickle.model.table import WEIGHT

_VALUE, _NET = "_trickle_value", "_trickle_net"
_BETTER = {"min": pc.min_element_wise, "max": pc.max_element_wise}


def aggregate_groups(op: Aggregate, rows: pa.Table) -> pa.Table:
    """A whole group anew: all of its rows come, and those that have the best value are counted."""
    inserted = with_sign(rows, 1)
    whole = Partial(Signed(op.input, 1), op.keys, op.calls, op.count)
    made = sum_partially(whole, inserted, counted=True)
    for c in op.calls:
        if c.ties_of:  # without values none has the best one
            known = pc.fill_null(made.column(c.name), 0)
            made = made.set_column(made.column_names.index(c.name), c.name, known)
        if c.again_if and pc.any(pc.greater(made.column(c.again_if), 0)).as_py():
            raise ForSpark  # a function over values that no exact sum holds
    return made.select(list(op.columns))


def sum_partially(op: Partial, changed: pa.Table, counted: bool = False) -> pa.Table:
    """What each group gains or loses, and the best of what comes to it and of what goes.

    How many rows more have the better of both is of use if something goes.
    """
    weight = changed.column(WEIGHT)
    keys = {k.name: evaluate(k.expr, changed) for k in op.keys}
    values: dict[str, Column] = {}
    for c in op.calls:
        if c.term is None:
            raise ForSpark
        if c.is_total or c.pick:
            values[c.name] = evaluate(c.term, changed)
    totals = list_totals(op.calls, op.count)
    sums = {c.name: apply_sign(c, values[c.name], weight) for c in totals[:-1]}
    sums[op.count] = weight
    picks = [c for c in op.calls if c.pick]
    if not counted and not pc.any(pc.less(weight, 0)).as_py():
        made = _add_inserted_values(pa.table({**keys, **sums}), picks, values, list(keys), totals)
    else:
        made = group_rows(
            pa.table({**keys, **sums}), list(keys), list_summed_names(totals), xors=list_xored_names(totals)
        )
        for c in picks:
            changes = pa.table({**keys, _VALUE: values[c.name], WEIGHT: weight})
            made = _add_best_values(made, c, changes, list(keys))
    for c in op.calls:
        if c.ties_of:
            made = made.append_column(c.name, made.column(f"{c.ties_of}{_NET}"))
        if c.again_if:
            made = made.append_column(c.name, pa.nulls(made.num_rows, pa.float64()))
    return made.select(list(op.columns))


def _add_inserted_values(
    rows: pa.Table,
    picks: list[Call],
    values: dict[str, Column],
    keys: list[str],
    totals: tuple[Call, ...],
) -> pa.Table:
    """Nothing goes, so nobody asks how many rows have the best value."""
    for c in picks:
        make_comparable(values[c.name], values[c.name])  # NaN and nested values have an order of their own
        rows = rows.append_column(c.name, values[c.name])
    made = group_rows(
        rows, keys, list_summed_names(totals), {c.name: c.pick for c in picks}, list_xored_names(totals)
    )
    for c in picks:
        made = made.append_column(c.deleted, pa.nulls(made.num_rows, values[c.name].type))
        made = made.append_column(f"{c.name}{_NET}", pa.nulls(made.num_rows, pa.int64()))
    return made


def _add_best_values(made: pa.Table, call: Call, changed: pa.Table, keys: list[str]) -> pa.Table:
    """The best of what comes to each group and of what goes; how many more rows have the better of both."""
    value = changed.column(_VALUE)
    net = group_rows(changed, [*keys, _VALUE], [WEIGHT])
    net = net.filter(pc.and_(pc.is_valid(net.column(_VALUE)), pc.not_equal(net.column(WEIGHT), 0)))
    nothing, inserted = pa.scalar(None, value.type), pc.greater(net.column(WEIGHT), 0)
    sides = {
        call.name: pc.if_else(inserted, net.column(_VALUE), nothing),
        call.deleted: pc.if_else(inserted, nothing, net.column(_VALUE)),
        _VALUE: net.column(_VALUE),
    }
    table = pa.table({**{k: net.column(k) for k in keys}, **sides})
    best = group_rows(table, keys, [], dict.fromkeys(sides, call.pick))
    found = find_stored(made, best, keys, list(sides))
    for name in (call.name, call.deleted):
        made = made.append_column(name, found[name])
    at = made.append_column(_VALUE, found[_VALUE])
    steps = find_stored(at, net, [*keys, _VALUE], [WEIGHT])[WEIGHT]
    return made.append_column(f"{call.name}{_NET}", steps)


def find_shaken_groups(op: Shaken, part: pa.Table, own: pa.Table) -> pa.Table:
    """The keys of groups that may lose an extremum: what goes reaches it, and no row is known to keep it.

    Others have values that their sums do not hold.
    """
    ties = {c.name: t.name for c in op.picks for t in op.ties if t.ties_of == c.name}
    names = [*(c.name for c in op.picks), *ties.values(), *op.left_out]
    stored = find_stored(part, own, list(op.keys), names)
    hit = pa.repeat(pa.scalar(False), part.num_rows)
    for c in op.picks:
        deleted, was = part.column(c.deleted), stored[c.name]
        reached = pc.and_(pc.is_valid(deleted), pc.fill_null(pc.invert(_is_better(c, was, deleted)), True))
        if c.name in ties:
            left, _ = _count_ties(c, ties[c.name], part, stored)
            reached = pc.and_(reached, pc.fill_null(pc.less_equal(left, 0), True))
        hit = pc.or_(hit, reached)
    for n in op.left_out:
        hit = pc.or_(hit, pc.greater(pc.add(pc.fill_null(stored[n], 0), part.column(n)), 0))
    found = part.filter(hit)
    if not op.keys:
        return pa.table({"nothing": pa.repeat(pa.scalar(1), found.num_rows)})
    return pa.table([found.column(k) for k in op.keys], names=list(op.columns))


def fold_change(op: Fold, part: pa.Table, own: pa.Table) -> pa.Table:
    """Each group that moved gives the row that goes and the row that comes."""
    names, keys = [*(c.name for c in op.sums), op.count], list(op.keys)
    was = find_stored(part, own, keys, names)
    calls: dict[str, Call | None] = {**{c.name: c for c in op.sums}, op.count: None}
    now = {n: _move_extremum(c, was[n], part.column(n)) for n, c in calls.items() if not (c and c.ties_of)}
    moved = pa.repeat(pa.scalar(False), part.num_rows)
    for n, c in calls.items():
        gains = part.column(n)
        if c is not None and c.ties_of:
            pick = next(p for p in op.sums if p.name == c.ties_of)
            left, least = _count_ties(pick, n, part, was)
            now[n] = pc.coalesce(left, least, pa.scalar(0, pa.int64()))
            step = pc.fill_null(pc.not_equal(now[n], was[n]), True)
        elif c is not None and (c.pick or c.again_if):
            step = pc.is_valid(gains)
        else:
            step = pc.not_equal(gains, pa.scalar(0, gains.type))
        moved = pc.or_(moved, step)
    now = {n: now[n] for n in calls}
    there, inserted = pc.is_valid(was[op.count]), pc.greater(now[op.count], 0) if keys else moved
    parts = []
    for values, chosen, sign in ((was, there, -1), (now, inserted, 1)):
        columns = {k: part.column(k) for k in keys} | values
        rows = pa.table(columns).filter(pc.and_(moved, chosen))
        parts.append(with_sign(rows, sign))
    return pa.concat_tables(parts)


def _is_better(call: Call, one: Column, other: Column) -> Column:
    """Null where there is nothing to compare."""
    first, second = make_comparable(one, other)
    return pc.less(first, second) if call.pick == "min" else pc.greater(first, second)


def _count_ties(call: Call, name: str, part: pa.Table, stored: Mapping[str, Column]) -> tuple[Column, Column]:
    """How many rows have the extremum after the change, and how many at least if none of them went.

    Something better than what is stored has as many rows as came with it. If the best that comes or goes
    equals it, so many are added or taken away. If it is worse, all that were there are still there. The
    first is null where the change does not tell.
    """
    inserted, deleted, was = part.column(call.name), part.column(call.deleted), stored[call.name]
    step, known = part.column(name), stored[name]
    best = _BETTER[call.pick](inserted, deleted)
    one, other = make_comparable(best, was)
    better = pc.fill_null(_is_better(call, best, was), pc.is_valid(best))
    equal = pc.fill_null(pc.equal(one, other), False)
    told = pc.if_else(better, step, pc.if_else(equal, pc.add(known, step), known))
    return told, pc.if_else(better, pa.scalar(1, pa.int64()), known)


def _move_extremum(call: Call | None, was: Column, gains: Column) -> Column:
    if call is not None and call.pick:
        return _BETTER[call.pick](was, cast_to(gains, was.type))  # null is no value
    if call is not None and call.again_if:
        return gains  # null: the group has only values that its sums hold
    if call is not None:
        return combine_values(call, pc.fill_null(was, pa.scalar(0, was.type)), cast_to(gains, was.type))
    return add_values(pc.fill_null(was, pa.scalar(0, was.type)), cast_to(gains, was.type))

"""Changed rows and stored sums at the driver -> the change of an algebraic aggregate, as `Added` in SQL."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Added, Partial, Terms
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.arrow.expressions import evaluate
from spark_trickle.arrow.groups import (
    Column,
    apply_sign,
    combine_values,
    find_stored,
    group_rows,
    list_summed_names,
    list_totals,
    list_xored_names,
    with_sign,
)
from spark_trickle.arrow.joins import find_matches
from spark_trickle.arrow.values import cast_to
from spark_trickle.model.table import WEIGHT


def add_to_stored(op: Added, gain: pa.Table, own: pa.Table) -> pa.Table:
    """Each touched key whose sums moved gives the row that goes and the row that comes."""
    totals, keys = list_totals(op.sums, op.count), list(op.keys)
    kinds = {c.name: own.schema.field(c.name).type for c in totals}
    beside = find_stored(gain, _find_stored_sums(own, gain, keys, totals), keys, list(kinds))
    was = {n: pc.fill_null(values, pa.scalar(0, kinds[n])) for n, values in beside.items()}
    now = {
        c.name: combine_values(c, was[c.name], cast_to(gain.column(c.name), kinds[c.name])) for c in totals
    }
    moved = pa.repeat(pa.scalar(False), gain.num_rows)
    for n in kinds:
        moved = pc.or_(moved, pc.not_equal(was[n], now[n]))
    parts = []
    for sums, sign in ((was, -1), (now, 1)):
        # Without keys there is one row, also for no rows at all.
        chosen = pc.and_(moved, pc.greater(sums[op.count], 0)) if keys else moved
        rows = pa.table({**{k: gain.column(k) for k in keys}, **sums}).filter(chosen)
        parts.append(with_sign(rows, sign))
    return pa.concat_tables(parts)


def sum_change(op: Added, terms: Terms | Partial, changed: pa.Table) -> pa.Table:
    """What each touched key gains or loses."""
    weight = changed.column(WEIGHT)
    columns: dict[str, Column] = {k.name: evaluate(k.expr, changed) for k in terms.keys}
    for c in terms.calls:
        assert c.term is not None
        columns[c.name] = apply_sign(c, evaluate(c.term, changed), weight)
    columns[op.count] = weight
    totals = list_totals(terms.calls, op.count)
    return group_rows(pa.table(columns), op.keys, list_summed_names(totals), xors=list_xored_names(totals))


def _find_stored_sums(own: pa.Table, gain: pa.Table, keys: list[str], totals: tuple[Call, ...]) -> pa.Table:
    """The stored sums of touched keys; a log holds what was added to them one after the other."""
    same = [(own.column(k), gain.column(k), True) for k in keys]
    touched = own.filter(find_matches(same, own.num_rows, gain.num_rows))
    columns = {k: touched.column(k) for k in keys}
    if WEIGHT in own.column_names:
        columns |= {c.name: apply_sign(c, touched.column(c.name), touched.column(WEIGHT)) for c in totals}
    else:
        columns |= {c.name: touched.column(c.name) for c in totals}
    return group_rows(pa.table(columns), keys, list_summed_names(totals), xors=list_xored_names(totals))

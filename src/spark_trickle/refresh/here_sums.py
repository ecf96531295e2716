"""Changed rows and stored sums at the driver -> the change of an algebraic aggregate, as `Added` in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change import Added, Terms
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.here_join import matches, pairs
from spark_trickle.sql.here import evaluate
from spark_trickle.sql.here_values import ForSpark, cast_to, comparable

Column: TypeAlias = pa.ChunkedArray | pa.Array
_FITS = 10**38  # a sum of decimals
_FITS_WHOLE = 2**63


def added(op: Added, terms: Terms, changed: pa.Table, own: pa.Table) -> pa.Table:
    """Each touched key whose sums moved gives the row that goes and the row that comes."""
    names, keys = [*(c.name for c in op.sums), op.count], list(op.keys)
    kinds = {n: own.schema.field(n).type for n in names}
    gain = _gain(op, terms, changed, kinds)
    stored = _touched(own, gain, keys)
    before = grouped(pa.table({**_of(stored, keys), **_weighed_sums(stored, names)}), keys, names)
    was = _was(gain, before, keys, names)
    now = {n: _plus(was[n], cast_to(gain.column(n), kinds[n])) for n in names}
    moved = pa.repeat(pa.scalar(False), gain.num_rows)
    for n in names:
        moved = pc.or_(moved, pc.not_equal(was[n], now[n]))
    parts = []
    for sums, sign in ((was, -1), (now, 1)):
        # Without keys there is one row, also for no rows at all.
        chosen = pc.and_(moved, pc.greater(sums[op.count], 0)) if keys else moved
        part = pa.table({**_of(gain, keys), **sums}).filter(chosen)
        parts.append(part.append_column(WEIGHT, pa.repeat(pa.scalar(sign, pa.int32()), part.num_rows)))
    return pa.concat_tables(parts)


def _gain(op: Added, terms: Terms, changed: pa.Table, kinds: dict[str, pa.DataType]) -> pa.Table:
    """What each touched key gains or loses."""
    weight = changed.column(WEIGHT)
    columns: dict[str, Column] = {k.name: evaluate(k.expr, changed) for k in terms.keys}
    for c in terms.calls:
        assert c.term is not None
        columns[c.name] = _weighed(cast_to(evaluate(c.term, changed), kinds[c.name]), weight)
    columns[op.count] = weight
    return grouped(pa.table(columns), list(op.keys), [n for n in columns if n not in op.keys])


def _touched(own: pa.Table, gain: pa.Table, keys: list[str]) -> pa.Table:
    hit = matches([(own.column(k), gain.column(k), True) for k in keys], own.num_rows, gain.num_rows)
    return own.filter(hit)


def _was(gain: pa.Table, before: pa.Table, keys: list[str], names: list[str]) -> dict[str, Column]:
    """The stored sums of each touched key, zero for a new one."""
    if not keys:
        return {n: before.column(n) for n in names}
    at, found = pairs(
        [(gain.column(k), before.column(k), True) for k in keys], gain.num_rows, before.num_rows
    )
    rows = pc.index_in(pa.array(range(gain.num_rows), pa.int64()), value_set=at)
    there = found.take(rows)
    return {n: pc.fill_null(before.column(n).take(there), _zero(before.schema.field(n).type)) for n in names}


def _of(rows: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    return {n: rows.column(n) for n in names}


def _weighed_sums(rows: pa.Table, names: Sequence[str]) -> dict[str, Column]:
    if WEIGHT not in rows.column_names:
        return _of(rows, names)
    return {n: _weighed(rows.column(n), rows.column(WEIGHT)) for n in names}


def _weighed(values: Column, weight: Column) -> Column:
    return pc.if_else(pc.greater(weight, 0), values, pc.negate_checked(values))


def _plus(one: Column, other: Column) -> Column:
    """Arrow adds the widest decimals only in still wider ones."""
    wide = pa.decimal256(39, one.type.scale) if pa.types.is_decimal128(one.type) else one.type
    try:
        return pc.add_checked(one.cast(wide), other.cast(wide)).cast(one.type)
    except pa.ArrowInvalid:  # an overflow, which Spark reports
        raise ForSpark from None


def grouped(rows: pa.Table, keys: Sequence[str], sums: Sequence[str]) -> pa.Table:
    """One row for each different key, with sums; null is a key like others, and adds nothing."""
    for n in sums:
        _refuse_overflow(rows.column(n))
    kinds = {n: _sum_type(rows.schema.field(n).type) for n in sums}
    if not keys:
        totals = {n: pc.sum(rows.column(n), min_count=0).cast(kinds[n]) for n in sums}
        return pa.table({n: pa.array([total.as_py()], kinds[n]) for n, total in totals.items()})
    for k in keys:
        comparable(rows.column(k), rows.column(k))  # floats and nested values are for Spark
    nothing = pc.ScalarAggregateOptions(min_count=0)
    made = rows.group_by(list(keys), use_threads=False).aggregate([(n, "sum", nothing) for n in sums])
    return pa.table({**_of(made, keys), **{n: made.column(f"{n}_sum").cast(kinds[n]) for n in sums}})


def _sum_type(kind: pa.DataType) -> pa.DataType:
    return pa.decimal128(38, kind.scale) if pa.types.is_decimal128(kind) else pa.int64()


def _refuse_overflow(values: Column) -> None:
    """Arrow's sums go round silently; what might is for Spark to add up."""
    bounds = pc.min_max(values)
    ends = [e for e in (bounds["min"].as_py(), bounds["max"].as_py()) if e is not None]
    if not ends:
        return
    decimal = pa.types.is_decimal128(values.type)
    units = 10**values.type.scale if decimal else 1
    most = (max(abs(int(e)) for e in ends) + 1) * units
    if most * len(values) >= (_FITS if decimal else _FITS_WHOLE):
        raise ForSpark


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0, kind)

"""Rows at the driver -> one row for each different key, and what is stored of it beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import xor
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operators import column
from spark_trickle.algebra.stateful_operators import Call
from spark_trickle.arrow.joins import find_pairs, number_rows
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.arrow.values import make_comparable
from spark_trickle.model.arrow import net_change
from spark_trickle.model.table import WEIGHT

Column: TypeAlias = pa.ChunkedArray | pa.Array

_WORTH_A_LOOK = 10_000
_FITS = 10**38  # a sum of decimals
_FITS_WHOLE = 2**63
_NONE: Mapping[str, str] = {}


def group_rows(
    rows: pa.Table,
    keys: Sequence[str],
    sums: Sequence[str],
    picks: Mapping[str, str] = _NONE,
    xors: Sequence[str] = (),
) -> pa.Table:
    """Sums, and the least or greatest values that are asked for; null is a key, and adds nothing to a sum."""
    if xors:
        return _add_xors(rows, keys, group_rows(rows, keys, sums, picks), xors)
    for n in sums:
        _refuse_overflow(rows.column(n))
    for k in keys:
        make_comparable(rows.column(k), rows.column(k))  # floats and nested values are for Spark
    made = rows.group_by(list(keys), use_threads=False).aggregate(
        [*((n, "sum", _ZERO) for n in sums), *((n, pick) for n, pick in picks.items())]
    )
    columns = {k: made.column(k) for k in keys}
    columns |= {n: made.column(f"{n}_sum").cast(_find_sum_type(rows.schema.field(n).type)) for n in sums}
    return pa.table(columns | {n: made.column(f"{n}_{pick}") for n, pick in picks.items()})


def _add_xors(rows: pa.Table, keys: Sequence[str], made: pa.Table, xors: Sequence[str]) -> pa.Table:
    """Arrow has no such aggregate: values are listed for each group, and combined one by one."""
    for n in xors:
        kind, values = rows.schema.field(n).type, rows.select([*keys, n]).filter(pc.is_valid(rows.column(n)))
        if not keys:
            found = pa.array([reduce(xor, values.column(n).to_pylist(), 0)] * made.num_rows, kind)
        else:
            lists = values.group_by(list(keys), use_threads=False).aggregate([(n, "list")])
            made_of = [reduce(xor, one, 0) for one in lists.column(f"{n}_list").to_pylist()]
            found_for = lists.drop_columns([f"{n}_list"]).append_column(n, pa.array(made_of, kind))
            found = pc.fill_null(find_stored(made, found_for, keys, [n])[n], pa.scalar(0, kind))
        made = made.append_column(n, found)
    return made


def cancel_out(rows: pa.Table) -> pa.Table:
    """A change without what cancels out, unless it is so many rows that looking costs more than it saves."""
    if not 2 <= rows.num_rows <= _WORTH_A_LOOK:
        return rows
    ends = pc.min_max(rows.column(WEIGHT))
    one_way = ends["min"].as_py() > 0 or ends["max"].as_py() < 0
    return rows if one_way else net_change(rows)


_ZERO = pc.ScalarAggregateOptions(min_count=0)  # the sum of nothing


def find_stored(
    rows: pa.Table, own: pa.Table, keys: Sequence[str], names: Sequence[str]
) -> dict[str, Column]:
    """For each row the columns of the stored row with its key; null if there is none."""
    if not keys:  # one row at most
        only = pa.array([0 if own.num_rows else None] * rows.num_rows, pa.int64())
        return {n: own.column(n).take(only) for n in names}
    same = [(rows.column(k), own.column(k), True) for k in keys]
    at, found = find_pairs(same, rows.num_rows, own.num_rows)
    there = found.take(pc.index_in(number_rows(rows.num_rows), value_set=at))
    return {n: own.column(n).take(there) for n in names}


def apply_sign(call: Call, values: Column, weight: Column) -> Column:
    """What rows add, or take away; bit_xor does the same in both cases."""
    return values if call.combine == "bit_xor" else apply_weight(values, weight)


def apply_weight(values: Column, weight: Column) -> Column:
    return pc.if_else(pc.greater(weight, 0), values, pc.negate_checked(values))


def combine_values(call: Call, one: Column, other: Column) -> Column:
    return pc.bit_wise_xor(one, other) if call.combine == "bit_xor" else add_values(one, other)


def add_values(one: Column, other: Column) -> Column:
    """Arrow adds the widest decimals only in still wider ones."""
    wide = pa.decimal256(39, one.type.scale) if pa.types.is_decimal128(one.type) else one.type
    return pc.add_checked(one.cast(wide), other.cast(wide)).cast(one.type)


def list_totals(calls: Sequence[Call], count: str) -> tuple[Call, ...]:
    """The calls whose new value follows from the stored one and the change, and the number of rows."""
    return (*(c for c in calls if c.is_total), Call(count, column(count), type="BIGINT"))


def list_summed_names(calls: Sequence[Call]) -> list[str]:
    return [c.name for c in calls if c.combine == "sum"]


def list_xored_names(calls: Sequence[Call]) -> list[str]:
    return [c.name for c in calls if c.combine == "bit_xor"]


def with_sign(rows: pa.Table, sign: int) -> pa.Table:
    """Content as a change: all of it comes, or goes."""
    return rows.append_column(WEIGHT, pa.repeat(pa.scalar(sign, pa.int32()), rows.num_rows))


def _find_sum_type(kind: pa.DataType) -> pa.DataType:
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

"""Two tables at the driver -> their join, by Arrow's hash join over the keys and the numbers of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.operators import Join, JoinKind
from spark_trickle.arrow.expressions import evaluate, evaluate_predicate
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.arrow.values import make_comparable
from spark_trickle.model.arrow import combine_chunks
from spark_trickle.model.table import WEIGHT

Key = tuple[pa.ChunkedArray, pa.ChunkedArray, bool]  # left, right, whether null equals null

_LEFT, _RIGHT = "left_row", "right_row"
_ONLY_LEFT = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK)
_MOST_PAIRS = 1_000_000  # of rows that no key relates
_MOST_MATCHES = 5_000_000  # of rows with equal keys: some values may be in most rows of both sides


def join_rows(op: Join, left: pa.Table, right: pa.Table) -> pa.Table:
    if WEIGHT in right.column_names and (WEIGHT in left.column_names or op.kind is not JoinKind.INNER):
        raise ForSpark
    keys = [(evaluate(k.left, left), evaluate(k.right, right), k.null_safe) for k in op.keys]
    if op.residual is None and op.kind in _ONLY_LEFT:
        return _mark_matches(op, left, find_matches(keys, left.num_rows, right.num_rows))
    ones, others = find_pairs(keys, left.num_rows, right.num_rows)
    found = _put_beside(left.take(ones), right.take(others))
    if op.residual is not None:
        mask = evaluate_predicate(op.residual, found)
        ones, others = ones.filter(combine_chunks(mask)), others.filter(combine_chunks(mask))
        found = found.filter(mask)
    if op.kind is JoinKind.INNER:
        return found
    hit = pc.is_in(number_rows(left.num_rows), value_set=ones)
    if op.kind in _ONLY_LEFT:
        return _mark_matches(op, left, hit)
    alone = left.filter(pc.invert(hit))
    parts = [found, _put_beside(alone, _make_nulls(right, alone.num_rows))]
    if op.kind is JoinKind.FULL:
        strangers = right.filter(pc.invert(pc.is_in(number_rows(right.num_rows), value_set=others)))
        parts.append(_put_beside(_make_nulls(left, strangers.num_rows), strangers))
    return pa.concat_tables([p.select(found.column_names) for p in parts])


def _mark_matches(op: Join, left: pa.Table, hit: pa.Array) -> pa.Table:
    """The left rows of which it matters only whether they have a match."""
    if op.kind is JoinKind.MARK:
        return left.append_column(op.mark or "", hit)
    return left.filter(hit if op.kind is JoinKind.SEMI else pc.invert(hit))


def _make_nulls(rows: pa.Table, count: int) -> pa.Table:
    return pa.table({f.name: pa.nulls(count, f.type) for f in rows.schema})


def _put_beside(left: pa.Table, right: pa.Table) -> pa.Table:
    columns = {n: t.column(n) for t in (left, right) for n in t.column_names}
    return pa.table(columns)


def find_pairs(keys: Sequence[Key], left: int, right: int) -> tuple[pa.Array, pa.Array]:
    """The numbers of rows that match, as pairs; without keys all of them do."""
    if not keys:
        return _pair_all_rows(left, right)
    names, mine, theirs = _read_keys(keys)
    if left * right > _MOST_MATCHES and _count_pairs(names, mine, theirs) > _MOST_MATCHES:
        raise ForSpark
    ones, others = (
        mine.append_column(_LEFT, number_rows(left)),
        theirs.append_column(_RIGHT, number_rows(right)),
    )
    found = ones.join(others, names, join_type="inner", use_threads=False)
    return combine_chunks(found.column(_LEFT)), combine_chunks(found.column(_RIGHT))


def _read_keys(keys: Sequence[Key]) -> tuple[list[str], pa.Table, pa.Table]:
    """The keys of both sides, in columns of equal names and types."""
    mine: dict[str, pa.Array] = {}
    theirs: dict[str, pa.Array] = {}
    names: list[str] = []
    for n, (a, b, null_safe) in enumerate(keys):
        one, other = make_comparable(a, b)
        if null_safe:  # Arrow never matches nulls; whether a key is one is a key of its own
            mine[f"null{n}"], theirs[f"null{n}"] = pc.is_null(one), pc.is_null(other)
            one, other = _fill_nulls(one), _fill_nulls(other)
            names.append(f"null{n}")
        mine[f"key{n}"], theirs[f"key{n}"] = one, other
        names.append(f"key{n}")
    return names, pa.table(mine), pa.table(theirs)


def _count_pairs(names: list[str], left: pa.Table, right: pa.Table) -> int:
    """How many pairs have equal keys."""
    sides = [
        side.group_by(names).aggregate([([], "count_all")]).rename_columns([*names, count])
        for side, count in ((left, _LEFT), (right, _RIGHT))
    ]
    both = sides[0].join(sides[1], names, join_type="inner", use_threads=False)
    return pc.sum(pc.multiply(both.column(_LEFT), both.column(_RIGHT))).as_py() or 0


def _pair_all_rows(left: int, right: int) -> tuple[pa.Array, pa.Array]:
    if left * right > _MOST_PAIRS:
        raise ForSpark
    ones, others = np.divmod(np.arange(left * right), max(right, 1))
    return pa.array(ones), pa.array(others)


def find_matches(keys: Sequence[Key], left: int, right: int) -> pa.Array:
    """For each left row whether it has a match."""
    if not keys:
        return pa.repeat(pa.scalar(right > 0), left)
    names, mine, theirs = _read_keys(keys)
    found = mine.append_column(_LEFT, number_rows(left)).join(
        theirs, names, join_type="left semi", use_threads=False
    )
    return pc.is_in(number_rows(left), value_set=combine_chunks(found.column(_LEFT)))


def number_rows(count: int) -> pa.Array:
    return pa.arange(0, count)


def _fill_nulls(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    kind = values.type
    if pa.types.is_string(kind):
        return pc.fill_null(values, "")
    if pa.types.is_boolean(kind):
        return pc.fill_null(values, False)
    if pa.types.is_decimal(kind):
        return pc.fill_null(values, pa.scalar(Decimal(0), kind))
    return pc.fill_null(values, pa.scalar(0, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind))

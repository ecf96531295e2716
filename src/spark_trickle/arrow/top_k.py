"""First rows in an order, at the driver: the buffer that a LIMIT keeps, and what is shown of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import Unfit, Within
from spark_trickle.algebra.stateful_operators import Buffer, SortKey, TopK
from spark_trickle.arrow.expressions import evaluate
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.arrow.values import make_comparable
from spark_trickle.model.arrow import combine_chunks
from spark_trickle.model.packed import Numbers
from spark_trickle.model.table import WEIGHT


def keep_within_buffer(op: Within, delta: pa.Table, own: pa.Table) -> pa.Table:
    """The rows of a change that are not beyond the last row of a buffer, unless that has all there are."""
    if own.num_rows < op.need:
        return delta
    names = list(op.columns)
    both = pa.concat_tables([delta.select(names), own.select(names)])
    place = _rank_rows(op.order, both)
    theirs = place[delta.num_rows :]
    last = theirs.max(initial=-1)
    return delta.filter(pa.array(place[: delta.num_rows] <= last))


def flag_unfit_buffer(op: Unfit, inside: pa.Table, own: pa.Table) -> pa.Table:
    left = own.num_rows + (pc.sum(inside.column(WEIGHT)).as_py() or 0)
    bad = left > op.most or left < op.least <= own.num_rows
    return pa.table({"unfit": pa.array([1] * bad, pa.int32())})


def fill_buffer(op: Buffer, rows: pa.Table) -> pa.Table:
    """The first rows, and all that equal the last of them in the order."""
    place = _rank_rows(op.order, rows)
    if len(place) <= op.keep:
        return rows
    return rows.filter(pa.array(place <= np.sort(place)[op.keep - 1]))


def take_first_rows(op: TopK, rows: pa.Table) -> pa.Table:
    """Which of several equal rows is the last one is for Spark to choose."""
    place = _rank_rows(op.order, rows)
    order = np.argsort(place, kind="stable")
    end = len(order) if op.limit is None else op.offset + op.limit
    for cut in (op.offset, end):
        if 0 < cut < len(order) and place[order[cut - 1]] == place[order[cut]]:
            raise ForSpark
    return rows.take(pa.array(order[op.offset : end]))


def _rank_rows(order: Sequence[SortKey], rows: pa.Table) -> Numbers:
    """For each row where it stands; rows that are equal in the order stand at the same place."""
    ranks = [_rank_values(key, rows) for key in order]
    if not ranks:
        return np.zeros(rows.num_rows, np.int64)
    sequence = np.lexsort(ranks[::-1])
    steps = np.zeros(rows.num_rows, bool)
    for rank in ranks:
        steps[1:] |= rank[sequence][1:] != rank[sequence][:-1]
    place = np.empty(rows.num_rows, np.int64)
    place[sequence] = np.cumsum(steps)
    return place


def _rank_values(key: SortKey, rows: pa.Table) -> Numbers:
    """The place of each value among the different ones."""
    values = combine_chunks(evaluate(key.expr, rows))
    make_comparable(values, values)  # floats have an order of their own
    coded = values.dictionary_encode()
    different = coded.dictionary
    order = np.asarray(pc.sort_indices(different))
    ranks = np.empty(len(different), np.int64)
    ranks[order] = np.arange(len(different))[:: -1 if key.descending else 1]
    nulls = -1 if key.nulls_first else len(different)
    found = np.full(len(values), nulls, np.int64)
    valid = np.asarray(values.is_valid())
    found[valid] = ranks[np.asarray(coded.indices.drop_null())]
    return found

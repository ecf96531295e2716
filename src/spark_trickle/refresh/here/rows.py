"""The change of a node -> its rows, computed at the driver without a Spark job; None if it takes Spark.

The files of a small change are small, and often still in memory. Looking them up in a small table, or adding
them to stored sums, is done sooner than a job is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change import (
    Added,
    Fold,
    Keys,
    Net,
    Partial,
    Shaken,
    Signed,
    Terms,
    Touched,
    Untouched,
)
from spark_trickle.algebra.operator import (
    Aggregate,
    At,
    Filter,
    Join,
    JoinKind,
    Materialized,
    Operator,
    Project,
    Scan,
    Settled,
    UnionAll,
)
from spark_trickle.model.arrow import single_weights
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.here.extrema import aggregated, folded, partial, shaken
from spark_trickle.refresh.here.groups import grouped, with_sign
from spark_trickle.refresh.here.joins import joined, matches
from spark_trickle.refresh.here.lookup import Wanted, looked_up
from spark_trickle.refresh.here.sums import added
from spark_trickle.sql.here import evaluate, may_evaluate, truths
from spark_trickle.sql.here_values import ForSpark

_STEPS = (Scan, Signed, UnionAll, Net, Settled, Materialized, Keys, Touched, Untouched, Fold, Shaken)


class Reader(Protocol):
    """Where rows come from; None if only Spark can read them, or if they are too many.

    A rehearsal has tables of the same columns without rows.
    """

    @property
    def rehearsal(self) -> bool: ...

    def change_here(self, source: str) -> pa.Table | None:
        """What changed, with weights, not summed."""

    def content_here(self, source: str, at: At) -> pa.Table | None:
        """All rows; with weights and not summed if `at` says so."""

    def lookup_here(self, scan: Scan, column: str, values: pa.Array) -> pa.Table | None:
        """The rows that a scan would find where a column of its table has one of some values."""

    def without_rows(self) -> Reader:
        """The rehearsal."""


def rows_here(reader: Reader, plan: Operator) -> pa.Table | None:
    """The rows of a change with their weights."""
    if not _may_be_here(plan):
        return None
    try:
        if not reader.rehearsal:
            _rows(reader.without_rows(), plan)  # whether types fit, and tables, before anything is fetched
        return _rows(reader, plan)
    except (ForSpark, pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # an overflow or a type that Arrow refuses: Spark says what becomes of it


@lru_cache(maxsize=1024)
def _may_be_here(plan: Operator) -> bool:
    """Whether every step is of a kind that is done here: most plans are ruled out before anything is read."""
    return all(_is_known(op) for op in plan.walk())


def _is_known(op: Operator) -> bool:
    match op:
        case Project():
            return all(may_evaluate(o.expr) for o in op.outputs)
        case Filter():
            return may_evaluate(op.predicate)
        case Join():
            return op.kind in (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI) and bool(op.keys)
        case Added():
            return isinstance(op.terms, Terms) and not any(c.inexact for c in op.sums)
        case Aggregate() if not op.keys:
            return True  # read only where the one row of everything is shaken
        case Terms() | Partial() | Aggregate():
            return all(c.term is not None and may_evaluate(c.term) and not c.inexact for c in op.calls)
    return type(op) in _STEPS


def _rows(reader: Reader, plan: Operator) -> pa.Table:
    match plan:
        case Scan():
            return _scanned(reader, plan)
        case Filter():
            rows = _rows(reader, plan.input)
            return rows.filter(truths(plan.predicate, rows))
        case Project():
            rows = _rows(reader, plan.input)
            return _with_weight({o.name: evaluate(o.expr, rows) for o in plan.outputs}, rows)
        case Settled() | Materialized():
            return _rows(reader, plan.input)
        case Signed():
            return _signed(_rows(reader, plan.input), plan.sign)
        case UnionAll():
            return _union(reader, plan)
        case Net():
            return _net(_rows(reader, plan.input), plan.single)
        case Keys():
            rows = _rows(reader, plan.input)
            return pa.table({f"k{n}": evaluate(e, rows) for n, e in enumerate(plan.exprs)})
        case Touched():  # Untouched is one too
            return _touched(reader, plan)
        case Join():
            return _joined(reader, plan)
        case Added(Terms() as terms, own):
            return added(plan, terms, _rows(reader, terms.input), _rows(reader, own))
        case Partial():
            return partial(plan, _rows(reader, plan.input))
        case Shaken():
            return shaken(plan, _rows(reader, plan.partial), _rows(reader, plan.own))
        case Fold():
            return folded(plan, _rows(reader, plan.partial), _rows(reader, plan.own))
        case Aggregate():
            rows = _rows(reader, plan.input)
            return aggregated(plan, rows) if rows.num_rows or not plan.keys else _nothing(plan)
    raise ForSpark


def _scanned(reader: Reader, plan: Scan) -> pa.Table:
    delta = plan.moment is At.DELTA
    rows = reader.change_here(plan.source) if delta else reader.content_here(plan.source, plan.moment)
    if rows is None:
        raise ForSpark
    return _with_weight({name: rows.column(c) for name, c in plan.names}, rows)


def _with_weight(columns: dict[str, pa.ChunkedArray | pa.Array], rows: pa.Table) -> pa.Table:
    if WEIGHT in rows.column_names:
        columns[WEIGHT] = rows.column(WEIGHT)
    elif not columns:
        raise ForSpark  # rows without columns, which Arrow cannot count
    return pa.table(columns)


def _signed(rows: pa.Table, sign: int) -> pa.Table:
    """Content as a change, or a change turned round."""
    if WEIGHT not in rows.column_names:
        return with_sign(rows, sign)
    if sign == 1:
        return rows
    return rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, pc.negate(rows.column(WEIGHT)))


def _union(reader: Reader, plan: UnionAll) -> pa.Table:
    """Parts must have equal types: what Spark would make of different ones is not for us to guess."""
    weight = [WEIGHT] * plan.weighted
    found = [_rows(reader, part).select([*part.columns, *weight]) for part in plan.parts]
    found = [p for p in found if p.num_rows] or found[:1]
    if len({tuple(f.type for f in p.schema) for p in found}) > 1:
        raise ForSpark
    return pa.concat_tables([p.rename_columns([*plan.columns, *weight]) for p in found])


def _net(rows: pa.Table, single: bool) -> pa.Table:
    names = [n for n in rows.column_names if n != WEIGHT]
    sums = grouped(rows, names, [WEIGHT])
    left = sums.filter(pc.not_equal(sums.column(WEIGHT), 0))
    weights = left.column(WEIGHT).cast(pa.int32())
    left = left.set_column(left.column_names.index(WEIGHT), pa.field(WEIGHT, pa.int32()), weights)
    return single_weights(left) if single else left


def _touched(reader: Reader, plan: Touched) -> pa.Table:
    keys = _rows(reader, plan.keys)
    if not keys.num_rows and not isinstance(plan, Untouched) and not reader.rehearsal:
        return _nothing(plan)  # whatever the input is, it need not be read
    if isinstance(plan, Untouched):
        rows = _rows(reader, plan.input)  # all of it: what has no touched key cannot be looked up by keys
        return rows.filter(pc.invert(_hits(plan, rows, keys)))
    wanted = [Wanted(e, keys.column(n), True) for n, e in enumerate(plan.exprs)]
    rows = _content(reader, plan.input, lambda: wanted)
    return rows.filter(_hits(plan, rows, keys))


def _hits(plan: Touched, rows: pa.Table, keys: pa.Table) -> pa.Array:
    same = [(evaluate(e, rows), keys.column(n), True) for n, e in enumerate(plan.exprs)]
    return matches(same, rows.num_rows, keys.num_rows)


def _joined(reader: Reader, plan: Join) -> pa.Table:
    """The change comes first in a join, and says which rows of a large table are needed."""
    left: list[pa.Table] = []

    def wanted() -> list[Wanted]:
        left.append(_rows(reader, plan.left))
        return [Wanted(k.right, evaluate(k.left, left[0]), k.null_safe) for k in plan.keys]

    right = _content(reader, plan.right, wanted)
    return joined(plan, left[0] if left else _rows(reader, plan.left), right)


def _content(reader: Reader, side: Operator, wanted: Callable[[], list[Wanted]]) -> pa.Table:
    """All rows of a side, or those that are wanted if it is more than there is room for."""
    try:
        return _rows(reader, side)
    except ForSpark:
        scan, rows = looked_up(side, wanted(), lambda s, c, v: _fetched(reader, s, c, v))
        return _rows(_Fetched(scan, rows, reader.rehearsal), side)


def _fetched(reader: Reader, scan: Scan, column: str, values: pa.Array) -> pa.Table:
    rows = reader.lookup_here(scan, column, values)
    if rows is None:
        raise ForSpark
    return rows


@dataclass(frozen=True)
class _Fetched:
    """Rows that stand for all of a scan."""

    scan: Scan
    rows: pa.Table
    rehearsal: bool

    def without_rows(self) -> Reader:
        return self

    def change_here(self, source: str) -> pa.Table | None:
        return None

    def content_here(self, source: str, at: At) -> pa.Table | None:
        return self.rows if (source, at) == (self.scan.source, self.scan.moment) else None

    def lookup_here(self, scan: Scan, column: str, values: pa.Array) -> pa.Table | None:
        return None


def _nothing(plan: Operator) -> pa.Table:
    columns = {c: pa.nulls(0) for c in plan.columns}
    return pa.table(columns | ({WEIGHT: pa.nulls(0, pa.int32())} if plan.weighted else {}))

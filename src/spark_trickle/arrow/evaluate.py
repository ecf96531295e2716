"""The change of a node -> its rows, computed at the driver without a Spark job, or why that takes Spark.

The files of a small change are small, and often still in memory. Looking them up in a small table, or adding
them to stored sums, is done sooner than a job is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change_operators import (
    Added,
    Counted,
    Fold,
    Keys,
    Net,
    Partial,
    Shaken,
    Signed,
    Terms,
    Touched,
    Trimmed,
    Unfit,
    Untouched,
    Within,
)
from spark_trickle.algebra.explain import write_title
from spark_trickle.algebra.operators import (
    At,
    Filter,
    Join,
    JoinKind,
    Operator,
    Project,
    Scan,
    Settled,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Materialized, TopK
from spark_trickle.arrow.expressions import evaluate, evaluate_predicate, may_evaluate
from spark_trickle.arrow.extrema import aggregate_groups, find_shaken_groups, fold_change, sum_partially
from spark_trickle.arrow.groups import cancel_out, group_rows, with_sign
from spark_trickle.arrow.joins import find_matches, join_rows
from spark_trickle.arrow.restrict import (
    Wanted,
    choose_column,
    rename_wanted,
    select_wanted,
    trace_wanted,
    want_values,
)
from spark_trickle.arrow.sums import add_to_stored, sum_change
from spark_trickle.arrow.top_k import fill_buffer, flag_unfit_buffer, keep_within_buffer, take_first_rows
from spark_trickle.arrow.unsupported import ForSpark, Refusal
from spark_trickle.model.arrow import single_weights
from spark_trickle.model.table import WEIGHT


@dataclass(frozen=True)
class Lookup:
    """The rows of a large table that were looked up by the values of a column."""

    rows: pa.Table
    by_job: bool = False  # fetched by a Spark job; in a rehearsal: unless they turn out to be in memory


class Reader(Protocol):
    """Where rows come from, or why only Spark can read them.

    A rehearsal has tables of the same columns without rows.
    """

    @property
    def rehearsal(self) -> bool: ...

    def read_change(self, source: Reference) -> pa.Table | Refusal:
        """What changed, with weights, not summed."""

    def read_content(self, scan: Scan) -> pa.Table | Refusal:
        """All rows of a table; with weights and not summed if the scan is of a log."""

    def read_indexed_rows(self, scan: Scan) -> pa.Table | Refusal:
        """The same of a larger table, whose columns are in memory."""

    def look_up_rows(self, scan: Scan, column: str, values: pa.Array) -> Lookup | Refusal:
        """The rows that a scan would find where a column of its table has one of some values."""

    def without_rows(self) -> Reader:
        """The rehearsal."""


@dataclass(frozen=True)
class OperatorCost:
    """What one operator of a plan took at the driver, without its inputs."""

    rows: int  # that came out of it
    ms: float
    by_job: bool = False  # a Spark job fetched the rows


@dataclass(frozen=True)
class Evaluated:
    """The rows of a plan, and what each of its operators took."""

    rows: pa.Table
    costs: Mapping[Operator, OperatorCost]


def evaluate_plan(reader: Reader, plan: Operator) -> Evaluated | Refusal:
    """The rows of a change with their weights, if a rehearsal finds no obstacle."""
    found = rehearse_plan(reader, plan)
    return found if isinstance(found, Refusal) else compute_plan(reader, plan)


def rehearse_plan(reader: Reader, plan: Operator) -> Evaluated | Refusal:
    """The plan over no rows, or why the driver cannot compute it: operators, types and tables tell."""
    return _find_obstacle(plan) or compute_plan(reader.without_rows(), plan)


def compute_plan(reader: Reader, plan: Operator) -> Evaluated | Refusal:
    """The same after a rehearsal. Only now values may turn out to be too large, or rows too many."""
    evaluation = _Evaluation(reader)
    try:
        return Evaluated(evaluation.compute_rows(plan), evaluation.costs)
    except ForSpark as error:
        return Refusal(error.reason)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # An overflow or a type that Arrow refuses: Spark says what becomes of it.
        return Refusal("Arrow cannot compute a value that Spark may be able to")


@lru_cache(maxsize=1024)  # a plan is small: their number is bound enough
def _find_obstacle(plan: Operator) -> Refusal | None:
    """An operator that takes Spark: most plans are ruled out before anything is read."""
    op = next((op for op in plan.walk() if not _is_known(op)), None)
    return None if op is None else Refusal(f"{write_title(op)} needs Spark")


def _is_known(op: Operator) -> bool:
    match op:
        case Project():
            return all(may_evaluate(o.expr) for o in op.outputs)
        case Filter():
            return may_evaluate(op.predicate)
        case Added():
            return isinstance(op.terms, Terms | Partial) and not any(c.inexact for c in op.sums)
        case Aggregate() if not op.keys:
            return True  # read only where the one row of everything is shaken
        case Terms() | Partial() | Aggregate():
            return all(c.term is not None and may_evaluate(c.term) and not c.inexact for c in op.calls)
        case Within() | TopK() | Buffer():
            return all(may_evaluate(k.expr) for k in op.order)
    return op.runs_at_driver


_Sought = Sequence[Wanted]
_NOTHING = OperatorCost(0, 0.0)


class _Evaluation:
    """One plan, in which equal parts are computed once.

    What is wanted of a part says which of its rows matter, so that a large table need not be read whole.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[Operator, pa.Table] = {}
        self._ms_of_inputs = 0.0  # of the operator that is computed
        self._fetched: set[Operator] = set()  # by a Spark job
        self.costs: dict[Operator, OperatorCost] = {}

    def compute_rows(self, plan: Operator, wanted: _Sought = ()) -> pa.Table:
        if plan in self._known:
            return self._known[plan]
        outer, self._ms_of_inputs = self._ms_of_inputs, 0.0
        start = perf_counter()
        found = self._compute_operator(plan, wanted)
        ms = (perf_counter() - start) * 1000
        before = self.costs.get(plan, _NOTHING)  # what is wanted of a part may differ from place to place
        own = ms - self._ms_of_inputs
        self.costs[plan] = OperatorCost(before.rows + found.num_rows, before.ms + own, plan in self._fetched)
        self._ms_of_inputs = outer + ms
        if not wanted:
            self._known[plan] = found
        return found

    def _compute_operator(self, plan: Operator, wanted: _Sought) -> pa.Table:
        match plan:
            case Scan():
                return self._read_scan(plan, wanted)
            case Filter():
                rows = self.compute_rows(plan.input, wanted)
                return rows.filter(evaluate_predicate(plan.predicate, rows))
            case Project():
                rows = self.compute_rows(plan.input, trace_wanted(plan.outputs, wanted))
                return _add_weight({o.name: evaluate(o.expr, rows) for o in plan.outputs}, rows)
            case Settled() | Materialized() | Counted():
                return self.compute_rows(plan.input, wanted)
            case Signed():
                return _sign_rows(self.compute_rows(plan.input, wanted), plan.sign)
            case UnionAll():
                return self._compute_union(plan, wanted)
            case Net():
                return _sum_weights(self.compute_rows(plan.input, wanted), plan.single)
            case Trimmed():
                return cancel_out(self.compute_rows(plan.input, wanted))
            case Keys():
                rows = self.compute_rows(plan.input)
                return pa.table([evaluate(e, rows) for e in plan.exprs], names=list(plan.columns))
            case Touched():  # Untouched is one too
                return self._compute_touched(plan, wanted)
            case Join():
                return self._compute_join(plan, wanted)
            case Aggregate():
                rows = self.compute_rows(plan.input, trace_wanted(plan.keys, wanted))
                return (
                    aggregate_groups(plan, rows) if rows.num_rows or not plan.keys else _make_empty_rows(plan)
                )
            case TopK():
                return take_first_rows(plan, self.compute_rows(plan.input))
            case Buffer():
                return fill_buffer(plan, self.compute_rows(plan.input))
        return self._compute_beside_own(plan)

    def _compute_beside_own(self, plan: Operator) -> pa.Table:
        """What a change does to rows that are stored."""
        match plan:
            case Added(Terms() | Partial() as terms, own):
                gain = sum_change(plan, terms, self.compute_rows(terms.input))
                return add_to_stored(plan, gain, self.compute_rows(own, _want_keys(plan.keys, gain)))
            case Partial():
                return sum_partially(plan, self.compute_rows(plan.input))
            case Shaken():
                part = self.compute_rows(plan.partial)
                return find_shaken_groups(
                    plan, part, self.compute_rows(plan.own, _want_keys(plan.keys, part))
                )
            case Fold():
                part = self.compute_rows(plan.partial)
                return fold_change(plan, part, self.compute_rows(plan.own, _want_keys(plan.keys, part)))
            case Within():
                return keep_within_buffer(plan, self.compute_rows(plan.delta), self.compute_rows(plan.own))
            case Unfit():
                return flag_unfit_buffer(plan, self.compute_rows(plan.within), self.compute_rows(plan.own))
        raise ForSpark(f"{write_title(plan)} needs Spark")

    def _read_scan(self, plan: Scan, wanted: _Sought) -> pa.Table:
        """All of a small table; of a large one the rows that are wanted."""
        rows = self._read_change(plan) if plan.moment is At.DELTA else self._read_table(plan, wanted)
        if isinstance(rows, Refusal):
            raise ForSpark(rows.reason)
        return _add_weight({name: rows.column(c) for name, c in plan.names}, rows)

    def _read_change(self, plan: Scan) -> pa.Table | Refusal:
        return self._reader.read_change(plan.source)

    def _read_table(self, plan: Scan, wanted: _Sought) -> pa.Table | Refusal:
        whole = self._reader.read_content(plan)
        if not isinstance(whole, Refusal):
            return whole
        told = choose_column(plan, wanted)
        looked_up = whole if told is None else self._reader.look_up_rows(plan, *told)
        if isinstance(looked_up, Lookup):
            if looked_up.by_job:
                self._fetched.add(plan)
            return looked_up.rows
        indexed = self._reader.read_indexed_rows(plan)
        return looked_up if isinstance(indexed, Refusal) else indexed

    def _compute_union(self, plan: UnionAll, wanted: _Sought) -> pa.Table:
        """Parts must have equal types: what Spark would make of different ones is not for us to guess."""
        weight = [WEIGHT] * plan.weighted
        found = [
            self.compute_rows(p, rename_wanted(plan.columns, p.columns, wanted)).select([*p.columns, *weight])
            for p in plan.parts
        ]
        found = [p for p in found if p.num_rows] or found[:1]
        if len({tuple(f.type for f in p.schema) for p in found}) > 1:
            raise ForSpark("the parts of a UNION ALL have different types")
        return pa.concat_tables([p.rename_columns([*plan.columns, *weight]) for p in found])

    def _compute_touched(self, plan: Touched, wanted: _Sought) -> pa.Table:
        keys = self.compute_rows(plan.keys)
        if isinstance(plan, Untouched):
            rows = self.compute_rows(
                plan.input, wanted
            )  # what has no touched key cannot be looked up by keys
            return rows.filter(pc.invert(_find_hits(plan, rows, keys)))
        # All rows of an input are read if something is unfit, which a rehearsal does not expect.
        unread = not plan.exprs if self._reader.rehearsal else not keys.num_rows
        if unread:
            return _make_empty_rows(plan)
        by_keys = want_values((e, keys.column(n), True) for n, e in enumerate(plan.exprs))
        rows = self.compute_rows(plan.input, [*by_keys, *wanted])
        return rows.filter(_find_hits(plan, rows, keys))

    def _compute_join(self, plan: Join, wanted: _Sought) -> pa.Table:
        """The side that is known to be few rows comes first, and says which rows of the other are needed."""
        of_left, of_right = (
            select_wanted(plan.left.columns, wanted),
            select_wanted(plan.right.columns, wanted),
        )
        inner = plan.kind is JoinKind.INNER
        if inner and not plan.left.weighted and (plan.right.weighted or (of_right and not of_left)):
            right = self.compute_rows(plan.right, of_right)
            by_keys = want_values((k.left, evaluate(k.right, right), k.null_safe) for k in plan.keys)
            return join_rows(plan, self.compute_rows(plan.left, [*by_keys, *of_left]), right)
        if plan.kind is JoinKind.FULL:
            return join_rows(plan, self.compute_rows(plan.left), self.compute_rows(plan.right))
        left = self.compute_rows(plan.left, of_left)
        by_keys = want_values((k.right, evaluate(k.left, left), k.null_safe) for k in plan.keys)
        return join_rows(
            plan, left, self.compute_rows(plan.right, [*by_keys, *of_right] if inner else by_keys)
        )


def _want_keys(names: Sequence[str], rows: pa.Table) -> list[Wanted]:
    return want_values((column(k), rows.column(k), True) for k in names)


def _find_hits(plan: Touched, rows: pa.Table, keys: pa.Table) -> pa.Array:
    same = [(evaluate(e, rows), keys.column(n), True) for n, e in enumerate(plan.exprs)]
    return find_matches(same, rows.num_rows, keys.num_rows)


def _add_weight(columns: dict[str, pa.ChunkedArray | pa.Array], rows: pa.Table) -> pa.Table:
    if WEIGHT in rows.column_names:
        columns[WEIGHT] = rows.column(WEIGHT)
    elif not columns:
        raise ForSpark("Arrow cannot count rows without columns")
    return pa.table(columns)


def _sign_rows(rows: pa.Table, sign: int) -> pa.Table:
    """Content as a change, or a change turned round."""
    if WEIGHT not in rows.column_names:
        return with_sign(rows, sign)
    if sign == 1:
        return rows
    return rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, pc.negate(rows.column(WEIGHT)))


def _sum_weights(rows: pa.Table, single: bool) -> pa.Table:
    names = [n for n in rows.column_names if n != WEIGHT]
    sums = group_rows(rows, names, [WEIGHT])
    left = sums.filter(pc.not_equal(sums.column(WEIGHT), 0))
    weights = left.column(WEIGHT).cast(pa.int32())
    left = left.set_column(left.column_names.index(WEIGHT), pa.field(WEIGHT, pa.int32()), weights)
    return single_weights(left) if single else left


def _make_empty_rows(plan: Operator) -> pa.Table:
    columns = {c: pa.nulls(0) for c in plan.columns}
    return pa.table(columns | ({WEIGHT: pa.nulls(0, pa.int32())} if plan.weighted else {}))

"""A change that is made row by row from changes of sources -> its rows, without a Spark job.

The files of a small change are small, and often still in memory. A projection or a filter over them is done
sooner than a job is planned.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_trickle.algebra.change import Signed
from spark_trickle.algebra.operator import At, Filter, Operator, Project, Scan, UnionAll
from spark_trickle.model.table import WEIGHT
from spark_trickle.refresh.inputs import Inputs
from spark_trickle.sql.here import evaluate


def rows_here(inputs: Inputs, plan: Operator) -> pa.Table | None:
    """The rows of a change with their weights; None if it takes Spark."""
    match plan:
        case Scan(moment=At.DELTA):
            rows = inputs.change_here(plan.source)
            return _named(rows, dict(plan.names)) if rows is not None else None
        case Project() | Filter() | Signed():
            rows = rows_here(inputs, plan.input)
            return _step(plan, rows) if rows is not None else None
        case UnionAll():
            return _union(inputs, plan)
    return None


def _named(rows: pa.Table, names: dict[str, str]) -> pa.Table:
    return rows.select([*names.values(), WEIGHT]).rename_columns([*names, WEIGHT])


def _step(plan: Project | Filter | Signed, rows: pa.Table) -> pa.Table | None:
    match plan:
        case Filter():
            mask = evaluate(plan.predicate, rows)
            if mask is None or not pa.types.is_boolean(mask.type):
                return None
            return rows.filter(mask)  # NULL counts as false
        case Project():
            values = [evaluate(o.expr, rows) for o in plan.outputs]
            if any(v is None for v in values):
                return None
            return pa.table([*values, rows.column(WEIGHT)], names=[*(o.name for o in plan.outputs), WEIGHT])
        case Signed():
            if plan.sign == 1:
                return rows
            turned = pc.negate(rows.column(WEIGHT))
            return rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, turned)


def _union(inputs: Inputs, plan: UnionAll) -> pa.Table | None:
    """Parts must have equal types: what Spark would make of different ones is not for us to guess."""
    found = []
    for part in plan.parts:
        rows = rows_here(inputs, part)
        if rows is None:
            return None
        found.append(rows.select([*part.columns, WEIGHT]))
    if len({tuple(f.type for f in p.schema) for p in found}) > 1:
        return None
    return pa.concat_tables([p.rename_columns([*plan.columns, WEIGHT]) for p in found])

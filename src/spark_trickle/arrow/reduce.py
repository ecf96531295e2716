"""A change that needs Spark -> what is left of it when the parts that are few rows at the driver are known.

A term that begins with a change of a dimension table is often empty once it is filtered and looked up in
other small tables. It is left out, with all the scans of large tables that would have followed. Otherwise
its rows are handed to Spark as they are, so that the plan is shorter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from spark_trickle.algebra.change_operators import Touched, Untouched
from spark_trickle.algebra.operators import At, Join, JoinKind, Operator, Project, Scan, UnionAll
from spark_trickle.algebra.references import DriverRef
from spark_trickle.arrow.evaluate import Evaluated, Reader, evaluate_plan
from spark_trickle.arrow.unsupported import Refusal
from spark_trickle.delta.differentiate import rename_columns


class Reducer:
    """Looks at every part once; rows at the driver become scans of their own.

    Without a reader everything is left to Spark. `is_few` tells whether rows may be handed to Spark with the
    plan; `kept` are those that are. `computed` are the parts that were computed here, to be told of.
    """

    def __init__(self, reader: Reader | None, is_few: Callable[[pa.Table], bool]) -> None:
        self._reader = reader
        self._is_few = is_few
        self._known: dict[Operator, Operator | None] = {}
        self.kept: dict[DriverRef, pa.Table] = {}
        self.computed: dict[Operator, Evaluated] = {}

    def reduce(self, op: Operator) -> Operator | None:
        """None if there are no rows."""
        if self._reader is None:
            return op
        if op not in self._known:
            self._known[op] = (
                self._compute_at_driver(self._reader, op)
                if op.weighted and op.narrows_changes
                else self._reduce_inputs(op)
            )
        return self._known[op]

    def _compute_at_driver(self, reader: Reader, op: Operator) -> Operator | None:
        found = evaluate_plan(reader, op)
        if isinstance(found, Refusal):
            return self._reduce_inputs(op)
        self.computed[op] = found
        if found.rows.num_rows == 0:
            return None
        # A filter alone is as soon done by Spark, which has the change already.
        if not isinstance(op, Join) or not _has_plain_types(op, found.rows) or not self._is_few(found.rows):
            return self._reduce_inputs(op)
        name = DriverRef(len(self.kept) + 1)
        self.kept[name] = found.rows
        return Scan(name, tuple((c, c) for c in op.columns), At.DELTA)

    def _reduce_inputs(self, op: Operator) -> Operator | None:
        match op:
            case UnionAll():
                return self._reduce_union(op)
            case Touched():
                return self._reduce_touched(op)
            case Join():
                return self._reduce_join(op)
            case _ if op.empty_without_input:
                first, *others = op.inputs
                left = self.reduce(first)
                return None if left is None else op.with_inputs((left, *others))
        return op

    def _reduce_union(self, op: UnionAll) -> Operator | None:
        parts = [p for p in map(self.reduce, op.parts) if p is not None]
        if not parts:
            return None
        if parts[0].columns != op.columns:
            parts[0] = rename_columns(parts[0], op.columns)
        return parts[0] if len(parts) == 1 else UnionAll(tuple(parts))

    def _reduce_touched(self, op: Touched) -> Operator | None:
        keys, rows = self.reduce(op.keys), self.reduce(op.input)
        if rows is None:
            return None
        if keys is None:
            return rows if isinstance(op, Untouched) else None
        return replace(op, input=rows, keys=keys)

    def _reduce_join(self, op: Join) -> Operator | None:
        left, right = self.reduce(op.left), self.reduce(op.right)
        if op.kind in (JoinKind.INNER, JoinKind.SEMI) and (left is None or right is None):
            return None
        if op.kind is JoinKind.FULL:
            return None if left is None and right is None else op
        if left is None:
            return None
        return replace(op, left=left, right=op.right if right is None else right)


def _has_plain_types(op: Operator, rows: pa.Table) -> bool:
    """Spark might give a computed column another type, and guesses what a timestamp means."""
    computed = any(isinstance(p, Project) for p in op.walk())
    return not computed and not any(
        pa.types.is_timestamp(f.type) or pa.types.is_nested(f.type) for f in rows.schema
    )

"""A tree -> columns that no two of its rows share, if there are some that we can be sure of.

NULL counts as a value here: two rows whose key is NULL share it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from spark_trickle.algebra.operators import Join, JoinKind, Operator, Project, Scan
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.stateful_operators import Aggregate, Recursive

Key = tuple[str, ...]
Known = Callable[[Reference], Key]  # the key of a table or node


@singledispatch
def unique_key(op: Operator, known: Known) -> Key:
    """Empty if none is known."""
    return unique_key(op.inputs[0], known) if op.passes_rows else ()


@unique_key.register
def _(op: Scan, known: Known) -> Key:
    here = {table: name for name, table in op.names}
    key = known(op.source)
    return tuple(here[c] for c in key) if all(c in here for c in key) else ()


@unique_key.register
def _(op: Project, known: Known) -> Key:
    shown = {inner: o.name for o in reversed(op.outputs) if (inner := o.expr.column) is not None}
    key = unique_key(op.input, known)
    return tuple(shown[c] for c in key) if all(c in shown for c in key) else ()


@unique_key.register
def _(op: Join, known: Known) -> Key:
    left = unique_key(op.left, known)
    if op.kind in (JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK) or not left:
        return left
    right = unique_key(op.right, known)
    # A full join leaves rows of both sides alone, and two lonely rows look the same if their keys are NULL.
    if not right or op.kind is JoinKind.FULL:
        return ()
    asked = {pair.right.column for pair in op.keys}
    return left if set(right) <= asked else left + right


@unique_key.register
def _(op: Aggregate, known: Known) -> Key:
    return tuple(key.name for key in op.keys)


@unique_key.register
def _(op: Recursive, known: Known) -> Key:
    return op.columns if op.distinct else ()

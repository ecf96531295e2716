"""A tree -> the tree of its change, which reads what changed in its sources; None if nothing can change.

The law that every rule obeys: content at NEW = content at OLD + change, as bags.
`changed` names the sources that changed; terms of the others are never built.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from spark_trickle.algebra.change_operators import ChangeOperator, Net, Trimmed
from spark_trickle.algebra.operators import (
    At,
    Constant,
    Filter,
    Join,
    JoinKind,
    Operator,
    Output,
    Project,
    Scan,
    SetOperation,
    Settled,
    UnionAll,
    column,
)
from spark_trickle.algebra.references import Reference
from spark_trickle.algebra.require import refuse
from spark_trickle.delta.touched import collect_touched_keys, restrict_to_keys, subtract_before

Changed = frozenset[Reference]


@singledispatch
def differentiate(op: Operator, changed: Changed) -> Operator | None:
    """Δf(X) = f(ΔX), where an operator says so of itself."""
    if isinstance(op, ChangeOperator):
        refuse(op, "stands in a change, which is never differentiated")
    if op.keeps_rows and not op.maps_changes:
        refuse(op, "keeps rows, from which delta/stateful.py computes its change")
    if not op.maps_changes:
        refuse(op, "has no rule for its change")
    (content,) = op.inputs
    delta = differentiate(content, changed)
    return None if delta is None else op.with_inputs((delta,))


@differentiate.register
def differentiate_scan(op: Scan, changed: Changed) -> Operator | None:
    return op.at(At.DELTA) if op.source in changed else None


@differentiate.register
def differentiate_constant(op: Constant, changed: Changed) -> Operator | None:
    return None


@differentiate.register
def differentiate_settled(op: Settled, changed: Changed) -> Operator | None:
    delta = differentiate(op.input, changed)
    return None if delta is None else Net(delta)


@differentiate.register
def differentiate_union(op: UnionAll, changed: Changed) -> Operator | None:
    """Δ(A + B) = ΔA + ΔB."""
    deltas = [differentiate(part, changed) for part in op.parts]
    found = tuple(d for d in deltas if d is not None)
    if not found:
        return None
    names = op.columns
    first = found[0] if found[0].columns == names else rename_columns(found[0], names)
    return UnionAll((first, *found[1:])) if len(found) > 1 else first


def rename_columns(op: Operator, names: tuple[str, ...]) -> Operator:
    return Project(op, tuple(Output(n, column(c)) for n, c in zip(names, op.columns, strict=True)))


@differentiate.register
def differentiate_join(op: Join, changed: Changed) -> Operator | None:
    left, right = _differentiate_side(op.left, changed), _differentiate_side(op.right, changed)
    if left is None and right is None:
        return None
    if op.kind is JoinKind.INNER:
        return _differentiate_inner_join(op, left, right)
    if right is None and op.kind is not JoinKind.FULL:
        # Each left row is treated by itself while the right side stands still.
        assert left is not None
        return replace(op, left=left, right=op.right.at(At.NEW))
    return _rejoin_touched_keys(op, left, right)


def _differentiate_side(side: Operator, changed: Changed) -> Operator | None:
    """Joins of joins are one web, in which what each table changed by is trimmed already."""
    delta, inside = differentiate(side, changed), side
    while isinstance(inside, Filter):
        inside = inside.input
    is_web = isinstance(inside, Join) and inside.kind is JoinKind.INNER
    return delta if delta is None or is_web else Trimmed(delta)


def _differentiate_inner_join(op: Join, left: Operator | None, right: Operator | None) -> Operator:
    """Δ(L ⋈ R) = ΔL ⋈ R_new + L_old ⋈ ΔR.

    Two terms, not three: pairing ΔL with the *new* R already counts ΔL ⋈ ΔR.
    """
    terms: list[Operator] = []
    if left is not None:
        terms.append(replace(op, left=left, right=op.right.at(At.NEW)))
    if right is not None:
        terms.append(replace(op, left=op.left.at(At.OLD), right=right))
    return terms[0] if len(terms) == 1 else UnionAll(tuple(terms))


def _rejoin_touched_keys(op: Join, left: Operator | None, right: Operator | None) -> Operator:
    """Whether a row has a partner depends only on the rows with its key, so these are joined again."""
    lefts, rights = tuple(k.left for k in op.keys), tuple(k.right for k in op.keys)
    keys = collect_touched_keys((left, lefts), (right, rights))

    def join_touched(when: At) -> Operator:
        return replace(
            op,
            left=restrict_to_keys(op.left.at(when), lefts, keys),
            right=restrict_to_keys(op.right.at(when), rights, keys),
        )

    return subtract_before(join_touched)


@differentiate.register
def differentiate_set_operation(op: SetOperation, changed: Changed) -> Operator | None:
    """How often a row is in the result depends only on how often it is in both sides."""
    left, right = differentiate(op.left, changed), differentiate(op.right, changed)
    if left is None and right is None:
        return None
    lefts, rights = (tuple(column(c) for c in side.columns) for side in (op.left, op.right))
    keys = collect_touched_keys((left, lefts), (right, rights))

    def combine_touched(when: At) -> Operator:
        return replace(
            op,
            left=restrict_to_keys(op.left.at(when), lefts, keys),
            right=restrict_to_keys(op.right.at(when), rights, keys),
        )

    return subtract_before(combine_touched)

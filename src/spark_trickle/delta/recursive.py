"""A recursion -> the program of its rows, or of their change: rounds that stop when nothing new is found.

Rows at hand have the name that the step knows for the rows found last; see `Fixpoint`.
"""

from __future__ import annotations

from collections.abc import Callable

from spark_trickle.algebra.change_operators import (
    Assign,
    Different,
    Fixpoint,
    Half,
    Keys,
    Net,
    Rounds,
    Signed,
    Touched,
    Trimmed,
    Untouched,
)
from spark_trickle.algebra.expressions import Expr
from spark_trickle.algebra.operators import (
    At,
    Filter,
    Join,
    JoinKind,
    Operator,
    Output,
    Project,
    Scan,
    UnionAll,
    column,
)
from spark_trickle.algebra.recursion import find_obstacle
from spark_trickle.algebra.references import Reference, RoundPart, RoundRef
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.delta.differentiate import Changed, differentiate
from spark_trickle.delta.touched import subtract


def build_fixpoint(op: Recursive) -> Fixpoint:
    """The rows of the start, then those that the last ones lead to, until nothing new comes."""
    last, all_rows = op.source, op.source.of_part(RoundPart.ALL)
    everything = _scan_rows(all_rows, op)
    start, step = op.base, _read_rows_at_hand(op, op.step)
    if op.distinct:
        start, step = Different(start), drop_rows_among(Different(step), everything)
    rounds = Rounds(
        (Assign(last, start),), (Assign(last, step),), last, all_rows, find_obstacle(op) is not None
    )
    return Fixpoint((rounds,), everything)


def recompute_fixpoint(op: Recursive, own: Scan) -> Operator:
    """The whole fixpoint, again: right for every step."""
    return subtract(op.at(At.NEW), own.at(At.OLD))


def follow_change(op: Recursive, own: Scan, changed: Changed) -> Operator | None:
    """UNION ALL: ΔR = seed + S_new(seed) + S_new(S_new(seed)) + …, with seed = ΔB + (S_new − S_old)(R_old).

    From R = B + S(R), because S is linear: ΔR = ΔB + (S_new − S_old)(R_old) + S_new(ΔR). What cancels out is
    dropped in every round. Rows that led nowhere may now lead in circles although nothing leads to them:
    then the rounds do not end, or `_look_for_circles` does not, and everything is computed again.
    """
    seed = _build_seed(op, own, changed)
    if seed is None:
        return None
    last = op.source
    seeds, all_rows = (last.of_part(part) for part in (RoundPart.SEED, RoundPart.CHANGE))
    first = _scan_rows(seeds, op, At.DELTA)
    step = _replace_scans(op.step.at(At.NEW), last, lambda s: s.at(At.DELTA))
    rounds = Rounds(
        (Assign(last, Net(first, single=False)),), (Assign(last, Net(step, single=False)),), last, all_rows
    )
    moved = op.step.sources & (changed - {op.source})
    checks = (_look_for_circles(op, first),) if moved else ()
    program = (Assign(seeds, _net_changes(seed)), *checks, rounds)
    return Net(Fixpoint(program, _scan_rows(all_rows, op, At.DELTA), recompute_fixpoint(op, own)))


def _look_for_circles(op: Recursive, seed: Scan) -> Rounds:
    """Rounds that end if no old row leads in a circle by the new step.

    R_old = Σ S_newⁱ(B_new − seed) + S_newⁿ(R_old), so ΔR is what `followed` says only if S_newⁿ(R_old) comes
    to nothing. Rows in a circle hold each other up for ever, and may cancel out with what went instead. By
    the old step all rows came to an end, so the way into a circle is a derivation that was added: what it
    derives is led on by itself. Where nothing goes nothing cancels out, and the rounds of the change tell.
    """
    added = Touched(Half(seed, 1), (), Half(seed, -1))
    lead = Different(_read_rows_at_hand(op, op.step.at(At.NEW)))
    start, body = (Assign(op.source, plan) for plan in (Different(added), lead))
    return Rounds((start,), (body,), op.source, op.source.of_part(RoundPart.REACHED))


def rederive(op: Recursive, own: Scan, changed: Changed) -> Operator | None:
    """UNION: delete and rederive.

    1. Stored rows that lose a derivation go, and so do those that the *old* step derives from them. Losses
       are not set off against gains: what derives a row now may be going itself.
    2. The rest P stays: every derivation of its rows is as it was. The new rows are those of B_new and
       S_new(P) outside of P: the deleted ones that can still be derived, and those with a positive count in
       ΔB + ΔS(P) = seed − ΔS(deleted).
    3. From there the *new* step leads on, until nothing new comes.
    """
    seed = _build_seed(op, own, changed)
    if seed is None:
        return None
    last = op.source
    parts = (RoundPart.SEED, RoundPart.DELETED, RoundPart.INSERTED, RoundPart.CANDIDATES)
    seeds, deleted, inserted, candidates = (last.of_part(part) for part in parts)
    deleted_rows, inserted_rows, candidate_rows = (
        _scan_rows(name, op) for name in (deleted, inserted, candidates)
    )
    stored = own.at(At.OLD)
    before, after = (_read_rows_at_hand(op, op.step.at(when)) for when in (At.OLD, At.NEW))

    lost = keep_rows_among(stored, Half(_scan_rows(seeds, op, At.DELTA), -1))
    going = drop_rows_among(Different(before), deleted_rows)
    gained = Half(_count_gains(op, changed, seeds, deleted_rows), 1)
    first = Different(UnionAll((*_rederive_lost(op, own, deleted_rows), gained)))
    there = drop_rows_among(keep_rows_among(stored, candidate_rows), deleted_rows)
    return Fixpoint(
        (
            Assign(seeds, _net_changes(seed)),
            Rounds((Assign(last, lost),), (Assign(last, going),), last, deleted),
            Assign(deleted, keep_rows_among(stored, deleted_rows)),
            Rounds(
                (Assign(candidates, first), Assign(last, drop_rows_among(candidate_rows, there))),
                (
                    Assign(candidates, Different(after)),
                    Assign(last, drop_rows_among(candidate_rows, UnionAll((there, inserted_rows)))),
                ),
                last,
                inserted,
            ),
        ),
        subtract(inserted_rows, deleted_rows),
        recompute_fixpoint(op, own),
    )


def _build_seed(op: Recursive, own: Scan, changed: Changed) -> Operator | None:
    """ΔB + (S_new − S_old)(R_old)."""
    base = differentiate(op.base, changed)
    shift = _differentiate_step(op, changed, lambda s: Scan(own.source, s.names, At.OLD))
    found = tuple(d for d in (base, shift) if d is not None)
    if not found:
        return None
    return found[0] if len(found) == 1 else UnionAll(found)


def _differentiate_step(op: Recursive, changed: Changed, rows: Callable[[Scan], Operator]) -> Operator | None:
    """How the step over rows that stand still changes with its inputs."""
    delta = differentiate(op.step, changed)
    return None if delta is None else _replace_scans(_drop_trims(delta), op.source, rows)


def _drop_trims(op: Operator) -> Operator:
    """What the step derives from a row that may be going must not be set off against what another loses."""
    if isinstance(op, Trimmed):
        return _drop_trims(op.input)
    return op.with_inputs(tuple(_drop_trims(child) for child in op.inputs))


def _net_changes(op: Operator) -> Operator:
    """Nothing is lost where only columns change that are not read."""
    if isinstance(op, Scan):
        return Net(op, single=False) if op.moment is At.DELTA else op
    return op.with_inputs(tuple(_net_changes(child) for child in op.inputs))


def _count_gains(op: Recursive, changed: Changed, seeds: RoundRef, deleted: Scan) -> Operator:
    """ΔB + ΔS(P), counted: what comes as often as it goes is nothing."""
    seed = _scan_rows(seeds, op, At.DELTA)
    shift = _differentiate_step(op, changed, lambda s: Scan(deleted.source, s.names))
    return Net(seed if shift is None else UnionAll((seed, Signed(shift, -1))), single=False)


def _rederive_lost(op: Recursive, own: Scan, deleted: Scan) -> tuple[Operator, Operator]:
    """Rows that went, by the new base and by the new step over those that stay."""

    def read_rest(scan: Scan) -> Operator:
        stay = drop_rows_among(own.at(At.OLD), deleted)
        return Project(stay, tuple(Output(n, column(c)) for n, c in scan.names))

    base, step = (
        keep_rows_among(
            narrow_to_keys(plan.at(At.NEW), dict(zip(plan.columns, op.columns, strict=True)), deleted),
            deleted,
        )
        for plan in (op.base, op.step)
    )
    return base, _replace_scans(step, op.source, read_rest)


def narrow_to_keys(op: Operator, wanted: dict[str, str], keys: Scan) -> Operator:
    """The tree without rows that cannot be part of what is wanted: `wanted` names columns by those of `keys`.

    Tested as far down as the columns come from, so that few rows are joined, not all.
    """
    match op:
        case Project(below, outputs):
            bare = {c: wanted[o.name] for o in outputs if o.name in wanted and (c := o.expr.column)}
            return Project(narrow_to_keys(below, bare, keys), outputs)
        case Filter(below, predicate):
            return Filter(narrow_to_keys(below, wanted, keys), predicate)
        case UnionAll(parts):
            by_place = [wanted.get(c) for c in op.columns]
            named = [{c: k for c, k in zip(p.columns, by_place, strict=True) if k is not None} for p in parts]
            return UnionAll(tuple(narrow_to_keys(p, n, keys) for p, n in zip(parts, named, strict=True)))
        case Join(left, right, kind) if kind is not JoinKind.FULL:
            sides = (left, right if kind is JoinKind.INNER else None)
            lefts, rights = (
                {c: k for c, k in wanted.items() if side is not None and c in side.columns} for side in sides
            )
            return op.with_inputs((narrow_to_keys(left, lefts, keys), narrow_to_keys(right, rights, keys)))
    if not wanted:
        return op
    tests = tuple(column(c) for c in wanted)
    return Touched(op, tests, Keys(keys, tuple(column(k) for k in wanted.values())))


# --- rows under names --------------------------------------------------------------------------------


def _scan_rows(name: RoundRef, op: Recursive, when: At = At.NEW) -> Scan:
    return Scan(name, tuple((c, c) for c in op.columns), when)


def _read_rows_at_hand(op: Recursive, plan: Operator) -> Operator:
    return _replace_scans(plan, op.source, lambda s: s.at(At.NEW))


def _replace_scans(op: Operator, source: Reference, rows: Callable[[Scan], Operator]) -> Operator:
    """The tree with other rows for the scans of a source."""
    if isinstance(op, Scan):
        return rows(op) if op.source == source else op
    return op.with_inputs(tuple(_replace_scans(child, source, rows) for child in op.inputs))


def keep_rows_among(op: Operator, rows: Operator) -> Operator:
    """The rows that are among others."""
    return Touched(op, *_match_rows(op, rows))


def drop_rows_among(op: Operator, rows: Operator) -> Operator:
    """The rows that are not among others."""
    return Untouched(op, *_match_rows(op, rows))


def _match_rows(op: Operator, rows: Operator) -> tuple[tuple[Expr, ...], Operator]:
    keys = Keys(rows, tuple(column(c) for c in rows.columns), distinct=False)
    return tuple(column(c) for c in op.columns), keys

"""WITH RECURSIVE -> an operator that repeats its step until nothing new comes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.expressions import Cast
from spark_trickle.algebra.operators import (
    At,
    Join,
    JoinKind,
    Operator,
    Output,
    Project,
    Scan,
    column,
)
from spark_trickle.algebra.references import RoundRef
from spark_trickle.algebra.stateful_operators import Recursive
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.plans import keep_columns, with_names
from spark_trickle.sql.bind.scope import Bound, Types

_ADVICE = "Write a UNION [ALL] of a start and one step that reads the rows of the previous step."


def bind_recursive(name: str, query: exp.Query, names: list[str], env: Env) -> Bound:
    if not isinstance(query, exp.Union) or query.args.get("limit") or query.args.get("order"):
        raise UnsupportedError(f'the recursive query "{name}" in this form', _ADVICE)
    base = with_names(env.binder.bind_query(query.left, env), names)
    start = Project(base.plan, keep_columns(base.columns))
    source = RoundRef(next(env.numbers))
    columns = tuple((env.fresh(n), c) for n, c in base.outputs)
    last = Bound(
        Scan(source, columns),
        tuple((n, here) for (n, _), (here, _) in zip(base.outputs, columns, strict=True)),
    )
    types = _add_types(env, source, start)
    inside = replace(env, ctes={**env.ctes, name.lower(): last}, types=types)
    step = env.binder.bind_query(query.right, inside)
    if len(step.outputs) != len(base.outputs):
        raise UnsupportedError(f'different numbers of columns in the recursive query "{name}"', _ADVICE)
    _refuse_non_monotone(name, step.plan, source)
    wanted = env.find_types(start)
    found = inside.find_types(step.plan)
    cast = tuple(
        Output(
            b,
            column(c) if found[c] == wanted[b] else Cast(column(c), wanted[b]),
        )
        for b, c in zip(base.columns, step.columns, strict=True)
    )
    plan = Recursive(start, Project(step.plan, cast), source, query.args.get("distinct") is not False)
    return Bound(plan, base.outputs)


def _add_types(env: Env, source: RoundRef, base: Operator) -> Types:
    """Types while the step is bound: the rows found last look like those of the start."""

    def find_types(op: Operator) -> Mapping[str, str]:
        return env.types(_replace_source(op, source, base))

    return find_types


def _replace_source(op: Operator, source: RoundRef, base: Operator) -> Operator:
    if isinstance(op, Scan) and op.source == source:
        return Project(base.at(At.NEW), tuple(Output(n, column(c)) for n, c in op.names))
    return op.with_inputs(tuple(_replace_source(child, source, base) for child in op.inputs))


def _refuse_non_monotone(name: str, plan: Operator, source: RoundRef) -> None:
    """What takes rows back when more come would never end, or end differently."""
    for op in plan.walk():
        if source not in op.sources:
            continue
        outer = isinstance(op, Join) and op.kind is not JoinKind.INNER and source in op.right.sources
        full = isinstance(op, Join) and op.kind is JoinKind.FULL
        if outer or full or not (op.row_by_row or isinstance(op, Join)):
            raise UnsupportedError(
                f'{type(op).__name__.lower()} over the rows of the recursive query "{name}"',
                "Aggregate, sort or subtract outside of the recursion.",
            )

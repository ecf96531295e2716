"""Trees that several clauses need -> trees: other names, different rows, a number for each row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from spark_trickle.algebra.expressions import Expr, Opaque
from spark_trickle.algebra.operators import Operator, Output, Project, Settled, column
from spark_trickle.algebra.stateful_operators import Aggregate, SortKey, Window
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.scope import Bound


def keep_columns(columns: Sequence[str]) -> tuple[Output, ...]:
    """Columns under their own names."""
    return tuple(Output(c, column(c)) for c in columns)


def add_outputs(plan: Operator, added: Sequence[Output]) -> Operator:
    """Each row with more columns beside it."""
    return Project(plan, (*keep_columns(plan.columns), *added)) if added else plan


def with_names(body: Bound, names: list[str]) -> Bound:
    """The same query under the names that an alias lists; without a list it keeps its own."""
    if not names:
        return body
    if len(names) != len(body.outputs):
        raise InvalidDefinitionError(
            f"{len(names)} names for {len(body.outputs)} columns", "Name every column of the query."
        )
    return replace(body, outputs=tuple((n, c) for n, (_, c) in zip(names, body.outputs, strict=True)))


def rename_apart(op: Operator, env: Env) -> Operator:
    """The same rows under new names, so that a tree can stand beside itself."""
    return Project(op, _rename_outputs(op, env))


def distinct_rows(plan: Operator, env: Env) -> Operator:
    """Each different row once: a group for each, without the count that its table keeps."""
    keys = _rename_outputs(plan, env)
    grouped = Aggregate(plan, keys, (), env.fresh("n"))
    return Settled(Project(grouped, keep_columns([k.name for k in keys])))


def _rename_outputs(op: Operator, env: Env) -> tuple[Output, ...]:
    return tuple(Output(env.fresh(re.sub(r"_\d+$", "", c)), column(c)) for c in op.columns)


def number_rows(
    plan: Operator, partition: Sequence[Expr], order: Sequence[SortKey], env: Env
) -> tuple[Operator, str]:
    """Each row with its place among those of its partition, and the column that holds it."""
    number = env.fresh("rn")
    by = ", ".join(p.sql for p in partition)
    ordering = ", ".join(k.sql for k in order) or "1"
    columns = frozenset[str]().union(*(e.columns for e in (*partition, *(k.expr for k in order))))
    call = Opaque(f"row_number() OVER (PARTITION BY {by} ORDER BY {ordering})", columns)
    return Window(plan, tuple(partition), (Output(number, call),)), number

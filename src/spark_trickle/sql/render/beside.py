"""The change of a node and a result that only shows its rows -> one SQL text for both.

Stored columns are called `_s0`, `_s1`, …, shown ones `_o0`, `_o1`, …; `_keep` says which rows are shown.
"""

from __future__ import annotations

from typing import assert_never

from spark_trickle.algebra.operators import Filter, Operator, Project, Scan
from spark_trickle.algebra.references import NodeRef
from spark_trickle.algebra.require import refuse
from spark_trickle.model.quoting import quote
from spark_trickle.sql.render.query import W, render

KEEP = "_keep"


_Level = Scan | Project | Filter  # what can carry the stored columns along


def shows_only(plan: Operator, node: NodeRef) -> bool:
    """Whether each row of a result is made of one row of a node."""
    level = _as_level(plan)
    while isinstance(level, Project | Filter):
        level = _as_level(level.input)
    return level is not None and level.source == node


def _as_level(op: Operator) -> _Level | None:
    return op if isinstance(op, _Level) else None


def name_stored_columns(own: Scan) -> dict[str, str]:
    return {f"_s{n}": c for n, c in enumerate(own.columns)}


def name_shown_columns(result: Operator) -> dict[str, str]:
    return {f"_o{n}": c for n, c in enumerate(result.columns)}


def render_beside(delta: Operator, own: Scan, result: Operator) -> str:
    stored = name_stored_columns(own)
    renamed = ", ".join(f"{quote(c)} AS {quote(s)}" for s, c in stored.items())
    kept = ", ".join(quote(s) for s in stored)
    text, guarded = _render_levels(result, f"SELECT {renamed}, {W} FROM ({render(delta)})", stored, kept)
    shown = ", ".join(f"{quote(c)} AS {quote(o)}" for o, c in name_shown_columns(result).items())
    keep = quote(KEEP) if guarded else f"true AS {quote(KEEP)}"
    return f"SELECT {kept}, {W}, {keep}, {shown} FROM ({text})"


def _render_levels(op: Operator, source: str, stored: dict[str, str], kept: str) -> tuple[str, bool]:
    """The text of a chain of operators that carries the stored columns along.

    Rows that a filter took out stay, but nothing is computed of them: it might fail.
    """
    match _as_level(op):
        case Scan() as scan:
            where = {c: s for s, c in stored.items()}
            listed = ", ".join(f"{quote(where[c])} AS {quote(n)}" for n, c in scan.names)
            return f"SELECT {kept}, {W}, {listed} FROM ({source})", False
        case Project() as level:
            inner, guarded = _render_levels(level.input, source, stored, kept)
            return _render_outputs(level, inner, guarded, kept), guarded
        case Filter() as level:
            inner, guarded = _render_levels(level.input, source, stored, kept)
            return _render_test(level, inner, guarded, kept), True
        case None:
            refuse(op, "does not only show the rows of a node")
        case never:
            assert_never(never)


def _render_outputs(op: Project, inner: str, guarded: bool, kept: str) -> str:
    carried = f"{kept}, {W}, {quote(KEEP)}" if guarded else f"{kept}, {W}"
    guard = f"CASE WHEN {quote(KEEP)} THEN {{}} END" if guarded else "{}"
    listed = ", ".join(f"{guard.format(o.expr.sql)} AS {quote(o.name)}" for o in op.outputs)
    return f"SELECT {carried}, {listed} FROM ({inner})"


def _render_test(op: Filter, inner: str, guarded: bool, kept: str) -> str:
    columns = ", ".join(quote(c) for c in op.input.columns)
    test = f"CASE WHEN {quote(KEEP)} THEN {op.predicate.sql} END" if guarded else op.predicate.sql
    return f"SELECT {kept}, {W}, coalesce({test}, false) AS {quote(KEEP)}, {columns} FROM ({inner})"

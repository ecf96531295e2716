"""OVER w -> OVER (…) as the WINDOW clause says, before any name is looked up.

A name in the WINDOW clause means what it would inside OVER: also an aggregate, or an expression of the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.expressions import SUBQUERIES
from spark_trickle.sql.dialect.spark import parse_query
from spark_trickle.sql.lexer.places import place_of

Windows = Mapping[str, exp.Window]  # names in the case that was written: Spark tells w from W


def read_query(sql: str) -> exp.Query:
    """A text as a tree that can be bound part by part."""
    return write_out_windows(parse_query(sql))


def write_out_windows(query: exp.Query) -> exp.Query:
    copy = query.copy()
    for select in reversed(list(copy.find_all(exp.Select))):  # inner ones first: their names count there
        defined = _read_definitions(select.args.get("windows") or ())
        select.set("windows", None)
        if defined:
            _write_out(select, defined)
    for window in copy.find_all(exp.Window):
        if window.alias:
            raise InvalidDefinitionError(
                f'the window "{window.alias}" is not defined',
                "Add it to the WINDOW clause.",
                place_of(window),
            )
    return copy


def _read_definitions(clause: Sequence[exp.Window]) -> Windows:
    """Definitions without names in them; such a name is of a window that is itself written out."""
    plain = {w.name: w for w in clause if not w.alias}
    return {w.name: _complete_window(w, plain) for w in clause if not w.alias or w.alias in plain}


def _complete_window(window: exp.Window, defined: Windows) -> exp.Window:
    """OVER (w ORDER BY …) has from w what it does not say itself."""
    copy: exp.Window = window.copy()
    if (definition := defined.get(window.alias)) is None:
        return copy
    for part in ("partition_by", "order", "spec"):
        value = definition.args.get(part)
        if value and not copy.args.get(part):
            copy.set(part, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    copy.set("alias", None)
    return copy


def _write_out(node: exp.Expr, defined: Windows) -> None:
    """Here and in queries of FROM, not in subqueries of expressions: so Spark does."""
    for child in list(node.iter_expressions()):
        if not isinstance(child, SUBQUERIES) or _is_in_from(child):
            _write_out(child, defined)
    if isinstance(node, exp.Window) and node.alias in defined:
        node.replace(_complete_window(node, defined))


def _is_in_from(query: exp.Expr) -> bool:
    around = query.parent
    if isinstance(around, exp.From | exp.Join):
        return query.arg_key == "this"
    return isinstance(around, exp.Subquery | exp.SetOperation)

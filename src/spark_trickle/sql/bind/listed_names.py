"""Names that a list gives its expressions -> these expressions, where names may mean them.

Spark looks for a name in different places: further right in the list and in HAVING first among the columns,
in ORDER BY first in the list.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.algebra.operators import Output, Project
from spark_trickle.errors import TrickleError, UnsupportedError
from spark_trickle.sql.bind.aggregates import call_name
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    is_bound,
    rewrite,
    to_expr,
    with_fields,
    write_column,
)
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Relation, Scope
from spark_trickle.sql.bind.structs import is_star
from spark_trickle.sql.bind.tail import Item
from spark_trickle.sql.lexer.places import place_errors

_OTHERWISE = "otherwise"


def resolve_in_list(node: exp.Expr, earlier: Sequence[Item], rows: Relation, env: Env) -> exp.Expr:
    """A name that is no column may be that of an expression further left."""

    def replace_name(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, SUBQUERIES) or is_star(part):  # names in EXCEPT are those of the star
            return part.copy()
        with place_errors(part):
            parts = _read_free_name(part)
            return None if not parts or _is_column(parts, rows.scope) else _find_listed(parts, earlier)

    return resolve(rewrite(node, replace_name), rows.scope, env)


def resolve_in_having(node: exp.Expr, items: Sequence[Item], rows: Relation, env: Env) -> exp.Expr:
    """The same, but a column that turns out to be neither grouped nor aggregated gives way to the list."""

    def replace_name(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, SUBQUERIES) or is_star(part):  # names in EXCEPT are those of the star
            return part.copy()
        parts = _read_free_name(part)
        if not parts or len(_find_named_items(parts[0], items)) != 1 or _is_qualified(parts, rows.scope):
            return None
        if (column := _find_clear_column(parts[0], rows.scope)) is None:
            return _find_listed(parts, items)
        found = write_column(column)
        found.meta[_OTHERWISE] = _find_listed(parts[:1], items)
        return with_fields(found, parts[1:])

    return resolve_in_list(rewrite(node, replace_name), items, rows, env)


def read_other_meaning(node: exp.Expr) -> exp.Expr | None:
    """What a column in HAVING means if it is neither grouped nor aggregated."""
    found = node.meta.get(_OTHERWISE)
    return found.copy() if isinstance(found, exp.Expr) else None


def resolve_in_order(node: exp.Expr, items: Sequence[Item], rows: Relation, env: Env) -> exp.Expr:
    """A name means the list, if just one expression there has it; aggregate functions know columns alone."""

    def replace_name(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, (*SUBQUERIES, exp.Window)) or call_name(part):
            return resolve_in_list(part, items, rows, env)
        parts = _read_free_name(part)
        if (
            not parts
            or len(_find_named_items(parts[0], items)) != 1
            or _is_listed_column(parts, items, rows.scope)
        ):
            return None
        found = _find_listed(parts, items)
        known = len(parts) == 1 or not _is_column(parts, rows.scope) or _has_field(found, rows, env)
        return found if known else None

    return resolve_in_list(rewrite(node, replace_name), items, rows, env)


def _is_listed_column(parts: tuple[str, ...], items: Sequence[Item], scope: Scope) -> bool:
    """t.x, listed as just that: it keeps the name of its table."""
    if len(parts) == 1:
        return False
    column = scope.find(parts)
    return any(is_bound(i.node) and i.node.name == column for i in _find_named_items(parts[-1], items))


def _has_field(value: exp.Expr | None, rows: Relation, env: Env) -> bool:
    """Whether an expression of the list has such a field; only Spark knows."""
    if value is None:
        return False
    try:
        env.find_types(Project(rows.plan, (Output(env.fresh("probe"), to_expr(value)),)))
    except TrickleError:
        return False
    return True


def _read_free_name(part: exp.Expr) -> tuple[str, ...]:
    if not isinstance(part, exp.Column) or is_bound(part) or isinstance(part.this, exp.Star):
        return ()
    return tuple(p.name for p in part.parts)


def _is_column(parts: tuple[str, ...], scope: Scope) -> bool:
    return any(scope.find(parts[:n]) is not None for n in range(len(parts), 0, -1))


def _is_qualified(parts: tuple[str, ...], scope: Scope) -> bool:
    return len(parts) > 1 and scope.find(parts) is not None


def _find_clear_column(name: str, scope: Scope) -> str | None:
    """The column of a name; none if several have it."""
    try:
        return scope.find((name,))
    except UnsupportedError:
        return None


def _find_named_items(name: str, items: Sequence[Item]) -> list[Item]:
    return [i for i in items if i.name.lower() == name.lower()]


def _find_listed(parts: tuple[str, ...], items: Sequence[Item]) -> exp.Expr | None:
    named = _find_named_items(parts[0], items)
    if not named:
        return None
    if len(named) > 1:
        raise UnsupportedError(f'the ambiguous name "{parts[0]}"', "Give each expression its own name.")
    node = named[0].node.copy()
    return with_fields(node if is_bound(node) else exp.Paren(this=node), parts[1:])

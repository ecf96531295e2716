"""Names in an expression -> columns of the tree; subqueries are left for later."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import ColumnNotFoundError, UnsupportedError
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import SUBQUERIES, is_bound, rewrite, write_column
from spark_trickle.sql.bind.scope import Scope
from spark_trickle.sql.bind.structs import (
    Argument,
    is_struct,
    is_zip,
    make_struct,
    make_zip,
    read_arguments,
    takes_star,
)
from spark_trickle.sql.dialect.spark import name_of
from spark_trickle.sql.dialect.spark_functions import RANDOM, WITHOUT_BRACKETS
from spark_trickle.sql.lexer.places import place_errors


def resolve(node: exp.Expr, scope: Scope, env: Env) -> exp.Expr:
    def place_and_change(part: exp.Expr) -> exp.Expr | None:
        with place_errors(part):
            return replace_part(part)

    def replace_part(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, SUBQUERIES):
            return part.copy()
        if isinstance(part, exp.Column) and not is_bound(part):
            return _resolve_column(part, scope, env)
        if is_struct(part):
            return make_struct(resolve_arguments(part))
        if is_zip(part):
            return make_zip(resolve_arguments(part))
        if takes_star(part):
            return replace_arguments(part)
        if name_of(part) in RANDOM:
            raise UnsupportedError(
                f"{name_of(part)}() in a stream table", "Its value would change with every refresh."
            )
        if name_of(part) == "identifier":
            raise UnsupportedError("IDENTIFIER(…) in a stream table", "Write the name itself.")
        if name_of(part) == "session_window":
            raise UnsupportedError(
                "session_window() in a stream table",
                "Number the sessions with windows: lag() finds where one begins, a running sum counts them.",
            )
        return None

    def resolve_arguments(part: exp.Expr) -> list[Argument]:
        return [(n, resolve(v, scope, env)) for n, v in read_arguments(part, scope)]

    def replace_arguments(part: exp.Expr) -> exp.Expr:
        copy = part.copy()
        copy.set("expressions", [v for _, v in read_arguments(part, scope)])
        return resolve(copy, scope, env)

    return rewrite(node, place_and_change)


def _resolve_column(node: exp.Column, scope: Scope, env: Env) -> exp.Expr:
    parts = tuple(p.name for p in node.parts)
    for taken in range(len(parts), 0, -1):
        found = find_column(parts[:taken], scope, env)
        if found is None:
            continue
        result: exp.Expr = write_column(found)
        for name in parts[taken:]:  # fields of a struct
            result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
        return result
    if len(parts) == 1 and node.name.lower() in WITHOUT_BRACKETS:  # in backticks too, if it is no column
        return exp.Anonymous(this=node.name)
    raise ColumnNotFoundError(".".join(parts), scope.names())


def find_column(parts: tuple[str, ...], scope: Scope, env: Env) -> str | None:
    """The column of a name at this level or around it; if its values are given, the column that has them."""
    if (here := scope.find(parts)) is not None:
        return here
    around = _find_outside(parts, scope.outer) if scope.outer is not None else None
    return None if around is None else env.given_columns.get(around, around)


def _find_outside(parts: tuple[str, ...], scope: Scope) -> str | None:
    here = scope.find(parts)
    if here is None:
        return _find_outside(parts, scope.outer) if scope.outer is not None else None
    if scope.renamed is None:
        return here
    if here not in scope.renamed:
        raise UnsupportedError(
            f'"{".".join(parts)}" in a subquery after GROUP BY', "Group by it, or aggregate it."
        )
    return scope.renamed[here]

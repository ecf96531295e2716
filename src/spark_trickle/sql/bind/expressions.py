"""Expressions of a query -> expressions over columns of the tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sqlglot import exp, parse_one

from spark_trickle.algebra.expressions import Expr
from spark_trickle.sql.bind.translate import translate
from spark_trickle.sql.dialect.spark import Verbatim

Replace = Callable[[exp.Expr], exp.Expr | None]
SUBQUERIES = (exp.Query, exp.Exists)
_S = TypeVar("_S")


def write_column(name: str) -> exp.Column:
    """A column of the tree inside an expression of sqlglot."""
    found = exp.Column(this=exp.to_identifier(name, quoted=True))
    found.meta["bound"] = True
    return found


def is_bound(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and bool(node.meta.get("bound"))


def with_fields(value: exp.Expr, names: Sequence[str]) -> exp.Expr:
    """A field of a struct, or a field of that."""
    for name in names:
        value = exp.Dot(this=value, expression=exp.to_identifier(name, quoted=True))
    return value


def parse_expression(text: str, columns: frozenset[str]) -> exp.Expr:
    """A text of ours as an expression, so that it can be looked at like any other."""
    found: exp.Expr = parse_one(text, dialect=Verbatim)
    for c in found.find_all(exp.Column):
        if c.name in columns:
            c.meta["bound"] = True
    return exp.Paren(this=found)


def rewrite(node: exp.Expr, change: Replace) -> exp.Expr:
    """A copy in which `change` replaced what it wanted to; it does not look into replacements."""
    new = change(node)
    if new is not None:
        return new
    copy = node.__class__(**{k: _rewrite_value(v, change) for k, v in node.args.items()})
    copy.meta.update(node.meta)
    return copy


def _rewrite_value(value: object, change: Replace) -> object:
    if isinstance(value, exp.Expr):
        return rewrite(value, change)
    if isinstance(value, list):
        return [_rewrite_value(v, change) for v in value]
    return value


def rewrite_with(
    node: exp.Expr, state: _S, change: Callable[[exp.Expr, _S], tuple[exp.Expr, _S] | None]
) -> tuple[exp.Expr, _S]:
    """The same, but every replacement takes what the one before it left, and leaves something itself."""
    new = change(node, state)
    if new is not None:
        return new
    parts: dict[str, object] = {}
    for name, value in node.args.items():
        parts[name], state = _rewrite_value_with(value, state, change)
    copy = node.__class__(**parts)
    copy.meta.update(node.meta)
    return copy, state


def _rewrite_value_with(
    value: object, state: _S, change: Callable[[exp.Expr, _S], tuple[exp.Expr, _S] | None]
) -> tuple[object, _S]:
    if isinstance(value, exp.Expr):
        return rewrite_with(value, state, change)
    if not isinstance(value, list):
        return value, state
    values: list[object] = []
    for part in value:
        new, state = _rewrite_value_with(part, state, change)
        values.append(new)
    return values, state


def to_expr(node: exp.Expr) -> Expr:
    """A bound expression by its parts."""
    return translate(node, is_bound)


def list_conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    if node is None:
        return []
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*list_conjuncts(node.left), *list_conjuncts(node.right)]
    return [node]


def contains(node: exp.Expr, test: Callable[[exp.Expr], bool]) -> bool:
    """Whether a part of the expression passes the test, subqueries left out."""
    if test(node):
        return True
    if isinstance(node, SUBQUERIES):
        return False
    return any(contains(child, test) for child in node.iter_expressions())


def is_subquery(node: exp.Expr) -> bool:
    return isinstance(node, SUBQUERIES)

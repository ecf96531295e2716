"""A bound query -> a relation of FROM under its alias."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import Output, Project, column
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.plans import keep_columns, with_names
from spark_trickle.sql.bind.scope import Bound, Relation, make_scope


def strip_relation(node: exp.Subquery) -> exp.Query:
    """A query in FROM without what belongs to the relation that it is: its alias, joins, pivots, sample."""
    copy = node.copy()
    for part in ("alias", "joins", "pivots", "sample"):
        copy.set(part, None)
    return copy


def read_column_names(alias: exp.TableAlias | None) -> list[str]:
    """The names of columns that an alias lists, as in t(a, b)."""
    return [i.name for i in alias.args.get("columns") or ()] if alias is not None else []


def read_relation_name(alias: exp.TableAlias | None) -> tuple[str, ...]:
    return (alias.name.lower(),) if alias is not None and alias.name else ()


def name_relation(body: Bound, alias: exp.TableAlias | None, env: Env) -> Relation:
    """A query as a relation under an alias, which may name its columns."""
    return make_relation(with_names(body, read_column_names(alias)), read_relation_name(alias), env)


def make_relation(body: Bound, alias: tuple[str, ...], env: Env) -> Relation:
    """A query as a relation; the values that it was given go by the names that the whole has for them."""
    scope = make_scope(alias, body.outputs, env.outer)
    if env.given is None or not body.given:
        return Relation(body.plan, scope)
    names = tuple(env.given.columns.values())
    if body.given == names:
        return Relation(body.plan, scope, names)
    carried = tuple(Output(n, column(g)) for n, g in zip(names, body.given, strict=True))
    shown = keep_columns(tuple(dict.fromkeys(body.columns)))
    return Relation(Project(body.plan, (*carried, *shown)), scope, names)


def name_brackets(rows: Relation, alias: exp.TableAlias | None) -> Relation:
    """(a JOIN b) c: outside of the brackets only c is known."""
    if alias is None:
        return rows
    body = with_names(Bound(rows.plan, tuple(rows.scope.list_star())), read_column_names(alias))
    return replace(rows, scope=make_scope((alias.name.lower(),), body.outputs, rows.scope.outer))

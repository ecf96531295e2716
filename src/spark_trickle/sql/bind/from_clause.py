"""FROM -> a tree and the names in it: tables, queries, values and functions, joined as they are written."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import Output, Project, Scan, column
from spark_trickle.errors import InvalidDefinitionError, TableNotFoundError, UnsupportedError
from spark_trickle.sql.bind.generate import bind_generator, bind_table_function
from spark_trickle.sql.bind.query import (
    Env,
    Unbound,
    bind_derived,
    bind_query,
    bind_values,
    outputs,
    read_query,
    rename_apart,
    with_names,
)
from spark_trickle.sql.bind.scope import Bound, From, SourceView, scope_of
from spark_trickle.sql.lexer.places import elsewhere, place_of, placed

_DEEPEST_VIEW = 50


def bind_from(select: exp.Select, env: Env) -> From | None:
    """The relations of a SELECT joined in the order they are written."""
    clause = select.args.get("from_")
    if clause is None:
        return None
    found = with_joins(relation(clause.this, env), clause.this, env)
    found = with_joins(found, select, env)
    for view in select.args.get("laterals") or ():
        found = bind_generator(found, view.this, view.args.get("alias"), bool(view.args.get("outer")), env)
    return found


def with_joins(found: From, node: exp.Expr, env: Env) -> From:
    from spark_trickle.sql.bind.join import bind_join

    for join in node.args.get("joins") or ():
        with placed(join):
            found = bind_join(found, join, env)
    return found


def relation(node: exp.Expr, env: Env) -> From:
    """A relation of FROM by itself, without what is joined to it."""
    from spark_trickle.sql.bind.pivot import bind_pivot

    if node.args.get("sample"):
        raise UnsupportedError(
            "TABLESAMPLE in a stream table", "A sample is never the same twice.", place_of(node)
        )
    with placed(node):
        found = _unpivoted(node, env)
    for pivot in node.args.get("pivots") or ():
        with placed(pivot):
            found = bind_pivot(found, pivot, env)
    return found


def _unpivoted(node: exp.Expr, env: Env) -> From:
    match node:
        case exp.Table():
            if not isinstance(node.this, exp.Identifier):
                return bind_table_function(node.this, node.args.get("alias"), env)
            return _table(node, env)
        case exp.Subquery():
            if isinstance(node.this, exp.Table | exp.Subquery) and not _query(node.this):
                inside = with_joins(relation(node.this, env), node.this, env)
                return _under_one_name(inside, node.args.get("alias"))
            return name_relation(bind_derived(bare(node), env), node.args.get("alias"), env)
        case exp.Values():
            return name_relation(bind_values(node, env), node.args.get("alias"), env)
        case exp.Lateral() if isinstance(node.this, exp.Subquery):
            return name_relation(bind_derived(bare(node.this), env), node.args.get("alias"), env)
        case exp.Lateral():
            return bind_table_function(node.this, node.args.get("alias"), env)
    raise UnsupportedError(f"{type(node).__name__} in FROM", "Write it as a subquery.")


def _under_one_name(found: From, alias: exp.TableAlias | None) -> From:
    """(a JOIN b) c: outside of the brackets only c is known."""
    if alias is None:
        return found
    body = Bound(found.plan, tuple(found.scope.star()))
    body = with_names(body, [i.name for i in alias.args.get("columns") or ()])
    scope = scope_of((alias.name.lower(),), body.outputs, found.scope.outer)
    return replace(found, scope=scope)


def _query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)


def bare(node: exp.Subquery) -> exp.Query:
    copy = node.copy()
    for part in ("alias", "joins", "pivots", "sample"):
        copy.set(part, None)
    return copy


def name_relation(body: Bound, alias: exp.TableAlias | None, env: Env) -> From:
    """A query as a relation; the values that it was given go by the names that the whole has for them."""
    written = [i.name for i in alias.args.get("columns") or ()] if alias is not None else []
    name = (alias.name.lower(),) if alias is not None and alias.name else ()
    return _as(with_names(body, written), name, env)


def _as(body: Bound, alias: tuple[str, ...], env: Env) -> From:
    scope = scope_of(alias, body.outputs, env.outer)
    if env.given is None or not body.given:
        return From(body.plan, scope)
    names = tuple(env.given.columns.values())
    if body.given == names:
        return From(body.plan, scope, True)
    carried = tuple(Output(n, column(g)) for n, g in zip(names, body.given, strict=True))
    return From(Project(body.plan, (*carried, *outputs(tuple(dict.fromkeys(body.columns))))), scope, True)


def _table(node: exp.Table, env: Env) -> From:
    parts = tuple(p.name for p in node.parts)
    if node.args.get("version") or node.args.get("when"):
        raise UnsupportedError(
            "VERSION AS OF in a stream table", "A stream table follows its sources as they are."
        )
    alias = node.args.get("alias")
    written = [i.name for i in alias.args.get("columns") or ()] if alias is not None else []
    known_as = (node.alias.lower(),) if node.alias else tuple(p.lower() for p in parts)
    return _as(with_names(_body(parts, env), written), known_as, env)


def _body(parts: tuple[str, ...], env: Env) -> Bound:
    if len(parts) == 1 and (cte := env.ctes.get(parts[0].lower())) is not None:
        return _unbound(cte, env) if isinstance(cte, Unbound) else _again(cte, env)
    found = env.find(parts, env.home)
    if found is None:
        raise TableNotFoundError(".".join(parts))
    if isinstance(found, SourceView):
        return _view(found, parts, env)
    scanned = tuple((c, env.fresh(c), stored) for c, stored in found.scanned)
    plan = Scan(found.source, tuple((column_, stored) for _, column_, stored in scanned))
    return Bound(plan, tuple((c, column_) for c, column_, _ in scanned))


def _again(cte: Bound, env: Env) -> Bound:
    again = rename_apart(Project(cte.plan, outputs(tuple(dict.fromkeys(cte.columns)))), env)
    new = dict(zip(dict.fromkeys(cte.columns), again.columns, strict=True))
    return Bound(again, tuple((n, new[c]) for n, c in cte.outputs))


def _unbound(cte: Unbound, env: Env) -> Bound:
    inside = replace(env, ctes=cte.env.ctes, outer=cte.env.outer)
    return with_names(bind_derived(cte.query, inside), cte.names)


def _view(view: SourceView, parts: tuple[str, ...], env: Env) -> Bound:
    if env.depth > _DEEPEST_VIEW:
        raise UnsupportedError(
            f"nesting views deeper than {_DEEPEST_VIEW}", "Check that no view contains itself."
        )
    find = view.find or env.find
    inside = replace(env.inner(), find=find, home=view.home, ctes={}, depth=env.depth + 1)
    with elsewhere():
        body = bind_query(read_query(view.sql), inside)
    by_name = {n.lower(): (n, c) for n, c in body.outputs}
    if any(n.lower() not in by_name for n in view.source_columns):
        raise InvalidDefinitionError(
            f'the view "{".".join(parts)}" has lost a column', "Create the view again."
        )
    chosen = [by_name[n.lower()] for n in view.source_columns]
    return Bound(body.plan, tuple((n, c) for n, (_, c) in zip(view.columns, chosen, strict=True)))

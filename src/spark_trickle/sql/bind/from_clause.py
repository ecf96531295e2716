"""FROM -> a tree and the names in it: tables, queries, values and functions, joined as they are written."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.expressions import integer
from spark_trickle.algebra.operators import Constant, Scan
from spark_trickle.errors import InvalidDefinitionError, TableNotFoundError, UnsupportedError
from spark_trickle.sql.bind.attempts import number_queries
from spark_trickle.sql.bind.ctes import read_cte
from spark_trickle.sql.bind.derived import bind_derived, bind_values
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.generate import bind_generator, bind_table_function
from spark_trickle.sql.bind.given import carry_values
from spark_trickle.sql.bind.join import join_relations
from spark_trickle.sql.bind.join_kinds import read_join_kind
from spark_trickle.sql.bind.lateral import join_lateral
from spark_trickle.sql.bind.named_windows import read_query
from spark_trickle.sql.bind.pivot import bind_pivot
from spark_trickle.sql.bind.plans import with_names
from spark_trickle.sql.bind.relations import (
    make_relation,
    name_brackets,
    name_relation,
    read_column_names,
    strip_relation,
)
from spark_trickle.sql.bind.scope import Bound, ReadableTable, Relation, Scope, SourceView
from spark_trickle.sql.lexer.places import drop_places, place_errors, place_of

_DEEPEST_VIEW = 50
_MEANINGLESS = ("cluster", "distribute", "sort", "into", "match", "connect")


def bind_from(select: exp.Select, env: Env) -> Relation:
    """The rows of FROM, each with the values that the query is given; names may also mean outer columns."""
    for clause in _MEANINGLESS:
        if select.args.get(clause):
            raise UnsupportedError(
                f"{clause.upper()} in a stream table", "Leave it out: a table has no order."
            )
    return carry_values(_bind_relations(select, env), env).with_outer(env.outer)


def _bind_relations(select: exp.Select, env: Env) -> Relation:
    """The relations of a SELECT joined in the order they are written; without any, one row."""
    clause = select.args.get("from_")
    if clause is None:
        return Relation(Constant((env.fresh("one"),), ((integer(1),),)), Scope())
    rows = _bind_joins(_bind_relation(clause.this, env), select, env)
    for view in select.args.get("laterals") or ():
        rows = bind_generator(rows, view.this, view.args.get("alias"), bool(view.args.get("outer")), env)
    return rows


def _bind_relation(node: exp.Expr, env: Env) -> Relation:
    """A relation of FROM with what is joined to it inside the same brackets."""
    return _bind_joins(_bind_single(node, env), node, env)


def _bind_joins(rows: Relation, node: exp.Expr, env: Env) -> Relation:
    for join in node.args.get("joins") or ():
        with place_errors(join):
            rows = _bind_join(rows, join, env)
    return rows


def _bind_join(rows: Relation, join: exp.Join, env: Env) -> Relation:
    how = read_join_kind(join)
    if isinstance(join.this, exp.Lateral):
        return join_lateral(rows, join, how, env)
    return join_relations(rows, _bind_relation(join.this, env), join, how, env)


def _bind_single(node: exp.Expr, env: Env) -> Relation:
    """A relation of FROM by itself, without what is joined to it."""
    if node.args.get("sample"):
        raise UnsupportedError(
            "TABLESAMPLE in a stream table", "A sample is never the same twice.", place_of(node)
        )
    with place_errors(node):
        rows = _bind_before_pivot(node, env)
    for pivot in node.args.get("pivots") or ():
        with place_errors(pivot):
            rows = bind_pivot(rows, pivot, env)
    return rows


def _bind_before_pivot(node: exp.Expr, env: Env) -> Relation:
    match node:
        case exp.Table():
            if not isinstance(node.this, exp.Identifier):
                return bind_table_function(node.this, node.args.get("alias"), env)
            return _bind_table(node, env)
        case exp.Subquery():
            if isinstance(node.this, exp.Table | exp.Subquery) and not _is_query(node.this):
                return name_brackets(_bind_relation(node.this, env), node.args.get("alias"))
            return name_relation(bind_derived(strip_relation(node), env), node.args.get("alias"), env)
        case exp.Values():
            return name_relation(bind_values(node, env), node.args.get("alias"), env)
        case exp.Lateral() if isinstance(node.this, exp.Subquery):
            return name_relation(bind_derived(strip_relation(node.this), env), node.args.get("alias"), env)
        case exp.Lateral():
            return bind_table_function(node.this, node.args.get("alias"), env)
    raise UnsupportedError(f"{type(node).__name__} in FROM", "Write it as a subquery.")


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)


# --- tables and views --------------------------------------------------------------------------------


def _bind_table(node: exp.Table, env: Env) -> Relation:
    parts = tuple(p.name for p in node.parts)
    if node.args.get("version") or node.args.get("when"):
        raise UnsupportedError(
            "VERSION AS OF in a stream table", "A stream table follows its sources as they are."
        )
    body = with_names(_read_table(parts, env), read_column_names(node.args.get("alias")))
    return make_relation(body, (node.alias.lower(),) if node.alias else tuple(p.lower() for p in parts), env)


def _read_table(parts: tuple[str, ...], env: Env) -> Bound:
    """What a name stands for: a CTE first, then a table or a view."""
    if len(parts) == 1 and (cte := env.ctes.get(parts[0].lower())) is not None:
        return read_cte(cte, env)
    source = env.find(parts, env.home)
    if source is None:
        raise TableNotFoundError(".".join(parts))
    return _scan_table(source, env) if isinstance(source, ReadableTable) else _bind_view(source, parts, env)


def _scan_table(table: ReadableTable, env: Env) -> Bound:
    columns = tuple((name, env.fresh(name), stored) for name, stored in table.scanned)
    plan = Scan(table.source, tuple((column, stored) for _, column, stored in columns))
    return Bound(plan, tuple((name, column) for name, column, _ in columns))


def _bind_view(view: SourceView, parts: tuple[str, ...], env: Env) -> Bound:
    if env.depth > _DEEPEST_VIEW:
        raise UnsupportedError(
            f"nesting views deeper than {_DEEPEST_VIEW}", "Check that no view contains itself."
        )
    find = view.find or env.find
    inside = replace(env.inner(), find=find, home=view.home, ctes={}, depth=env.depth + 1)
    with drop_places():
        body = env.binder.bind_query(number_queries(read_query(view.sql), inside), inside)
    by_name = {n.lower(): c for n, c in body.outputs}
    if any(n.lower() not in by_name for n in view.source_columns):
        raise InvalidDefinitionError(
            f'the view "{".".join(parts)}" has lost a column', "Create the view again."
        )
    columns = (by_name[n.lower()] for n in view.source_columns)
    return Bound(body.plan, tuple(zip(view.columns, columns, strict=True)))

"""FROM and JOIN -> a tree and the names in it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operator import (
    Expr,
    Generate,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    Scan,
    column,
)
from spark_trickle.errors import InvalidDefinitionError, TableNotFoundError, UnsupportedError
from spark_trickle.sql.bind import Env, bind_query, bind_values, outputs, renamed, with_names
from spark_trickle.sql.dialect import name_of, parse_query
from spark_trickle.sql.expressions import conjunction, conjuncts, to_expr
from spark_trickle.sql.functions import GENERATORS
from spark_trickle.sql.key_types import aligned
from spark_trickle.sql.resolve import resolve
from spark_trickle.sql.scope import Bound, Relation, Scope, SourceView

From = tuple[Operator, Scope]
_DEEPEST_VIEW = 50


def bind_from(select: exp.Select, env: Env) -> From | None:
    """The relations of a SELECT joined in the order they are written."""
    clause = select.args.get("from_")
    if clause is None:
        return None
    found = _relation(clause.this, env)
    found = _all_joins(found, clause.this.args.get("joins") or (), env)
    found = _all_joins(found, select.args.get("joins") or (), env)
    for view in select.args.get("laterals") or ():
        found = _lateral_view(found, view, env)
    return found


def _all_joins(found: From, joins: list[exp.Join] | tuple[exp.Join, ...], env: Env) -> From:
    for join in joins:
        found = _join(found, join, env)
    return found


# --- relations ---------------------------------------------------------------------------------------


def _relation(node: exp.Expr, env: Env) -> From:
    if node.args.get("pivots"):
        raise UnsupportedError("PIVOT in a stream table", "Write it as aggregates with FILTER (WHERE …).")
    if node.args.get("sample"):
        raise UnsupportedError("TABLESAMPLE in a stream table", "A sample is never the same twice.")
    match node:
        case exp.Table():
            if not isinstance(node.this, exp.Identifier):
                return _function(node, env)
            return _table(node, env)
        case exp.Subquery():
            if isinstance(node.this, exp.Table | exp.Subquery) and not node.alias and not _query(node.this):
                inside = _relation(node.this, env)
                return _all_joins(inside, node.this.args.get("joins") or (), env)
            return _named(bind_query(_bare(node), env.inner_of_from()), node, env)
        case exp.Values():
            return _named(bind_values(node, env), node, env)
        case exp.Lateral():
            raise UnsupportedError("LATERAL as the first relation", "Put another relation before it.")
    raise UnsupportedError(f"{type(node).__name__} in FROM", "Write it as a subquery.")


def _query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query)


def _bare(node: exp.Subquery) -> exp.Query:
    copy = node.copy()
    copy.set("alias", None)
    return copy


def _named(body: Bound, node: exp.Expr, env: Env) -> From:
    alias = node.args.get("alias")
    if alias is not None:
        body = with_names(body, [i.name for i in alias.args.get("columns") or ()])
    name = (node.alias.lower(),) if node.alias else ()
    return body.plan, Scope((Relation(name, body.outputs),))


def _table(node: exp.Table, env: Env) -> From:
    parts = tuple(p.name for p in node.parts)
    if node.args.get("version") or node.args.get("when"):
        raise UnsupportedError(
            "VERSION AS OF in a stream table", "A stream table follows its sources as they are."
        )
    alias = (node.alias.lower(),) if node.alias else tuple(p.lower() for p in parts)
    body = _body(parts, env)
    columns = node.args.get("alias")
    body = with_names(
        body, [i.name for i in (columns.args.get("columns") or ()) if columns] if columns else []
    )
    return body.plan, Scope((Relation(alias, body.outputs),))


def _body(parts: tuple[str, ...], env: Env) -> Bound:
    if len(parts) == 1 and (cte := env.ctes.get(parts[0].lower())) is not None:
        again = renamed(Project(cte.plan, outputs(tuple(dict.fromkeys(cte.columns)))), env)
        new = dict(zip(dict.fromkeys(cte.columns), again.columns, strict=True))
        return Bound(again, tuple((n, new[c]) for n, c in cte.outputs))
    found = env.find(parts, env.home)
    if found is None:
        raise TableNotFoundError(".".join(parts))
    if isinstance(found, SourceView):
        return _view(found, parts, env)
    names = tuple((env.fresh(c), c) for c in found.columns)
    return Bound(Scan(found.source, names), tuple((c, name) for name, c in names))


def _view(view: SourceView, parts: tuple[str, ...], env: Env) -> Bound:
    if env.depth > _DEEPEST_VIEW:
        raise UnsupportedError(
            f"nesting views deeper than {_DEEPEST_VIEW}", "Check that no view contains itself."
        )
    inside = replace(env.inner(), home=view.home, ctes={}, depth=env.depth + 1)
    body = bind_query(parse_query(view.sql), inside)
    by_name = {n.lower(): (n, c) for n, c in body.outputs}
    if any(n.lower() not in by_name for n in view.source_columns):
        raise InvalidDefinitionError(
            f'the view "{".".join(parts)}" has lost a column', "Create the view again."
        )
    chosen = [by_name[n.lower()] for n in view.source_columns]
    return Bound(body.plan, tuple((n, c) for n, (_, c) in zip(view.columns, chosen, strict=True)))


# --- joins -------------------------------------------------------------------------------------------

_KINDS = {
    ("", ""): JoinKind.INNER,
    ("", "INNER"): JoinKind.INNER,
    ("", "CROSS"): JoinKind.INNER,
    ("LEFT", ""): JoinKind.LEFT,
    ("LEFT", "OUTER"): JoinKind.LEFT,
    ("RIGHT", ""): JoinKind.LEFT,  # with its sides swapped
    ("RIGHT", "OUTER"): JoinKind.LEFT,
    ("FULL", ""): JoinKind.FULL,
    ("FULL", "OUTER"): JoinKind.FULL,
    ("LEFT", "SEMI"): JoinKind.SEMI,
    ("", "SEMI"): JoinKind.SEMI,
    ("LEFT", "ANTI"): JoinKind.ANTI,
    ("", "ANTI"): JoinKind.ANTI,
}


def _join(found: From, node: exp.Join, env: Env) -> From:
    side, how = str(node.side or "").upper(), str(node.kind or "").upper()
    kind = _KINDS.get((side, how))
    if kind is None or str(node.method or "").upper() in ("ASOF",):
        raise UnsupportedError(f"{side} {how} JOIN in a stream table".replace("  ", " "), "Use another join.")
    if isinstance(node.this, exp.Lateral):
        return _lateral_join(found, node, kind, env)
    if isinstance(node.this, exp.Table) and not isinstance(node.this.this, exp.Identifier):
        return _function_join(found, node, env)
    other = _relation(node.this, env)
    other = _all_joins(other, node.this.args.get("joins") or (), env)
    names = [i.name for i in node.args.get("using") or ()]
    if str(node.method or "").upper() == "NATURAL":
        mine = {n.lower() for n, _ in found[1].star()}
        names = [n for n, _ in other[1].star() if n.lower() in mine]
    if names:
        return _join_using(found, other, kind, side, names, env)
    scope = found[1].joined(other[1])
    keys, residual = join_condition(node.args.get("on"), found, other, scope, env)
    plan = _paired(found[0], other[0], kind, side, keys, residual)
    return plan, found[1] if kind in (JoinKind.SEMI, JoinKind.ANTI) else scope


def _paired(
    left: Operator,
    right: Operator,
    kind: JoinKind,
    side: str,
    keys: tuple[KeyPair, ...],
    residual: Expr | None,
) -> Operator:
    if side == "RIGHT":
        swapped = tuple(KeyPair(k.right, k.left, k.null_safe) for k in keys)
        return Join(right, left, kind, swapped, residual)
    return Join(left, right, kind, keys, residual)


def join_condition(
    on: exp.Expr | None, left: From, right: From, scope: Scope, env: Env
) -> tuple[tuple[KeyPair, ...], Expr | None]:
    """Equalities between one side and the other are keys, the rest is tested on every pair."""
    keys, rest = [], []
    for part in conjuncts(on):
        whole = resolve(part, scope, env)
        if any(isinstance(n, exp.Query) for n in whole.walk()):
            raise UnsupportedError("a subquery in ON", "Put it into WHERE, or into a subquery of its own.")
        pair = key_pair(whole, frozenset(left[0].columns), frozenset(right[0].columns))
        if pair is not None:
            keys.append(pair)
        else:
            rest.append(to_expr(whole))
    return aligned(tuple(keys), left[0], right[0], env), conjunction(rest)


def key_pair(node: exp.Expr, left: frozenset[str], right: frozenset[str]) -> KeyPair | None:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return None
    one, two = to_expr(node.left), to_expr(node.right)
    if not one.columns or not two.columns:
        return None
    safe = isinstance(node, exp.NullSafeEQ)
    if one.columns <= left and two.columns <= right:
        return KeyPair(one, two, safe)
    if one.columns <= right and two.columns <= left:
        return KeyPair(two, one, safe)
    return None


def _join_using(found: From, other: From, kind: JoinKind, side: str, names: list[str], env: Env) -> From:
    keys, merged = [], {}
    for name in names:
        mine, theirs = found[1].find((name,)), other[1].find((name,))
        if mine is None or theirs is None:
            raise InvalidDefinitionError(f'column "{name}" of USING is not in both tables', "Use ON.")
        keys.append(KeyPair(column(mine), column(theirs)))
        merged[name.lower()] = (mine, theirs)
    plan = _paired(found[0], other[0], kind, side, aligned(tuple(keys), found[0], other[0], env), None)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        return plan, found[1]
    both = {}
    if kind is JoinKind.FULL:
        extra = []
        for lowered, (mine, theirs) in merged.items():
            both[lowered] = env.fresh(lowered)
            value = Expr(f"coalesce(`{mine}`, `{theirs}`)", frozenset((mine, theirs)))
            extra.append(Output(both[lowered], value))
        plan = Project(plan, (*outputs(plan.columns), *extra))
    else:
        both = {n: theirs if side == "RIGHT" else mine for n, (mine, theirs) in merged.items()}
    scope = found[1].joined(other[1])
    copies = frozenset(c for pair in merged.values() for c in pair)
    return plan, replace(scope, merged={**scope.merged, **both}, hidden=scope.hidden | copies)


# --- LATERAL and generators --------------------------------------------------------------------------


def _lateral_join(found: From, node: exp.Join, kind: JoinKind, env: Env) -> From:
    from spark_trickle.sql.bind_subquery import dependent

    inner = node.this.this
    if not isinstance(inner, exp.Subquery):
        return _generated(found, inner, node.this.args.get("alias"), kind is JoinKind.LEFT, env)
    plan, scope = found
    body, keys = dependent(_bare(inner), plan, scope, env)
    alias = node.this.args.get("alias")
    body = with_names(body, [i.name for i in (alias.args.get("columns") if alias else None) or ()])
    name = (alias.name.lower(),) if alias is not None and alias.name else ()
    both = scope.joined(Scope((Relation(name, body.outputs),)))
    residual = None
    if node.args.get("on") is not None:
        residual = conjunction([to_expr(resolve(p, both, env)) for p in conjuncts(node.args["on"])])
    return Join(plan, body.plan, kind, keys, residual), both


def _lateral_view(found: From, node: exp.Lateral, env: Env) -> From:
    return _generated(found, node.this, node.args.get("alias"), bool(node.args.get("outer")), env)


def _function_join(found: From, node: exp.Join, env: Env) -> From:
    raise UnsupportedError("a table function in a join", "Use LATERAL VIEW, or a subquery.")


def _function(node: exp.Table, env: Env) -> From:
    raise UnsupportedError(
        f"the table function {name_of(node.this) or 'here'} in a stream table", "Use LATERAL VIEW or VALUES."
    )


def _generated(found: From, call: exp.Expr, alias: exp.TableAlias | None, outer: bool, env: Env) -> From:
    plan, scope = found
    generator = to_expr(resolve(call, scope, env))
    written = [i.name for i in (alias.args.get("columns") or ())] if alias is not None else []
    names, new = generated_names(plan, generator, outer, env, written)
    if written and len(written) != len(names):
        raise InvalidDefinitionError(
            f"{len(written)} names for {len(names)} columns of {name_of(call)}", "Name every column."
        )
    known_as = (alias.name.lower(),) if alias is not None and alias.name else ()
    relation = Relation(known_as, tuple(zip(written or names, new, strict=True)))
    return Generate(plan, generator, new, outer), scope.joined(Scope((relation,)))


def generated_names(
    plan: Operator, generator: Expr, outer: bool, env: Env, written: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What Spark calls the columns of a generator, and what the tree does."""
    if env.trial:
        return tuple(written or ("col",)), tuple(env.fresh(n) for n in written or ("col",))
    known = set(plan.columns)
    names = tuple(n for n in env.types(Generate(plan, generator, (), outer)) if n not in known)
    return names, tuple(env.fresh(n) for n in names)


def is_generator(node: exp.Expr) -> bool:
    return name_of(node) in GENERATORS

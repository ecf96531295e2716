"""A SELECT -> a tree: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, the list itself, DISTINCT, LIMIT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.conditions import join_conjuncts
from spark_trickle.algebra.expressions import Comparison, Expr, integer
from spark_trickle.algebra.operators import Generate, Output, Project, column
from spark_trickle.algebra.stateful_operators import SortKey, Window
from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.aggregate import bind_aggregate
from spark_trickle.sql.bind.aggregates import has_aggregate, is_aggregated
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    contains,
    is_subquery,
    list_conjuncts,
    rewrite,
    to_expr,
    write_column,
)
from spark_trickle.sql.bind.generate import is_generator, name_generated
from spark_trickle.sql.bind.key_types import align_equalities
from spark_trickle.sql.bind.limit import bind_limit, make_sort_key
from spark_trickle.sql.bind.listed_names import resolve_in_having, resolve_in_list, resolve_in_order
from spark_trickle.sql.bind.plans import distinct_rows, keep_columns, number_rows
from spark_trickle.sql.bind.positions import is_all, is_position, read_keys, read_position
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Relation
from spark_trickle.sql.bind.structs import (
    is_star,
    read_except_names,
    read_field_names,
    read_qualifier,
    select_star_columns,
)
from spark_trickle.sql.bind.subquery import compute_subqueries, filter_by_subquery
from spark_trickle.sql.bind.tail import Item, Tail
from spark_trickle.sql.bind.time_window import with_window_columns
from spark_trickle.sql.dialect.spark import sql_of
from spark_trickle.sql.lexer.places import place_errors, place_of

_MOST_FILTERS = 50  # one above the other: a tree should not be as deep as a condition is long
_Values = tuple[dict[str, exp.Expr], Relation]  # of subqueries by their text, and the rows with them


def bind_select(select: exp.Select, env: Env) -> Bound:
    rows = env.binder.bind_from(select, env)
    return replace(bind_result(select, _filter_where(select, rows, env), env), source=rows)


def _filter_where(select: exp.Select, rows: Relation, env: Env) -> Relation:
    """Plain conditions first, then subqueries: they see only rows that count."""
    clause = select.args.get("where")
    parts = list_conjuncts(clause.this if clause is not None else None)
    plain = [part for part in parts if not contains(part, is_subquery)]
    for part in plain:
        if has_aggregate(part) or contains(part, lambda n: isinstance(n, exp.Window)):
            raise InvalidDefinitionError(
                "an aggregate or window function in WHERE", "Use HAVING or QUALIFY.", place_of(part)
            )
    resolved = [resolve(part, rows.scope, env) for part in plain]
    tests = [to_expr(part) for part in align_equalities(resolved, rows.plan, env)]
    for test in tests if len(tests) <= _MOST_FILTERS else filter(None, [join_conjuncts(tests)]):
        rows = rows.filter_rows(test)
    for part in (part for part in parts if contains(part, is_subquery)):
        rows = filter_by_subquery(part, rows, env)
    return rows


def bind_result(select: exp.Select, rows: Relation, env: Env) -> Bound:
    """What comes after WHERE, over the rows that it leaves."""
    select = with_window_columns(select, rows.scope)
    tail = _read_tail(select, rows, env)
    single = False
    if is_aggregated(select, [i.node for i in tail.items], tail.having):
        more = any(select.args.get(k) for k in ("group", "limit", "offset", "having", "qualify"))
        single = not more and not any(contains(n, is_generator) for n in tail.nodes)
        tail, rows = bind_aggregate(select, tail, rows, env)
    rows = _filter_by(tail.having, rows, env)
    tail, rows = _compute_windows(tail, rows, env)
    rows = _filter_by(tail.qualify, rows, env)
    tail, rows = _generate_rows(tail, rows, env)
    return replace(_bind_list(select, tail, rows, env), single=single)


def _read_tail(select: exp.Select, rows: Relation, env: Env) -> Tail:
    items = _read_items(select, rows, env)
    order = _resolve_order(select, items, rows, env)
    having, qualify = select.args.get("having"), select.args.get("qualify")
    return Tail(
        items,
        None if having is None else resolve_in_having(having.this, items, rows, env),
        None if qualify is None else resolve_in_list(qualify.this, items, rows, env),
        order,
    )


def _filter_by(node: exp.Expr | None, rows: Relation, env: Env) -> Relation:
    for part in list_conjuncts(node):
        if contains(part, is_subquery):
            rows = filter_by_subquery(part, rows, env)
        else:
            rows = rows.filter_rows(to_expr(part))
    return rows


# --- the list ----------------------------------------------------------------------------------------


def _read_items(select: exp.Select, rows: Relation, env: Env) -> tuple[Item, ...]:
    items: list[Item] = []
    for written in select.expressions:
        node = written.unnest()  # (k) is called k
        if is_star(node):
            items += _expand_star(node, rows, env)
            continue
        if isinstance(node, exp.QueryTransform):
            raise UnsupportedError("TRANSFORM … USING in a stream table", "Use functions of SQL instead.")
        if isinstance(node, exp.Aliases):
            names = "\0".join(i.name for i in node.expressions)
            items.append(Item(names, resolve_in_list(node.this, items, rows, env)))
            continue
        items.append(Item(_read_name(node), resolve_in_list(node.unalias().unnest(), items, rows, env)))
    return tuple(items)


def _read_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Alias):
        return node.alias
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    return ""


def _expand_star(node: exp.Expr, rows: Relation, env: Env) -> list[Item]:
    star = node.this if isinstance(node, exp.Column) else node
    if star.args.get("replace") or star.args.get("rename"):
        raise UnsupportedError("* REPLACE in a stream table", "List the columns.")
    try:
        found = rows.scope.expand_star(read_qualifier(node))
    except ColumnNotFoundError:
        fields = _expand_struct(read_qualifier(node), rows, env)
        if not fields:
            raise
        return [i for i in fields if (i.name.lower(),) not in read_except_names(node)]
    return [
        Item(n.name, write_column(n.column))
        for n in select_star_columns(node, found)
        if n.column not in rows.given
    ]


def _expand_struct(name: tuple[str, ...], rows: Relation, env: Env) -> list[Item]:
    """s.* of a struct: Spark tells its fields."""
    column_of = exp.column(name[-1], *reversed(name[:-1])) if len(name) <= 4 else None
    try:
        value = resolve(column_of, rows.scope, env) if column_of is not None else None
    except ColumnNotFoundError:
        return []
    if value is None:
        return []
    probe = env.fresh("probe")
    kinds = env.find_exact_types(Project(rows.plan, (Output(probe, to_expr(value)),)))
    if kinds is None:
        return [Item(name[-1], value)]
    return [
        Item(n, exp.Dot(this=value.copy(), expression=exp.to_identifier(n, quoted=True)))
        for n in read_field_names(kinds[probe])
    ]


def _resolve_order(
    select: exp.Select, items: tuple[Item, ...], rows: Relation, env: Env
) -> tuple[tuple[exp.Ordered, exp.Expr], ...]:
    keys = read_keys(select.args.get("order"))
    if not (select.args.get("limit") or select.args.get("offset") or _read_distinct_on(select)):
        return ()
    named = "all" in (i.name.lower() for i in items) or rows.scope.find(("all",)) is not None
    if is_all(keys) and not named:
        return tuple((keys[0], item.node.copy()) for item in _require_places(items, len(items)))
    return tuple((ordered, _resolve_order_key(ordered.this, items, rows, env)) for ordered in keys)


def _resolve_order_key(node: exp.Expr, items: tuple[Item, ...], rows: Relation, env: Env) -> exp.Expr:
    if not is_position(node):
        return resolve_in_order(node, items, rows, env).unnest()
    at = read_position(node, len(items), "ORDER BY")
    with place_errors(node):
        return _require_places(items, at)[at].node.copy()


def _require_places(items: tuple[Item, ...], at: int) -> tuple[Item, ...]:
    """The list, if it is known what stands there: a generator may make several columns."""
    for item in items[:at]:
        if is_generator(item.node) and (not item.name or "\0" in item.name):
            raise UnsupportedError(
                "ORDER BY a position after a generator of several columns", "Use LATERAL VIEW."
            )
    return items


def _read_distinct_on(select: exp.Select) -> exp.Expr | None:
    distinct = select.args.get("distinct")
    return distinct.args.get("on") if distinct is not None else None


# --- windows and generators --------------------------------------------------------------------------


def _compute_windows(tail: Tail, rows: Relation, env: Env) -> tuple[Tail, Relation]:
    """Each window function as a column; those inside others first."""
    while True:
        innermost: dict[str, exp.Window] = {}
        for node in tail.nodes:
            _collect_windows(node, innermost)
        if not innermost:
            return tail, rows
        names, rows = _add_windows(innermost, rows, env)
        tail = _replace_windows(tail, names)


def _collect_windows(node: exp.Expr, found: dict[str, exp.Window]) -> bool:
    """Windows that have no other window inside."""
    if isinstance(node, SUBQUERIES):
        return False
    inside = [_collect_windows(child, found) for child in node.iter_expressions()]
    if isinstance(node, exp.Window) and not any(inside):
        found[sql_of(node)] = node
    return any(inside) or isinstance(node, exp.Window)


def _add_windows(windows: dict[str, exp.Window], rows: Relation, env: Env) -> tuple[dict[str, str], Relation]:
    """The rows with a column for each window function, and its name by the text of the function."""
    names: dict[str, str] = {}
    by_partition: dict[tuple[Expr, ...], list[Output]] = {}
    for text, window in windows.items():
        whole, rows = compute_subqueries(window.copy(), rows, env)
        partition = tuple(to_expr(p) for p in whole.args.get("partition_by") or ())
        if rows.given:
            whole.set(
                "partition_by", [*(write_column(g) for g in rows.given), *whole.args.get("partition_by", [])]
            )
            partition = (*(column(g) for g in rows.given), *partition)
        names[text] = env.fresh("w")
        by_partition.setdefault(partition, []).append(Output(names[text], to_expr(whole)))
    for partition, functions in by_partition.items():
        rows = rows.with_plan(Window(rows.plan, partition, tuple(functions)))
    return names, rows


def _replace_windows(tail: Tail, names: dict[str, str]) -> Tail:
    def replace_window(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, SUBQUERIES):
            return part.copy()
        if isinstance(part, exp.Window) and sql_of(part) in names:
            return write_column(names[sql_of(part)])
        return None

    return tail.map(lambda n: rewrite(n, replace_window))


def _generate_rows(tail: Tail, rows: Relation, env: Env) -> tuple[Tail, Relation]:
    """SELECT explode(…): a row for every element."""
    items: list[Item] = []
    made: dict[str, exp.Expr] = {}
    for item in tail.items:
        if not is_generator(item.node):
            if contains(item.node, is_generator):
                raise UnsupportedError("a generator inside an expression", "Use LATERAL VIEW.")
            items.append(item)
            continue
        generator = to_expr(item.node)
        written = item.name.split("\0") if item.name else []
        names, new = name_generated(rows.plan, generator, False, env, written)
        rows = rows.with_plan(Generate(rows.plan, generator, new))
        made[sql_of(item.node)] = write_column(new[0])
        items += [Item(n, write_column(c)) for n, c in zip(written or names, new, strict=True)]
    # What is ordered by it is ordered by the row that it made, not by rows made once more.
    order = (
        tuple((o, rewrite(n, lambda part: made.get(sql_of(part)))) for o, n in tail.order)
        if made
        else tail.order
    )
    return replace(tail, items=tuple(items), order=order), rows


# --- the result --------------------------------------------------------------------------------------


def _bind_list(select: exp.Select, tail: Tail, rows: Relation, env: Env) -> Bound:
    tail, rows = _compute_once(tail, rows, env)
    if (on := _read_distinct_on(select)) is not None:
        rows = _keep_first_of_each(on, tail, rows, env)
    elif select.args.get("distinct") is not None:
        return _bind_distinct(select, tail, rows, env)
    listed = [Output(env.fresh(i.name), to_expr(i.node)) for i in tail.items]
    extra = [(o, Output(env.fresh("o"), to_expr(n))) for o, n in tail.order]
    plan = Project(rows.plan, (*keep_columns(rows.given), *listed, *(o for _, o in extra)))
    names = tuple((i.name, o.name) for i, o in zip(tail.items, listed, strict=True))
    keys = [make_sort_key(ordered, write_column(o.name)) for ordered, o in extra]
    return bind_limit(select, Bound(plan, names, rows.given), keys, env)


def _compute_once(tail: Tail, rows: Relation, env: Env) -> tuple[Tail, Relation]:
    """The same subquery in the list and in ORDER BY is one value."""

    def compute_value(node: exp.Expr, state: _Values) -> tuple[exp.Expr, _Values]:
        if not contains(node, is_subquery):
            return node, state
        known, rows = state
        if (text := sql_of(node)) not in known:
            value, rows = compute_subqueries(node, rows, env)
            known = {**known, text: value}
        return known[text].copy(), (known, rows)

    start: _Values = {}, rows
    tail, (_, rows) = tail.map_with(start, compute_value)
    return tail, rows


def _bind_distinct(select: exp.Select, tail: Tail, rows: Relation, env: Env) -> Bound:
    """SELECT DISTINCT; what it is ordered by is computed of the list."""
    width = len(rows.given)
    listed = [Output(env.fresh(i.name), to_expr(i.node)) for i in tail.items]
    plan = distinct_rows(Project(rows.plan, (*keep_columns(rows.given), *listed)), env)
    new = plan.columns[width:]
    position = {sql_of(i.node): c for i, c in zip(tail.items, new, strict=True)}

    def replace_listed(part: exp.Expr) -> exp.Expr | None:
        found = position.get(sql_of(part))
        return None if found is None else write_column(found)

    keys: list[SortKey] = []
    for ordered, node in tail.order:
        key = make_sort_key(ordered, rewrite(node, replace_listed))
        if not key.expr.columns <= set(new):
            raise UnsupportedError(
                "ORDER BY an expression that SELECT DISTINCT does not list", "Add it to the SELECT list."
            )
        keys.append(key)
    names = tuple((i.name, c) for i, c in zip(tail.items, new, strict=True))
    return bind_limit(select, Bound(plan, names, plan.columns[:width]), keys, env)


def _keep_first_of_each(on: exp.Expr, tail: Tail, rows: Relation, env: Env) -> Relation:
    """DISTINCT ON (a) … ORDER BY a, b: of all rows with the same a, the first by b."""
    parts = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    partition = [column(g) for g in rows.given]
    partition += [to_expr(resolve(p, rows.scope, env)) for p in parts]
    plan, place = number_rows(rows.plan, partition, [make_sort_key(o, n) for o, n in tail.order], env)
    return rows.with_plan(plan).filter_rows(Comparison("=", column(place), integer(1)))

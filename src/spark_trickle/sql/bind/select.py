"""A SELECT -> a tree: FROM, WHERE, GROUP BY, HAVING, windows, QUALIFY, the list itself, DISTINCT, LIMIT."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import (
    Constant,
    Expr,
    Filter,
    Generate,
    Output,
    Project,
    SortKey,
    Window,
    column,
)
from spark_trickle.errors import ColumnNotFoundError, InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.aggregates import has_aggregate, is_aggregated
from spark_trickle.sql.bind.block import Block, Item, Tail
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    bound,
    conjunction,
    conjuncts,
    contains,
    is_subquery,
    rewritten,
    to_expr,
)
from spark_trickle.sql.bind.from_clause import bind_from
from spark_trickle.sql.bind.generate import generated_names, is_generator
from spark_trickle.sql.bind.join import carry_values
from spark_trickle.sql.bind.key_types import equalities_aligned
from spark_trickle.sql.bind.listed_names import further_right, in_having, in_order
from spark_trickle.sql.bind.positions import is_all, is_position, keys_of, position_of
from spark_trickle.sql.bind.query import Env, bind_limit, distinct_rows, outputs, sort_key
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, From, Scope
from spark_trickle.sql.bind.structs import columns_of_star, field_names, is_star, names_in_except, qualifier
from spark_trickle.sql.bind.time_window import with_window_columns
from spark_trickle.sql.dialect.spark import sql_of
from spark_trickle.sql.lexer.places import place_of, placed

_MOST_FILTERS = 50  # one above the other: a tree should not be as deep as a condition is long


def bind_select(select: exp.Select, env: Env) -> Bound:
    block = start(select, env)
    where(select, block)
    return finish(select, block)


def start(select: exp.Select, env: Env) -> Block:
    for clause in ("cluster", "distribute", "sort", "into", "match", "connect", "hint"):
        if select.args.get(clause) and clause != "hint":
            raise UnsupportedError(
                f"{clause.upper()} in a stream table", "Leave it out: a table has no order."
            )
    found = bind_from(select, env)
    if found is None:
        one = env.fresh("one")
        found = From(Constant((one,), ((Expr("1"),),)), Scope())
    found = carry_values(found, env)
    given = tuple(env.given.columns.values()) if env.given is not None else ()
    return Block(found.plan, replace(found.scope, outer=env.outer), env, given)


def where(select: exp.Select, block: Block) -> None:
    """Plain conditions first, then subqueries: they see only rows that count."""
    from spark_trickle.sql.bind.subquery import filter_by_subquery

    clause = select.args.get("where")
    plain: list[exp.Expr] = []
    nested: list[exp.Expr] = []
    for part in conjuncts(clause.this if clause is not None else None):
        (nested if contains(part, lambda n: isinstance(n, SUBQUERIES)) else plain).append(part)
    for part in plain:
        if has_aggregate(part) or contains(part, lambda n: isinstance(n, exp.Window)):
            raise InvalidDefinitionError(
                "an aggregate or window function in WHERE", "Use HAVING or QUALIFY.", place_of(part)
            )
    resolved = [resolve(part, block.scope, block.env) for part in plain]
    tests = [to_expr(part) for part in equalities_aligned(resolved, block.plan, block.env)]
    for test in tests if len(tests) <= _MOST_FILTERS else filter(None, [conjunction(tests)]):
        block.plan = Filter(block.plan, test)
    for part in nested:
        filter_by_subquery(part, block)


def finish(select: exp.Select, block: Block) -> Bound:
    from spark_trickle.sql.bind.aggregate import bind_aggregate

    select = with_window_columns(select, block.scope)
    items = _items(select, block)
    order = _order_nodes(select, items, block)
    tail = Tail(
        items,
        _having(select, items, block),
        _qualify(select, items, block),
        order,
    )
    single = False
    if is_aggregated(select, [i.node for i in items], tail.having):
        more = any(select.args.get(k) for k in ("group", "limit", "offset", "having", "qualify"))
        single = not more and not any(contains(n, is_generator) for n in tail.nodes)
        tail = bind_aggregate(select, tail, block)
    if tail.having is not None:
        _filter(tail.having, block)
    tail = _with_windows(tail, block)
    if tail.qualify is not None:
        _filter(tail.qualify, block)
    tail = _with_generators(tail, block)
    return replace(_listed(select, tail, block), single=single)


def _filter(node: exp.Expr, block: Block) -> None:
    from spark_trickle.sql.bind.subquery import filter_by_subquery

    for part in conjuncts(node):
        if contains(part, lambda n: isinstance(n, SUBQUERIES)):
            filter_by_subquery(part, block)
        else:
            block.plan = Filter(block.plan, to_expr(part))


# --- the list ----------------------------------------------------------------------------------------


def _items(select: exp.Select, block: Block) -> list[Item]:
    items: list[Item] = []
    for written in select.expressions:
        node = written.unnest()  # (k) is called k
        if is_star(node):
            items += _expanded(node, block)
            continue
        if isinstance(node, exp.QueryTransform):
            raise UnsupportedError("TRANSFORM … USING in a stream table", "Use functions of SQL instead.")
        if isinstance(node, exp.Aliases):
            items.append(
                Item("\0".join(i.name for i in node.expressions), further_right(node.this, items, block))
            )
            continue
        items.append(Item(_name(node), further_right(node.unalias().unnest(), items, block)))
    return items


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Alias):
        return node.alias
    if isinstance(node, exp.Column | exp.Dot):
        return node.name
    return ""


def _expanded(node: exp.Expr, block: Block) -> list[Item]:
    star = node.this if isinstance(node, exp.Column) else node
    if star.args.get("replace") or star.args.get("rename"):
        raise UnsupportedError("* REPLACE in a stream table", "List the columns.")
    try:
        found = block.scope.expanded(qualifier(node))
    except ColumnNotFoundError:
        fields = _fields(qualifier(node), block)
        if not fields:
            raise
        return [i for i in fields if (i.name.lower(),) not in names_in_except(node)]
    return [
        Item(n.name, bound(n.column)) for n in columns_of_star(node, found) if n.column not in block.given
    ]


def _fields(name: tuple[str, ...], block: Block) -> list[Item]:
    """s.* of a struct: Spark tells its fields."""
    column_of = exp.column(name[-1], *reversed(name[:-1])) if len(name) <= 4 else None
    try:
        value = resolve(column_of, block.scope, block.env) if column_of is not None else None
    except ColumnNotFoundError:
        return []
    if value is None:
        return []
    if block.env.trial:
        return [Item(name[-1], value)]
    probe = block.env.fresh("probe")
    kind = block.env.types(Project(block.plan, (Output(probe, to_expr(value)),)))[probe]
    return [
        Item(n, exp.Dot(this=value.copy(), expression=exp.to_identifier(n, quoted=True)))
        for n in field_names(kind)
    ]


def _having(select: exp.Select, items: list[Item], block: Block) -> exp.Expr | None:
    found = select.args.get("having")
    return None if found is None else in_having(found.this, items, block)


def _qualify(select: exp.Select, items: list[Item], block: Block) -> exp.Expr | None:
    found = select.args.get("qualify")
    return None if found is None else further_right(found.this, items, block)


def _order_nodes(select: exp.Select, items: list[Item], block: Block) -> list[tuple[exp.Ordered, exp.Expr]]:
    keys = keys_of(select.args.get("order"))
    if not (select.args.get("limit") or select.args.get("offset") or _distinct_on(select)):
        return []
    named = "all" in (i.name.lower() for i in items) or block.scope.find(("all",)) is not None
    if is_all(keys) and not named:
        return [(keys[0], item.node.copy()) for item in _places(items, len(items))]
    return [(ordered, _order_node(ordered.this, items, block)) for ordered in keys]


def _order_node(node: exp.Expr, items: list[Item], block: Block) -> exp.Expr:
    if not is_position(node):
        return in_order(node, items, block).unnest()
    at = position_of(node, len(items), "ORDER BY")
    with placed(node):
        return _places(items, at)[at].node.copy()


def _places(items: list[Item], at: int) -> list[Item]:
    """The list, if it is known what stands there: a generator may make several columns."""
    for item in items[:at]:
        if is_generator(item.node) and (not item.name or "\0" in item.name):
            raise UnsupportedError(
                "ORDER BY a position after a generator of several columns", "Use LATERAL VIEW."
            )
    return items


def _distinct_on(select: exp.Select) -> exp.Expr | None:
    distinct = select.args.get("distinct")
    return distinct.args.get("on") if distinct is not None else None


# --- windows and generators --------------------------------------------------------------------------


def _with_windows(tail: Tail, block: Block) -> Tail:
    while True:
        innermost: dict[str, exp.Window] = {}
        for node in tail.nodes:
            _collect_windows(node, innermost)
        if not innermost:
            return tail
        tail = _compute_windows(innermost, tail, block)


def _collect_windows(node: exp.Expr, found: dict[str, exp.Window]) -> bool:
    """Windows that have no other window inside."""
    if isinstance(node, SUBQUERIES):
        return False
    inside = [_collect_windows(child, found) for child in node.iter_expressions()]
    if isinstance(node, exp.Window) and not any(inside):
        found[sql_of(node)] = node
    return any(inside) or isinstance(node, exp.Window)


def _compute_windows(windows: dict[str, exp.Window], tail: Tail, block: Block) -> Tail:
    from spark_trickle.sql.bind.subquery import subqueries_computed

    replaced: dict[str, str] = {}
    by_partition: dict[tuple[Expr, ...], list[Output]] = {}
    for text, window in windows.items():
        whole = subqueries_computed(window.copy(), block)
        partition = tuple(to_expr(p) for p in whole.args.get("partition_by") or ())
        if block.given:
            whole.set("partition_by", [*(bound(g) for g in block.given), *whole.args.get("partition_by", [])])
            partition = (*(column(g) for g in block.given), *partition)
        replaced[text] = block.env.fresh("w")
        by_partition.setdefault(partition, []).append(Output(replaced[text], to_expr(whole)))
    for partition, functions in by_partition.items():
        block.plan = Window(block.plan, partition, tuple(functions))

    def change(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, SUBQUERIES):
            return part.copy()
        if isinstance(part, exp.Window) and sql_of(part) in replaced:
            return bound(replaced[sql_of(part)])
        return None

    return tail.map(lambda n: rewritten(n, change))


def _with_generators(tail: Tail, block: Block) -> Tail:
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
        names, new = generated_names(block.plan, generator, False, block.env, written)
        block.plan = Generate(block.plan, generator, new)
        made[sql_of(item.node)] = bound(new[0])
        items += [Item(n, bound(c)) for n, c in zip(written or names, new, strict=True)]
    # What is ordered by it is ordered by the row that it made, not by rows made once more.
    order = (
        [(o, rewritten(n, lambda part: made.get(sql_of(part)))) for o, n in tail.order]
        if made
        else tail.order
    )
    return replace(tail, items=items, order=order)


# --- the result --------------------------------------------------------------------------------------


def _listed(select: exp.Select, tail: Tail, block: Block) -> Bound:
    tail = _subqueries_once(tail, block)
    env = block.env
    if (on := _distinct_on(select)) is not None:
        _keep_first_of_each(on, tail, block)
    elif select.args.get("distinct") is not None:
        return _different(select, tail, block)
    listed = [Output(env.fresh(i.name), to_expr(i.node)) for i in tail.items]
    extra = [(o, Output(env.fresh("o"), to_expr(n))) for o, n in tail.order]
    plan = Project(block.plan, (*outputs(block.given), *listed, *(o for _, o in extra)))
    names = tuple((i.name, o.name) for i, o in zip(tail.items, listed, strict=True))
    keys = [sort_key(ordered, bound(o.name)) for ordered, o in extra]
    return bind_limit(select, Bound(plan, names, block.given), keys, env)


def _subqueries_once(tail: Tail, block: Block) -> Tail:
    """The same subquery in the list and in ORDER BY is one value."""
    from spark_trickle.sql.bind.subquery import subqueries_computed

    known: dict[str, exp.Expr] = {}

    def compute(node: exp.Expr) -> exp.Expr:
        if not contains(node, is_subquery):
            return node
        text = sql_of(node)
        if text not in known:
            known[text] = subqueries_computed(node, block)
        return known[text].copy()

    return tail.map(compute)


def _different(select: exp.Select, tail: Tail, block: Block) -> Bound:
    """SELECT DISTINCT; what it is ordered by is computed of the list."""
    env, width = block.env, len(block.given)
    listed = [Output(env.fresh(i.name), to_expr(i.node)) for i in tail.items]
    plan = distinct_rows(Project(block.plan, (*outputs(block.given), *listed)), env)
    new = plan.columns[width:]
    position = {sql_of(i.node): c for i, c in zip(tail.items, new, strict=True)}

    def change(part: exp.Expr) -> exp.Expr | None:
        found = position.get(sql_of(part))
        return None if found is None else bound(found)

    keys: list[SortKey] = []
    for ordered, node in tail.order:
        key = sort_key(ordered, rewritten(node, change))
        if not key.expr.columns <= set(new):
            raise UnsupportedError("ORDER BY of what SELECT DISTINCT leaves out", "Add it to the list.")
        keys.append(key)
    names = tuple((i.name, c) for i, c in zip(tail.items, new, strict=True))
    return bind_limit(select, Bound(plan, names, plan.columns[:width]), keys, env)


def _keep_first_of_each(on: exp.Expr, tail: Tail, block: Block) -> None:
    """DISTINCT ON (a) … ORDER BY a, b: of all rows with the same a, the first by b."""
    parts = on.expressions if isinstance(on, exp.Tuple) else [on.unnest()]
    partition = [column(g) for g in block.given]
    partition += [to_expr(resolve(p, block.scope, block.env)) for p in parts]
    keys = [sort_key(o, n) for o, n in tail.order]
    number = block.env.fresh("rn")
    by = ", ".join(p.sql for p in partition)
    order = ", ".join(k.sql for k in keys) or "1"
    columns = frozenset[str]().union(*(p.columns for p in partition), *(k.expr.columns for k in keys))
    call = Expr(f"row_number() OVER (PARTITION BY {by} ORDER BY {order})", columns)
    plan = Window(block.plan, tuple(partition), (Output(number, call),))
    block.plan = Filter(plan, Expr(f"`{number}` = 1", frozenset((number,))))

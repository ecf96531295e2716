"""Subqueries in expressions -> joins that keep rows, or put values beside them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.operators import (
    Aggregate,
    Call,
    Expr,
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Materialized,
    Operator,
    Output,
    Project,
    column,
)
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.aggregate import bind_aggregate
from spark_trickle.sql.bind.aggregates import has_aggregate
from spark_trickle.sql.bind.block import Block, Item, Tail
from spark_trickle.sql.bind.correlated import (
    MORE_THAN_ROWS,
    NotSimpleError,
    Side,
    bind_side,
    dependent,
    rows_and_conditions,
    watch_outer_columns,
)
from spark_trickle.sql.bind.expressions import (
    bound,
    contains,
    is_subquery,
    parse_expression,
    rewritten,
    to_expr,
)
from spark_trickle.sql.bind.key_types import align_types
from spark_trickle.sql.bind.query import Env, outputs
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.dialect.spark import sql_of

_SEVERAL_ROWS = "'a subquery in an expression has more than one row'"
_COMPARISONS = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


# --- conditions --------------------------------------------------------------------------------------


def filter_by_subquery(node: exp.Expr, block: Block) -> None:
    """A condition with a subquery in it: EXISTS and IN keep or drop rows, all others are computed first."""
    inner = node.unnest()
    negated = isinstance(inner, exp.Not)
    test = inner.this.unnest() if negated else inner
    if isinstance(test, exp.Exists):
        _keep_by_existence(_any_row(test.this), negated, block)
    elif isinstance(test, exp.In) and test.args.get("query") and not contains(test.this, is_subquery):
        _keep_by_membership(test, negated, block)
    else:
        whole = subqueries_computed(resolve(node, block.scope, block.env), block)
        block.plan = Filter(block.plan, to_expr(whole))


def _query(node: exp.Expr) -> exp.Query:
    while isinstance(node, exp.Subquery) and not any(node.args.get(k) for k in ("with_", "order", "limit")):
        node = node.this
    if not isinstance(node, exp.Query):
        raise UnsupportedError(f"{type(node).__name__} as a subquery", "Write a SELECT.")
    return node


def _any_row(node: exp.Expr) -> exp.Query:
    """The query of an EXISTS, for which neither order nor a limit matters, unless it is 0."""
    query = _query(node).copy()
    limit = query.args.get("limit")
    if limit is not None and not query.args.get("offset") and sql_of(limit.expression) not in ("0", "ALL"):
        query.set("limit", None)
    query.set("order", None)
    return query


def _keep_by_existence(query: exp.Query, negated: bool, block: Block) -> None:
    side = bind_side(query, block, values=False)
    if side.free_standing:
        found = _one_row(side.plan, block.env)
        block.plan = Join(block.plan, found, JoinKind.INNER)
        some = found.columns[0]
        block.plan = Filter(block.plan, Expr(f"{'NOT ' if negated else ''}`{some}`", frozenset((some,))))
        return
    block.plan = side.join(block.plan, JoinKind.ANTI if negated else JoinKind.SEMI)


def _one_row(plan: Operator, env: Env) -> Operator:
    """Whether there are rows at all; who reads it is not bothered while that stays the same."""
    count, some = env.fresh("n"), env.fresh("some")
    grouped = Aggregate(plan, (), (), count)
    return Materialized(Project(grouped, (Output(some, Expr(f"`{count}` > 0", frozenset((count,)))),)))


def _keep_by_membership(node: exp.In, negated: bool, block: Block) -> None:
    left = _members(node.this, block)
    side = bind_side(_query(node.args["query"]), block, values=True)
    _same_width(left, side)
    pairs = _member_keys(left, side, block)
    if not negated:
        block.plan = side.also(keys=pairs).join(block.plan, JoinKind.SEMI)
        return
    if side.free_standing and len(left) == 1:
        _keep_outsiders(left[0], side, pairs, block)
        return
    equal = " AND ".join(f"({p.left.sql}) = ({p.right.sql})" for p in pairs)
    columns = frozenset[str]().union(*(p.left.columns | p.right.columns for p in pairs))
    maybe = Expr(f"coalesce({equal}, true)", columns)  # an unknown answer drops the row as well
    block.plan = side.also(residual=(maybe,)).join(block.plan, JoinKind.ANTI)


def _keep_outsiders(left: Expr, side: Side, pairs: tuple[KeyPair, ...], block: Block) -> None:
    """x NOT IN (…): no equal, no NULL among them, and x is not NULL unless there are none at all."""
    block.plan = side.also(keys=pairs).join(block.plan, JoinKind.ANTI)
    whole, empty = _facts(side, block)
    test = f"`{empty}` OR (`{whole}` AND ({left.sql}) IS NOT NULL)"
    block.plan = Filter(block.plan, Expr(test, left.columns | {whole, empty}))


def _facts(side: Side, block: Block) -> tuple[str, str]:
    """Whether a list is without NULL, and whether it is empty: columns beside every row of the block."""
    env, value = block.env, side.outputs[0]
    nulls, count = env.fresh("nulls"), env.fresh("n")
    term = Expr(f"CASE WHEN ({value.sql}) IS NULL THEN 1 ELSE 0 END", value.columns)
    call = Call(nulls, Expr(f"coalesce(sum({term.sql}), 0)", term.columns), term, "BIGINT")
    grouped = Aggregate(side.plan, (), (call,), count)
    whole, empty = env.fresh("whole"), env.fresh("empty")
    facts = Project(
        grouped,
        (
            Output(whole, Expr(f"`{nulls}` = 0", frozenset((nulls,)))),
            Output(empty, Expr(f"`{count}` = 0", frozenset((count,)))),
        ),
    )
    block.plan = Join(block.plan, Materialized(facts), JoinKind.INNER)
    return whole, empty


def _members(node: exp.Expr, block: Block) -> tuple[Expr, ...]:
    parts = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(to_expr(resolve(p, block.scope, block.env)) for p in parts)


def _member_keys(left: tuple[Expr, ...], side: Side, block: Block) -> tuple[KeyPair, ...]:
    pairs = tuple(KeyPair(a, b) for a, b in zip(left, side.outputs, strict=True))
    return align_types(pairs, block.plan, side.plan, block.env)


def _same_width(left: tuple[Expr, ...], side: Side) -> None:
    if len(left) != len(side.outputs):
        raise InvalidDefinitionError(
            f"{len(left)} values are compared with {len(side.outputs)} columns", "Make them the same number."
        )


# --- values ------------------------------------------------------------------------------------------


def is_subquery_value(node: exp.Expr) -> bool:
    """Whether an expression is a subquery, or a test that takes one: IN, EXISTS, > ALL."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    return isinstance(node, exp.Exists | exp.Query) or _is_quantified(node)


def _is_quantified(node: exp.Expr) -> bool:
    right = node.expression if type(node) in _COMPARISONS else None
    return isinstance(right, exp.Any | exp.All) and isinstance(right.this, exp.Query | exp.Subquery)


def subqueries_computed(node: exp.Expr, block: Block) -> exp.Expr:
    """The expression with a column in place of each subquery; the tree of the block gets the joins."""

    def change(part: exp.Expr) -> exp.Expr | None:
        return _value(part, block) if is_subquery_value(part) else None

    return rewritten(node, change) if contains(node, is_subquery) else node


def _value(node: exp.Expr, block: Block) -> exp.Expr:
    match node:
        case exp.Exists():
            return _exists_value(_any_row(node.this), block)
        case exp.In():
            parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
            left = tuple(to_expr(subqueries_computed(p, block)) for p in parts)
            return _membership_value(left, _query(node.args["query"]), block)
        case exp.Binary():
            return _quantified_value(node, block)
    return _scalar_value(_query(node), block)


def _exists_value(query: exp.Query, block: Block) -> exp.Expr:
    side = bind_side(query, block, values=False)
    if side.free_standing:
        found = _one_row(side.plan, block.env)
        block.plan = Join(block.plan, found, JoinKind.INNER)
        return bound(found.columns[0])
    return _marked(side, block)


def _marked(side: Side, block: Block) -> exp.Expr:
    mark = block.env.fresh("mark")
    block.plan = side.join(block.plan, JoinKind.MARK, mark)
    return bound(mark)


def _membership_value(left: tuple[Expr, ...], query: exp.Query, block: Block) -> exp.Expr:
    """x IN (…) is true, false, or unknown because of a NULL."""
    side = _read_twice(bind_side(query, block, values=True))
    _same_width(left, side)
    pairs = _member_keys(left, side, block)
    equal = " AND ".join(f"({p.left.sql}) = ({p.right.sql})" for p in pairs)
    columns = frozenset[str]().union(*(p.left.columns | p.right.columns for p in pairs))
    hit = _marked(side.also(keys=pairs), block)
    if side.free_standing and len(left) == 1:
        whole, empty = _facts(side, block)
        test = f"NOT `{empty}` AND (NOT `{whole}` OR ({left[0].sql}) IS NULL)"
        return _three_valued(hit, parse_expression(test, left[0].columns | {whole, empty}), True)
    unknown = _marked(side.also(residual=(Expr(f"({equal}) IS NULL", columns),)), block)
    return _three_valued(hit, unknown, True)


def _read_twice(side: Side) -> Side:
    """Rows that two tests look at. If they were tested so themselves, they are kept in a table of their own:
    otherwise the text would be several times as long with every level.
    """
    if not any(isinstance(op, Join) and op.kind is JoinKind.MARK for op in side.plan.walk()):
        return side
    return replace(side, plan=Materialized(side.plan))


def _three_valued(hit: exp.Expr, unknown: exp.Expr, answer: bool) -> exp.Expr:
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=hit, true=exp.Boolean(this=answer)),
                exp.If(this=unknown, true=exp.Null()),
            ],
            default=exp.Boolean(this=not answer),
        )
    )


def _quantified_value(node: exp.Binary, block: Block) -> exp.Expr:
    """x > ANY (…) looks for a hit, x > ALL (…) for a miss."""
    left = to_expr(subqueries_computed(node.this, block))
    every = isinstance(node.expression, exp.All)
    side = _read_twice(bind_side(_query(node.expression.this), block, values=True))
    _same_width((left,), side)
    right = side.outputs[0]
    compared = f"(({left.sql}) {_COMPARISONS[type(node)]} ({right.sql}))"
    columns = left.columns | right.columns
    looked_for = Expr(f"NOT {compared}" if every else compared, columns)
    hit = _marked(side.also(residual=(looked_for,)), block)
    unknown = _marked(side.also(residual=(Expr(f"{compared} IS NULL", columns),)), block)
    return _three_valued(hit, unknown, not every)


def _scalar_value(query: exp.Query, block: Block) -> exp.Expr:
    """The one value of a subquery, NULL if it has no row; more than one row is an error when it happens."""
    env = block.env
    try:
        return _grouped_value(query, block)
    except NotSimpleError:
        pass  # computed for all values of the outer columns instead
    body, keys = dependent(query, block.plan, block.scope, env)
    if len(body.outputs) != 1:
        raise InvalidDefinitionError("a subquery in an expression needs exactly one column", "Select one.")
    if body.single:
        pairs = tuple(KeyPair(k.left, column(g), True) for k, g in zip(keys, body.given, strict=True))
        plan = body.plan if pairs else Materialized(body.plan)
        block.plan = Join(block.plan, plan, JoinKind.LEFT if pairs else JoinKind.INNER, pairs)
        return bound(body.columns[0])
    value, count = env.fresh("value"), env.fresh("n")
    call = Call(value, Expr(f"any_value(`{body.columns[0]}`)", frozenset(body.columns)))
    given = tuple(Output(env.fresh("g"), column(g)) for g in body.given)
    grouped = Aggregate(body.plan, given, (call,), count)
    guarded = f"CASE WHEN `{count}` > 1 THEN raise_error({_SEVERAL_ROWS}) ELSE `{value}` END"
    result = env.fresh("value")
    single = Project(
        grouped,
        (*outputs(tuple(g.name for g in given)), Output(result, Expr(guarded, frozenset((count, value))))),
    )
    if not keys:
        block.plan = Join(block.plan, Materialized(single), JoinKind.INNER)
        return bound(result)
    pairs = tuple(KeyPair(k.left, column(g.name), True) for k, g in zip(keys, given, strict=True))
    block.plan = Join(block.plan, single, JoinKind.LEFT, pairs)
    return bound(result)


def _grouped_value(query: exp.Query, block: Block) -> exp.Expr:
    """SELECT agg(x) FROM … WHERE inner = outer: grouped by the inner side, and joined to the outer.

    The value is computed above the join: a count without rows is 0, not NULL.
    """
    single = isinstance(query, exp.Select) and len(query.expressions) == 1
    if not single or any(query.args.get(k) for k in (*MORE_THAN_ROWS, "group", "having", "distinct")):
        raise NotSimpleError
    assert isinstance(query, exp.Select)
    node = query.expressions[0].unalias()
    if not has_aggregate(node) or contains(node, is_subquery):
        raise NotSimpleError
    inner, keys, residual = rows_and_conditions(query, block)
    if residual or not keys:
        raise NotSimpleError
    env = inner.env
    value, used = watch_outer_columns(env, lambda: resolve(node, inner.scope, env))
    if used:
        raise NotSimpleError
    columns = tuple(Output(env.fresh("key"), k.right) for k in keys)
    inner.plan = Project(inner.plan, (*outputs(inner.plan.columns), *columns))
    inner.given = tuple(c.name for c in columns)
    tail = bind_aggregate(query, Tail([Item("value", value)], None, None, []), inner)
    pairs = tuple(KeyPair(k.left, column(c), k.null_safe) for k, c in zip(keys, inner.given, strict=True))
    block.plan = Join(block.plan, inner.plan, JoinKind.LEFT, pairs)
    return exp.Paren(this=tail.items[0].node)

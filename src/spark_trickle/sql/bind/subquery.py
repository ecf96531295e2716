"""Subqueries in expressions -> joins that keep rows, or put values beside them."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from spark_trickle.algebra.conditions import all_of
from spark_trickle.algebra.expressions import (
    NULL,
    TRUE,
    And,
    Brackets,
    Case,
    Comparison,
    Expr,
    Function,
    Is,
    Not,
    Opaque,
    Or,
    integer,
    is_not_null,
)
from spark_trickle.algebra.operators import Join, JoinKind, KeyPair, Operator, Output, Project, column
from spark_trickle.algebra.stateful_operators import Aggregate, Call, Materialized
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.aggregate import bind_aggregate
from spark_trickle.sql.bind.aggregates import has_aggregate
from spark_trickle.sql.bind.correlated import (
    MORE_THAN_ROWS,
    Side,
    bind_dependent,
    bind_rows_and_conditions,
    bind_side,
    find_outer_columns_of,
    read_existence,
    read_subquery,
    try_conditions,
)
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import (
    contains,
    is_subquery,
    parse_expression,
    rewrite_with,
    to_expr,
    write_column,
)
from spark_trickle.sql.bind.key_types import align_types
from spark_trickle.sql.bind.plans import add_outputs, keep_columns
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Relation
from spark_trickle.sql.bind.tail import Item, Tail

_SEVERAL_ROWS = "'a subquery in an expression has more than one row'"
_COMPARISONS = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip


# --- conditions --------------------------------------------------------------------------------------


def filter_by_subquery(condition: exp.Expr, rows: Relation, env: Env) -> Relation:
    """A condition with a subquery in it: EXISTS and IN keep or drop rows, all others are computed first."""
    inner = condition.unnest()
    negated = isinstance(inner, exp.Not)
    test = inner.this.unnest() if negated else inner
    if isinstance(test, exp.Exists):
        return _keep_by_existence(read_existence(test), negated, rows, env)
    if isinstance(test, exp.In) and test.args.get("query") and not contains(test.this, is_subquery):
        return _keep_by_membership(test, negated, rows, env)
    whole, rows = compute_subqueries(resolve(condition, rows.scope, env), rows, env)
    return rows.filter_rows(to_expr(whole))


def _keep_by_existence(query: exp.Query, negated: bool, rows: Relation, env: Env) -> Relation:
    side = bind_side(query, rows, env, values=False)
    if not side.free_standing:
        return rows.with_plan(side.join_to(rows.plan, JoinKind.ANTI if negated else JoinKind.SEMI))
    some, rows = _ask_for_rows(side, rows, env)
    return rows.filter_rows(Not(column(some)) if negated else column(some))


def _ask_for_rows(side: Side, rows: Relation, env: Env) -> tuple[str, Relation]:
    """Whether a subquery has rows: a column beside every row."""
    found = _reduce_to_one_row(side.plan, env)
    return found.columns[0], rows.with_plan(Join(rows.plan, found, JoinKind.INNER))


def _reduce_to_one_row(plan: Operator, env: Env) -> Operator:
    """Whether there are rows at all; who reads it is not bothered while that stays the same."""
    count, some = env.fresh("n"), env.fresh("some")
    grouped = Aggregate(plan, (), (), count)
    return Materialized(Project(grouped, (Output(some, Comparison(">", column(count), integer(0))),)))


def _keep_by_membership(node: exp.In, negated: bool, rows: Relation, env: Env) -> Relation:
    left = _bind_members(node.this, rows, env)
    side = bind_side(read_subquery(node.args["query"]), rows, env, values=True)
    _require_same_width(left, side)
    pairs = _bind_member_keys(left, side, rows, env)
    if not negated:
        return rows.with_plan(side.add_conditions(keys=pairs).join_to(rows.plan, JoinKind.SEMI))
    if side.free_standing and len(left) == 1:
        return _keep_outsiders(left[0], side, pairs, rows, env)
    maybe = Function("coalesce", (_compare_pairs(pairs), TRUE))  # an unknown answer drops the row as well
    return rows.with_plan(side.add_conditions(residual=(maybe,)).join_to(rows.plan, JoinKind.ANTI))


def _keep_outsiders(left: Expr, side: Side, pairs: tuple[KeyPair, ...], rows: Relation, env: Env) -> Relation:
    """x NOT IN (…): no equal, no NULL among them, and x is not NULL unless there are none at all."""
    rows = rows.with_plan(side.add_conditions(keys=pairs).join_to(rows.plan, JoinKind.ANTI))
    whole, empty, rows = _compute_facts(side, rows, env)
    known = Brackets(And((column(whole), is_not_null(left))))
    return rows.filter_rows(Or((column(empty), known)))


def _compare_pairs(pairs: tuple[KeyPair, ...]) -> Expr:
    return all_of([Comparison("=", Brackets(p.left), Brackets(p.right)) for p in pairs])


def _compute_facts(side: Side, rows: Relation, env: Env) -> tuple[str, str, Relation]:
    """Whether a list is without NULL, and whether it is empty: columns beside every row."""
    value = side.outputs[0]
    nulls, count = env.fresh("nulls"), env.fresh("n")
    term = Case(((Is(Brackets(value), NULL), integer(1)),), integer(0))
    call = Call(nulls, Opaque(f"coalesce(sum({term.sql}), 0)", term.columns), term, "BIGINT")
    grouped = Aggregate(side.plan, (), (call,), count)
    whole, empty = env.fresh("whole"), env.fresh("empty")
    facts = Project(
        grouped,
        (
            Output(whole, Comparison("=", column(nulls), integer(0))),
            Output(empty, Comparison("=", column(count), integer(0))),
        ),
    )
    return whole, empty, rows.with_plan(Join(rows.plan, Materialized(facts), JoinKind.INNER))


def _bind_members(node: exp.Expr, rows: Relation, env: Env) -> tuple[Expr, ...]:
    parts = node.expressions if isinstance(node, exp.Tuple) else [node]
    return tuple(to_expr(resolve(p, rows.scope, env)) for p in parts)


def _bind_member_keys(left: tuple[Expr, ...], side: Side, rows: Relation, env: Env) -> tuple[KeyPair, ...]:
    pairs = tuple(KeyPair(a, b) for a, b in zip(left, side.outputs, strict=True))
    return align_types(pairs, rows.plan, side.plan, env)


def _require_same_width(left: tuple[Expr, ...], side: Side) -> None:
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


def compute_subqueries(node: exp.Expr, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """The expression with a column in place of each subquery, and the rows with these columns."""

    def compute_part(part: exp.Expr, rows: Relation) -> tuple[exp.Expr, Relation] | None:
        return _compute_value(part, rows, env) if is_subquery_value(part) else None

    return rewrite_with(node, rows, compute_part) if contains(node, is_subquery) else (node, rows)


def _compute_value(node: exp.Expr, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    match node:
        case exp.Exists():
            return _compute_exists(read_existence(node), rows, env)
        case exp.In():
            return _compute_membership(node, rows, env)
        case exp.Binary():
            return _compute_quantified(node, rows, env)
    return _compute_scalar(read_subquery(node), rows, env)


def _compute_exists(query: exp.Query, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    side = bind_side(query, rows, env, values=False)
    if not side.free_standing:
        return _mark_rows(side, rows, env)
    some, rows = _ask_for_rows(side, rows, env)
    return write_column(some), rows


def _mark_rows(side: Side, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """Whether a row has a match on the side: a column beside it."""
    mark = env.fresh("mark")
    return write_column(mark), rows.with_plan(side.join_to(rows.plan, JoinKind.MARK, mark))


def _compute_membership(node: exp.In, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """x IN (…) is true, false, or unknown because of a NULL."""
    left, rows = _compute_members(node.this, rows, env)
    side = _read_twice(bind_side(read_subquery(node.args["query"]), rows, env, values=True))
    _require_same_width(left, side)
    pairs = _bind_member_keys(left, side, rows, env)
    hit, rows = _mark_rows(side.add_conditions(keys=pairs), rows, env)
    if side.free_standing and len(left) == 1:
        whole, empty, rows = _compute_facts(side, rows, env)
        test = f"NOT `{empty}` AND (NOT `{whole}` OR ({left[0].sql}) IS NULL)"
        unknown = parse_expression(test, left[0].columns | {whole, empty})
        return _write_three_valued(hit, unknown, True), rows
    unknown, rows = _mark_rows(
        side.add_conditions(residual=(Is(Brackets(_compare_pairs(pairs)), NULL),)), rows, env
    )
    return _write_three_valued(hit, unknown, True), rows


def _compute_members(node: exp.Expr, rows: Relation, env: Env) -> tuple[tuple[Expr, ...], Relation]:
    members: list[Expr] = []
    for part in node.expressions if isinstance(node, exp.Tuple) else [node]:
        value, rows = compute_subqueries(part, rows, env)
        members.append(to_expr(value))
    return tuple(members), rows


def _read_twice(side: Side) -> Side:
    """Rows that two tests look at. If they were tested so themselves, they are kept in a table of their own:
    otherwise the text would be several times as long with every level.
    """
    if not any(isinstance(op, Join) and op.kind is JoinKind.MARK for op in side.plan.walk()):
        return side
    return replace(side, plan=Materialized(side.plan))


def _write_three_valued(hit: exp.Expr, unknown: exp.Expr, answer: bool) -> exp.Expr:
    return exp.Paren(
        this=exp.Case(
            ifs=[
                exp.If(this=hit, true=exp.Boolean(this=answer)),
                exp.If(this=unknown, true=exp.Null()),
            ],
            default=exp.Boolean(this=not answer),
        )
    )


def _compute_quantified(node: exp.Binary, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """x > ANY (…) looks for a hit, x > ALL (…) for a miss."""
    value, rows = compute_subqueries(node.this, rows, env)
    left = to_expr(value)
    every = isinstance(node.expression, exp.All)
    side = _read_twice(bind_side(read_subquery(node.expression.this), rows, env, values=True))
    _require_same_width((left,), side)
    right = side.outputs[0]
    compared = Brackets(Comparison(_COMPARISONS[type(node)], Brackets(left), Brackets(right)))
    looked_for = Not(compared) if every else compared
    hit, rows = _mark_rows(side.add_conditions(residual=(looked_for,)), rows, env)
    unknown, rows = _mark_rows(side.add_conditions(residual=(Is(compared, NULL),)), rows, env)
    return _write_three_valued(hit, unknown, not every), rows


def _compute_scalar(query: exp.Query, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """The one value of a subquery, NULL if it has no row; more than one row is an error when it happens."""
    if _can_be_grouped(query, rows, env):
        assert isinstance(query, exp.Select)
        return _compute_grouped(query, rows, env)
    body, keys = bind_dependent(query, rows, env)
    if len(body.outputs) != 1:
        raise InvalidDefinitionError("a subquery in an expression needs exactly one column", "Select one.")
    if not body.single:
        body = _refuse_several_rows(body, env)
    pairs = tuple(KeyPair(k.left, column(g), True) for k, g in zip(keys, body.given, strict=True))
    plan = body.plan if pairs else Materialized(body.plan)
    joined = Join(rows.plan, plan, JoinKind.LEFT if pairs else JoinKind.INNER, pairs)
    return write_column(body.columns[0]), rows.with_plan(joined)


def _refuse_several_rows(body: Bound, env: Env) -> Bound:
    """One row, or one for each given value, whose value is an error if there were more."""
    value, count = env.fresh("value"), env.fresh("n")
    call = Call(value, Function("any_value", (column(body.columns[0]),)))
    given = tuple(Output(env.fresh("g"), column(g)) for g in body.given)
    grouped = Aggregate(body.plan, given, (call,), count)
    several = Comparison(">", column(count), integer(1))
    guarded = Case(((several, Opaque(f"raise_error({_SEVERAL_ROWS})")),), column(value))
    result = env.fresh("value")
    names = tuple(g.name for g in given)
    single = Project(grouped, (*keep_columns(names), Output(result, guarded)))
    return Bound(single, ((body.outputs[0][0], result),), names, single=True)


def _can_be_grouped(query: exp.Query, rows: Relation, env: Env) -> bool:
    """Whether it is SELECT agg(x) FROM … WHERE inner = outer, and uses the outer query nowhere else."""
    if env.trial or not isinstance(query, exp.Select) or len(query.expressions) != 1:
        return False
    if any(query.args.get(k) for k in (*MORE_THAN_ROWS, "group", "having", "distinct")):
        return False
    node = query.expressions[0].unalias()
    if not has_aggregate(node) or contains(node, is_subquery):
        return False
    tried = try_conditions(query, rows, env)
    if tried is None or tried.conditions.residual or not tried.conditions.keys:
        return False
    return not find_outer_columns_of(resolve(node, tried.source.scope, tried.env), tried.source)


def _compute_grouped(query: exp.Select, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """The rows grouped by the inner side of the keys, and joined to the outer.

    The value is computed above the join: a count without rows is 0, not NULL.
    """
    inner, keys, _ = bind_rows_and_conditions(query, rows, env)
    inside = env.for_subquery(rows.scope)
    value = resolve(query.expressions[0].unalias(), inner.scope, inside)
    columns = tuple(Output(env.fresh("key"), k.right) for k in keys)
    keyed = replace(inner, plan=add_outputs(inner.plan, columns), given=tuple(c.name for c in columns))
    tail, grouped = bind_aggregate(query, Tail((Item("value", value),)), keyed, inside)
    pairs = tuple(KeyPair(k.left, column(c), k.null_safe) for k, c in zip(keys, grouped.given, strict=True))
    joined = Join(rows.plan, grouped.plan, JoinKind.LEFT, pairs)
    return exp.Paren(this=tail.items[0].node), rows.with_plan(joined)

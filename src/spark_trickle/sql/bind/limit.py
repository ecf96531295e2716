"""ORDER BY and LIMIT -> the first rows of a result, for every given value if there are some."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from spark_trickle.algebra.expressions import And, Comparison, integer
from spark_trickle.algebra.operators import Filter, Operator, Project, column
from spark_trickle.algebra.stateful_operators import Buffer, SortKey, TopK
from spark_trickle.errors import UnsupportedError
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import rewrite, to_expr, with_fields, write_column
from spark_trickle.sql.bind.plans import keep_columns, number_rows
from spark_trickle.sql.bind.positions import is_all, is_position, read_keys, read_position
from spark_trickle.sql.bind.scope import Bound

_LARGEST_LIMIT = 2_147_483_647
_LARGEST_BUFFER = 10_000
_SPARE_ROWS = 100


def bind_order_and_limit(node: exp.Expr, body: Bound, env: Env) -> Bound:
    """ORDER BY of a result that is complete: its keys are columns of the result."""
    keys = read_keys(node.args.get("order"))
    if is_all(keys) and "all" not in (n.lower() for n, _ in body.outputs):
        return bind_limit(node, body, [make_sort_key(keys[0], write_column(c)) for c in body.columns], env)
    return bind_limit(node, body, [make_sort_key(o, _find_in_output(o.this, body)) for o in keys], env)


def _find_in_output(node: exp.Expr, body: Bound) -> exp.Expr:
    def replace_name(part: exp.Expr) -> exp.Expr | None:
        if not isinstance(part, exp.Column):
            return None
        first, *rest = (p.name for p in part.parts)
        if rest and (struct := list_columns(first)):
            return with_fields(write_column(struct[0]), rest)
        if len(columns := list_columns(part.name)) == 1:
            return write_column(columns[0])
        raise UnsupportedError(
            f'ORDER BY "{part.name}" after a set operation', "Order by a column of the result."
        )

    def list_columns(name: str) -> list[str]:
        return [c for n, c in body.outputs if n.lower() == name.lower()]

    if is_position(node):
        return write_column(body.columns[read_position(node, len(body.columns), "ORDER BY")])
    return rewrite(node, replace_name)


def make_sort_key(ordered: exp.Ordered, resolved: exp.Expr) -> SortKey:
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return SortKey(
        to_expr(resolved), descending, (not descending) if nulls_first is None else bool(nulls_first)
    )


def bind_limit(node: exp.Expr, body: Bound, order: list[SortKey], env: Env) -> Bound:
    """Without a limit an order means nothing to a table."""
    limit, offset = read_number(node, "limit"), read_number(node, "offset") or 0
    if limit is None and not offset:
        return body
    if body.given:
        return _limit_for_each(body, order, limit, offset, env)
    if limit is None or not order or offset + limit > _LARGEST_BUFFER:
        return replace(body, plan=TopK(body.plan, tuple(order), limit, offset))
    return replace(body, plan=_buffer_rows(body, order, limit, offset))


def _buffer_rows(body: Bound, order: list[SortKey], limit: int, offset: int) -> Operator:
    """The first rows of a buffer; all columns are part of its order, so that only equal rows are ties."""
    used = frozenset(body.columns).union(*(k.expr.columns for k in order))
    needed = tuple(c for c in body.plan.columns if c in used)
    everything = (*order, *(SortKey(column(c), False, True) for c in needed))
    need = offset + limit
    buffer = Buffer(Project(body.plan, keep_columns(needed)), everything, need, need + max(need, _SPARE_ROWS))
    return TopK(buffer, everything, limit, offset, buffered=True)


def _limit_for_each(body: Bound, order: list[SortKey], limit: int | None, offset: int, env: Env) -> Bound:
    """The first rows for every given value."""
    plan, place_name = number_rows(body.plan, [column(g) for g in body.given], order, env)
    last = _LARGEST_LIMIT if limit is None else offset + limit
    place = column(place_name)
    test = And((Comparison(">", place, integer(offset)), Comparison("<=", place, integer(last))))
    return replace(body, plan=Filter(plan, test))


def read_number(node: exp.Expr, clause: str) -> int | None:
    """The number in LIMIT or OFFSET; none if there is no such clause, or if it says ALL."""
    written = node.args.get(clause)
    if written is None:
        return None
    value = simplify(written.expression.copy())
    if isinstance(value, exp.Literal) and not value.is_string:
        number = read_whole_number(str(value.this))
        if number is not None:
            return min(number, _LARGEST_LIMIT)
    if isinstance(value, exp.Column | exp.Var) and value.name.upper() == "ALL":
        return None
    raise UnsupportedError(f"{clause.upper()} with anything but a number", "Write the number itself.")

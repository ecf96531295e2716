"""A query -> a tree of operators, with the names of its columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from spark_trickle.algebra.operators import (
    Aggregate,
    Buffer,
    Constant,
    Expr,
    Filter,
    Join,
    JoinKind,
    Operator,
    Output,
    Project,
    Settled,
    SortKey,
    TopK,
    Window,
    column,
)
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.expressions import bound, rewritten, to_expr, with_fields
from spark_trickle.sql.bind.named_windows import with_windows_written_out
from spark_trickle.sql.bind.positions import is_all, is_position, keys_of, position_of
from spark_trickle.sql.bind.scope import Bound, Find, Scope, Types
from spark_trickle.sql.dialect.depth import room_to_recurse
from spark_trickle.sql.dialect.spark import parse_query
from spark_trickle.sql.lexer.places import placed

_LARGEST_LIMIT = 2_147_483_647
_LARGEST_BUFFER = 10_000
_SPARE_ROWS = 100


@dataclass(frozen=True)
class Given:
    """What a correlated subquery may know of the rows around it: all different values of some columns."""

    plan: Operator
    columns: Mapping[str, str]  # column of the outer query -> column of `plan`


@dataclass(frozen=True)
class Unbound:
    """A CTE that uses columns of the query around: it is bound wherever it is read."""

    query: exp.Query
    names: list[str]
    env: Env


@dataclass(frozen=True)
class Env:
    """What surrounds a query: tables, CTEs, and the query it is a part of."""

    find: Find
    types: Types
    home: str
    numbers: Iterator[int] = field(default_factory=count)
    ctes: Mapping[str, Bound | Unbound] = field(default_factory=dict)
    outer: Scope | None = None
    given: Given | None = None
    free: set[str] = field(default_factory=set)  # columns of the outer query that were used
    depth: int = 0  # of views in views
    exact_floats: bool = False  # sums of doubles are computed again, not added to
    trial: bool = False  # only to find out which columns of the outer query are used

    def fresh(self, name: str) -> str:
        """A column name that no other has."""
        return f"{re.sub(r'[^A-Za-z0-9]+', '_', name).strip('_')[:30] or 'c'}_{next(self.numbers)}"

    def inner(self) -> Env:
        """For a query that sees nothing of the rows around it."""
        return replace(self, outer=None, given=None, free=set())

    def on_trial(self) -> Env:
        """To bind a query only for the columns of the outer query that it uses: they come to be in `free`."""
        return replace(self, given=None, free=set(), trial=True, types=_no_types)


def _no_types(op: Operator) -> dict[str, str]:
    """In a trial the tree lacks the outer columns, so Spark cannot be asked about it."""
    return dict.fromkeys(op.columns, "int")


def bind(sql: str, find: Find, types: Types, home: str, exact_floats: bool = False) -> Bound:
    """The tree of a whole query."""
    with room_to_recurse():
        return bind_query(read_query(sql), Env(find, types, home, exact_floats=exact_floats))


def read_query(sql: str) -> exp.Query:
    """A text as a tree that can be bound part by part."""
    return with_windows_written_out(parse_query(sql))


def bind_query(node: exp.Query, env: Env) -> Bound:
    if node.args.get("with_"):
        env = replace(env, ctes={**env.ctes, **_ctes(node.args["with_"], env)})
    match node:
        case exp.Subquery():
            return _wrapped(node, env)
        case exp.SetOperation():
            from spark_trickle.sql.bind.set_operations import bind_set_operation

            return bind_set_operation(node, env)
        case exp.Values():
            return _beside_given(bind_values(node, env), env)
        case exp.Select():
            from spark_trickle.sql.bind.select import bind_select

            with placed(node):
                return bind_select(node, env)
    raise UnsupportedError(f"{type(node).__name__.upper()} in a stream table", "Write it as a SELECT.")


def bind_derived(query: exp.Query, env: Env) -> Bound:
    """A query in FROM: it sees the rows around the query that it is a part of, but not its neighbours."""
    if env.outer is None:
        return bind_query(query, env.inner())
    if env.trial:
        return bind_query(query, env)
    trial = env.on_trial()
    body = bind_query(query, trial)
    env.free.update(trial.free)
    if not trial.free:
        return bind_query(query, env.inner())
    # Without given values this was only to find out what it uses: who asked comes back with them.
    return bind_query(query, env) if env.given is not None else body


def _ctes(clause: exp.With, env: Env) -> dict[str, Bound | Unbound]:
    found: dict[str, Bound | Unbound] = {}
    for cte in clause.expressions:
        name = cte.alias_or_name
        inside = replace(env.inner(), ctes={**env.ctes, **found})
        names = [i.name for i in cte.args["alias"].args.get("columns") or ()]
        if clause.args.get("recursive") and _reads(cte.this, name):
            from spark_trickle.sql.bind.recursive import bind_recursive

            found[name.lower()] = bind_recursive(name, cte.this, names, inside)
        elif _uses_outside(cte.this, replace(inside, outer=env.outer)):
            found[name.lower()] = Unbound(cte.this, names, replace(inside, outer=env.outer))
        else:
            found[name.lower()] = with_names(bind_query(cte.this, inside), names)
    return found


def _uses_outside(query: exp.Query, env: Env) -> bool:
    if env.outer is None:
        return False
    trial = env.on_trial()
    bind_query(query, trial)
    return bool(trial.free)


def _reads(query: exp.Expr, name: str) -> bool:
    return any(t.name.lower() == name.lower() and not t.db for t in query.find_all(exp.Table))


def with_names(body: Bound, names: list[str]) -> Bound:
    if not names:
        return body
    if len(names) != len(body.outputs):
        raise InvalidDefinitionError(
            f"{len(names)} names for {len(body.outputs)} columns", "Name every column of the query."
        )
    return replace(body, outputs=tuple((n, c) for n, (_, c) in zip(names, body.outputs, strict=True)))


def _wrapped(node: exp.Subquery, env: Env) -> Bound:
    inner = bind_query(node.this, env)
    return bind_order_and_limit(node, inner, env)


def _beside_given(body: Bound, env: Env) -> Bound:
    """The same rows for all values that a subquery is computed for."""
    if env.given is None or body.given:
        return body
    return replace(
        body, plan=Join(env.given.plan, body.plan, JoinKind.INNER), given=tuple(env.given.columns.values())
    )


def bind_values(node: exp.Values, env: Env) -> Bound:
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions]
    written = [i.name for i in (node.args.get("alias") or exp.TableAlias()).args.get("columns") or ()]
    labels = [f"col{n + 1}" for n in range(len(rows[0]))]
    if env.outer is not None and any(v.find(exp.Column, exp.Query) for row in rows for v in row):
        return with_names(bind_derived(_as_union(rows), env), written or labels)
    names = tuple(env.fresh(n) for n in labels)
    constant = Constant(names, tuple(tuple(_constant(v, env) for v in row) for row in rows))
    return with_names(Bound(constant, tuple(zip(labels, names, strict=True))), written)


def _constant(node: exp.Expr, env: Env) -> Expr:
    from spark_trickle.sql.bind.resolve import resolve

    return to_expr(resolve(node, Scope(), env))


def _as_union(rows: list[list[exp.Expr]]) -> exp.Query:
    """Values that name columns of the outer query are computed like any others."""
    found: exp.Query = exp.select(*(v.copy() for v in rows[0]))
    for row in rows[1:]:
        found = exp.Union(this=found, expression=exp.select(*(v.copy() for v in row)), distinct=False)
    return found


def outputs(columns: tuple[str, ...]) -> tuple[Output, ...]:
    return tuple(Output(c, column(c)) for c in columns)


def rename_apart(op: Operator, env: Env) -> Operator:
    """The same rows under new names, so that a tree can stand beside itself."""
    return Project(op, tuple(Output(env.fresh(re.sub(r"_\d+$", "", c)), column(c)) for c in op.columns))


def distinct_rows(plan: Operator, env: Env) -> Operator:
    """Each different row once: a group for each, without the count that its table keeps."""
    keys = tuple(Output(env.fresh(re.sub(r"_\d+$", "", c)), column(c)) for c in plan.columns)
    grouped = Aggregate(plan, keys, (), env.fresh("n"))
    return Settled(Project(grouped, outputs(tuple(k.name for k in keys))))


# --- ORDER BY and LIMIT ------------------------------------------------------------------------------


def bind_order_and_limit(node: exp.Expr, body: Bound, env: Env) -> Bound:
    """ORDER BY of a result that is complete: its keys are columns of the result."""
    keys = keys_of(node.args.get("order"))
    if is_all(keys) and "all" not in (n.lower() for n, _ in body.outputs):
        return bind_limit(node, body, [sort_key(keys[0], bound(c)) for c in body.columns], env)
    return bind_limit(node, body, [sort_key(o, _in_output(o.this, body)) for o in keys], env)


def _in_output(node: exp.Expr, body: Bound) -> exp.Expr:
    def change(part: exp.Expr) -> exp.Expr | None:
        if not isinstance(part, exp.Column):
            return None
        first, *rest = (p.name for p in part.parts)
        if rest and (struct := named(first)):
            return with_fields(bound(struct[0]), rest)
        if len(found := named(part.name)) == 1:
            return bound(found[0])
        raise UnsupportedError(
            f'ORDER BY "{part.name}" after a set operation', "Order by a column of the result."
        )

    def named(name: str) -> list[str]:
        return [c for n, c in body.outputs if n.lower() == name.lower()]

    if is_position(node):
        return bound(body.columns[position_of(node, len(body.columns), "ORDER BY")])
    return rewritten(node, change)


def sort_key(ordered: exp.Ordered, resolved: exp.Expr) -> SortKey:
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return SortKey(
        to_expr(resolved), descending, (not descending) if nulls_first is None else bool(nulls_first)
    )


def bind_limit(node: exp.Expr, body: Bound, order: list[SortKey], env: Env) -> Bound:
    """Without a limit an order means nothing to a table."""
    limit, offset = number_in(node, "limit"), number_in(node, "offset") or 0
    if limit is None and not offset:
        return body
    if body.given:
        return _limited_for_each(body, order, limit, offset, env)
    if limit is None or not order or offset + limit > _LARGEST_BUFFER:
        return replace(body, plan=TopK(body.plan, tuple(order), limit, offset))
    return replace(body, plan=_buffered(body, order, limit, offset))


def _buffered(body: Bound, order: list[SortKey], limit: int, offset: int) -> Operator:
    """The first rows of a buffer; all columns are part of its order, so that only equal rows are ties."""
    used = frozenset(body.columns).union(*(k.expr.columns for k in order))
    needed = tuple(c for c in body.plan.columns if c in used)
    everything = (*order, *(SortKey(column(c), False, True) for c in needed))
    need = offset + limit
    buffer = Buffer(Project(body.plan, outputs(needed)), everything, need, need + max(need, _SPARE_ROWS))
    return TopK(buffer, everything, limit, offset, buffered=True)


def _limited_for_each(body: Bound, order: list[SortKey], limit: int | None, offset: int, env: Env) -> Bound:
    """The first rows for every given value."""
    partition = tuple(column(g) for g in body.given)
    by = ", ".join(p.sql for p in partition)
    ordering = ", ".join(k.sql for k in order) or "1"
    used = frozenset(body.given).union(*(k.expr.columns for k in order))
    number = env.fresh("rn")
    call = Expr(f"row_number() OVER (PARTITION BY {by} ORDER BY {ordering})", used)
    last = _LARGEST_LIMIT if limit is None else offset + limit
    plan = Window(body.plan, partition, (Output(number, call),))
    kept = Filter(plan, Expr(f"`{number}` > {offset} AND `{number}` <= {last}", frozenset((number,))))
    return replace(body, plan=kept)


def number_in(node: exp.Expr, clause: str) -> int | None:
    found = node.args.get(clause)
    if found is None:
        return None
    value = simplify(found.expression.copy())
    if isinstance(value, exp.Literal) and not value.is_string and str(value.this).isdigit():
        return min(int(value.this), _LARGEST_LIMIT)
    if isinstance(value, exp.Column | exp.Var) and value.name.upper() == "ALL":
        return None
    raise UnsupportedError(f"{clause.upper()} of anything but a number", "Write the number itself.")

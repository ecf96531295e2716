"""GROUP BY and aggregate functions -> an Aggregate, and expressions over its columns.

Functions that are sums over rows are taken apart into sums, so that a change of a group follows from the
change of its rows: avg(x) is a sum and a count. All others are kept as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.conditions import all_of
from spark_trickle.algebra.expressions import TRUE, Brackets, Expr, is_not_null
from spark_trickle.algebra.operators import (
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    column,
)
from spark_trickle.algebra.stateful_operators import Aggregate, Call
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.bind.aggregates import WRAPPERS, call_name
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import (
    SUBQUERIES,
    contains,
    is_bound,
    is_subquery,
    rewrite,
    rewrite_with,
    to_expr,
    write_column,
)
from spark_trickle.sql.bind.groups import Groups, bind_groups, compute_keys, expand_grouping_sets, hint_name
from spark_trickle.sql.bind.listed_names import read_other_meaning
from spark_trickle.sql.bind.plans import keep_columns
from spark_trickle.sql.bind.scope import Relation
from spark_trickle.sql.bind.statistics import STATISTICS, write_statistic
from spark_trickle.sql.bind.sums import (
    Sums,
    read_sql,
    write_exclusive_or,
    write_extremum,
    write_sum_or_average,
    write_truth,
)
from spark_trickle.sql.bind.tail import Tail
from spark_trickle.sql.dialect.spark import sql_of


def bind_aggregate(select: exp.Select, tail: Tail, rows: Relation, env: Env) -> tuple[Tail, Relation]:
    """The groups of the rows, and what is computed above them over their columns."""
    groups, tail, rows = bind_groups(select, tail, rows, env)
    named = [Output(env.fresh(hint_name(k)), to_expr(k)) for k in groups.keys]
    gid = None
    named, rows = compute_keys(groups, named, rows, env)
    if not groups.plain:
        named, gid, rows = expand_grouping_sets(groups, named, rows, env)
    count = env.fresh("n")
    tail, rows = tail.map_with(rows, lambda node, rows: _compute_arguments(node, rows, env))
    return _Aggregation(rows, env, groups, named, gid, count).bind_groups(select, tail)


def _compute_arguments(node: exp.Expr, rows: Relation, env: Env) -> tuple[exp.Expr, Relation]:
    """Subqueries inside the arguments belong to the rows before grouping."""

    def compute_argument(part: exp.Expr, rows: Relation) -> tuple[exp.Expr, Relation] | None:
        if isinstance(part, SUBQUERIES):
            return part.copy(), rows
        if call_name(part) and contains(part, is_subquery):
            return env.binder.compute_subqueries(part, rows, env)
        return None

    return rewrite_with(node, rows, compute_argument)


class _Aggregation:
    """Collects the calls of one GROUP BY while the expressions above it are rewritten."""

    def __init__(
        self, rows: Relation, env: Env, groups: Groups, keys: list[Output], gid: str | None, count: str
    ) -> None:
        self._rows = rows
        self._env = env
        self._groups = groups
        self._keys = keys
        self._gid = gid
        self._by_text = {sql_of(k): o.name for k, o in zip(groups.keys, keys, strict=False)}
        self._sums = Sums(rows.plan, env)
        self._count = count
        self._counts_rows = False  # whether some expression asks for that number
        self._finals: dict[str, exp.Expr] = {}
        self._distinct: dict[str, _DistinctPart] = {}

    def bind_groups(self, select: exp.Select, tail: Tail) -> tuple[Tail, Relation]:
        above = tail.map(self._rewrite_above)
        given = [Output(self._env.fresh("g"), column(g)) for g in self._rows.given]
        grouped = self._join_parts(
            Aggregate(self._rows.plan, (*given, *self._keys), self._sums.calls, self._count)
        )
        plan = self._add_given(grouped, [g.name for g in given], select)
        keys = zip(self._groups.keys, self._keys, strict=False)
        renamed = {k.name: o.name for k, o in keys if is_bound(k)}  # from here on names mean keys
        return above, replace(self._rows, plan=plan, scope=replace(self._rows.scope, renamed=renamed))

    def _add_given(self, plan: Operator, names: list[str], select: exp.Select) -> Operator:
        """The given values by the names they had; without GROUP BY there is a row for every one of them."""
        before, given = self._rows.given, self._env.given
        if not before:
            return plan
        if given is not None and not self._groups.keys and not select.args.get("group"):
            pairs = tuple(KeyPair(column(b), column(n), True) for b, n in zip(before, names, strict=True))
            return Join(given.plan, plan, JoinKind.LEFT, pairs)
        carried = (Output(b, column(n)) for b, n in zip(before, names, strict=True))
        return Project(plan, (*carried, *keep_columns([c for c in plan.columns if c not in names])))

    # --- expressions above -----------------------------------------------------------------------

    def _rewrite_above(self, node: exp.Expr) -> exp.Expr:
        def rewrite_part(part: exp.Expr) -> exp.Expr | None:
            if isinstance(part, SUBQUERIES):
                return part.copy()
            if (key := self._by_text.get(sql_of(part))) is not None:
                return write_column(key)
            if isinstance(part, exp.Window):
                return self._rewrite_window(part)
            if name := call_name(part):
                return self._rewrite_call(part, name)
            if is_bound(part) and part.name not in set(self._by_text.values()) | set(self._rows.given):
                if (listed := read_other_meaning(part)) is not None:
                    return self._rewrite_above(listed)
                raise InvalidDefinitionError(
                    f'column "{re.sub(r"_[0-9]+$", "", part.name)}" is neither grouped nor aggregated',
                    "Add it to GROUP BY, or wrap it in any_value().",
                )
            return None

        return rewrite(node, rewrite_part)

    def _rewrite_window(self, node: exp.Window) -> exp.Expr:
        """The function of a window is no aggregate of the group; what is inside it may be."""
        rest = {k: self._rewrite_deep(v) for k, v in node.args.items() if k != "this"}
        return exp.Window(this=self._rewrite_function(node.this), **rest)

    def _rewrite_function(self, node: exp.Expr) -> exp.Expr:
        own = isinstance(node, WRAPPERS)
        parts = {
            k: self._rewrite_function(v) if own and k == "this" else self._rewrite_deep(v)
            for k, v in node.args.items()
        }
        new = node.__class__(**parts)
        new.meta.update(node.meta)
        return new

    def _rewrite_deep(self, value: object) -> object:
        if isinstance(value, exp.Expr):
            return self._rewrite_above(value)
        if isinstance(value, list):
            return [self._rewrite_deep(v) for v in value]
        return value

    # --- calls -----------------------------------------------------------------------------------

    def _rewrite_call(self, node: exp.Expr, name: str) -> exp.Expr:
        text = sql_of(node)
        if text not in self._finals:
            self._finals[text] = self._write_final(node, name)
        return self._finals[text].copy()

    def _write_final(self, node: exp.Expr, name: str) -> exp.Expr:
        if name in ("grouping", "grouping_id"):
            return self._write_grouping(node, name)
        condition, inner = None, node
        if isinstance(inner, exp.Filter):
            condition, inner = to_expr(inner.expression.this), inner.this
        arguments = _list_arguments(inner)
        if arguments is not None:
            if any(isinstance(a, exp.Distinct) for a in arguments):
                taken_apart = self._write_distinct(name, arguments, condition)
            else:
                taken_apart = self._write_algebraic(name, arguments, condition)
            if taken_apart is not None:
                return taken_apart
        plain = write_column(self._sums.add_call(Call(self._env.fresh(name), to_expr(node))))
        if name in ("count", "count_if", "approx_count_distinct", "regr_count"):
            return exp.Coalesce(this=plain, expressions=[exp.Literal.number(0)])
        if name in ("collect_list", "collect_set", "array_agg"):
            return exp.Coalesce(this=plain, expressions=[exp.Anonymous(this="array", expressions=[])])
        return plain

    def _write_algebraic(
        self, name: str, arguments: list[exp.Expr], condition: Expr | None
    ) -> exp.Expr | None:
        """The function as an expression over sums, or None if it is not one."""
        allowed = Brackets(condition) if condition else TRUE
        if name == "count" and (
            not arguments
            or isinstance(arguments[0], exp.Star)
            or all(isinstance(a, exp.Literal) for a in arguments)
        ):
            if condition is None:
                self._counts_rows = True
                return read_sql(f"coalesce(`{self._count}`, 0)", self._count)
            return self._write_count(self._sums.add_count(allowed))
        args = [to_expr(a) for a in arguments]
        if name == "count" or (name == "regr_count" and len(args) == 2):
            present = [is_not_null(a) for a in args]
            return self._write_count(self._sums.add_count(all_of([allowed, *present])))
        if name == "count_if" and len(args) == 1:
            return self._write_count(self._sums.add_count(all_of([allowed, Brackets(args[0])])))
        if name in ("regr_avgx", "regr_avgy") and len(args) == 2:
            other, arg = args if name == "regr_avgx" else reversed(args)
            return write_sum_or_average(self._sums, "avg", arg, all_of([allowed, is_not_null(other)]))
        if len(args) == 1 and (make := _OF_ONE.get(name)):
            return make(self._sums, name, args[0], allowed)
        if len(args) == STATISTICS.get(name):
            return write_statistic(self._sums, name, args, allowed)
        return None

    # --- DISTINCT ----------------------------------------------------------------------------------

    def _write_distinct(
        self, name: str, arguments: list[exp.Expr], condition: Expr | None
    ) -> exp.Expr | None:
        """The same function without DISTINCT, over the different values of each group."""
        values = arguments[0].expressions if isinstance(arguments[0], exp.Distinct) else []
        if len(arguments) != 1 or not values:
            return None
        if name in _SAME_OF_DISTINCT:
            return self._write_algebraic(name, values, condition)
        if name not in _OF_DISTINCT:
            return None
        text = f"{[sql_of(v) for v in values]} {condition.sql if condition else ''}"
        part = self._distinct.get(text) or self._make_distinct_part(values, condition)
        final = part.calls._write_algebraic(name, [write_column(c) for c in part.values], None)
        if final is not None:
            self._distinct[text] = part
        return final

    def _make_distinct_part(self, values: list[exp.Expr], condition: Expr | None) -> _DistinctPart:
        """Each different value of a group once: a node of its own, which counts how often it is there."""
        fresh = self._env.fresh
        plan = self._rows.plan if condition is None else Filter(self._rows.plan, condition)
        keys = [Output(fresh("k"), column(g)) for g in self._rows.given]
        keys += [Output(fresh("k"), k.expr) for k in self._keys]
        named = [Output(fresh("v"), to_expr(v)) for v in values]
        inner = Aggregate(plan, (*keys, *named), (), fresh("n"))
        calls = _Aggregation(Relation(inner, self._rows.scope), self._env, Groups(), [], None, fresh("n"))
        outer = tuple(Output(fresh("k"), column(k.name)) for k in keys)
        return _DistinctPart(calls, outer, tuple(v.name for v in named), condition is None)

    def _join_parts(self, plain: Aggregate) -> Operator:
        """The groups with what is known of their different values beside them."""
        parts = list(self._distinct.values())
        if len(parts) == 1 and parts[0].has_all_groups and not plain.calls and not self._counts_rows:
            made = parts[0].build_aggregate()
            keys = zip(plain.keys, parts[0].keys, strict=True)
            shown = tuple(Output(k.name, column(other.name)) for k, other in keys)
            return Project(made, (*shown, *keep_columns(made.columns[len(shown) :])))
        plan = self._sums.add_derived(plain)
        for part in parts:
            pairs = tuple(
                KeyPair(column(mine.name), column(other.name), True)
                for mine, other in zip(plain.keys, part.keys, strict=True)
            )
            kind = JoinKind.LEFT if pairs else JoinKind.INNER  # without keys each has just one row
            plan = Join(plan, part.build_aggregate(), kind, pairs)
        return plan

    def _write_count(self, name: str) -> exp.Expr:
        return read_sql(f"coalesce(`{name}`, 0)", name)

    def _write_grouping(self, node: exp.Expr, name: str) -> exp.Expr:
        if self._gid is None:
            raise InvalidDefinitionError(f"{name}() needs GROUPING SETS, CUBE or ROLLUP", "Leave it out.")
        arguments = node.expressions
        if name == "grouping_id" and not arguments:
            return read_sql(f"CAST(`{self._gid}` AS BIGINT)", self._gid)
        width, bits = len(self._groups.keys), []
        texts = [sql_of(k) for k in self._groups.keys]
        for a in arguments:
            if sql_of(a) not in texts:
                raise InvalidDefinitionError(
                    f"{name}() of an expression that is not in GROUP BY", "Name an expression of GROUP BY."
                )
            bits.append(width - 1 - texts.index(sql_of(a)))
        parts = [f"(shiftright(`{self._gid}`, {b}) & 1)" for b in bits]
        if name == "grouping":
            return read_sql(f"CAST({parts[0]} AS TINYINT)", self._gid)
        shifted = " + ".join(f"shiftleft({p}, {len(parts) - 1 - n})" for n, p in enumerate(parts))
        return read_sql(f"CAST({shifted} AS BIGINT)", self._gid)


@dataclass(frozen=True)
class _DistinctPart:
    """Aggregates over the different values of some expressions; `calls` collects what is asked of them."""

    calls: _Aggregation
    keys: tuple[Output, ...]
    values: tuple[str, ...]
    has_all_groups: bool  # no FILTER that may leave a group without any value

    def build_aggregate(self) -> Operator:
        inside = self.calls
        made = Aggregate(inside._rows.plan, self.keys, inside._sums.calls, inside._count)
        return inside._sums.add_derived(made)


_OF_ONE = {
    **dict.fromkeys(("bool_and", "every", "bool_or", "some", "any"), write_truth),
    **dict.fromkeys(("min", "max"), write_extremum),
    **dict.fromkeys(("sum", "avg", "mean", "try_sum", "try_avg"), write_sum_or_average),
    "bit_xor": write_exclusive_or,
}
# Of these it makes no difference how often a value is there.
_SAME_OF_DISTINCT = frozenset(("min", "max", "bool_and", "every", "bool_or", "some", "any"))
_OF_DISTINCT = frozenset(
    ("count", "sum", "avg", "mean", "try_sum", "try_avg", "bit_xor", "regr_count", *STATISTICS)
)


def _list_arguments(call: exp.Expr) -> list[exp.Expr] | None:
    if isinstance(call, exp.Any):
        return [call.this.unnest()]
    return call.expressions if isinstance(call, exp.Anonymous) else None

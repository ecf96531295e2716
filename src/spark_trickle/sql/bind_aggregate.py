"""GROUP BY and aggregate functions -> an Aggregate, and expressions over its columns.

Functions that are sums over rows are taken apart into sums, so that a change of a group follows from the
change of its rows: avg(x) is a sum and a count. All others are kept as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from spark_trickle.algebra.operator import (
    Aggregate,
    Call,
    Expr,
    Filter,
    Join,
    JoinKind,
    KeyPair,
    Operator,
    Output,
    Project,
    column,
)
from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.sql.aggregates import WRAPPERS, call_name
from spark_trickle.sql.bind import outputs
from spark_trickle.sql.bind_groups import Groups, computed_before, expanded_sets, groups_of, hint
from spark_trickle.sql.block import Block, Tail
from spark_trickle.sql.dialect import sql_of
from spark_trickle.sql.expressions import (
    SUBQUERIES,
    Replace,
    bound,
    contains,
    is_bound,
    parsed,
    rewritten,
    to_expr,
)
from spark_trickle.sql.listed_names import otherwise
from spark_trickle.sql.wide_decimals import can_add, has_mean, mean_of, zero

_ORDERED = re.compile(
    r"tinyint|smallint|int|bigint|decimal\(\d+,\s*\d+\)|float|double|string|boolean|date|timestamp(_ntz)?",
    re.I,
)
_INFINITY = "CAST('Infinity' AS DOUBLE)"
_EXACT = re.compile(r"(tinyint|smallint|int|bigint|decimal\((\d+),\s*(\d+)\))", re.I)


def aggregated(select: exp.Select, tail: Tail, block: Block) -> Tail:
    groups = groups_of(select, tail, block)
    named = [Output(block.env.fresh(hint(k)), to_expr(k)) for k in groups.keys]
    gid = None
    named = computed_before(groups, named, block)
    if not groups.plain:
        named, gid = expanded_sets(groups, named, block)
    return _Aggregation(block, groups, named, gid).run(select, tail)


class _Aggregation:
    """Collects the calls of one GROUP BY while the expressions above it are rewritten."""

    def __init__(self, block: Block, groups: Groups, keys: list[Output], gid: str | None) -> None:
        self._block = block
        self._env = block.env
        self._groups = groups
        self._keys = keys
        self._gid = gid
        self._by_text = {sql_of(k): o.name for k, o in zip(groups.keys, keys, strict=False)}
        self._calls: dict[str, Call] = {}
        self._count = self._env.fresh("n")
        self._counts_rows = False  # whether some expression asks for that number
        self._finals: dict[str, exp.Expr] = {}
        self._distinct: dict[str, _DistinctPart] = {}

    def run(self, select: exp.Select, tail: Tail) -> Tail:
        from spark_trickle.sql.bind_subquery import subqueries_computed

        # Subqueries inside the arguments belong to the rows before grouping.
        tail = tail.map(lambda n: rewritten(n, self._arguments(subqueries_computed)))
        above = tail.map(self._above)
        keys = (*self._given_keys(), *self._keys)
        self._block.plan = self._joined(
            Aggregate(self._block.plan, keys, tuple(self._calls.values()), self._count)
        )
        self._after(select)
        return above

    def _arguments(self, compute: Callable[[exp.Expr, Block], exp.Expr]) -> Replace:
        def change(part: exp.Expr) -> exp.Expr | None:
            if isinstance(part, SUBQUERIES):
                return part.copy()
            if call_name(part) and contains(part, lambda n: isinstance(n, SUBQUERIES)):
                return compute(part, self._block)
            return None

        return change

    def _given_keys(self) -> list[Output]:
        self._given = [self._env.fresh("g") for _ in self._block.given]
        return [Output(n, column(g)) for n, g in zip(self._given, self._block.given, strict=True)]

    def _after(self, select: exp.Select) -> None:
        """From here on names mean keys; without GROUP BY there is a row for every given value."""
        block = self._block
        keys = zip(self._groups.keys, self._keys, strict=False)
        renamed = {k.name: o.name for k, o in keys if is_bound(k)}
        if block.given:
            before, given = block.given, block.env.given
            if given is not None and not self._groups.keys and not select.args.get("group"):
                pairs = tuple(
                    KeyPair(column(b), column(n), True) for b, n in zip(before, self._given, strict=True)
                )
                block.plan = Join(given.plan, block.plan, JoinKind.LEFT, pairs)
            else:
                block.plan = Project(
                    block.plan,
                    (
                        *(Output(b, column(n)) for b, n in zip(before, self._given, strict=True)),
                        *outputs(tuple(c for c in block.plan.columns if c not in self._given)),
                    ),
                )
        block.scope = replace(block.scope, renamed=renamed)

    # --- expressions above -----------------------------------------------------------------------

    def _above(self, node: exp.Expr) -> exp.Expr:
        def change(part: exp.Expr) -> exp.Expr | None:
            if isinstance(part, SUBQUERIES):
                return part.copy()
            if (key := self._by_text.get(sql_of(part))) is not None:
                return bound(key)
            if isinstance(part, exp.Window):
                return self._window(part)
            if name := call_name(part):
                return self._call(part, name)
            if is_bound(part) and part.name not in set(self._by_text.values()) | set(self._block.given):
                if (listed := otherwise(part)) is not None:
                    return self._above(listed)
                raise InvalidDefinitionError(
                    f'column "{re.sub(r"_[0-9]+$", "", part.name)}" is neither grouped nor aggregated',
                    "Add it to GROUP BY, or wrap it in any_value().",
                )
            return None

        return rewritten(node, change)

    def _window(self, node: exp.Window) -> exp.Expr:
        """The function of a window is no aggregate of the group; what is inside it may be."""
        rest = {k: self._deep(v) for k, v in node.args.items() if k != "this"}
        return exp.Window(this=self._function(node.this), **rest)

    def _function(self, node: exp.Expr) -> exp.Expr:
        own = isinstance(node, WRAPPERS)
        parts = {k: self._function(v) if own and k == "this" else self._deep(v) for k, v in node.args.items()}
        new = node.__class__(**parts)
        new.meta.update(node.meta)
        return new

    def _deep(self, value: object) -> object:
        if isinstance(value, exp.Expr):
            return self._above(value)
        if isinstance(value, list):
            return [self._deep(v) for v in value]
        return value

    # --- calls -----------------------------------------------------------------------------------

    def _call(self, node: exp.Expr, name: str) -> exp.Expr:
        text = sql_of(node)
        if text not in self._finals:
            self._finals[text] = self._final(node, name)
        return self._finals[text].copy()

    def _final(self, node: exp.Expr, name: str) -> exp.Expr:
        if name in ("grouping", "grouping_id"):
            return self._grouping(node, name)
        condition, inner = None, node
        if isinstance(inner, exp.Filter):
            condition, inner = to_expr(inner.expression.this), inner.this
        if isinstance(inner, exp.Anonymous):
            if any(isinstance(a, exp.Distinct) for a in inner.expressions):
                taken_apart = self._of_distinct(name, inner.expressions, condition)
            else:
                taken_apart = self._algebraic(name, inner.expressions, condition)
            if taken_apart is not None:
                return taken_apart
        plain = bound(self._add(Call(self._env.fresh(name), to_expr(node))))
        if name in ("count", "count_if", "approx_count_distinct", "regr_count"):
            return exp.Coalesce(this=plain, expressions=[exp.Literal.number(0)])
        if name in ("collect_list", "collect_set", "array_agg"):
            return exp.Coalesce(this=plain, expressions=[exp.Anonymous(this="array", expressions=[])])
        return plain

    def _add(self, call: Call) -> str:
        key = f"{call.expr.sql}|{call.term.sql if call.term else ''}"
        return self._calls.setdefault(key, call).name

    def _sum_of(self, term: Expr, kind: str, value: str = "") -> str:
        """`value` is the term in a type that Spark adds faster; its sum fits into `kind` as well."""
        call = Expr(f"CAST(coalesce(sum({value or term.sql}), {zero(kind)}) AS {kind})", term.columns)
        return self._add(Call(self._env.fresh("s"), call, term, kind))

    def _counted(self, test: str, columns: frozenset[str]) -> str:
        return self._sum_of(Expr(f"CASE WHEN {test} THEN 1 ELSE 0 END", columns), "BIGINT")

    def _algebraic(self, name: str, arguments: list[exp.Expr], condition: Expr | None) -> exp.Expr | None:
        """The function as an expression over sums, or None if it is not one."""
        allowed = f"({condition.sql})" if condition else "true"
        columns = condition.columns if condition else frozenset[str]()
        if name == "count" and (
            not arguments
            or isinstance(arguments[0], exp.Star)
            or all(isinstance(a, exp.Literal) for a in arguments)
        ):
            if condition is None:
                self._counts_rows = True
                return _sql(f"coalesce(`{self._count}`, 0)", self._count)
            return self._count_final(self._counted(allowed, columns))
        args = [to_expr(a) for a in arguments]
        for a in args:
            columns |= a.columns
        if name == "count":
            present = " AND ".join(f"({a.sql}) IS NOT NULL" for a in args)
            return self._count_final(self._counted(f"{allowed} AND {present}", columns))
        if name == "count_if" and len(args) == 1:
            return self._count_final(self._counted(f"{allowed} AND ({args[0].sql})", columns))
        if name in ("bool_and", "every", "bool_or", "some", "any") and len(args) == 1:
            value = args[0].sql
            present = self._counted(f"{allowed} AND ({value}) IS NOT NULL", columns)
            wanted = name in ("bool_or", "some", "any")
            hits = self._counted(f"{allowed} AND {'' if wanted else 'NOT '}({value})", columns)
            return _sql(
                f"CASE WHEN `{present}` > 0 THEN `{hits}` {'> 0' if wanted else '= 0'} END", present, hits
            )
        if name in ("min", "max") and len(args) == 1:
            return self._extremum(name, args[0], allowed, columns)
        if name in ("sum", "avg", "mean") and len(args) == 1:
            return self._sum_or_average(name, args[0], allowed, columns)
        return None

    # --- DISTINCT ----------------------------------------------------------------------------------

    def _of_distinct(self, name: str, arguments: list[exp.Expr], condition: Expr | None) -> exp.Expr | None:
        """The same function without DISTINCT, over the different values of each group."""
        values = arguments[0].expressions if isinstance(arguments[0], exp.Distinct) else []
        if name not in ("count", "sum", "avg", "mean") or len(arguments) != 1 or not values:
            return None
        text = f"{[sql_of(v) for v in values]} {condition.sql if condition else ''}"
        part = self._distinct.get(text) or self._distinct_part(values, condition)
        final = part.calls._algebraic(name, [bound(c) for c in part.values], None)
        if final is not None:
            self._distinct[text] = part
        return final

    def _distinct_part(self, values: list[exp.Expr], condition: Expr | None) -> _DistinctPart:
        """Each different value of a group once: a node of its own, which counts how often it is there."""
        fresh = self._env.fresh
        plan = self._block.plan if condition is None else Filter(self._block.plan, condition)
        keys = [Output(fresh("k"), column(g)) for g in self._block.given]
        keys += [Output(fresh("k"), k.expr) for k in self._keys]
        named = [Output(fresh("v"), to_expr(v)) for v in values]
        inner = Aggregate(plan, (*keys, *named), (), fresh("n"))
        calls = _Aggregation(Block(inner, self._block.scope, self._env), Groups(), [], None)
        outer = tuple(Output(fresh("k"), column(k.name)) for k in keys)
        return _DistinctPart(calls, outer, tuple(v.name for v in named), condition is None)

    def _joined(self, plain: Aggregate) -> Operator:
        """The groups with what is known of their different values beside them."""
        parts = list(self._distinct.values())
        if len(parts) == 1 and parts[0].has_all_groups and not plain.calls and not self._counts_rows:
            made = parts[0].aggregate()
            keys = zip(plain.keys, parts[0].keys, strict=True)
            shown = tuple(Output(k.name, column(other.name)) for k, other in keys)
            return Project(made, (*shown, *outputs(made.columns[len(shown) :])))
        plan: Operator = plain
        for part in parts:
            pairs = tuple(
                KeyPair(column(mine.name), column(other.name), True)
                for mine, other in zip(plain.keys, part.keys, strict=True)
            )
            kind = JoinKind.LEFT if pairs else JoinKind.INNER  # without keys each has just one row
            plan = Join(plan, part.aggregate(), kind, pairs)
        return plan

    def _count_final(self, name: str) -> exp.Expr:
        return _sql(f"coalesce(`{name}`, 0)", name)

    def _sum_or_average(self, name: str, arg: Expr, allowed: str, columns: frozenset[str]) -> exp.Expr | None:
        probe = self._env.fresh("probe")
        kind = self._env.types(Project(self._block.plan, (Output(probe, arg),)))[probe]
        exact = _EXACT.fullmatch(kind)
        if exact is None and (kind.lower() not in ("float", "double") or self._env.exact_floats):
            return None
        is_decimal = exact is not None and exact[2] is not None
        precision, scale = (int(exact[2]), int(exact[3])) if exact is not None and is_decimal else (38, 0)
        if is_decimal and not (can_add(scale) if name == "sum" else has_mean(precision, scale)):
            return None
        present = self._counted(f"{allowed} AND ({arg.sql}) IS NOT NULL", columns)
        value = arg.sql if allowed == "true" else f"CASE WHEN {allowed} THEN {arg.sql} END"
        if exact is None:
            return self._float_sum(name, Expr(f"CAST({value} AS DOUBLE)", columns), present)
        wide = f"DECIMAL(38, {scale})"
        # Numbers of 64 bits may have a mean where they have no sum.
        quick = "" if name != "sum" and kind.lower() == "bigint" else value
        total = self._sum_of(Expr(f"CAST({value} AS {wide})", columns), wide, quick)
        if name == "sum":
            kind = f"DECIMAL({min(38, precision + 10)}, {scale})" if is_decimal else "BIGINT"
            made = f"CAST(`{total}` AS {kind})"
        elif is_decimal:
            made = mean_of(f"`{total}`", f"`{present}`", precision, scale)
        else:
            made = f"CAST(`{total}` AS DOUBLE) / `{present}`"
        return _sql(f"CASE WHEN `{present}` > 0 THEN {made} END", total, present)

    def _float_sum(self, name: str, value: Expr, present: str) -> exp.Expr:
        """A sum that can be taken apart again: doubles that are short decimals are added as decimals.

        What is left over is added as doubles. NaN and infinity would never leave a sum, so they are counted.
        """
        v, columns = value.sql, value.columns
        special = {
            word: self._counted(f"{test}", columns)
            for word, test in (
                ("nan", f"isnan({v})"),
                ("above", f"{v} = {_INFINITY}"),
                ("below", f"{v} = -{_INFINITY}"),
            )
        }
        short = f"CAST(CASE WHEN abs({v}) < 1e12D THEN {v} END AS DECIMAL(38, 18))"
        is_short = f"coalesce(CAST({short} AS DOUBLE) = {v}, false)"
        is_long = f"NOT {is_short} AND abs({v}) < {_INFINITY}"
        exact = self._sum_of(Expr(f"CASE WHEN {is_short} THEN {short} END", columns), "DECIMAL(38, 18)")
        longs = self._counted(is_long, columns)
        rest = self._sum_of(Expr(f"CASE WHEN {is_long} THEN {v} END", columns), "DOUBLE")
        total = f"CAST(`{exact}` AS DOUBLE) + CASE WHEN `{longs}` > 0 THEN `{rest}` ELSE 0.0D END"
        whole = (
            f"CASE WHEN `{special['nan']}` > 0 OR (`{special['above']}` > 0 AND `{special['below']}` > 0) "
            f"THEN CAST('NaN' AS DOUBLE) WHEN `{special['above']}` > 0 THEN {_INFINITY} "
            f"WHEN `{special['below']}` > 0 THEN -{_INFINITY} ELSE {total} END"
        )
        divided = whole if name == "sum" else f"({whole}) / `{present}`"
        used = (present, exact, longs, rest, *special.values())
        return _sql(f"CASE WHEN `{present}` > 0 THEN {divided} END", *used)

    def _extremum(self, name: str, arg: Expr, allowed: str, columns: frozenset[str]) -> exp.Expr | None:
        probe = self._env.fresh("probe")
        kind = self._env.types(Project(self._block.plan, (Output(probe, arg),)))[probe]
        if _ORDERED.fullmatch(kind) is None:
            return None
        value = arg.sql if allowed == "true" else f"CASE WHEN {allowed} THEN {arg.sql} END"
        call, term = Expr(f"{name}({value})", columns), Expr(value, columns)
        best = self._add(Call(self._env.fresh(name), call, term, kind, name))
        one = Expr(f"CAST({call.sql} IS NOT NULL AS BIGINT)", columns)
        self._add(Call(self._env.fresh("ties"), one, term, "BIGINT", ties_of=best))
        return bound(best)

    def _grouping(self, node: exp.Expr, name: str) -> exp.Expr:
        if self._gid is None:
            raise InvalidDefinitionError(f"{name}() needs GROUPING SETS, CUBE or ROLLUP", "Leave it out.")
        arguments = node.expressions
        if name == "grouping_id" and not arguments:
            return _sql(f"CAST(`{self._gid}` AS BIGINT)", self._gid)
        width, bits = len(self._groups.keys), []
        texts = [sql_of(k) for k in self._groups.keys]
        for a in arguments:
            if sql_of(a) not in texts:
                raise InvalidDefinitionError(f"{name}() of what is no key", "Name an expression of GROUP BY.")
            bits.append(width - 1 - texts.index(sql_of(a)))
        parts = [f"(shiftright(`{self._gid}`, {b}) & 1)" for b in bits]
        if name == "grouping":
            return _sql(f"CAST({parts[0]} AS TINYINT)", self._gid)
        shifted = " + ".join(f"shiftleft({p}, {len(parts) - 1 - n})" for n, p in enumerate(parts))
        return _sql(f"CAST({shifted} AS BIGINT)", self._gid)


@dataclass(frozen=True)
class _DistinctPart:
    """Aggregates over the different values of some expressions; `calls` collects what is asked of them."""

    calls: _Aggregation
    keys: tuple[Output, ...]
    values: tuple[str, ...]
    has_all_groups: bool  # no FILTER that may leave a group without any value

    def aggregate(self) -> Aggregate:
        inside = self.calls
        return Aggregate(inside._block.plan, self.keys, tuple(inside._calls.values()), inside._count)


def _sql(text: str, *columns: str) -> exp.Expr:
    return parsed(text, frozenset(columns))

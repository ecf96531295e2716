"""PIVOT -> aggregates with a filter for each value; UNPIVOT -> a row for each of the columns."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from spark_trickle.algebra.conditions import any_of
from spark_trickle.algebra.expressions import NULL, Case, Expr, Is, Literal, LiteralKind, Opaque, integer
from spark_trickle.algebra.operators import Filter, Generate, Operator, Output, Project, column
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.sql.bind.aggregates import call_name, has_aggregate
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import rewrite, to_expr, write_column
from spark_trickle.sql.bind.pivot_names import list_members, name_cell, name_values
from spark_trickle.sql.bind.plans import keep_columns
from spark_trickle.sql.bind.relations import name_relation
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Bound, Relation
from spark_trickle.sql.bind.select import bind_result
from spark_trickle.sql.dialect.spark import Verbatim

# Spark looks up values of these types; all others it aggregates with IF around their arguments.
_LOOKED_UP = re.compile(r"tinyint|smallint|int|bigint|float|double|boolean|decimal\(\d+,\s*\d+\)", re.I)
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_ADVICE = "Write PIVOT (sum(v) FOR k IN (1, 2)) with all the values."


def bind_pivot(rows: Relation, pivot: exp.Pivot, env: Env) -> Relation:
    fields: list[exp.Expr] = pivot.args.get("fields") or []
    field = fields[0] if len(fields) == 1 else None
    if not isinstance(field, exp.In) or not field.expressions:
        raise UnsupportedError("PIVOT without one list of values", _ADVICE)
    make = _bind_unpivot if pivot.args.get("unpivot") else _bind_pivot_cells
    return name_relation(make(rows, pivot, field, env), pivot.args.get("alias"), env)


# --- PIVOT -------------------------------------------------------------------------------------------


def _bind_pivot_cells(rows: Relation, pivot: exp.Pivot, field: exp.In, env: Env) -> Bound:
    """Grouped by all columns that are neither aggregated nor told apart by value."""
    keys = [resolve(k, rows.scope, env) for k in list_members(field.this)]
    calls = [resolve(c.unalias(), rows.scope, env) for c in pivot.expressions]
    if not all(has_aggregate(c) for c in calls):
        raise InvalidDefinitionError("PIVOT needs an aggregate function", "Write PIVOT (sum(v) FOR …).")
    used = frozenset[str]().union(*(to_expr(n).columns for n in (*keys, *calls)))
    groups = [(n, c) for n, c in rows.scope.list_star() if c not in used]
    kinds = _find_types(keys, rows, env)
    tests = [_write_test(keys, kinds, value) for value in field.expressions]
    cells = [
        (name_cell(name, call, len(calls)), test, resolved)
        for name, test in zip(name_values(field.expressions, rows.plan, env), tests, strict=True)
        for call, resolved in zip(pivot.expressions, calls, strict=True)
    ]
    plain = _bind_groups(rows, groups, [(n, _add_filter(call, test)) for n, test, call in cells], env)
    made = env.find_types(plain.plan)
    if not all(_LOOKED_UP.fullmatch(made[c]) for c in plain.columns[len(groups) :]):
        return plain
    # Where a value does not occur there is nothing to look up: also a count is NULL then, not 0.
    present = [(n, _write_if_any(test, _add_filter(call, test))) for n, test, call in cells]
    return _bind_groups(rows, groups, present, env)


def _bind_groups(
    rows: Relation, groups: list[tuple[str, str]], cells: list[tuple[str, exp.Expr]], env: Env
) -> Bound:
    listed = [exp.alias_(write_column(c), n, quoted=True, copy=False) for n, c in groups]
    listed += [exp.alias_(node, n, quoted=True, copy=False) for n, node in cells]
    select = exp.Select(expressions=listed)
    if groups:
        select.set("group", exp.Group(expressions=[write_column(c) for _, c in groups]))
    return bind_result(select, rows, env)


def _find_types(keys: list[exp.Expr], rows: Relation, env: Env) -> list[str]:
    probes = tuple(Output(env.fresh("key"), to_expr(k)) for k in keys)
    kinds = env.find_types(Project(rows.plan, probes))
    return [kinds[p.name] for p in probes]


def _write_test(keys: list[exp.Expr], kinds: list[str], value: exp.Expr) -> exp.Expr:
    """Spark turns the value into the type of the column, not the column into that of the value."""
    wanted = list_members(value.this if isinstance(value, exp.PivotAlias) else value)
    if any(w.find(exp.Column, exp.Query, exp.PivotAny, exp.Any) for w in wanted):
        raise UnsupportedError("PIVOT with values that are not constants", _ADVICE)
    if len(wanted) != len(keys):
        raise InvalidDefinitionError(
            f"{len(wanted)} values for {len(keys)} columns of PIVOT", "Give one for each column."
        )
    cast = [_cast_to_kind(w, kind) for w, kind in zip(wanted, kinds, strict=True)]
    return exp.and_(*(exp.NullSafeEQ(this=k.copy(), expression=w) for k, w in zip(keys, cast, strict=True)))


def _cast_to_kind(value: exp.Expr, kind: str) -> exp.Expr:
    """A literal that is of the type already stays as it is: changes of it can be computed at the driver."""
    is_constant = isinstance(value, exp.Literal) and not value.is_string
    whole = is_constant and read_whole_number(str(value.this)) is not None
    text = isinstance(value, exp.Literal) and value.is_string
    if (whole and kind in _WHOLE) or (text and kind == "string") or "<" in kind:
        return value.copy()
    return exp.Cast(this=value.copy(), to=exp.DataType.build(kind, dialect=Verbatim))


def _add_filter(call: exp.Expr, test: exp.Expr) -> exp.Expr:
    def filter_call(node: exp.Expr) -> exp.Expr | None:
        if not call_name(node):
            return None
        if isinstance(node, exp.Filter):
            both = exp.and_(node.expression.this.copy(), test.copy())
            return exp.Filter(this=node.this.copy(), expression=exp.Where(this=both))
        return exp.Filter(this=node.copy(), expression=exp.Where(this=test.copy()))

    return rewrite(call, filter_call)


def _write_if_any(test: exp.Expr, value: exp.Expr) -> exp.Expr:
    some = exp.Anonymous(this="count_if", expressions=[test.copy()])
    return exp.Case(ifs=[exp.If(this=exp.GT(this=some, expression=exp.Literal.number(0)), true=value)])


# --- UNPIVOT -----------------------------------------------------------------------------------------


def _bind_unpivot(rows: Relation, pivot: exp.Pivot, field: exp.In, env: Env) -> Bound:
    """Every row once for each entry of the list, with the values of the columns that it names."""
    entries = [e.this if isinstance(e, exp.PivotAlias) else e for e in field.expressions]
    columns = [[to_expr(resolve(m, rows.scope, env)) for m in list_members(e)] for e in entries]
    labels = [n.name for n in list_members(pivot.expressions[0])]
    if any(len(c) != len(labels) for c in columns):
        raise InvalidDefinitionError(
            f"UNPIVOT needs {len(labels)} columns in each entry of its list",
            "Name as many as there are values.",
        )
    entry, name = env.fresh("entry"), env.fresh(field.this.name)
    every = ", ".join(str(n) for n in range(len(entries)))
    plan: Operator = Generate(rows.plan, Opaque(f"explode(array({every}))"), (entry,))
    texts = [Literal(_name_entry(e), LiteralKind.STRING) for e in field.expressions]
    values = [
        Output(env.fresh(n), _choose_by_number(entry, [c[i] for c in columns])) for i, n in enumerate(labels)
    ]
    used = frozenset[str]().union(*(c.columns for row in columns for c in row))
    rest = [(n, c) for n, c in rows.scope.list_star() if c not in used]
    kept = keep_columns((*rows.given, *dict.fromkeys(c for _, c in rest)))
    plan = Project(plan, (*kept, Output(name, _choose_by_number(entry, texts)), *values))
    if not pivot.args.get("include_nulls"):
        plan = Filter(plan, any_of([Is(column(v.name), NULL, negated=True) for v in values]))
    made = ((field.this.name, name), *zip(labels, (v.name for v in values), strict=True))
    return Bound(plan, (*rest, *made), rows.given)


def _choose_by_number(entry: str, choices: Sequence[Expr]) -> Expr:
    return Case(tuple((integer(n), c) for n, c in enumerate(choices)), operand=column(entry))


def _name_entry(entry: exp.Expr) -> str:
    if isinstance(entry, exp.PivotAlias):
        return str(entry.args["alias"].name)
    return "_".join(m.name for m in list_members(entry))

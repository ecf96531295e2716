"""GROUP BY -> its keys, and the sets in which they are grouped."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product

from sqlglot import exp

from spark_trickle.algebra.expressions import FALSE, Case, InList, Opaque, integer
from spark_trickle.algebra.operators import Generate, Output, Project, column
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.aggregates import has_aggregate
from spark_trickle.sql.bind.env import Env
from spark_trickle.sql.bind.expressions import is_bound
from spark_trickle.sql.bind.plans import add_outputs, keep_columns
from spark_trickle.sql.bind.positions import is_position, read_position
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.bind.scope import Relation
from spark_trickle.sql.bind.tail import Tail
from spark_trickle.sql.dialect.spark import sql_of

_MOST_SETS = 64


@dataclass(frozen=True)
class Groups:
    """The keys of a GROUP BY, and the sets in which they are grouped."""

    keys: tuple[exp.Expr, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    plain: bool = True


@dataclass(frozen=True)
class Grouping:
    """A GROUP BY as far as it is read; the list and the rows have the values of subqueries in its keys."""

    keys: tuple[exp.Expr, ...]
    tail: Tail
    rows: Relation


_Sets = list[tuple[int, ...]]


def compute_keys(
    groups: Groups, named: list[Output], rows: Relation, env: Env
) -> tuple[list[Output], Relation]:
    """Keys that are no columns become some: a key may make several rows, like a sliding window."""
    made, found = [], []
    for key, output in zip(groups.keys, named, strict=True):
        if not is_bound(key):
            made.append(Output(env.fresh("key"), output.expr))
            output = Output(output.name, column(made[-1].name))
        found.append(output)
    return found, rows.with_plan(add_outputs(rows.plan, made))


def hint_name(key: exp.Expr) -> str:
    return re.sub(r"_\d+$", "", key.name) if is_bound(key) else "key"


def bind_groups(select: exp.Select, tail: Tail, rows: Relation, env: Env) -> tuple[Groups, Tail, Relation]:
    clause = select.args.get("group")
    if clause is None:
        return Groups(sets=((),)), tail, rows
    if clause.args.get("all"):
        keys = tuple(i.node for i in tail.items if not has_aggregate(i.node))
        return Groups(keys, (tuple(range(len(keys))),)), tail, rows
    if clause.args.get("totals"):
        raise UnsupportedError("WITH TOTALS", "Use ROLLUP.")
    parts, grouping = _split_clause(clause, Grouping((), tail, rows), env)
    factors: list[_Sets] = []
    for part in parts:
        sets, grouping = _read_sets(part, grouping, env)
        factors.append(sets)
    return _combine_sets(factors, grouping.keys), grouping.tail, grouping.rows


def _combine_sets(factors: list[_Sets], keys: tuple[exp.Expr, ...]) -> Groups:
    """Each set of one part with each set of the others."""
    sets = tuple(tuple(sorted({i for s in combo for i in s})) for combo in product(*factors))
    if len(sets) > _MOST_SETS:
        raise UnsupportedError(
            f"{len(sets)} grouping sets; more than {_MOST_SETS}", "Use fewer columns in CUBE."
        )
    return Groups(keys, sets, all(len(f) == 1 for f in factors) and sets == (tuple(range(len(keys))),))


def _split_clause(clause: exp.Group, grouping: Grouping, env: Env) -> tuple[list[exp.Expr], Grouping]:
    """What stands between commas; WITH ROLLUP, WITH CUBE or GROUPING SETS after them is about all of it."""
    parts: list[exp.Expr] = list(clause.expressions)
    for kind, name in ((exp.Rollup, "rollup"), (exp.Cube, "cube")):
        if clause.args.get(name):
            parts = [kind(expressions=parts)]
    if sets := clause.args.get("grouping_sets"):
        # The sets alone count; the list before them says in which order keys are numbered.
        _, grouping = _read_keys(parts, grouping, env)
        parts = list(sets)
    return parts, grouping


def _read_sets(part: exp.Expr, grouping: Grouping, env: Env) -> tuple[_Sets, Grouping]:
    if isinstance(part, exp.GroupingSets):
        return _read_nested_sets(part, grouping, env)
    if not isinstance(part, exp.Rollup | exp.Cube):
        key, grouping = _read_key(part, grouping, env)
        return [(key,)], grouping
    elements: _Sets = []
    for node in part.expressions:
        element, grouping = _read_element(node, grouping, env)
        elements.append(element)
    if isinstance(part, exp.Rollup):
        return [tuple(i for e in elements[:n] for i in e) for n in range(len(elements), -1, -1)], grouping
    chosen = product(*[(True, False)] * len(elements))
    return [tuple(i for e, c in zip(elements, c_, strict=True) if c for i in e) for c_ in chosen], grouping


def _read_nested_sets(part: exp.GroupingSets, grouping: Grouping, env: Env) -> tuple[_Sets, Grouping]:
    sets: _Sets = []
    for node in part.expressions:
        if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
            more, grouping = _read_sets(node, grouping, env)
        else:
            element, grouping = _read_element(node, grouping, env)
            more = [element]
        sets += more
    return sets, grouping


def _read_element(node: exp.Expr, grouping: Grouping, env: Env) -> tuple[tuple[int, ...], Grouping]:
    """(a, b) is two keys, a is one."""
    return _read_keys(node.expressions if isinstance(node, exp.Tuple) else [node.unnest()], grouping, env)


def _read_keys(nodes: list[exp.Expr], grouping: Grouping, env: Env) -> tuple[tuple[int, ...], Grouping]:
    numbers: list[int] = []
    for node in nodes:
        number, grouping = _read_key(node, grouping, env)
        numbers.append(number)
    return tuple(numbers), grouping


def _read_key(node: exp.Expr, grouping: Grouping, env: Env) -> tuple[int, Grouping]:
    """The number of a key; one that is there already keeps its number."""
    key, grouping = _find_key(node.unnest(), grouping, env)
    if has_aggregate(key):
        raise InvalidDefinitionError("an aggregate function in GROUP BY", "Group by what it aggregates.")
    texts = [sql_of(k) for k in grouping.keys]
    if (text := sql_of(key)) in texts:
        return texts.index(text), grouping
    return len(texts), replace(grouping, keys=(*grouping.keys, key))


def _find_key(node: exp.Expr, grouping: Grouping, env: Env) -> tuple[exp.Expr, Grouping]:
    """A position or the name of a listed expression stands for it; columns come first."""
    tail, rows = grouping.tail, grouping.rows
    at = _find_place_in_list(node, tail, rows)
    if at is None:
        key, rows = env.binder.compute_subqueries(resolve(node, rows.scope, env), rows, env)
        return key, replace(grouping, rows=rows)
    # A subquery in it belongs to the rows before grouping, so the list takes its value from there too.
    item = tail.items[at]
    value, rows = env.binder.compute_subqueries(item.node, rows, env)
    items = (*tail.items[:at], replace(item, node=value), *tail.items[at + 1 :])
    return value.copy(), replace(grouping, tail=replace(tail, items=items), rows=rows)


def _find_place_in_list(node: exp.Expr, tail: Tail, rows: Relation) -> int | None:
    if is_position(node):
        return read_position(node, len(tail.items), "GROUP BY")
    names = [item.name.lower() for item in tail.items]
    if _is_free(node) and rows.scope.find((node.name,)) is None and node.name.lower() in names:
        return names.index(node.name.lower())
    return None


def _is_free(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table and not is_bound(node)


def expand_grouping_sets(
    groups: Groups, keys: list[Output], rows: Relation, env: Env
) -> tuple[list[Output], str, Relation]:
    """Every row once for each grouping set, keys that the set lacks as NULL; the set is part of the key."""
    width = len(groups.keys)
    set_column = env.fresh("set")
    every = ", ".join(str(n) for n in range(len(groups.sets)))
    plan = Generate(rows.plan, Opaque(f"explode(array({every}))"), (set_column,))
    chosen = column(set_column)
    nulled = []
    for n, key in enumerate(keys):
        members = tuple(integer(i) for i, s in enumerate(groups.sets) if n in s)
        test = InList(chosen, members) if members else FALSE
        nulled.append(Output(env.fresh("key"), Case(((test, key.expr),))))
    ids = [sum(1 << (width - 1 - n) for n in range(width) if n not in s) for s in groups.sets]
    cases = tuple((integer(n), integer(i)) for n, i in enumerate(ids))
    gid = env.fresh("gid")
    numbered = Output(gid, Case(cases, operand=chosen))
    expanded = Project(plan, (*keep_columns(plan.columns), *nulled, numbered))
    named = [Output(k.name, column(o.name)) for k, o in zip(keys, nulled, strict=True)]
    gid_key, set_key = env.fresh("gid"), env.fresh("set")
    keys = [*named, Output(gid_key, column(gid)), Output(set_key, chosen)]
    return keys, gid_key, rows.with_plan(expanded)

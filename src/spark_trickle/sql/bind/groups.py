"""GROUP BY -> its keys, and the sets in which they are grouped."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

from sqlglot import exp

from spark_trickle.algebra.operators import Expr, Generate, Output, Project, column
from spark_trickle.errors import InvalidDefinitionError, UnsupportedError
from spark_trickle.sql.bind.aggregates import has_aggregate
from spark_trickle.sql.bind.block import Block, Tail
from spark_trickle.sql.bind.expressions import is_bound
from spark_trickle.sql.bind.positions import is_position, position_of
from spark_trickle.sql.bind.query import outputs
from spark_trickle.sql.bind.resolve import resolve
from spark_trickle.sql.dialect.spark import sql_of

_MOST_SETS = 64


@dataclass
class Groups:
    """The keys of a GROUP BY, and the sets in which they are grouped."""

    keys: list[exp.Expr] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=list)
    plain: bool = True


def compute_keys(groups: Groups, named: list[Output], block: Block) -> list[Output]:
    """Keys that are no columns become some: a key may make several rows, like a sliding window."""
    made, found = [], []
    for key, output in zip(groups.keys, named, strict=True):
        if not is_bound(key):
            made.append(Output(block.env.fresh("key"), output.expr))
            output = Output(output.name, column(made[-1].name))
        found.append(output)
    if made:
        block.plan = Project(block.plan, (*outputs(block.plan.columns), *made))
    return found


def hint(key: exp.Expr) -> str:
    return re.sub(r"_\d+$", "", key.name) if is_bound(key) else "key"


def groups_of(select: exp.Select, tail: Tail, block: Block) -> Groups:
    clause = select.args.get("group")
    if clause is None:
        return Groups(sets=[()])
    if clause.args.get("all"):
        keys = [i.node for i in tail.items if not has_aggregate(i.node)]
        return Groups(keys, [tuple(range(len(keys)))])
    if clause.args.get("totals"):
        raise UnsupportedError("WITH TOTALS", "Use ROLLUP.")
    groups = Groups()
    factors = [_sets_of(part, groups, tail, block) for part in _parts(clause, groups, tail, block)]
    groups.sets = [tuple(sorted({i for s in combo for i in s})) for combo in product(*factors)]
    groups.plain = all(len(f) == 1 for f in factors) and groups.sets == [tuple(range(len(groups.keys)))]
    if len(groups.sets) > _MOST_SETS:
        raise UnsupportedError(
            f"{len(groups.sets)} grouping sets; more than {_MOST_SETS}", "Use fewer columns in CUBE."
        )
    return groups


def _parts(clause: exp.Group, groups: Groups, tail: Tail, block: Block) -> list[exp.Expr]:
    """What stands between commas; WITH ROLLUP, WITH CUBE or GROUPING SETS after them is about all of it."""
    parts: list[exp.Expr] = list(clause.expressions)
    for kind, name in ((exp.Rollup, "rollup"), (exp.Cube, "cube")):
        if clause.args.get(name):
            parts = [kind(expressions=parts)]
    if sets := clause.args.get("grouping_sets"):
        # The sets alone count; the list before them says in which order keys are numbered.
        for part in parts:
            _key(part, groups, tail, block)
        parts = list(sets)
    return parts


def _sets_of(part: exp.Expr, groups: Groups, tail: Tail, block: Block) -> list[tuple[int, ...]]:
    def element(node: exp.Expr) -> tuple[int, ...]:
        members = node.expressions if isinstance(node, exp.Tuple) else [node.unnest()]
        return tuple(_key(m, groups, tail, block) for m in members)

    match part:
        case exp.Rollup():
            elements = [element(e) for e in part.expressions]
            return [tuple(i for e in elements[:n] for i in e) for n in range(len(elements), -1, -1)]
        case exp.Cube():
            elements = [element(e) for e in part.expressions]
            chosen = product(*[(True, False)] * len(elements))
            return [tuple(i for e, c in zip(elements, c_, strict=True) if c for i in e) for c_ in chosen]
        case exp.GroupingSets():
            return [s for e in part.expressions for s in _nested_sets(e, groups, tail, block, element)]
    return [(_key(part, groups, tail, block),)]


def _nested_sets(
    node: exp.Expr,
    groups: Groups,
    tail: Tail,
    block: Block,
    element: Callable[[exp.Expr], tuple[int, ...]],
) -> list[tuple[int, ...]]:
    if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
        return _sets_of(node, groups, tail, block)
    return [element(node)]


def _key(node: exp.Expr, groups: Groups, tail: Tail, block: Block) -> int:
    found = _key_node(node.unnest(), tail, block)
    if has_aggregate(found):
        raise InvalidDefinitionError("an aggregate function in GROUP BY", "Group by what it aggregates.")
    text = sql_of(found)
    for n, k in enumerate(groups.keys):
        if sql_of(k) == text:
            return n
    groups.keys.append(found)
    return len(groups.keys) - 1


def _key_node(node: exp.Expr, tail: Tail, block: Block) -> exp.Expr:
    """A position or the name of a listed expression stands for it; columns come first."""
    from spark_trickle.sql.bind.subquery import subqueries_computed

    at: int | None = None
    if is_position(node):
        at = position_of(node, len(tail.items), "GROUP BY")
    elif _is_free(node) and block.scope.find((node.name,)) is None:
        names = [item.name.lower() for item in tail.items]
        at = names.index(node.name.lower()) if node.name.lower() in names else None
    if at is not None:
        # A subquery in it belongs to the rows before grouping, so the list takes its value from there too.
        tail.items[at] = replace(tail.items[at], node=subqueries_computed(tail.items[at].node, block))
        return tail.items[at].node.copy()
    return subqueries_computed(resolve(node, block.scope, block.env), block)


def _is_free(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and not node.table and not is_bound(node)


def expand_grouping_sets(groups: Groups, keys: list[Output], block: Block) -> tuple[list[Output], str]:
    """Every row once for each grouping set, keys that the set lacks as NULL; the set is part of the key."""
    env, width = block.env, len(groups.keys)
    number = env.fresh("set")
    every = ", ".join(str(n) for n in range(len(groups.sets)))
    plan = Generate(block.plan, Expr(f"explode(array({every}))"), (number,))
    own = frozenset((number,))
    nulled = []
    for n, key in enumerate(keys):
        members = [str(i) for i, s in enumerate(groups.sets) if n in s]
        test = f"`{number}` IN ({', '.join(members)})" if members else "false"
        value = f"CASE WHEN {test} THEN {key.expr.sql} END"
        nulled.append(Output(env.fresh("key"), Expr(value, key.expr.columns | own)))
    ids = [sum(1 << (width - 1 - n) for n in range(width) if n not in s) for s in groups.sets]
    cases = " ".join(f"WHEN {n} THEN {i}" for n, i in enumerate(ids))
    gid = env.fresh("gid")
    block.plan = Project(
        plan, (*outputs(plan.columns), *nulled, Output(gid, Expr(f"CASE `{number}` {cases} END", own)))
    )
    named = [Output(k.name, column(o.name)) for k, o in zip(keys, nulled, strict=True)]
    gid_key, set_key = env.fresh("gid"), env.fresh("set")
    return [*named, Output(gid_key, column(gid)), Output(set_key, column(number))], gid_key

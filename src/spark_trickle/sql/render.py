"""A tree -> one SQL text, in which `{t3_new}` stands for the rows of a source at a moment."""

from __future__ import annotations

from functools import singledispatch

from spark_trickle.algebra.change import (
    Added,
    Counted,
    Different,
    Fold,
    Half,
    Keys,
    Net,
    Partial,
    Shaken,
    Signed,
    Terms,
    Touched,
    Trimmed,
    Unfit,
    Untouched,
    Within,
)
from spark_trickle.algebra.operator import (
    Aggregate,
    Buffer,
    Call,
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    Materialized,
    Operator,
    Project,
    Recursive,
    Scan,
    SetOperation,
    Settled,
    TopK,
    UnionAll,
    Window,
)
from spark_trickle.sql.wide_decimals import minus, plus, zero

W = "_w"
_SQL_KIND = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


def frame_name(scan: Scan) -> str:
    return f"{scan.source}_{scan.moment}"


@singledispatch
def render(op: Operator) -> str:
    raise NotImplementedError(type(op).__name__)


def _names(columns: tuple[str, ...], weighted: bool = False) -> str:
    return ", ".join([*(f"`{c}`" for c in columns), *([W] if weighted else [])]) or "1 AS nothing"


def _columns(op: Operator) -> str:
    return _names(op.columns, op.weighted)


@render.register
def _(op: Scan) -> str:
    listed = ", ".join([*(f"`{c}` AS `{n}`" for n, c in op.names), *([W] if op.weighted else [])])
    return f"SELECT {listed or '1 AS nothing'} FROM {{{frame_name(op)}}}"


@render.register
def _(op: Constant) -> str:
    rows = ", ".join(f"({', '.join(v.sql for v in row)})" for row in op.rows)
    return f"SELECT * FROM VALUES {rows} AS v({', '.join(f'`{n}`' for n in op.names)})"


@render.register
def _(op: Project) -> str:
    listed = ", ".join([*(f"{o.expr.sql} AS `{o.name}`" for o in op.outputs), *([W] if op.weighted else [])])
    return f"SELECT {listed or '1 AS nothing'} FROM ({render(op.input)})"


@render.register
def _(op: Filter) -> str:
    return f"SELECT * FROM ({render(op.input)}) WHERE {op.predicate.sql}"


def _condition(op: Join) -> str:
    tests = [f"{k.left.sql} {'<=>' if k.null_safe else '='} {k.right.sql}" for k in op.keys]
    if op.residual is not None:
        tests.append(f"({op.residual.sql})")
    return " AND ".join(tests)


def _marked(op: Join, left: str, right: str) -> str:
    """Every left row has at most one partner among the different keys of the right side."""
    keys = [f"{k.right.sql} AS `{op.mark}_{n}`" for n, k in enumerate(op.keys)]
    same = [f"{k.left.sql} {'<=>' if k.null_safe else '='} `{op.mark}_{n}`" for n, k in enumerate(op.keys)]
    weight = f", {W}" if op.weighted else ""
    return (
        f"SELECT {_names(op.left.columns)}, `{op.mark}_hit` IS NOT NULL AS `{op.mark}`{weight} FROM ({left}) "
        f"LEFT JOIN (SELECT DISTINCT {', '.join(keys)}, true AS `{op.mark}_hit` FROM ({right})) "
        f"ON {' AND '.join(same)}"
    )


def _looked_for(op: Join, left: str, right: str) -> str:
    """Any condition: columns of a tree differ in their names, so it means the same in a subquery."""
    own, weight, on = _names(op.left.columns), f", {W}" if op.weighted else "", _condition(op) or "true"
    return f"SELECT {own}, EXISTS (SELECT 1 FROM ({right}) WHERE {on}) AS `{op.mark}`{weight} FROM ({left})"


@render.register
def _(op: Join) -> str:
    left, right, condition = render(op.left), render(op.right), _condition(op)
    on = f" ON {condition}" if condition else (" ON true" if op.kind is not JoinKind.INNER else "")
    if op.kind is JoinKind.MARK:
        return _marked(op, left, right) if op.residual is None and op.keys else _looked_for(op, left, right)
    kind = _SQL_KIND[op.kind] if condition or op.kind is not JoinKind.INNER else "CROSS JOIN"
    if op.broadcast:
        return f"SELECT /*+ BROADCAST(few) */ {_columns(op)} FROM ({left}) AS few {kind} ({right}){on}"
    return f"SELECT {_columns(op)} FROM ({left}) {kind} ({right}){on}"


@render.register
def _(op: Aggregate) -> str:
    """Keys are computed first: a constant key would be taken for a position in GROUP BY."""
    listed = [*(f"`{k.name}`" for k in op.keys), *(f"{c.expr.sql} AS `{c.name}`" for c in op.calls)]
    keys = "".join(f", {k.expr.sql} AS `{k.name}`" for k in op.keys)
    group = f" GROUP BY {', '.join(f'`{k.name}`' for k in op.keys)}" if op.keys else ""
    inner = f"SELECT *{keys} FROM ({render(op.input)})"
    return f"SELECT {', '.join([*listed, f'count(*) AS `{op.count}`'])} FROM ({inner}){group}"


@render.register
def _(op: UnionAll) -> str:
    weighted = op.weighted
    first = op.parts[0].columns
    parts = []
    for n, part in enumerate(op.parts):
        listed = ", ".join(
            f"`{c}`" if n == 0 or c == name else f"`{c}` AS `{name}`"
            for c, name in zip(part.columns, first, strict=True)
        )
        parts.append(f"SELECT {listed or '1 AS nothing'}{f', {W}' if weighted else ''} FROM ({render(part)})")
    return " UNION ALL ".join(parts)


@render.register
def _(op: SetOperation) -> str:
    left, right = (f"(SELECT {_names(s.columns)} FROM ({render(s)}))" for s in (op.left, op.right))
    return f"SELECT * FROM ({left} {op.kind.value} {right})"


@render.register
def _(op: Window) -> str:
    listed = ", ".join(f"{o.expr.sql} AS `{o.name}`" for o in op.outputs)
    return f"SELECT {_names(op.input.columns)}, {listed} FROM ({render(op.input)})"


@render.register
def _(op: TopK) -> str:
    order = f" ORDER BY {', '.join(k.sql for k in op.order)}" if op.order else ""
    limit = f" LIMIT {op.limit}" if op.limit is not None else ""
    offset = f" OFFSET {op.offset}" if op.offset else ""
    return f"SELECT {_names(op.columns)} FROM ({render(op.input)}){order}{limit}{offset}"


@render.register
def _(op: Buffer) -> str:
    place = f"rank() OVER (ORDER BY {', '.join(k.sql for k in op.order)})"
    ranked = f"SELECT {_names(op.columns)}, {place} AS place FROM ({render(op.input)})"
    return f"SELECT {_names(op.columns)} FROM ({ranked}) WHERE place <= {op.keep}"


@render.register
def _(op: Generate) -> str:
    names = f" AS {', '.join(f'`{n}`' for n in op.names)}" if op.names else ""
    outer = "OUTER " if op.outer else ""
    weight = f", {W}" if op.weighted else ""
    made = ", ".join(f"`{n}`" for n in op.names)
    listed = f"{_names(op.input.columns)}, {made}{weight}" if op.names else "*"
    return f"SELECT {listed} FROM ({render(op.input)}) LATERAL VIEW {outer}{op.generator.sql} g{names}"


@render.register(Materialized)
@render.register(Settled)
@render.register(Trimmed)
def _(op: Materialized | Settled | Trimmed) -> str:
    return render(op.input)


@render.register
def _(op: Recursive) -> str:
    """Only for its types: the rows are found step by step."""
    return render(op.base)


# --- deltas ------------------------------------------------------------------------------------------


@render.register
def _(op: Signed) -> str:
    weight = f"{op.sign} * {W}" if op.input.weighted else f"{op.sign}"
    return f"SELECT {_names(op.columns)}, {weight} AS {W} FROM ({render(op.input)})"


@render.register
def _(op: Half) -> str:
    return f"SELECT {_names(op.columns)} FROM ({render(op.input)}) WHERE {W} {'>' if op.sign > 0 else '<'} 0"


@render.register
def _(op: Different) -> str:
    return f"SELECT DISTINCT {_names(op.columns)} FROM ({render(op.input)})"


@render.register
def _(op: Keys) -> str:
    listed = ", ".join(f"{e.sql} AS k{n}" for n, e in enumerate(op.exprs))
    return f"SELECT {'DISTINCT ' * op.distinct}{listed or '1 AS nothing'} FROM ({render(op.input)})"


@render.register
def _(op: Touched) -> str:
    same = " AND ".join(f"{e.sql} <=> k{n}" for n, e in enumerate(op.exprs)) or "true"
    kind = "ANTI" if isinstance(op, Untouched) else "SEMI"
    return f"SELECT {_columns(op)} FROM ({render(op.input)}) LEFT {kind} JOIN ({render(op.keys)}) ON {same}"


@render.register
def _(op: Partial) -> str:
    sums = [
        f"coalesce(sum({_weighed(c.term.sql, c.type)}), {zero(c.type)}) AS `{c.name}`"
        for c in op.calls
        if c.term is not None and not c.pick and not c.ties_of
    ]
    # How many of the changed rows have the best value takes a second look at them, which few rows deserve.
    sums += [f"CAST(NULL AS BIGINT) AS `{c.name}`" for c in op.calls if c.ties_of]
    sums += [
        f"{c.pick}(CASE WHEN {W} {sign} 0 THEN {c.term.sql} END) AS `{name}`"
        for c in op.calls
        if c.term is not None and c.pick
        for sign, name in ((">", c.name), ("<", c.gone))
    ]
    listed = [*(f"`{k.name}`" for k in op.keys), *sums, f"coalesce(sum({W}), 0) AS `{op.count}`"]
    keys = "".join(f", {k.expr.sql} AS `{k.name}`" for k in op.keys)
    group = f" GROUP BY {', '.join(f'`{k.name}`' for k in op.keys)}" if op.keys else ""
    return f"SELECT {', '.join(listed)} FROM (SELECT *{keys} FROM ({render(op.input)})){group}"


@render.register
def _(op: Terms) -> str:
    listed = [f"{k.expr.sql} AS `{k.name}`" for k in op.keys]
    listed += [f"{_weighed(c.term.sql, c.type)} AS `{c.name}`" for c in op.calls if c.term is not None]
    return f"SELECT {', '.join([*listed, f'{W} AS `{op.count}`'])} FROM ({render(op.input)})"


@render.register
def _(op: Added) -> str:
    """Each key gives the row that goes and the row that comes."""
    names = (*(c.name for c in op.sums), op.count)
    kinds = (*(c.type for c in op.sums), "BIGINT")
    named = tuple(zip(names, kinds, strict=True))
    keys = [f"`{k}`" for k in op.keys]
    stored = [f"{_weighed(f'`{n}`', kind) if op.own.weighted else f'`{n}`'} AS `{n}`" for n, kind in named]
    both = (
        f"SELECT {_names((*op.keys, *names))}, 1 AS fresh FROM ({render(op.terms)}) UNION ALL "
        f"SELECT {', '.join([*keys, *stored])}, 0 AS fresh FROM ({render(op.own)})"
    )
    if op.here:
        both = f"SELECT /*+ COALESCE(1) */ * FROM ({both})"
    sums = [
        f"coalesce(sum({value}), {zero(kind)}) AS `{when}_{n}`"
        for n, kind in named
        for when, value in (("was", f"CASE WHEN fresh = 0 THEN `{n}` END"), ("is", f"`{n}`"))
    ]
    group = f"GROUP BY {', '.join(keys)} " if keys else ""
    summed = f"SELECT {', '.join([*keys, *sums])} FROM ({both}) {group}HAVING max(fresh) = 1"
    shown = [
        f"CAST(CASE WHEN sign < 0 THEN `was_{n}` ELSE `is_{n}` END AS {kind}) AS `{n}`" for n, kind in named
    ]
    moved = " OR ".join(f"`was_{n}` <> `is_{n}`" for n in names)
    there, comes = (f"`{when}_{op.count}` > 0" if keys else "true" for when in ("was", "is"))
    return (
        f"SELECT {', '.join([*keys, *shown])}, sign AS {W} FROM ({summed}) "
        f"LATERAL VIEW explode(array(-1, 1)) signs AS sign "
        f"WHERE ({moved}) AND ((sign < 0 AND {there}) OR (sign > 0 AND {comes}))"
    )


def _weighed(value: str, kind: str) -> str:
    return f"CASE WHEN {W} > 0 THEN {value} ELSE {minus(value, kind)} END"


def _folded(call: Call) -> str:
    """What was, or what is: a sum of both, or the better of both."""
    was, comes = f"own.`{call.name}`", f"part.`{call.name}`"
    if call.pick:
        better = "least" if call.pick == "min" else "greatest"
        return f"CASE WHEN sign < 0 THEN {was} ELSE {better}({was}, {comes}) END"
    total = plus(f"coalesce({was}, {zero(call.type)})", comes, call.type)
    return f"CASE WHEN sign < 0 THEN {was} ELSE {total} END"


def _still_tied(call: Call, op: Fold) -> str:
    """A better value has one row at least. Otherwise none of those that had the best one went."""
    pick = next(c for c in op.sums if c.name == call.ties_of)
    was, comes = f"own.`{pick.name}`", f"part.`{pick.name}`"
    better = f"{comes} IS NOT NULL AND ({was} IS NULL OR {comes} {'<' if pick.pick == 'min' else '>'} {was})"
    kept = f"coalesce(own.`{call.name}`, 0)"
    return f"CASE WHEN sign < 0 THEN own.`{call.name}` WHEN {better} THEN 1 ELSE {kept} END"


@render.register
def _(op: Counted) -> str:
    """The groups first, then each of their best values among the rows."""
    made, ties = op.input, {c.ties_of: c.name for c in op.input.calls if c.ties_of}
    keys = [k.name for k in made.keys]
    named = "".join(f", {k.expr.sql} AS `{k.name}`" for k in made.keys)
    rows, text = f"SELECT *{named} FROM ({render(made.input)})", render(made)
    for pick in made.calls:
        if pick.name not in ties or pick.term is None:
            continue
        same = [*(f"best.`{k}` <=> every.`{k}`" for k in keys), f"best.`{pick.name}` = every.trickle_value"]
        each = ", ".join([*(f"`{k}`" for k in keys), f"{pick.term.sql} AS trickle_value"])
        others = [c for c in made.columns if c not in keys and c != ties[pick.name]]
        shown = [*(f"best.`{k}`" for k in keys), *(f"any_value(best.`{c}`) AS `{c}`" for c in others)]
        group = f" GROUP BY {', '.join(f'best.`{k}`' for k in keys)}" if keys else ""
        text = (
            f"SELECT {', '.join(shown)}, count(every.trickle_value) AS `{ties[pick.name]}` "
            f"FROM ({text}) AS best LEFT JOIN (SELECT {each} FROM ({rows})) AS every "
            f"ON {' AND '.join(same)}{group}"
        )
    return f"SELECT {_names(op.columns)} FROM ({text})"


@render.register
def _(op: Shaken) -> str:
    same = " AND ".join(f"part.`{k}` <=> own.`{k}`" for k in op.keys) or "true"
    tests = [
        f"(part.`{c.gone}` IS NOT NULL AND (own.`{c.name}` IS NULL OR part.`{c.gone}` "
        f"{'<=' if c.pick == 'min' else '>='} own.`{c.name}`))"
        for c in op.picks
    ]
    listed = ", ".join(f"part.`{k}` AS k{n}" for n, k in enumerate(op.keys)) or "1 AS nothing"
    return (
        f"SELECT {listed} FROM ({render(op.partial)}) AS part LEFT JOIN ({render(op.own)}) AS own ON {same} "
        f"WHERE {' OR '.join(tests)}"
    )


@render.register
def _(op: Fold) -> str:
    """One join with the own rows; each pair gives the row that goes and the row that comes."""
    there = f"own.`{op.count}` IS NOT NULL"
    total = f"coalesce(own.`{op.count}`, 0) + part.`{op.count}`"
    keys = [f"CASE WHEN {there} THEN own.`{k}` ELSE part.`{k}` END AS `{k}`" for k in op.keys]
    moves = [_still_tied(c, op) if c.ties_of else _folded(c) for c in op.sums]
    sums = [f"CAST({m} AS {c.type}) AS `{c.name}`" for m, c in zip(moves, op.sums, strict=True)]
    count = f"CASE WHEN sign < 0 THEN own.`{op.count}` ELSE CAST({total} AS BIGINT) END AS `{op.count}`"
    same = " AND ".join(f"part.`{k}` <=> own.`{k}`" for k in op.keys)
    join = (
        f"LEFT JOIN ({render(op.own)}) AS own ON {same}"
        if op.keys
        else f"CROSS JOIN ({render(op.own)}) AS own"
    )
    moved = " OR ".join(
        [f"part.`{n}` <> 0" for n in (op.count, *(c.name for c in op.sums if not c.pick and not c.ties_of))]
        + [f"part.`{c.name}` IS NOT NULL" for c in op.sums if c.pick]
    )
    comes = f"{total} > 0" if op.keys else "true"
    return (
        f"SELECT {', '.join([*keys, *sums, count])}, sign AS {W} FROM ({render(op.partial)}) AS part {join} "
        f"CROSS JOIN (SELECT -1 AS sign UNION ALL SELECT 1 AS sign) AS both "
        f"WHERE ({moved}) AND ((sign < 0 AND {there}) OR (sign > 0 AND {comes}))"
    )


@render.register
def _(op: Net) -> str:
    names = _names(op.columns)
    summed = (
        f"SELECT {names}, CAST(sum({W}) AS BIGINT) AS total FROM ({render(op.input)}) "
        f"GROUP BY {names} HAVING sum({W}) <> 0"
    )
    if not op.single:
        return f"SELECT {names}, total AS {W} FROM ({summed})"
    return (
        f"SELECT {names}, CASE WHEN total > 0 THEN 1 ELSE -1 END AS {W} FROM ({summed}) "
        f"LATERAL VIEW explode(sequence(1L, abs(total))) copies AS copy"
    )


@render.register
def _(op: Within) -> str:
    """A row is not beyond the buffer if a row of it comes later, or is its equal in the order."""
    names = _names(op.columns)
    order = ", ".join(k.sql for k in op.order)
    both = (
        f"SELECT {names}, {W}, 0 AS mine FROM ({render(op.delta)}) UNION ALL "
        f"SELECT {names}, 1 AS {W}, 1 AS mine FROM ({render(op.own)})"
    )
    later = f"max(mine) OVER (ORDER BY {order} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS later"
    return f"SELECT {names}, {W} FROM (SELECT *, {later} FROM ({both})) WHERE mine = 0 AND later = 1"


@render.register
def _(op: Unfit) -> str:
    rows = f"SELECT {W} FROM ({render(op.within)}) UNION ALL SELECT 1 AS {W} FROM ({render(op.own)})"
    count = f"SELECT coalesce(sum({W}), 0) AS n FROM ({rows})"
    return f"SELECT 1 AS unfit FROM ({count}) WHERE n < {op.least} OR n > {op.most}"

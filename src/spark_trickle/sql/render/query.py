"""A tree -> one SQL text, in which `{t3_new}` stands for the rows of a source at a moment."""

from __future__ import annotations

from functools import singledispatch

from spark_trickle.algebra.change_operators import (
    Added,
    Counted,
    Different,
    Fixpoint,
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
from spark_trickle.algebra.operators import (
    Constant,
    Filter,
    Generate,
    Join,
    JoinKind,
    Operator,
    Project,
    Scan,
    SetOperation,
    Settled,
    UnionAll,
)
from spark_trickle.algebra.require import refuse
from spark_trickle.algebra.stateful_operators import Aggregate, Buffer, Materialized, Recursive, TopK, Window
from spark_trickle.model.quoting import quote
from spark_trickle.sql.render import groups as render_groups

W = "_w"
_SQL_KIND = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


def name_frame(scan: Scan) -> str:
    return f"{scan.source}_{scan.moment}"


@singledispatch
def render(op: Operator) -> str:
    refuse(op, "has no SQL")


def _write_names(columns: tuple[str, ...], weighted: bool = False) -> str:
    return ", ".join([*(quote(c) for c in columns), *([W] if weighted else [])]) or "1 AS nothing"


def _write_columns(op: Operator) -> str:
    return _write_names(op.columns, op.weighted)


@render.register
def _(op: Scan) -> str:
    listed = ", ".join([*(f"{quote(c)} AS {quote(n)}" for n, c in op.names), *([W] if op.weighted else [])])
    return f"SELECT {listed or '1 AS nothing'} FROM {{{name_frame(op)}}}"


@render.register
def _(op: Constant) -> str:
    rows = ", ".join(f"({', '.join(v.sql for v in row)})" for row in op.rows)
    return f"SELECT * FROM VALUES {rows} AS v({', '.join(quote(n) for n in op.names)})"


@render.register
def _(op: Project) -> str:
    listed = ", ".join(
        [*(f"{o.expr.sql} AS {quote(o.name)}" for o in op.outputs), *([W] if op.weighted else [])]
    )
    return f"SELECT {listed or '1 AS nothing'} FROM ({render(op.input)})"


@render.register
def _(op: Filter) -> str:
    return f"SELECT * FROM ({render(op.input)}) WHERE {op.predicate.sql}"


def _write_condition(op: Join) -> str:
    tests = [f"{k.left.sql} {'<=>' if k.null_safe else '='} {k.right.sql}" for k in op.keys]
    if op.residual is not None:
        tests.append(f"({op.residual.sql})")
    return " AND ".join(tests)


def _render_mark_by_join(op: Join, left: str, right: str) -> str:
    """Every left row has at most one partner among the different keys of the right side."""
    keys = [f"{k.right.sql} AS `{op.mark}_{n}`" for n, k in enumerate(op.keys)]
    same = [f"{k.left.sql} {'<=>' if k.null_safe else '='} `{op.mark}_{n}`" for n, k in enumerate(op.keys)]
    weight = f", {W}" if op.weighted else ""
    return (
        f"SELECT {_write_names(op.left.columns)}, `{op.mark}_hit` IS NOT NULL AS `{op.mark}`{weight} "
        f"FROM ({left}) "
        f"LEFT JOIN (SELECT DISTINCT {', '.join(keys)}, true AS `{op.mark}_hit` FROM ({right})) "
        f"ON {' AND '.join(same)}"
    )


def _render_mark_by_exists(op: Join, left: str, right: str) -> str:
    """Any condition: columns of a tree differ in their names, so it means the same in a subquery."""
    own, weight, on = (
        _write_names(op.left.columns),
        f", {W}" if op.weighted else "",
        _write_condition(op) or "true",
    )
    return f"SELECT {own}, EXISTS (SELECT 1 FROM ({right}) WHERE {on}) AS `{op.mark}`{weight} FROM ({left})"


@render.register
def _(op: Join) -> str:
    left, right, condition = render(op.left), render(op.right), _write_condition(op)
    on = f" ON {condition}" if condition else (" ON true" if op.kind is not JoinKind.INNER else "")
    if op.kind is JoinKind.MARK:
        return (
            _render_mark_by_join(op, left, right)
            if op.residual is None and op.keys
            else _render_mark_by_exists(op, left, right)
        )
    kind = _SQL_KIND[op.kind] if condition or op.kind is not JoinKind.INNER else "CROSS JOIN"
    if op.broadcast:
        return f"SELECT /*+ BROADCAST(few) */ {_write_columns(op)} FROM ({left}) AS few {kind} ({right}){on}"
    return f"SELECT {_write_columns(op)} FROM ({left}) {kind} ({right}){on}"


@render.register
def _(op: Aggregate) -> str:
    """Keys are computed first: a constant key would be taken for a position in GROUP BY."""
    listed = [*(quote(k.name) for k in op.keys), *(f"{c.expr.sql} AS {quote(c.name)}" for c in op.calls)]
    keys = "".join(f", {k.expr.sql} AS {quote(k.name)}" for k in op.keys)
    group = f" GROUP BY {', '.join(quote(k.name) for k in op.keys)}" if op.keys else ""
    inner = f"SELECT *{keys} FROM ({render(op.input)})"
    return f"SELECT {', '.join([*listed, f'count(*) AS {quote(op.count)}'])} FROM ({inner}){group}"


@render.register
def _(op: UnionAll) -> str:
    weighted = op.weighted
    first = op.parts[0].columns
    parts = []
    for n, part in enumerate(op.parts):
        listed = ", ".join(
            quote(c) if n == 0 or c == name else f"{quote(c)} AS {quote(name)}"
            for c, name in zip(part.columns, first, strict=True)
        )
        parts.append(f"SELECT {listed or '1 AS nothing'}{f', {W}' if weighted else ''} FROM ({render(part)})")
    return " UNION ALL ".join(parts)


@render.register
def _(op: SetOperation) -> str:
    left, right = (f"(SELECT {_write_names(s.columns)} FROM ({render(s)}))" for s in (op.left, op.right))
    return f"SELECT * FROM ({left} {op.kind.value} {right})"


@render.register
def _(op: Window) -> str:
    listed = ", ".join(f"{o.expr.sql} AS {quote(o.name)}" for o in op.outputs)
    return f"SELECT {_write_names(op.input.columns)}, {listed} FROM ({render(op.input)})"


@render.register
def _(op: TopK) -> str:
    order = f" ORDER BY {', '.join(k.sql for k in op.order)}" if op.order else ""
    limit = f" LIMIT {op.limit}" if op.limit is not None else ""
    offset = f" OFFSET {op.offset}" if op.offset else ""
    return f"SELECT {_write_names(op.columns)} FROM ({render(op.input)}){order}{limit}{offset}"


@render.register
def _(op: Buffer) -> str:
    place = f"rank() OVER (ORDER BY {', '.join(k.sql for k in op.order)})"
    ranked = f"SELECT {_write_names(op.columns)}, {place} AS place FROM ({render(op.input)})"
    return f"SELECT {_write_names(op.columns)} FROM ({ranked}) WHERE place <= {op.keep}"


@render.register
def _(op: Generate) -> str:
    names = f" AS {', '.join(quote(n) for n in op.names)}" if op.names else ""
    outer = "OUTER " if op.outer else ""
    weight = f", {W}" if op.weighted else ""
    made = ", ".join(quote(n) for n in op.names)
    listed = f"{_write_names(op.input.columns)}, {made}{weight}" if op.names else "*"
    return f"SELECT {listed} FROM ({render(op.input)}) LATERAL VIEW {outer}{op.generator.sql} g{names}"


@render.register(Materialized)
@render.register(Settled)
@render.register(Trimmed)
def _(op: Materialized | Settled | Trimmed) -> str:
    return render(op.input)


@render.register
def _(op: Recursive) -> str:
    refuse(op, "has no text of its own: a fixpoint finds its rows")


# --- deltas ------------------------------------------------------------------------------------------


@render.register
def _(op: Signed) -> str:
    weight = f"{op.sign} * {W}" if op.input.weighted else f"{op.sign}"
    return f"SELECT {_write_names(op.columns)}, {weight} AS {W} FROM ({render(op.input)})"


@render.register
def _(op: Half) -> str:
    compare = ">" if op.sign > 0 else "<"
    return f"SELECT {_write_names(op.columns)} FROM ({render(op.input)}) WHERE {W} {compare} 0"


@render.register
def _(op: Different) -> str:
    return f"SELECT DISTINCT {_write_names(op.columns)} FROM ({render(op.input)})"


@render.register
def _(op: Fixpoint) -> str:
    refuse(op, "has no text of its own: each of its plans has one")


@render.register
def _(op: Keys) -> str:
    listed = ", ".join(f"{e.sql} AS k{n}" for n, e in enumerate(op.exprs))
    return f"SELECT {'DISTINCT ' * op.distinct}{listed or '1 AS nothing'} FROM ({render(op.input)})"


@render.register
def _(op: Touched) -> str:
    same = " AND ".join(f"{e.sql} <=> k{n}" for n, e in enumerate(op.exprs)) or "true"
    kind = "ANTI" if isinstance(op, Untouched) else "SEMI"
    rows, keys = render(op.input), render(op.keys)
    return f"SELECT {_write_columns(op)} FROM ({rows}) LEFT {kind} JOIN ({keys}) ON {same}"


@render.register
def _(op: Partial) -> str:
    return render_groups.render_partial(op, render(op.input))


@render.register
def _(op: Terms) -> str:
    return render_groups.render_terms(op, render(op.input))


@render.register
def _(op: Added) -> str:
    return render_groups.render_added(op, render(op.terms), render(op.own))


@render.register
def _(op: Counted) -> str:
    return render_groups.render_counted(op, render(op.input), render(op.input.input))


@render.register
def _(op: Shaken) -> str:
    return render_groups.render_shaken(op, render(op.partial), render(op.own))


@render.register
def _(op: Fold) -> str:
    return render_groups.render_folded(op, render(op.partial), render(op.own))


@render.register
def _(op: Net) -> str:
    names = _write_names(op.columns)
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
    """A row is not beyond the buffer if a row of it comes later, or is its equal in the order.

    Nothing is beyond a buffer that has fewer rows than it needs.
    """
    names = _write_names(op.columns)
    order = ", ".join(k.sql for k in op.order)
    both = (
        f"SELECT {names}, {W}, 0 AS mine FROM ({render(op.delta)}) UNION ALL "
        f"SELECT {names}, 1 AS {W}, 1 AS mine FROM ({render(op.own)})"
    )
    later = f"max(mine) OVER (ORDER BY {order} RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS later"
    placed = f"SELECT *, {later}, sum(mine) OVER () AS held FROM ({both})"
    return f"SELECT {names}, {W} FROM ({placed}) WHERE mine = 0 AND (later = 1 OR held < {op.need})"


@render.register
def _(op: Unfit) -> str:
    change = f"SELECT {W}, 0 AS mine FROM ({render(op.within)})"
    rows = f"{change} UNION ALL SELECT 1 AS {W}, 1 AS mine FROM ({render(op.own)})"
    count = f"SELECT coalesce(sum({W}), 0) AS n, coalesce(sum(mine), 0) AS held FROM ({rows})"
    return f"SELECT 1 AS unfit FROM ({count}) WHERE (n < {op.least} AND held >= {op.least}) OR n > {op.most}"

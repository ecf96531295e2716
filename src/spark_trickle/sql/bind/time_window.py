"""`window.start` beside GROUP BY window(…) -> a field of that window."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.sql.bind.expressions import SUBQUERIES, rewrite
from spark_trickle.sql.bind.scope import Scope
from spark_trickle.sql.dialect.spark import name_of


def with_window_columns(select: exp.Select, scope: Scope) -> exp.Select:
    """Spark calls the windows of GROUP BY `window`, unless something else has that name."""
    group = select.args.get("group")
    calls = [g for g in (group.expressions if group is not None else ()) if name_of(g) == "window"]
    if len(calls) != 1 or scope.find(("window",)) is not None:
        return select
    if any(n.belongs_to(("window",)) for n in scope.columns):
        return select

    def replace_window_column(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, SUBQUERIES):
            return node.copy()
        names = [p.name for p in node.parts] if isinstance(node, exp.Column) else []
        if not names or names[0].lower() != "window":
            return None
        found: exp.Expr = calls[0].copy()
        for name in names[1:]:
            found = exp.Dot(this=found, expression=exp.to_identifier(name, quoted=True))
        return found

    copy = select.copy()
    copy.set("expressions", [_keep_name(e, rewrite(e, replace_window_column)) for e in select.expressions])
    for clause in ("having", "order", "qualify"):
        if (node := select.args.get(clause)) is not None:
            copy.set(clause, rewrite(node, replace_window_column))
    return copy


def _keep_name(before: exp.Expr, after: exp.Expr) -> exp.Expr:
    return exp.alias_(after, before.name) if isinstance(before, exp.Column) else after

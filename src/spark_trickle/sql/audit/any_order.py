"""A query whose aggregates depend on the order of rows -> what they may answer, and which answers are right.

A list may have its values in any order, and the first value of a group may be any of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.sql.dialect.spark import name_of, parse_expression, parse_query, sql_of

_LISTS = ("collect_list", "array_agg", "collect_set")
_TEXTS = ("listagg", "string_agg")
_ANY = ("first", "last", "any_value", "first_value", "last_value")
_BEST = {"max_by": "array_max", "min_by": "array_min"}


@dataclass(frozen=True)
class Loose:
    """The query with possible answers in some columns, and a test of each: f.c is there, w.c may be."""

    query: str
    tests: dict[int, str]  # by the number of the column, from 1
    picked: tuple[int, ...]  # those that hold possible answers

    def select_nearest(self, columns: Sequence[str], floats: Collection[str]) -> str:
        """The rows of {rows} with what {found} has in these columns, wherever that is right."""
        loose = {columns[n - 1]: test for n, test in self.tests.items()}
        picked = [columns[n - 1] for n in self.picked]
        keys = [c for c in columns if c not in loose and c not in floats]
        by = f"PARTITION BY {', '.join(keys)} " if keys else ""
        order = ", ".join(c for c in columns if c in floats) or "1"
        numbered = f"SELECT *, row_number() OVER ({by}ORDER BY {order}) AS place FROM"
        same = " AND ".join(["w.place = f.place", *(f"w.{c} <=> f.{c}" for c in keys)])
        other = {c: f"get(w.{c}, 0).v" if c in picked else f"w.{c}" for c in loose}
        listed = [
            f"CASE WHEN {loose[c]} THEN f.{c} ELSE {other[c]} END AS {c}" if c in loose else f"w.{c}"
            for c in columns
        ]
        return (
            f"SELECT {', '.join(listed)} FROM ({numbered} {{rows}}) AS w "
            f"LEFT JOIN ({numbered} {{found}}) AS f ON {same}"
        )


def find_loose_columns(sql: str, columns: Sequence[str]) -> Loose | None:
    """None if no column of the result is such an aggregate and nothing else."""
    query = parse_query(sql)
    if not isinstance(query, exp.Select) or query.args.get("distinct"):
        return None
    if len(query.expressions) != len(columns) or any(item.is_star for item in query.expressions):
        return None
    tests: dict[int, str] = {}
    picked = []
    for n, item in enumerate(query.expressions, start=1):
        column = columns[n - 1]
        call, condition = _read_call(item.unalias())
        name = name_of(call) if isinstance(call, exp.Anonymous) else ""
        if name in _LISTS:
            tests[n] = f"sort_array(f.{column}) <=> sort_array(w.{column})"
        elif name in _TEXTS:  # the same letters
            f, w = (f"sort_array(split({side}.{column}, ''))" for side in "fw")
            tests[n] = f"{f} <=> {w}"
        elif name in _ANY or (name in _BEST and len(call.expressions) == 2):
            possible, tests[n] = _list_possible_answers(call, name, column)
            picked.append(n)
            _replace_item(query, n - 1, f"{possible}{condition}", item.alias_or_name)
    return Loose(sql_of(query), tests, tuple(picked)) if tests else None


def _read_call(item: exp.Expr) -> tuple[exp.Expr, str]:
    if isinstance(item, exp.Filter):
        return item.this, f" FILTER (WHERE {sql_of(item.expression.this)})"
    return item, ""


def _list_possible_answers(call: exp.Expr, name: str, column: str) -> tuple[str, str]:
    """All answers that a call may give, and whether the one that is there is among them."""
    value = sql_of(call.expressions[0])
    if name in _ANY:
        test = f"exists(w.{column}, e -> e.v <=> f.{column}) OR (size(w.{column}) = 0 AND f.{column} IS NULL)"
        # A second argument leaves out nulls, unless there is nothing else.
        test += f" OR (f.{column} IS NULL AND forall(w.{column}, e -> e.v IS NULL))"
        return f"collect_list(struct({value} AS v))", test
    best = f"{_BEST[name]}(transform(w.{column}, e -> e.o))"
    test = f"exists(w.{column}, e -> e.v <=> f.{column} AND e.o = {best})"
    test += f" OR ({best} IS NULL AND f.{column} IS NULL)"
    return f"collect_list(struct({value} AS v, {sql_of(call.expressions[1])} AS o))", test


def _replace_item(query: exp.Select, at: int, text: str, name: str) -> None:
    items = list(query.expressions)
    made = parse_expression(text)
    assert made is not None
    items[at] = exp.alias_(made, name, quoted=True) if name else made
    query.set("expressions", items)

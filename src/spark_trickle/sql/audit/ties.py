"""A query with a LIMIT at its end -> the rows that it chooses from, and which choices are right.

Rows that are equal in the ORDER BY are chosen among as Spark likes: of a group that the limit cuts, any rows
will do, as long as they are as many as there is room for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from spark_trickle.sql.bind.aggregates import has_aggregate
from spark_trickle.sql.bind.expressions import rewrite
from spark_trickle.sql.bind.limit import read_number
from spark_trickle.sql.bind.positions import is_all, is_position, read_keys, read_position
from spark_trickle.sql.dialect.spark import parse_query, sql_of

_NO_END = 2**62


@dataclass(frozen=True)
class OrderedSlice:
    """All rows, as c1, c2, … with what orders them beside, and from where to where they are taken."""

    query: str
    order: tuple[str, ...]
    start: int
    end: int

    def select_nearest(self, columns: Sequence[str]) -> str:
        """The choice out of {rows} that has as many rows in common with {found} as can be.

        Copies of a row are told apart, so that one which is in no cut group is not taken for one that is.
        """
        listed = ", ".join(columns)
        by = f"ORDER BY {', '.join(self.order)}" if self.order else ""
        first = f"rank() OVER ({by})" if by else "1"
        groups = (
            f"SELECT {listed}, {first} AS first_place, count(*) OVER ({by}) AS last_place FROM {{rows}} AS r"
        )
        whole = f"(first_place > {self.start} AND last_place <= {self.end})"
        copies = (
            f"SELECT *, row_number() OVER (PARTITION BY {listed} ORDER BY {whole} DESC, first_place) AS copy "
            f"FROM ({groups}) WHERE last_place > {self.start} AND first_place <= {self.end}"
        )
        same = " AND ".join(f"w.{c} <=> f.{c}" for c in columns)
        there = f"SELECT {listed}, count(*) AS there FROM {{found}} GROUP BY {listed}"
        room = f"least(last_place, {self.end}) - greatest(first_place - 1, {self.start})"
        turns = (
            f"SELECT {', '.join(f'w.{c}' for c in columns)}, {room} AS room, row_number() OVER "
            f"(PARTITION BY first_place ORDER BY coalesce(copy <= there, false) DESC) AS turn "
            f"FROM ({copies}) AS w LEFT JOIN ({there}) AS f ON {same}"
        )
        return f"SELECT {listed} FROM ({turns}) WHERE turn <= room"


def find_choice(sql: str, names: Sequence[str]) -> OrderedSlice | None:
    """None if no limit is at the end, or the order is of something that cannot be shown beside the rows.

    `names` are the columns of the result, as Spark calls them.
    """
    query = parse_query(sql)
    while isinstance(query, exp.Subquery) and not any(v for k, v in query.args.items() if k != "this"):
        query = query.this
    limit, start = read_number(query, "limit"), read_number(query, "offset") or 0
    if limit is None and not start:
        return None
    rows = query.copy()
    for clause in ("order", "limit", "offset"):
        rows.set(clause, None)
    beside: list[exp.Expr] = []
    keys = [_write_key(o, rows, [n.lower() for n in names], beside) for o in _read_order_keys(query, names)]
    if not all(keys):
        return None
    for n, value in enumerate(beside, start=1):
        rows.append("expressions", exp.alias_(value, f"_o{n}"))
    columns = [*(f"c{n + 1}" for n in range(len(names))), *(f"o{n + 1}" for n in range(len(beside)))]
    text = f"SELECT * FROM ({sql_of(rows)}) AS q({', '.join(columns)})"
    return OrderedSlice(text, tuple(keys), start, _NO_END if limit is None else start + limit)


def _read_order_keys(query: exp.Expr, names: Sequence[str]) -> list[exp.Ordered]:
    keys = read_keys(query.args.get("order"))
    if not is_all(keys) or "all" in (n.lower() for n in names):
        return keys
    each = {k: v for k, v in keys[0].args.items() if k != "this"}
    return [exp.Ordered(this=exp.Literal.number(n), **each) for n, _ in enumerate(names, start=1)]


def _write_key(ordered: exp.Ordered, rows: exp.Expr, names: list[str], beside: list[exp.Expr]) -> str:
    """What one part of the ORDER BY is over c1, c2, …, o1, o2, …; an empty text if nothing."""
    value = _find_in_result(ordered.this, rows, names)
    if not value:
        if not isinstance(rows, exp.Select) or rows.args.get("distinct"):
            return ""
        beside.append(_resolve_aliases(ordered.this, rows))
        value = f"o{len(beside)}"
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    first = (not descending) if nulls_first is None else bool(nulls_first)
    return f"{value} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def _find_in_result(node: exp.Expr, rows: exp.Expr, names: list[str]) -> str:
    """The value over columns of the result; an empty text if it needs others."""
    if is_position(node):
        return f"c{read_position(node, len(names), 'ORDER BY') + 1}"
    if isinstance(rows, exp.Select) and not any(item.is_star for item in rows.expressions):
        listed = [sql_of(item.unalias()) for item in rows.expressions]
        if len(listed) == len(names) and sql_of(node) in listed:
            return f"c{listed.index(sql_of(node)) + 1}"
    columns = list(node.find_all(exp.Column))
    if not columns or any(c.table or names.count(c.name.lower()) != 1 for c in columns):
        return ""
    if has_aggregate(node) or node.find(exp.Window, exp.Query):
        return ""

    def replace_column(part: exp.Expr) -> exp.Expr | None:
        return exp.column(f"c{names.index(part.name.lower()) + 1}") if isinstance(part, exp.Column) else None

    return sql_of(rewrite(node, replace_column))


def _resolve_aliases(node: exp.Expr, rows: exp.Select) -> exp.Expr:
    """ORDER BY knows the names that the list gives, aggregate functions in it do not."""
    if has_aggregate(node):
        return node.copy()
    given = {i.alias.lower(): i.this for i in rows.expressions if isinstance(i, exp.Alias)}

    def replace_alias(part: exp.Expr) -> exp.Expr | None:
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in given:
            return exp.Paren(this=given[part.name.lower()].copy())
        return None

    return rewrite(node, replace_alias)

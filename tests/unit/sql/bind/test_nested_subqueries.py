"""However deep queries are nested, each reads its table twice: to see what it uses, and for good."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from spark_trickle.algebra.operators import Operator
from spark_trickle.algebra.references import TableRef
from spark_trickle.sql.bind.query import bind
from spark_trickle.sql.bind.scope import ReadableTable, SourceView

DEEPEST = 8

# Each writes level n of a query; `inner` is level n + 1. The table of level n is called tn.
Write = Callable[[int, str], str]
LEVELS: dict[str, Write] = {
    "EXISTS": lambda n, inner: f"t{n}.a IN (1, 2) AND EXISTS (SELECT 1 FROM t AS t{n + 1} WHERE {inner})",
    "EXISTS, correlated": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM t AS t{n + 1} WHERE t{n + 1}.a = t{n}.a AND {inner})"
    ),
    "EXISTS, correlated with the outermost": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM t AS t{n + 1} WHERE t{n + 1}.a = t0.b AND {inner})"
    ),
    "EXISTS under OR": lambda n, inner: (
        f"(t{n}.b = 1 OR EXISTS (SELECT 1 FROM t AS t{n + 1} WHERE t{n + 1}.a = t{n}.a AND {inner}))"
    ),
    "EXISTS after UNION ALL": lambda n, inner: (
        f"EXISTS (SELECT t{n}.a UNION ALL SELECT 1 FROM t AS t{n + 1} WHERE {inner})"
    ),
    "EXISTS with WITH": lambda n, inner: (
        f"EXISTS (WITH c AS (SELECT a FROM t AS t{n + 1} WHERE a = t{n}.a AND {inner}) SELECT 1 FROM c)"
    ),
    "IN": lambda n, inner: f"t{n}.a IN (SELECT b FROM t AS t{n + 1} WHERE {inner})",
    "IN, correlated": lambda n, inner: (
        f"t{n}.a IN (SELECT b FROM t AS t{n + 1} WHERE t{n + 1}.a > t{n}.b AND {inner})"
    ),
    "IN, correlated in its list": lambda n, inner: (
        f"t{n}.a IN (SELECT b + t{n}.b FROM t AS t{n + 1} WHERE {inner})"
    ),
    "NOT IN": lambda n, inner: f"t{n}.a NOT IN (SELECT b FROM t AS t{n + 1} WHERE {inner})",
    "ALL": lambda n, inner: f"t{n}.a > ALL (SELECT b FROM t AS t{n + 1} WHERE {inner})",
    "scalar": lambda n, inner: f"t{n}.a = (SELECT max(b) FROM t AS t{n + 1} WHERE {inner})",
    "scalar, correlated by =": lambda n, inner: (
        f"t{n}.a = (SELECT max(b) FROM t AS t{n + 1} WHERE t{n + 1}.a = t{n}.a AND {inner})"
    ),
    "scalar, correlated by >": lambda n, inner: (
        f"t{n}.a = (SELECT max(b) FROM t AS t{n + 1} WHERE t{n + 1}.a > t{n}.a AND {inner})"
    ),
    "scalar of one row": lambda n, inner: (
        f"t{n}.a = (SELECT b FROM t AS t{n + 1} WHERE t{n + 1}.a = t{n}.a AND {inner})"
    ),
    "derived table": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM (SELECT b FROM t AS t{n + 1} WHERE {inner}) d WHERE d.b = t{n}.a)"
    ),
    "derived table, correlated": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM (SELECT b FROM t AS t{n + 1} WHERE t{n + 1}.a = t{n}.a AND {inner}) d)"
    ),
    "LATERAL": lambda n, inner: (
        f"t{n}.a IN (SELECT d.b FROM t AS t{n + 1}, LATERAL"
        f" (SELECT max(b) AS b FROM t AS x WHERE x.a = t{n + 1}.a AND x.b > t{n}.b) d WHERE {inner})"
    ),
    "nested LATERAL": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM t AS t{n + 1}, LATERAL (SELECT b FROM t AS x WHERE x.a = t{n + 1}.a AND {inner}) d)"
    ),
    "ON of an outer join": lambda n, inner: (
        f"EXISTS (SELECT 1 FROM t AS x LEFT JOIN t AS t{n + 1} ON x.a = t{n + 1}.a AND {inner})"
    ),
}


def _write(kind: str, depth: int) -> str:
    condition = f"t{depth}.b > 0"
    for n in reversed(range(depth)):
        condition = LEVELS[kind](n, condition)
    return f"SELECT t0.a FROM t AS t0 WHERE {condition}"


def _count_scans(sql: str) -> int:
    """How often binding a query asks for a table, which it does for every scan."""
    asked: list[tuple[str, ...]] = []

    def find(parts: tuple[str, ...], home: str) -> ReadableTable | SourceView | None:
        asked.append(parts)
        return ReadableTable(TableRef(1), ("a", "b"))

    bind(sql, find, _types, "main")
    return len(asked)


def _types(op: Operator) -> dict[str, str]:
    return dict.fromkeys(op.columns, "int")


@pytest.mark.parametrize("kind", LEVELS)
def test_a_level_more_costs_what_the_one_before_did(kind: str) -> None:
    scans = [_count_scans(_write(kind, depth)) for depth in range(1, DEEPEST + 1)]
    tables = [_write(kind, depth).count("FROM t ") + _write(kind, depth).count("JOIN t ") for depth in (1, 2)]
    each_level = tables[1] - tables[0]
    assert scans[0] <= 1 + 2 * each_level
    assert {after - before for before, after in pairwise(scans)} <= {2 * each_level}

"""Expressions: their texts, what a condition asks for, and how plans keep them."""

from __future__ import annotations

import json
import sys

import pytest

from spark_trickle.algebra.conditions import join_conjuncts, split_shared_conjuncts
from spark_trickle.algebra.expressions import (
    NULL,
    And,
    Arithmetic,
    Brackets,
    Case,
    Cast,
    Column,
    Comparison,
    Expr,
    Field,
    Function,
    InList,
    Interval,
    Is,
    Literal,
    LiteralKind,
    Negate,
    Not,
    Opaque,
    Or,
    integer,
)
from spark_trickle.algebra.operators import Filter, Operator, Scan
from spark_trickle.algebra.references import TableRef
from spark_trickle.algebra.serialize import dump, load
from spark_trickle.sql.bind.translate import keep_text, read_expression

A, B, C, D = (Column(n) for n in "abcd")
IS_A, IS_B, IS_C, IS_D = (Comparison("=", c, integer(1)) for c in (A, B, C, D))

TEXTS = {
    "`a``b`": Column("a`b"),
    "`a`.`b`": Field(A, "b"),
    "'it\\'s \\\\ \\n'": Literal("it's \\ \n", LiteralKind.STRING),
    "INTERVAL '3' DAY": Interval(Literal("3", LiteralKind.STRING), "DAY"),
    "- -1": Negate(Negate(integer(1))),
    "CAST(`a` AS INT)": Cast(A, "INT"),
    "TRY_CAST(`a` AS INT)": Cast(A, "INT", safe=True),
    "coalesce(`a`, 1)": Function("coalesce", (A, integer(1))),
    "CASE WHEN `a` = 1 THEN `b` END": Case(((IS_A, B),)),
    "CASE `a` WHEN 1 THEN `b` ELSE `c` END": Case(((integer(1), B),), C, A),
    "`a` IS NOT NULL": Is(A, NULL, negated=True),
    "`a` IN (1, 2)": InList(A, (integer(1), integer(2))),
    "`a` = 1 AND `b` = 1 AND `c` = 1": And((IS_A, IS_B, IS_C)),
}


@pytest.mark.parametrize("text", TEXTS)
def test_text(text: str) -> None:
    assert TEXTS[text].sql == text


def test_equal_texts_over_equal_columns_are_equal() -> None:
    assert Column("a") == Opaque("`a`", frozenset("a"))
    assert len({Column("a"), Opaque("`a`", frozenset("a")), Opaque("`a`")}) == 2


def test_columns_are_those_of_the_parts() -> None:
    made = Case(((IS_A, Opaque("f(`b`)", frozenset("b"))),), Brackets(Field(C, "d")))
    assert made.columns == {"a", "b", "c"}
    assert made.column is None
    assert A.column == keep_text("`a`", frozenset("a")).column == "a"


def _in(test: Expr) -> Expr:
    return Brackets(Brackets(test))


@pytest.mark.parametrize(
    ("test", "wanted"),
    [
        (IS_A, [IS_A]),
        (_in(And((_in(And((IS_A, IS_B))), IS_C))), [IS_A, IS_B, IS_C]),
        (Or((IS_A, IS_B)), [Or((IS_A, IS_B))]),
        (Or((And((IS_A, IS_B)), And((IS_C, IS_A)))), [IS_A, Or((IS_B, IS_C))]),
        (Or((And((IS_A, IS_B, IS_C)), IS_A)), [IS_A]),
        (
            Or((And((IS_A, IS_B, IS_C)), _in(And((IS_D, _in(IS_A)))))),
            [IS_A, Or((Brackets(And((IS_B, IS_C))), IS_D))],
        ),
    ],
)
def test_what_alternatives_share_is_asked_for_by_itself(test: Expr, wanted: list[Expr]) -> None:
    assert split_shared_conjuncts(test) == wanted
    assert split_shared_conjuncts(keep_text(test.sql, test.columns)) == wanted


def test_conjunction() -> None:
    assert join_conjuncts([]) is None
    assert join_conjuncts([IS_A]) is IS_A
    both = join_conjuncts([Or((IS_A, IS_B)), IS_C])
    assert both is not None
    assert both.sql == "(`a` = 1 OR `b` = 1) AND (`c` = 1)"


# --- in plans ------------------------------------------------------------------------------------------


def _plan(test: Expr) -> tuple[Operator, ...]:
    return (Filter(Scan(TableRef(1), (("a", "x"), ("b", "y"))), test),)


def test_plans_of_older_versions_have_their_expressions_as_texts() -> None:
    test = And((IS_A, Not(Is(B, NULL))))
    now = json.loads(dump(_plan(test)))
    now[0]["predicate"] = {"": "Expr", "sql": test.sql, "columns": {"": "set", "v": ["a", "b"]}}
    loaded = load(json.dumps(now), read_expression)
    assert loaded == _plan(test)
    assert isinstance(loaded[0], Filter)
    assert split_shared_conjuncts(loaded[0].predicate) == list(test.tests)
    assert json.loads(dump(loaded)) == now


def test_a_deep_expression_is_kept() -> None:
    deep: Expr = A
    for _ in range(300):
        deep = Arithmetic("+", deep, integer(1))
    limit = sys.getrecursionlimit()
    try:
        text = dump(_plan(deep))
        sys.setrecursionlimit(1000)
        assert load(text, read_expression) == _plan(deep)
    finally:
        sys.setrecursionlimit(limit)

"""sqlglot's tree of an expression -> ours: the text stays, and what is not understood is left to Spark."""

from __future__ import annotations

import pytest

from spark_trickle.algebra.expressions import (
    And,
    Arithmetic,
    Between,
    Brackets,
    Case,
    Cast,
    Column,
    Comparison,
    Extract,
    Field,
    Function,
    InList,
    Interval,
    Is,
    Like,
    Literal,
    Negate,
    Not,
    Opaque,
    Or,
    Written,
)
from spark_trickle.sql.bind.translate import keep_text, read_expression, translate
from spark_trickle.sql.dialect.spark import parse_expression, sql_of

COLUMNS = frozenset("abcd")

FORMS = {
    "`a`": Column,
    "`a`.`x`.`y`": Field,
    "`a`.`x`.`y`.`z`.`w`": Field,
    "1.50BD": Literal,
    "'it\\'s'": Literal,
    "TRUE": Literal,
    "NULL": Literal,
    "INTERVAL '3' MONTHS": Interval,
    "INTERVAL '1 day'": Interval,
    "(`a`)": Brackets,
    "- -`a`": Negate,
    "`a` + `b` * `c` - `d` / 2": Arithmetic,
    "CAST(`a` AS DECIMAL(10, 2))": Cast,
    "TRY_CAST(`a` AS INT)": Cast,
    "CAST('2020-01-01' AS DATE)": Cast,
    "EXTRACT(YEAR FROM `a`)": Extract,
    "COALESCE(`a`, ABS(`b`))": Function,
    "SUBSTRING(`a`, 2, 3)": Function,
    "IF(`a`, 1, 2)": Function,
    "CASE WHEN `a` > 1 THEN 1 ELSE 2 END": Case,
    "CASE `a` WHEN 1 THEN 2 END": Case,
    "`a` = `b`": Comparison,
    "`a` IS NOT DISTINCT FROM `b`": Comparison,
    "`a` > 1 AND `b` < 2 AND `c` <> 3": And,
    "`a` >= 1 OR `b` <= 2": Or,
    "NOT `a` IS NULL": Not,
    "`a` IS TRUE": Is,
    "`a` IN (1, 'x')": InList,
    "`a` BETWEEN 1 AND 2": Between,
    "`a` NOT LIKE 'x%'": Like,
    # left to Spark
    "`a` % 2": Opaque,
    "`a` || `b`": Opaque,
    "`a`[0]": Opaque,
    "`a` IN (SELECT 1)": Opaque,
    "`a` LIKE 'x' ESCAPE '!'": Opaque,
    "(`a`).x": Opaque,
    "SUM(`a`) FILTER(WHERE `b`)": Opaque,
    "ROW_NUMBER() OVER (PARTITION BY `a` ORDER BY `b`)": Opaque,
}


@pytest.mark.parametrize("text", FORMS)
def test_form(text: str) -> None:
    tree = parse_expression(text)
    assert tree is not None
    assert sql_of(tree) == text, "written as sqlglot writes it"
    found = translate(tree, lambda c: c.parts[0].name in COLUMNS)
    assert type(found) is FORMS[text]
    assert found.sql == text
    assert found.columns == {c for c in COLUMNS if f"`{c}`" in text}


def test_a_part_that_only_spark_reads_leaves_the_rest_readable() -> None:
    found = read_expression("`a` = 1 AND `b` % 2 = 1", COLUMNS)
    assert isinstance(found, And)
    last = found.tests[1]
    assert isinstance(last, Comparison)
    assert isinstance(last.left, Opaque)
    assert last.left.columns == {"b"}


@pytest.mark.parametrize(
    "text", ["`a` /* why */ > 1", "`a`  !=  1", "coalesce(`a`, 1)", "(`a`) IS NOT NULL", "`a` = decimal'1'"]
)
def test_other_words_are_kept(text: str) -> None:
    found = keep_text(text, frozenset("a"))
    assert isinstance(found, Written)
    assert (found.sql, found.columns) == (text, {"a"})
    assert found.meaning.columns == {"a"}


def test_a_comment_stays_in_the_text() -> None:
    tree = parse_expression("`a` /* why */ > 1")
    assert tree is not None
    found = translate(tree, lambda c: True)
    assert found.sql == sql_of(tree) == "`a` /* why */ > 1"
    assert isinstance(found.meaning, Comparison)


def test_what_is_no_column_is_left_to_spark() -> None:
    assert read_expression("`x` > 1", COLUMNS).columns == frozenset()


def test_what_cannot_be_read_is_left_to_spark() -> None:
    assert type(read_expression("`a` ~~ (", frozenset("a"))) is Opaque

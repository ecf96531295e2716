"""One name, one meaning; and names that stand in catalogs stay what they are."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import spark_trickle
from spark_trickle.algebra import serialize

SOURCE = Path(spark_trickle.__file__).parent

# What the plans in the catalogs of users call the operators, expressions and kinds they are made of.
STORED = """
Aggregate And Arithmetic At Between Brackets Call Case Cast Column Comparison Constant Extract Field Filter
Function Generate InList Interval Is Join JoinKind KeyPair Like Literal LiteralKind Materialized Negate Not
Opaque Or Output Project Recursive Scan SetKind SetOperation Settled SortKey TopK UnionAll Window
"""


def test_no_two_classes_share_a_name() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []


def test_a_stored_plan_finds_its_classes() -> None:
    assert set(STORED.split()) - set(serialize.CLASSES) == set()

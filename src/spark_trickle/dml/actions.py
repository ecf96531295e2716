"""Columns of a query that say what a statement does to each row."""

from __future__ import annotations

from spark_trickle.model.table import Table
from spark_trickle.model.types import holds_float, is_float

ACTION, TARGET, SAME = "_trickle_action", "_trickle_target", "_trickle_same"
INSERT, UPDATE, DELETE = "I", "U", "D"


def old(n: int) -> str:
    """The old image of the n-th column."""
    return f"_o{n}"


def new(n: int) -> str:
    """The new image of the n-th column."""
    return f"_n{n}"


def same_image_sql(table: Table) -> str:
    """Whether an update leaves a row as it was; 0.0 and −0.0 are equal but not the same."""
    tests = []
    for n, column in enumerate(table.columns):
        tests.append(f"{old(n)} <=> {new(n)}")
        if is_float(column.type):
            tests.append(f"({old(n)} <> 0 OR {old(n)} IS NULL OR string({old(n)}) = string({new(n)}))")
        elif holds_float(column.type):
            tests.append(f"string({old(n)}) <=> string({new(n)})")
    return " AND ".join(tests)

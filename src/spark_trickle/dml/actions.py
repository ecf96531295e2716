"""Columns of a query that say what a statement does to each row."""

from __future__ import annotations

from spark_trickle.model.table import Table
from spark_trickle.model.types import holds_float, is_float

ACTION, TARGET, SAME = "_trickle_action", "_trickle_target", "_trickle_same"
INSERT, UPDATE, DELETE = "I", "U", "D"


def old_image(n: int) -> str:
    """The old image of the n-th column."""
    return f"_o{n}"


def new_image(n: int) -> str:
    """The new image of the n-th column."""
    return f"_n{n}"


def same_image_sql(table: Table) -> str:
    """Whether an update leaves a row as it was; 0.0 and −0.0 are equal but not the same."""
    tests = []
    for n, column in enumerate(table.columns):
        old, new = old_image(n), new_image(n)
        tests.append(f"{old} <=> {new}")
        if is_float(column.type):
            tests.append(f"({old} <> 0 OR {old} IS NULL OR string({old}) = string({new}))")
        elif holds_float(column.type):
            tests.append(f"string({old}) <=> string({new})")
    return " AND ".join(tests)

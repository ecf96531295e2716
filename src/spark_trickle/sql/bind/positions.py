"""ORDER BY 2, GROUP BY 2 and ORDER BY ALL -> places in the list of a query."""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.errors import InvalidDefinitionError
from spark_trickle.model.numbers import read_whole_number
from spark_trickle.sql.lexer.places import place_of

_LARGEST = 2_147_483_647  # a larger number has another type, and is no position


def is_position(node: exp.Expr) -> bool:
    """A number stands for a column of the list, also one that no list has, as -1; 1L is just a number."""
    return _read_number(node) is not None


def read_position(node: exp.Expr, width: int, clause: str) -> int:
    """Where in a list of that many expressions, counted from zero."""
    number = _read_number(node)
    if number is None or not 1 <= number <= width:
        raise InvalidDefinitionError(
            f"{clause} position {number} is not in the list",
            f"Write a number from 1 to {width}, or the expression itself.",
            place_of(node),
        )
    return number - 1


def _read_number(node: exp.Expr) -> int | None:
    """Spark reads -1 as one number, but -(1) and +1 as what is computed of one."""
    node = node.unnest()
    digits = node.this if isinstance(node, exp.Neg) else node
    if not isinstance(digits, exp.Literal) or digits.is_string:
        return None
    number = read_whole_number(str(digits.this))
    if number is None or number > _LARGEST:
        return None
    return number if digits is node else -number


def read_keys(order: exp.Expr | None) -> list[exp.Ordered]:
    """The keys of an ORDER BY, with ALL as the name of a column: it may be one."""
    if order is None:
        return []
    return [_replace_by_column(o) if isinstance(o.this, exp.Var) else o for o in order.expressions]


def _replace_by_column(ordered: exp.Ordered) -> exp.Ordered:
    copy: exp.Ordered = ordered.copy()
    copy.set("this", exp.column(ordered.this.name))
    return copy


def is_all(keys: list[exp.Ordered]) -> bool:
    """ORDER BY ALL means the whole list, if no column has that name and no other key is there."""
    return len(keys) == 1 and [p.name.upper() for p in getattr(keys[0].this, "parts", ())] == ["ALL"]

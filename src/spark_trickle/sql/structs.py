"""struct(a, b) -> named_struct with these names: the tree has others, and Spark would take those."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from spark_trickle.sql.dialect import Verbatim, name_of
from spark_trickle.sql.expressions import bound
from spark_trickle.sql.scope import Scope

_MAKES_A_STRUCT = (exp.Alias, exp.Anonymous, exp.Select)  # where (a, b) is one value, and not a list


def is_struct(node: exp.Expr) -> bool:
    if isinstance(node, exp.Tuple):
        alone = node.parent is None or isinstance(node.parent, _MAKES_A_STRUCT)
        return alone and bool(node.expressions)
    return name_of(node) == "struct"


def members(node: exp.Expr, scope: Scope) -> Iterator[tuple[str, exp.Expr]]:
    """The fields of a struct as Spark calls them; * stands for all columns."""
    for position, part in enumerate(node.expressions, start=1):
        if is_star(part):
            yield from ((n, bound(c)) for n, c in scope.star(qualifier(part)))
        elif isinstance(part, exp.Alias):
            yield part.alias, part.this
        else:
            yield part.name if isinstance(part, exp.Column | exp.Dot) else f"col{position}", part


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def qualifier(star: exp.Expr) -> tuple[str, ...]:
    return tuple(p.name for p in star.parts[:-1]) if isinstance(star, exp.Column) else ()


def named_struct(fields: list[tuple[str, exp.Expr]]) -> exp.Expr:
    parts = [p for name, value in fields for p in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=parts)


def field_names(kind: str) -> tuple[str, ...]:
    """The fields of a type in Spark's notation, or none."""
    if not kind.lower().startswith("struct<"):
        return ()
    return tuple(f.name for f in exp.DataType.build(kind, dialect=Verbatim).expressions)

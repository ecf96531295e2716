"""Functions that see how their arguments are written -> the same, with what they see said in words.

The tree has other names for columns, and Spark would take those for the fields of struct(a, b) and of
arrays_zip(a, b). `*` among the arguments is the columns of the query, not all that the tree carries along.
"""

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


def is_zip(node: exp.Expr) -> bool:
    return name_of(node) == "arrays_zip"


def takes_star(node: exp.Expr) -> bool:
    """Whether `*` is among the arguments; that of count(*) stands for rows, not for columns."""
    listed = isinstance(node, exp.Func | exp.In | exp.Distinct) and name_of(node) != "count"
    return listed and any(is_star(part) for part in node.expressions)


Argument = tuple[str, exp.Expr]  # its name, if it has one


def arguments(node: exp.Expr, scope: Scope) -> Iterator[Argument]:
    for part in node.expressions:
        if is_star(part):
            left_out = left_out_of(part)
            found = scope.star(qualifier(part))
            yield from ((n, bound(c)) for n, c in found if n.lower() not in left_out)
        elif isinstance(part, exp.Alias):
            yield part.alias, part.this
        else:
            yield _written_name(part), part


def _written_name(node: exp.Expr) -> str:
    """What Spark calls a value by how it is written: a column, a field, or a variable of a lambda."""
    node = node.unnest()
    match node:
        case exp.Column() | exp.Dot() | exp.Identifier():
            return node.name
        case exp.Bracket(expressions=[exp.Literal() as key]) if key.is_string:
            return key.name
    return ""


def named_struct(fields: list[Argument]) -> exp.Expr:
    named = [(name or f"col{n}", value) for n, (name, value) in enumerate(fields, start=1)]
    parts = [p for name, value in named for p in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=parts)


def zipped(fields: list[Argument]) -> exp.Expr:
    """coalesce(x) is x, but no column: Spark calls such a field by its position, whatever x is called."""
    values = [exp.Anonymous(this="coalesce", expressions=[value]) for _, value in fields]
    found = exp.Anonymous(this="arrays_zip", expressions=values)
    if not any(name for name, _ in fields):
        return found
    one = exp.to_identifier("z")
    inner: list[Argument] = [
        (name or str(n), exp.Dot(this=one.copy(), expression=exp.to_identifier(str(n), quoted=True)))
        for n, (name, _) in enumerate(fields)
    ]
    each = exp.Lambda(this=named_struct(inner), expressions=[one])
    return exp.Anonymous(this="transform", expressions=[found, each])


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def qualifier(star: exp.Expr) -> tuple[str, ...]:
    return tuple(p.name for p in star.parts[:-1]) if isinstance(star, exp.Column) else ()


def left_out_of(star: exp.Expr) -> frozenset[str]:
    """The columns of * EXCEPT (…), in lower case."""
    inner = star.this if isinstance(star, exp.Column) else star
    return frozenset(e.name.lower() for e in inner.args.get("except_") or ())


def field_names(kind: str) -> tuple[str, ...]:
    """The fields of a type in Spark's notation, or none."""
    if not kind.lower().startswith("struct<"):
        return ()
    return tuple(f.name for f in exp.DataType.build(kind, dialect=Verbatim).expressions)

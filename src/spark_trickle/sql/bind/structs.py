"""Functions that see how their arguments are written -> the same, with what they see said in words.

The tree has other names for columns, and Spark would take those for the fields of struct(a, b) and of
arrays_zip(a, b). `*` among the arguments is the columns of the query, not all that the tree carries along.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from sqlglot import exp

from spark_trickle.errors import ColumnNotFoundError, UnsupportedError
from spark_trickle.sql.bind.expressions import write_column
from spark_trickle.sql.bind.scope import Named, Scope
from spark_trickle.sql.dialect.spark import name_of
from spark_trickle.sql.lexer.words import split_words

_DEPTHS = {"<": 1, "(": 1, ">": -1, ")": -1}
_MAKES_A_STRUCT = (exp.Alias, exp.Anonymous, exp.Select)  # where (a, b) is one value, and not a list


def is_struct(node: exp.Expr) -> bool:
    if isinstance(node, exp.Tuple):
        alone = node.parent is None or isinstance(node.parent, _MAKES_A_STRUCT)
        return alone and bool(node.expressions)
    return name_of(node) == "struct"


def is_zip(node: exp.Expr) -> bool:
    return name_of(node) == "arrays_zip"


def takes_star(node: exp.Expr) -> bool:
    """Whether `*` is among the arguments; that of count(*) stands for rows, with EXCEPT it does not."""
    if not isinstance(node, exp.Func | exp.In | exp.Distinct):
        return False
    rows = name_of(node) == "count"
    return any(is_star(part) and not (rows and not read_except_names(part)) for part in node.expressions)


Argument = tuple[str, exp.Expr]  # its name, if it has one


def read_arguments(node: exp.Expr, scope: Scope) -> Iterator[Argument]:
    for part in node.expressions:
        if is_star(part):
            found = select_star_columns(part, scope.expand_star(read_qualifier(part)))
            yield from ((n.name, write_column(n.column)) for n in found)
        elif isinstance(part, exp.Alias):
            yield part.alias, part.this
        else:
            yield _read_written_name(part), part


def _read_written_name(node: exp.Expr) -> str:
    """What Spark calls a value by how it is written: a column, a field, or a variable of a lambda."""
    node = node.unnest()
    match node:
        case exp.Column() | exp.Dot() | exp.Identifier():
            return node.name
        case exp.Bracket(expressions=[exp.Literal() as key]) if key.is_string:
            return key.name
    return ""


def make_struct(fields: list[Argument]) -> exp.Expr:
    named = [(name or f"col{n}", value) for n, (name, value) in enumerate(fields, start=1)]
    parts = [p for name, value in named for p in (exp.Literal.string(name), value)]
    return exp.Anonymous(this="named_struct", expressions=parts)


def make_zip(fields: list[Argument]) -> exp.Expr:
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
    each = exp.Lambda(this=make_struct(inner), expressions=[one])
    return exp.Anonymous(this="transform", expressions=[found, each])


def is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def read_qualifier(star: exp.Expr) -> tuple[str, ...]:
    return tuple(p.name for p in star.parts[:-1]) if isinstance(star, exp.Column) else ()


def read_except_names(star: exp.Expr) -> list[tuple[str, ...]]:
    """The names in * EXCEPT (…), in lower case."""
    inner = star.this if isinstance(star, exp.Column) else star
    listed = inner.args.get("except_") or ()
    return [tuple(p.name.lower() for p in _list_parts(e)) for e in listed]


def _list_parts(node: exp.Expr) -> list[exp.Expr]:
    return node.parts if isinstance(node, exp.Column | exp.Dot) else [node]


def select_star_columns(star: exp.Expr, found: list[Named]) -> list[Named]:
    """The columns that a star stands for, without those of its EXCEPT."""
    left_out: set[str] = set()
    for parts in read_except_names(star):
        columns = {n.column for n in found if n.matches(parts)}
        if not columns:
            _refuse_fields(parts, found)
            raise ColumnNotFoundError(".".join(parts), tuple(n.name for n in found))
        left_out |= columns
    return [n for n in found if n.column not in left_out]


def _refuse_fields(parts: tuple[str, ...], found: list[Named]) -> None:
    if any(n.matches(parts[:taken]) for taken in range(1, len(parts)) for n in found):
        raise UnsupportedError(
            f"EXCEPT of the field {'.'.join(parts)}",
            "List the columns, and build the struct from the other fields.",
        )


def read_field_names(kind: str) -> tuple[str, ...]:
    """The fields of a type in Spark's notation, or none."""
    words = split_words(kind)
    if words[0].upper != "STRUCT":
        return ()
    depth, found = 0, []
    for word, after in pairwise(words):
        depth += _DEPTHS.get(word.upper, 0)
        if depth == 1 and word.upper in ("<", ","):
            found.append(after.text)
    return tuple(found)

"""sqlglot's tree of an expression -> an expression of the algebra with the same text.

What the algebra has no form for becomes a text that only Spark reads, and so does every part with a word in
it that we do not know. If the whole were written differently than sqlglot writes it, its text is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.algebra.expressions import (
    And,
    Arithmetic,
    Between,
    Brackets,
    Case,
    Cast,
    Column,
    Comparison,
    Expr,
    Extract,
    Field,
    Function,
    InList,
    Interval,
    Is,
    Like,
    Literal,
    LiteralKind,
    Negate,
    Not,
    Opaque,
    Or,
    Written,
)
from spark_trickle.errors import UnsupportedError
from spark_trickle.sql.dialect.spark import parse_expression, sql_of

IsColumn = Callable[[exp.Column], bool]  # whether a name is a column of the tree, or one of its fields

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_STEPS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}


def translate(node: exp.Expr, is_column: IsColumn) -> Expr:
    text = sql_of(node)
    found = _translate(node, is_column)
    return found if found.sql == text else Written(text, found.columns, read_expression)


def read_expression(text: str, columns: frozenset[str]) -> Expr:
    """A text over some columns by its parts."""
    try:
        tree = parse_expression(text)
    except (SqlglotError, UnsupportedError):
        tree = None
    if tree is None:
        return Opaque(text, columns)
    return _translate(tree, lambda c: c.parts[0].name in columns)


def keep_text(text: str, columns: frozenset[str] = frozenset()) -> Expr:
    """A text of ours, which is read only if somebody asks what it means."""
    return Written(text, columns, read_expression)


def _translate(node: exp.Expr, is_column: IsColumn) -> Expr:
    read = _FORMS.get(type(node))
    found = read(node, is_column) if read is not None else None
    return _read_opaque(node, is_column) if found is None else found


def _read_opaque(node: exp.Expr, is_column: IsColumn) -> Expr:
    names = frozenset(c.parts[0].name for c in node.find_all(exp.Column) if is_column(c))
    return Opaque(sql_of(node), names)


def _has_only(node: exp.Expr, *names: str) -> bool:
    """Whether nothing else is said in it."""
    return not any(value for name, value in node.args.items() if name not in names)


def _translate_all(nodes: list[exp.Expr], is_column: IsColumn) -> tuple[Expr, ...]:
    return tuple(_translate(n, is_column) for n in nodes)


# --- values ------------------------------------------------------------------------------------------


def _read_column(node: exp.Column, is_column: IsColumn) -> Expr | None:
    first, *fields = node.parts
    if not is_column(node) or not _has_only(node, "this", "table", "db", "catalog"):
        return None
    found: Expr = Column(first.name)
    for field in fields:
        found = Field(found, field.name)
    return found


def _read_field(node: exp.Dot, is_column: IsColumn) -> Expr | None:
    name = node.expression
    inside = _translate(node.this, is_column) if isinstance(name, exp.Identifier) else None
    return Field(inside, name.name) if isinstance(inside, Column | Field) else None


def _read_literal(node: exp.Literal, is_column: IsColumn) -> Expr | None:
    return Literal(node.this, LiteralKind.STRING if node.is_string else LiteralKind.NUMBER)


def _read_boolean(node: exp.Boolean, is_column: IsColumn) -> Expr | None:
    return Literal("TRUE" if node.this else "FALSE", LiteralKind.BOOLEAN)


def _read_null(node: exp.Null, is_column: IsColumn) -> Expr | None:
    return Literal("NULL", LiteralKind.NULL)


def _read_interval(node: exp.Interval, is_column: IsColumn) -> Expr | None:
    unit = node.args.get("unit")
    written = node.this.this if isinstance(node.this, exp.Neg) else node.this
    if not isinstance(written, exp.Literal) or not isinstance(unit, exp.Var | None):
        return None
    return Interval(_translate(node.this, is_column), "" if unit is None else sql_of(unit))


def _read_brackets(node: exp.Paren, is_column: IsColumn) -> Expr | None:
    return Brackets(_translate(node.this, is_column))


def _read_negation(node: exp.Neg, is_column: IsColumn) -> Expr | None:
    return Negate(_translate(node.this, is_column))


def _read_arithmetic(node: exp.Binary, is_column: IsColumn) -> Expr | None:
    left, right = _translate(node.this, is_column), _translate(node.expression, is_column)
    return Arithmetic(_STEPS[type(node)], left, right)


def _read_cast(node: exp.Cast, is_column: IsColumn) -> Expr | None:
    if not _has_only(node, "this", "to", "safe"):
        return None
    return Cast(_translate(node.this, is_column), sql_of(node.to), bool(node.args.get("safe")))


def _read_extract(node: exp.Extract, is_column: IsColumn) -> Expr | None:
    if not isinstance(node.this, exp.Var):
        return None
    return Extract(node.this.name, _translate(node.expression, is_column))


def _read_function(node: exp.Anonymous, is_column: IsColumn) -> Expr | None:
    if not isinstance(node.this, str):
        return None
    return Function(node.this.upper(), _translate_all(node.expressions, is_column))


def _read_coalesce(node: exp.Coalesce, is_column: IsColumn) -> Expr | None:
    return Function("COALESCE", _translate_all([node.this, *node.expressions], is_column))


def _read_substring(node: exp.Substring, is_column: IsColumn) -> Expr | None:
    start, length = node.args.get("start"), node.args.get("length")
    if start is None:
        return None
    return Function("SUBSTRING", _translate_all([node.this, start, *([length] if length else [])], is_column))


def _read_if(node: exp.If, is_column: IsColumn) -> Expr | None:
    default = node.args.get("false")
    given = [node.this, node.args["true"], *([default] if default else [])]
    return Function("IF", _translate_all(given, is_column))


def _read_case(node: exp.Case, is_column: IsColumn) -> Expr | None:
    default = node.args.get("default")
    branches = [(i.this, i.args["true"]) for i in node.args["ifs"]]
    return Case(
        tuple((_translate(test, is_column), _translate(value, is_column)) for test, value in branches),
        None if default is None else _translate(default, is_column),
        None if node.this is None else _translate(node.this, is_column),
    )


# --- conditions --------------------------------------------------------------------------------------


def _read_comparison(node: exp.Binary, is_column: IsColumn) -> Expr | None:
    left, right = _translate(node.this, is_column), _translate(node.expression, is_column)
    return Comparison(_COMPARISONS[type(node)], left, right)


def _read_and(node: exp.And, is_column: IsColumn) -> Expr | None:
    return And(_translate_all(_list_tests(node, exp.And), is_column))


def _read_or(node: exp.Or, is_column: IsColumn) -> Expr | None:
    return Or(_translate_all(_list_tests(node, exp.Or), is_column))


def _list_tests(top: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if type(node) is kind:
            waiting += [node.right, node.left]
        else:
            found.append(node)
    return found


def _read_not(node: exp.Not, is_column: IsColumn) -> Expr | None:
    return Not(_translate(node.this, is_column))


def _read_is(node: exp.Is, is_column: IsColumn) -> Expr | None:
    value = _translate(node.expression, is_column)
    if not isinstance(value, Literal):
        return None
    return Is(_translate(node.this, is_column), value, bool(node.args.get("negate")))


def _read_in(node: exp.In, is_column: IsColumn) -> Expr | None:
    if not node.expressions or not _has_only(node, "this", "expressions"):
        return None
    return InList(_translate(node.this, is_column), _translate_all(node.expressions, is_column))


def _read_between(node: exp.Between, is_column: IsColumn) -> Expr | None:
    if not _has_only(node, "this", "low", "high"):
        return None
    return Between(*_translate_all([node.this, node.args["low"], node.args["high"]], is_column))


def _read_like(node: exp.Like, is_column: IsColumn) -> Expr | None:
    value, pattern = _translate_all([node.this, node.expression], is_column)
    return Like(value, pattern, bool(node.args.get("negate")))


_FORMS: dict[type[exp.Expr], Callable[..., Expr | None]] = {
    **dict.fromkeys(_COMPARISONS, _read_comparison),
    **dict.fromkeys(_STEPS, _read_arithmetic),
    exp.Column: _read_column,
    exp.Dot: _read_field,
    exp.Literal: _read_literal,
    exp.Boolean: _read_boolean,
    exp.Null: _read_null,
    exp.Interval: _read_interval,
    exp.Paren: _read_brackets,
    exp.Neg: _read_negation,
    exp.Cast: _read_cast,
    exp.TryCast: _read_cast,
    exp.Extract: _read_extract,
    exp.Anonymous: _read_function,
    exp.Coalesce: _read_coalesce,
    exp.Substring: _read_substring,
    exp.If: _read_if,
    exp.Case: _read_case,
    exp.And: _read_and,
    exp.Or: _read_or,
    exp.Not: _read_not,
    exp.Is: _read_is,
    exp.In: _read_in,
    exp.Between: _read_between,
    exp.Like: _read_like,
}

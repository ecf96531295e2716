"""An expression over rows that are at the driver -> Arrow values, where Arrow and Spark mean the same by it.

Columns, constants, comparisons of whole numbers, texts and truth values, and what is made of them by AND, OR,
NOT, IN, BETWEEN and IS NULL. None of it can fail, overflow or round. Everything else is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.algebra.operator import Expr
from spark_trickle.sql.dialect import Verbatim

_COMPARE: dict[type[exp.Expr], Callable[..., pa.Array]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_MOST = 2**63 - 1


class _ForSpark(Exception):
    """Not an expression whose meaning is beyond doubt here."""


def evaluate(expr: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array | None:
    """The value of an expression for each row; None if only Spark can tell."""
    tree = _parsed(expr.sql)
    if tree is None:
        return None
    try:
        value = _value(tree, rows)
    except _ForSpark:
        return None
    return pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value


@lru_cache(maxsize=1024)
def _parsed(text: str) -> exp.Expr | None:
    try:
        return Verbatim().parse(text)[0]
    except SqlglotError:
        return None


def _value(tree: exp.Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Scalar:
    match tree:
        case exp.Paren():
            return _value(tree.this, rows)
        case exp.Column() if not tree.table and tree.name in rows.column_names:
            return rows.column(tree.name)
        case exp.Literal():
            return _literal(tree)
        case exp.Boolean():
            return pa.scalar(bool(tree.this), pa.bool_())
        case exp.And():
            return pc.and_kleene(_truth(tree.left, rows), _truth(tree.right, rows))
        case exp.Or():
            return pc.or_kleene(_truth(tree.left, rows), _truth(tree.right, rows))
        case exp.Not():
            return pc.invert(_truth(tree.this, rows))
        case exp.Is(expression=exp.Null()):
            return pc.is_null(_value(tree.this, rows))
        case exp.Between() if not tree.args.get("symmetric"):
            low, high = (_compared(k, tree.this, tree.args[a], rows) for k, a in _BOUNDS)
            return pc.and_kleene(low, high)
        case exp.In() if tree.expressions and not tree.args.get("query") and not tree.args.get("unnest"):
            found = _compared(exp.EQ, tree.this, tree.expressions[0], rows)
            for other in tree.expressions[1:]:
                found = pc.or_kleene(found, _compared(exp.EQ, tree.this, other, rows))
            return found
        case _ if type(tree) in _COMPARE:
            return _compared(type(tree), tree.this, tree.expression, rows)
    raise _ForSpark


_BOUNDS = ((exp.GTE, "low"), (exp.LTE, "high"))


def _literal(tree: exp.Literal) -> pa.Scalar:
    text = tree.this
    if tree.is_string:
        if "\\" in text:  # how it was escaped is not for us to guess
            raise _ForSpark
        return pa.scalar(text, pa.string())
    if not text.isdigit() or int(text) > _MOST:
        raise _ForSpark
    return pa.scalar(int(text), pa.int64())


def _truth(tree: exp.Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Scalar:
    value = _value(tree, rows)
    if not pa.types.is_boolean(value.type):
        raise _ForSpark
    return value


def _compared(
    kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, rows: pa.Table
) -> pa.ChunkedArray | pa.Scalar:
    one, other = _comparable(_value(left, rows)), _comparable(_value(right, rows))
    if one.type != other.type:
        raise _ForSpark
    return _COMPARE[kind](one, other)


def _comparable(value: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray | pa.Scalar:
    """Whole numbers of any width compare as the widest; texts compare byte by byte in both."""
    if pa.types.is_signed_integer(value.type):
        return value.cast(pa.int64())
    if pa.types.is_string(value.type) or pa.types.is_boolean(value.type):
        return value
    raise _ForSpark

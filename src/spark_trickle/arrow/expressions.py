"""An expression over rows that are at the driver -> Arrow values, where Arrow and Spark mean the same by it.

Columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, CASE, coalesce, sums and products of
whole numbers and doubles, decimals rounded as Spark rounds them, casts that lose nothing else, roots, LIKE,
parts of texts and of dates. What would fail or overflow is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, reduce

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp
from sqlglot.errors import SqlglotError

from spark_trickle.algebra.operators import Expr
from spark_trickle.arrow.unsupported import ForSpark
from spark_trickle.arrow.values import (
    DATE_PARTS,
    Value,
    align_for_comparison,
    cast,
    cast_to,
    common_type,
    comparable,
    compute_arithmetic,
    is_number,
    like,
    literal,
    negate,
    part_of_date,
    shift_date,
    square_root,
    substring,
)
from spark_trickle.errors import UnsupportedError
from spark_trickle.model.arrow import flat
from spark_trickle.sql.dialect.spark import name_of, parse_expression

_COMPARE: dict[type[exp.Expr], Callable[..., pa.Array]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}
_RECKON = (exp.Add, exp.Sub, exp.Mul, exp.Div)
_PLAIN = (exp.Column, exp.Literal, exp.Boolean, exp.Null)
# What an expression is made of, if it may be evaluated here at all; the types of its columns decide.
_KNOWN = (
    *_COMPARE,
    *_RECKON,
    *_PLAIN,
    exp.Identifier,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.Between,
    exp.In,
    exp.Case,
    exp.If,
    exp.Neg,
    exp.Cast,
    exp.TryCast,  # how Spark's casts are parsed; either way only what fits is cast here
    exp.DataType,
    exp.DataTypeParam,
    exp.Anonymous,
    exp.Interval,
    exp.Var,
    exp.Like,
    exp.Substring,
    exp.Extract,
)


def evaluate(expr: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """The value of an expression for each row; raises ForSpark if only Spark can tell."""
    tree = _parsed(expr.sql)
    if tree is None:
        raise ForSpark
    value = _value(tree, rows)
    return pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value


def truths(predicate: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Whether each row passes; NULL counts as false."""
    value = evaluate(predicate, rows)
    if not pa.types.is_boolean(value.type):
        raise ForSpark
    return pc.fill_null(value, False)


def may_evaluate(expr: Expr) -> bool:
    """Whether there are columns over which an expression can be evaluated here."""
    return _parsed(expr.sql) is not None


@lru_cache(maxsize=4096)
def _parsed(text: str) -> exp.Expr | None:
    try:
        tree = parse_expression(text)
    except (SqlglotError, UnsupportedError):
        return None
    known = tree is not None and all(_is_known(node) for node in tree.walk())
    return tree if known else None


def _is_known(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return name_of(node) in _FUNCTIONS and bool(node.expressions)
    return type(node) in _KNOWN


def _value(tree: exp.Expr, rows: pa.Table) -> Value:
    match tree:
        case exp.Paren():
            return _value(tree.this, rows)
        case exp.Column() if not tree.table and tree.name in rows.column_names:
            return rows.column(tree.name)
        case exp.Literal():
            return literal(tree)
        case exp.Null():
            return pa.scalar(None, pa.null())
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
            return _is_one_of(_value(tree.this, rows), [_value(e, rows) for e in tree.expressions])
        case exp.Case() if tree.this is None:
            return _case(tree, rows)
        case exp.Anonymous():
            return _FUNCTIONS[name_of(tree)](*(_value(e, rows) for e in tree.expressions))
        case exp.Extract():
            return part_of_date(str(tree.this.name), _value(tree.expression, rows))
        case exp.Like() if isinstance(tree.expression, exp.Literal):
            found = like(_value(tree.this, rows), literal(tree.expression))
            return pc.invert(found) if tree.args.get("negate") else found
        case exp.Substring():
            start, length = (_value(tree.args[a], rows) if tree.args.get(a) else None for a in _PART)
            return substring(_value(tree.this, rows), start, length)
        case exp.Neg():
            return negate(_value(tree.this, rows))
        case exp.Cast():
            return cast(_value(tree.this, rows), tree.to)
        case exp.Add() | exp.Sub() if isinstance(tree.expression, exp.Interval):
            return shift_date(type(tree), _value(tree.this, rows), tree.expression)
        case _ if type(tree) in _RECKON:
            one, other = _value(tree.this, rows), _value(tree.expression, rows)
            return compute_arithmetic(type(tree), tree.this, tree.expression, one, other)
        case _ if type(tree) in _COMPARE:
            return _compared(type(tree), tree.this, tree.expression, rows)
    raise ForSpark


_PART = ("start", "length")
_BOUNDS = ((exp.GTE, "low"), (exp.LTE, "high"))


def _truth(tree: exp.Expr, rows: pa.Table) -> Value:
    value = _value(tree, rows)
    if not pa.types.is_boolean(value.type):
        raise ForSpark
    return value


def _compared(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, rows: pa.Table) -> Value:
    return _COMPARE[kind](*align_for_comparison(left, right, _value(left, rows), _value(right, rows)))


def _is_one_of(value: Value, others: list[Value]) -> Value:
    """All are compared in one type, which for numbers depends on all of them."""
    if is_number(value.type):
        kind = common_type([v.type for v in (value, *others)])
        value, others = cast_to(value, kind), [cast_to(o, kind) for o in others]
    found = [pc.equal(*comparable(value, o)) for o in others]
    return reduce(pc.or_kleene, found)


def _coalesced(*values: Value) -> Value:
    kind = common_type([v.type for v in values])
    return pc.coalesce(*(cast_to(v, kind) for v in values))


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "coalesce": _coalesced,
    "sqrt": square_root,
    "substr": substring,
    **{part: partial(part_of_date, part) for part in DATE_PARTS},
}


def _case(tree: exp.Case, rows: pa.Table) -> Value:
    """A branch is evaluated for the rows that take it and no others: it might fail for them."""
    branches = [(i.this, i.args["true"]) for i in tree.args["ifs"]]
    open_rows = pa.repeat(pa.scalar(True), rows.num_rows)
    taken: list[tuple[pa.Array, Value]] = []
    for test, branch in branches:
        met = pc.fill_null(_truth(test, rows), False)
        mask = flat(pc.and_(met, open_rows))
        open_rows = flat(pc.and_not(open_rows, mask))
        taken.append((mask, _branch(branch, rows, mask)))
    if (default := tree.args.get("default")) is not None:
        taken.append((open_rows, _branch(default, rows, open_rows)))
    kind = common_type([v.type for _, v in taken])
    result: pa.Array = pa.nulls(rows.num_rows, kind)
    for mask, value in taken:
        typed = cast_to(value, kind)
        if isinstance(typed, pa.Scalar):
            result = pc.if_else(mask, typed, result)
        else:
            result = pc.replace_with_mask(result, mask, flat(typed))
    return result


def _branch(tree: exp.Expr, rows: pa.Table, mask: pa.Array) -> Value:
    used = {c.name for c in tree.find_all(exp.Column)}
    if not used:
        return _value(tree, rows)
    return _value(tree, rows.select([n for n in rows.column_names if n in used]).filter(mask))

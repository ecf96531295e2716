"""An expression over rows that are at the driver -> Arrow values, where Arrow and Spark mean the same by it.

Columns, constants, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, CASE, coalesce, sums and products of
whole numbers and doubles, decimals rounded as Spark rounds them, casts that lose nothing else, roots, LIKE,
parts of texts and of dates. What would fail or overflow is left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce, singledispatch

import pyarrow as pa
import pyarrow.compute as pc

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
from spark_trickle.model.arrow import combine_chunks

_COMPARE: dict[str, Callable[..., pa.Array]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def evaluate(expr: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """The value of an expression for each row; raises ForSpark if only Spark can tell."""
    value = _value(expr, rows)
    return pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value


def truths(predicate: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
    """Whether each row passes; NULL counts as false."""
    value = evaluate(predicate, rows)
    if not pa.types.is_boolean(value.type):
        raise ForSpark
    return pc.fill_null(value, False)


def may_evaluate(expr: Expr) -> bool:
    """Whether there are columns over which an expression can be evaluated here."""
    expr = expr.meaning
    return _is_known(expr) and all(may_evaluate(part) for part in expr.parts)


def _is_known(expr: Expr) -> bool:
    match expr:
        case Opaque():
            return False
        case Comparison():
            return expr.op in _COMPARE
        case Function():
            return expr.name.lower() in _FUNCTIONS and bool(expr.arguments)
        case Cast():
            return not any(word in expr.type.upper() for word in ("STRUCT", "INTERVAL"))
    return True


@singledispatch
def _value(expr: Expr, rows: pa.Table) -> Value:
    raise ForSpark


@_value.register
def _value_of_column(expr: Column, rows: pa.Table) -> Value:
    if expr.name not in rows.column_names:
        raise ForSpark
    return rows.column(expr.name)


@_value.register
def _value_of_literal(expr: Literal, rows: pa.Table) -> Value:
    return literal(expr)


@_value.register
def _value_of_brackets(expr: Brackets, rows: pa.Table) -> Value:
    return _value(expr.input, rows)


@_value.register
def _value_of_written(expr: Written, rows: pa.Table) -> Value:
    return _value(expr.meaning, rows)


@_value.register
def _value_of_all(expr: And, rows: pa.Table) -> Value:
    return reduce(pc.and_kleene, [_truth(test, rows) for test in expr.tests])


@_value.register
def _value_of_any(expr: Or, rows: pa.Table) -> Value:
    return reduce(pc.or_kleene, [_truth(test, rows) for test in expr.tests])


@_value.register
def _value_of_not(expr: Not, rows: pa.Table) -> Value:
    return pc.invert(_truth(expr.input, rows))


@_value.register
def _value_of_is(expr: Is, rows: pa.Table) -> Value:
    if expr.value.kind is not LiteralKind.NULL:
        raise ForSpark
    value = _value(expr.input, rows)
    return pc.is_valid(value) if expr.negated else pc.is_null(value)


@_value.register
def _value_of_comparison(expr: Comparison, rows: pa.Table) -> Value:
    return _compared(expr.op, expr.left, expr.right, rows)


@_value.register
def _value_of_range(expr: Between, rows: pa.Table) -> Value:
    low, high = _compared(">=", expr.input, expr.low, rows), _compared("<=", expr.input, expr.high, rows)
    return pc.and_kleene(low, high)


@_value.register
def _value_of_membership(expr: InList, rows: pa.Table) -> Value:
    return _is_one_of(_value(expr.input, rows), [_value(v, rows) for v in expr.values])


@_value.register
def _value_of_like(expr: Like, rows: pa.Table) -> Value:
    if not isinstance(expr.pattern, Literal):
        raise ForSpark
    found = like(_value(expr.input, rows), literal(expr.pattern))
    return pc.invert(found) if expr.negated else found


@_value.register
def _value_of_function(expr: Function, rows: pa.Table) -> Value:
    if not _is_known(expr):
        raise ForSpark
    return _FUNCTIONS[expr.name.lower()](*(_value(a, rows) for a in expr.arguments))


@_value.register
def _value_of_extract(expr: Extract, rows: pa.Table) -> Value:
    return part_of_date(expr.part, _value(expr.input, rows))


@_value.register
def _value_of_negation(expr: Negate, rows: pa.Table) -> Value:
    return negate(_value(expr.input, rows))


@_value.register
def _value_of_cast(expr: Cast, rows: pa.Table) -> Value:
    """TRY_CAST is no different: only what fits is cast here."""
    return cast(_value(expr.input, rows), expr.type)


@_value.register
def _value_of_arithmetic(expr: Arithmetic, rows: pa.Table) -> Value:
    if isinstance(expr.right, Interval) and expr.op in ("+", "-"):
        return shift_date(expr.op, _value(expr.left, rows), expr.right)
    return compute_arithmetic(expr, _value(expr.left, rows), _value(expr.right, rows))


def _truth(expr: Expr, rows: pa.Table) -> Value:
    value = _value(expr, rows)
    if not pa.types.is_boolean(value.type):
        raise ForSpark
    return value


def _compared(op: str, left: Expr, right: Expr, rows: pa.Table) -> Value:
    if op not in _COMPARE:
        raise ForSpark
    return _COMPARE[op](*align_for_comparison(left, right, _value(left, rows), _value(right, rows)))


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


def _left_to_spark(*values: Value) -> Value:
    raise ForSpark


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "coalesce": _coalesced,
    "if": _left_to_spark,
    "sqrt": square_root,
    "substr": substring,
    "substring": substring,
    **{part: partial(part_of_date, part) for part in DATE_PARTS},
}


@_value.register
def _value_of_case(expr: Case, rows: pa.Table) -> Value:
    """A branch is evaluated for the rows that take it and no others: it might fail for them."""
    if expr.operand is not None:
        raise ForSpark
    open_rows = pa.repeat(pa.scalar(True), rows.num_rows)
    taken: list[tuple[pa.Array, Value]] = []
    for test, branch in expr.branches:
        met = pc.fill_null(_truth(test, rows), False)
        mask = combine_chunks(pc.and_(met, open_rows))
        open_rows = combine_chunks(pc.and_not(open_rows, mask))
        taken.append((mask, _branch(branch, rows, mask)))
    if expr.default is not None:
        taken.append((open_rows, _branch(expr.default, rows, open_rows)))
    kind = common_type([v.type for _, v in taken])
    result: pa.Array = pa.nulls(rows.num_rows, kind)
    for mask, value in taken:
        typed = cast_to(value, kind)
        if isinstance(typed, pa.Scalar):
            result = pc.if_else(mask, typed, result)
        else:
            result = pc.replace_with_mask(result, mask, combine_chunks(typed))
    return result


def _branch(expr: Expr, rows: pa.Table, mask: pa.Array) -> Value:
    used = expr.columns
    if not used:
        return _value(expr, rows)
    return _value(expr, rows.select([n for n in rows.column_names if n in used]).filter(mask))

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
    cast_as_spark,
    cast_to,
    compute_arithmetic,
    compute_square_root,
    extract_part,
    find_common_type,
    is_number,
    make_comparable,
    match_like,
    negate_number,
    read_literal,
    shift_date,
    take_substring,
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
    value = _evaluate_part(expr, rows)
    return pa.repeat(value, rows.num_rows) if isinstance(value, pa.Scalar) else value


def evaluate_predicate(predicate: Expr, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
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
def _evaluate_part(expr: Expr, rows: pa.Table) -> Value:
    raise ForSpark


@_evaluate_part.register
def _evaluate_column(expr: Column, rows: pa.Table) -> Value:
    if expr.name not in rows.column_names:
        raise ForSpark
    return rows.column(expr.name)


@_evaluate_part.register
def _evaluate_literal(expr: Literal, rows: pa.Table) -> Value:
    return read_literal(expr)


@_evaluate_part.register
def _evaluate_brackets(expr: Brackets, rows: pa.Table) -> Value:
    return _evaluate_part(expr.input, rows)


@_evaluate_part.register
def _evaluate_written(expr: Written, rows: pa.Table) -> Value:
    return _evaluate_part(expr.meaning, rows)


@_evaluate_part.register
def _evaluate_all(expr: And, rows: pa.Table) -> Value:
    return reduce(pc.and_kleene, [_evaluate_test(test, rows) for test in expr.tests])


@_evaluate_part.register
def _evaluate_any(expr: Or, rows: pa.Table) -> Value:
    return reduce(pc.or_kleene, [_evaluate_test(test, rows) for test in expr.tests])


@_evaluate_part.register
def _evaluate_not(expr: Not, rows: pa.Table) -> Value:
    return pc.invert(_evaluate_test(expr.input, rows))


@_evaluate_part.register
def _evaluate_is(expr: Is, rows: pa.Table) -> Value:
    if expr.value.kind is not LiteralKind.NULL:
        raise ForSpark
    value = _evaluate_part(expr.input, rows)
    return pc.is_valid(value) if expr.negated else pc.is_null(value)


@_evaluate_part.register
def _evaluate_comparison(expr: Comparison, rows: pa.Table) -> Value:
    return _compare_values(expr.op, expr.left, expr.right, rows)


@_evaluate_part.register
def _evaluate_range(expr: Between, rows: pa.Table) -> Value:
    low, high = (
        _compare_values(">=", expr.input, expr.low, rows),
        _compare_values("<=", expr.input, expr.high, rows),
    )
    return pc.and_kleene(low, high)


@_evaluate_part.register
def _evaluate_membership(expr: InList, rows: pa.Table) -> Value:
    return _is_one_of(_evaluate_part(expr.input, rows), [_evaluate_part(v, rows) for v in expr.values])


@_evaluate_part.register
def _evaluate_like(expr: Like, rows: pa.Table) -> Value:
    if not isinstance(expr.pattern, Literal):
        raise ForSpark
    found = match_like(_evaluate_part(expr.input, rows), read_literal(expr.pattern))
    return pc.invert(found) if expr.negated else found


@_evaluate_part.register
def _evaluate_function(expr: Function, rows: pa.Table) -> Value:
    if not _is_known(expr):
        raise ForSpark
    return _FUNCTIONS[expr.name.lower()](*(_evaluate_part(a, rows) for a in expr.arguments))


@_evaluate_part.register
def _evaluate_extract(expr: Extract, rows: pa.Table) -> Value:
    return extract_part(expr.part, _evaluate_part(expr.input, rows))


@_evaluate_part.register
def _evaluate_negation(expr: Negate, rows: pa.Table) -> Value:
    return negate_number(_evaluate_part(expr.input, rows))


@_evaluate_part.register
def _evaluate_cast(expr: Cast, rows: pa.Table) -> Value:
    """TRY_CAST is no different: only what fits is cast here."""
    return cast_as_spark(_evaluate_part(expr.input, rows), expr.type)


@_evaluate_part.register
def _evaluate_arithmetic(expr: Arithmetic, rows: pa.Table) -> Value:
    if isinstance(expr.right, Interval) and expr.op in ("+", "-"):
        return shift_date(expr.op, _evaluate_part(expr.left, rows), expr.right)
    return compute_arithmetic(expr, _evaluate_part(expr.left, rows), _evaluate_part(expr.right, rows))


def _evaluate_test(expr: Expr, rows: pa.Table) -> Value:
    value = _evaluate_part(expr, rows)
    if not pa.types.is_boolean(value.type):
        raise ForSpark
    return value


def _compare_values(op: str, left: Expr, right: Expr, rows: pa.Table) -> Value:
    if op not in _COMPARE:
        raise ForSpark
    return _COMPARE[op](
        *align_for_comparison(left, right, _evaluate_part(left, rows), _evaluate_part(right, rows))
    )


def _is_one_of(value: Value, others: list[Value]) -> Value:
    """All are compared in one type, which for numbers depends on all of them."""
    if is_number(value.type):
        kind = find_common_type([v.type for v in (value, *others)])
        value, others = cast_to(value, kind), [cast_to(o, kind) for o in others]
    found = [pc.equal(*make_comparable(value, o)) for o in others]
    return reduce(pc.or_kleene, found)


def _coalesce_values(*values: Value) -> Value:
    kind = find_common_type([v.type for v in values])
    return pc.coalesce(*(cast_to(v, kind) for v in values))


def _leave_to_spark(*values: Value) -> Value:
    raise ForSpark


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "coalesce": _coalesce_values,
    "if": _leave_to_spark,
    "sqrt": compute_square_root,
    "substr": take_substring,
    "substring": take_substring,
    **{part: partial(extract_part, part) for part in DATE_PARTS},
}


@_evaluate_part.register
def _evaluate_case(expr: Case, rows: pa.Table) -> Value:
    """A branch is evaluated for the rows that take it and no others: it might fail for them."""
    if expr.operand is not None:
        raise ForSpark
    open_rows = pa.repeat(pa.scalar(True), rows.num_rows)
    taken: list[tuple[pa.Array, Value]] = []
    for test, branch in expr.branches:
        met = pc.fill_null(_evaluate_test(test, rows), False)
        mask = combine_chunks(pc.and_(met, open_rows))
        open_rows = combine_chunks(pc.and_not(open_rows, mask))
        taken.append((mask, _evaluate_branch(branch, rows, mask)))
    if expr.default is not None:
        taken.append((open_rows, _evaluate_branch(expr.default, rows, open_rows)))
    kind = find_common_type([v.type for _, v in taken])
    result: pa.Array = pa.nulls(rows.num_rows, kind)
    for mask, value in taken:
        typed = cast_to(value, kind)
        if isinstance(typed, pa.Scalar):
            result = pc.if_else(mask, typed, result)
        else:
            result = pc.replace_with_mask(result, mask, combine_chunks(typed))
    return result


def _evaluate_branch(expr: Expr, rows: pa.Table, mask: pa.Array) -> Value:
    used = expr.columns
    if not used:
        return _evaluate_part(expr, rows)
    return _evaluate_part(expr, rows.select([n for n in rows.column_names if n in used]).filter(mask))

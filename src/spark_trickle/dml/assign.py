"""A value a user wrote -> the same value in the type of its column, by the rules of ANSI store assignment."""

from __future__ import annotations

from spark_trickle.errors import TypeMismatchError
from spark_trickle.model.table import TableColumn
from spark_trickle.model.types import Scalar, can_store, length_limit, sql_name
from spark_trickle.spark.frames import Frame
from spark_trickle.spark.types import cast_name, field_type_name, type_of_field
from spark_trickle.sql.lexer.words import quote, quote_literal


def render_stored(frame: Frame, name: str, column: TableColumn) -> str:
    """SQL that turns a column of a query into a column of a table; refuses what does not fit."""
    field = frame.schema[name]
    if not can_store(type_of_field(field), column.type):
        raise TypeMismatchError(column.name, sql_name(column.type), field_type_name(field))
    return _render_fitted(f"CAST({quote(name)} AS {cast_name(column.type)})", column)


def default_sql(column: TableColumn) -> str:
    """What a column gets when a statement does not say."""
    return _render_fitted(f"CAST({column.default or 'NULL'} AS {cast_name(column.type)})", column)


def _render_fitted(value: str, column: TableColumn) -> str:
    """The value, if it is not too long for VARCHAR(n); CHAR(n) is filled up with blanks."""
    limit = length_limit(column.type)
    if limit is None:
        return value
    assert isinstance(column.type, Scalar)
    text = f"the value is too long for column {quote(column.name)} of type {sql_name(column.type)}: "
    checked = f"IF(char_length({value}) > {limit}, raise_error({quote_literal(text)} || {value}), {value})"
    return f"rpad({checked}, {limit}, ' ')" if column.type.name.startswith("char") else checked

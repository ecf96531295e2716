"""The types of a row -> how many bytes it takes in memory: what is the same for all, and SQL for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import types as T

from spark_trickle.sql.lexer.words import quote

_NUMBER = 8
_DECIMAL = 16
_START = 4  # where a text or a list begins


@dataclass(frozen=True)
class Width:
    """Bytes that every row takes, and an expression for those beyond; None if there are no others."""

    fixed: int
    rest: str | None = None

    @property
    def sql(self) -> str:
        return f"{self.fixed}L" if self.rest is None else f"({self.fixed}L + {self.rest})"


def width_of(fields: Iterable[T.StructField]) -> Width:
    return _sum_widths([_measure_type(f.dataType, quote(f.name)) for f in fields])


def _sum_widths(parts: list[Width]) -> Width:
    rest = [p.rest for p in parts if p.rest is not None]
    return Width(sum(p.fixed for p in parts), " + ".join(rest) or None)


def _measure_type(kind: T.DataType, value: str, depth: int = 0) -> Width:
    match kind:
        case T.StringType() | T.BinaryType() | T.CharType() | T.VarcharType():
            return Width(_START, f"coalesce(octet_length({value}), 0)")
        case T.DecimalType():
            return Width(_DECIMAL)
        case T.StructType(fields=fields):
            return _sum_widths([_measure_type(f.dataType, f"{value}.{quote(f.name)}", depth) for f in fields])
        case T.ArrayType(elementType=element):
            return Width(_START, _measure_elements(element, value, depth))
        case T.MapType(keyType=key, valueType=mapped):
            keys, values = f"map_keys({value})", f"map_values({value})"
            both = f"{_measure_elements(key, keys, depth)} + {_measure_elements(mapped, values, depth)}"
            return Width(_START, both)
        case T.VariantType():
            return Width(_START, f"coalesce(octet_length(to_json({value})), 0)")
    return Width(_NUMBER)


def _measure_elements(kind: T.DataType, values: str, depth: int) -> str:
    one = _measure_type(kind, f"_x{depth}", depth + 1)
    if one.rest is None:
        return f"coalesce(size({values}), 0) * {one.fixed}L"
    return f"coalesce(aggregate({values}, 0L, (_a{depth}, _x{depth}) -> _a{depth} + {one.sql}), 0L)"

"""Column types and their values -> the texts of two engines that mean the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple


class Sql(NamedTuple):
    """One piece of SQL as each engine writes it."""

    spark: str
    duck: str


def sql(template: str | Sql, *parts: Sql | str) -> Sql:
    """A template with `{}` in it, filled for each engine."""
    pair = template if isinstance(template, Sql) else Sql(template, template)
    both = [p if isinstance(p, Sql) else Sql(p, p) for p in parts]
    return Sql(pair.spark.format(*[p.spark for p in both]), pair.duck.format(*[p.duck for p in both]))


def joined(parts: list[Sql], separator: str = ", ") -> Sql:
    return Sql(separator.join(p.spark for p in parts), separator.join(p.duck for p in parts))


def name(text: str, prefix: str = "") -> Sql:
    return Sql(f"{prefix}`{text}`", f'{prefix}"{text}"')


@dataclass(frozen=True)
class Kind:
    """A type of column: a pool of values small enough to repeat, and what may be done to them.

    `steps` are expressions over one value, the first of which never gives back what it got.
    `wider` are the types it may become.
    """

    type: Sql
    pool: tuple[Any, ...]
    steps: tuple[str | Sql, ...] = ()
    wider: tuple[str, ...] = ()
    first: Any = None  # the value of number 0; others follow at a distance of `unit`
    unit: Any = None
    element: Kind | None = None
    fields: tuple[tuple[str, Kind], ...] = ()

    @property
    def scalar(self) -> bool:
        return self.element is None and not self.fields

    def number(self, n: int) -> Any:
        """A different value for every number, for columns that identify rows."""
        return f"k{n:02}" if isinstance(self.first, str) else self.first + n * self.unit


def _array(element: Kind, *pool: Any) -> Kind:
    return Kind(Sql(f"ARRAY<{element.type.spark}>", f"{element.type.duck}[]"), pool, element=element)


def _struct(fields: tuple[tuple[str, Kind], ...], *pool: Any) -> Kind:
    spark = ", ".join(f"{n}: {k.type.spark}" for n, k in fields)
    duck = ", ".join(f"{n} {k.type.duck}" for n, k in fields)
    return Kind(Sql(f"STRUCT<{spark}>", f"STRUCT({duck})"), pool, fields=fields)


def _decimal(precision: int, scale: int, *wider: str) -> Kind:
    pool = tuple(Decimal(t) for t in ("1.50", "0.00", "-1.50", "99999.99"))
    text = f"DECIMAL({precision},{scale})"
    return Kind(Sql(text, text), pool, ("{} + 100", "-{}"), wider, Decimal("0.5"), Decimal(1))


_INT = Kind(Sql("INT", "INTEGER"), (0, 1, 2, 3, -1), ("{} + 100", "-{}", "{} + 1"), ("bigint",), 0, 1)
_STRING = Kind(
    Sql("STRING", "VARCHAR"),
    ("a", "b", "", "A", "it's", "é✓", "{source}", "a\\b", "NULL"),
    ("{} || '+'",),
    first="k",
)
_DOUBLE = Kind(
    Sql("DOUBLE", "DOUBLE"),
    (0.0, -0.0, 1.5, math.nan, math.inf, -math.inf, 0.1),
    ("{} + 100", "-{}"),
    first=0.5,
    unit=1.0,
)

KINDS = {
    "int": _INT,
    "string": _STRING,
    "double": _DOUBLE,
    "bigint": Kind(
        Sql("BIGINT", "BIGINT"), (0, 1, 2**53 + 1, -(2**63), 2**62), ("{} + 100",), first=0, unit=1
    ),
    "decimal": _decimal(9, 2, "decimal_long", "decimal_fine"),
    "decimal_long": _decimal(18, 2, "decimal_fine"),
    "decimal_fine": _decimal(24, 4, "decimal_most"),
    "decimal_most": _decimal(38, 18),
    "float": Kind(Sql("FLOAT", "FLOAT"), (0.5, -0.0, 0.0, math.nan, 2.25), ("{} + 1", "-{}"), ("double",)),
    "boolean": Kind(Sql("BOOLEAN", "BOOLEAN"), (True, False), ("NOT {}",)),
    "date": Kind(
        Sql("DATE", "DATE"),
        (date(2024, 2, 29), date(1969, 12, 31), date(1500, 3, 1), date(9000, 1, 1)),
        (Sql("date_add({}, 100)", "{} + 100"),),
        first=date(2024, 1, 1),
        unit=timedelta(days=1),
    ),
    "timestamp": Kind(
        Sql("TIMESTAMP", "TIMESTAMPTZ"),
        (
            datetime(2024, 2, 29, 23, 59, 59, 999999, UTC),
            datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
            datetime(1900, 1, 1, tzinfo=UTC),
        ),
        ("{} + INTERVAL '2400' HOUR",),
        first=datetime(2024, 1, 1, tzinfo=UTC),
        unit=timedelta(hours=1),
    ),
    "array": _array(_INT, [1, 2], [], [None], [2, 1], [1, None]),
    "array_double": _array(_DOUBLE, [0.0], [-0.0], [math.nan, None], []),
    "array_struct": _array(_struct((("x", _INT),)), [{"x": 1}], [{"x": None}, None], []),
    "struct": _struct(
        (("x", _INT), ("y", _STRING)), {"x": 1, "y": "a"}, {"x": 1, "y": None}, {"x": None, "y": None}
    ),
    "struct_deep": _struct(
        (("x", _DOUBLE), ("y", _array(_STRING))), {"x": 0.0, "y": ["a", None]}, {"x": -0.0, "y": None}
    ),
}
IDENTIFYING = ("int", "string", "bigint", "decimal", "date", "timestamp", "double")


def literal(kind: Kind, value: Any) -> Sql:
    if value is None:
        return sql("CAST(NULL AS {})", kind.type)
    if kind.element is not None:
        inside = joined([literal(kind.element, v) for v in value])
        return sql(Sql("CAST(array({}) AS {})", "CAST([{}] AS {})"), inside, kind.type)
    if kind.fields:
        spark = joined([sql("'{}', {}", n, literal(k, value[n])) for n, k in kind.fields]).spark
        duck = joined([sql("'{}': {}", n, literal(k, value[n])) for n, k in kind.fields]).duck
        return sql("CAST({} AS {})", Sql(f"named_struct({spark})", f"{{{duck}}}"), kind.type)
    match value:
        case bool():
            return sql(str(value).lower())
        case int() if abs(value) < 2**31:
            return sql(str(value))
        case str():
            quoted = value.replace("'", "''")
            return Sql("'" + quoted.replace("\\", "\\\\") + "'", f"'{quoted}'")
        case float() if math.isinf(value):
            return sql("CAST('{}' AS {})", "Infinity" if value > 0 else "-Infinity", kind.type)
        case datetime():
            return sql("CAST('{}' AS {})", value.isoformat(" "), kind.type)
    return sql("CAST('{}' AS {})", str(value), kind.type)


def cell(value: Any) -> str:
    """A value as text that tells −0.0 from 0.0 and makes every NaN the same."""
    match value:
        case Decimal():
            return format(value.normalize() + 0, "f")
        case datetime():
            return value.astimezone(UTC).isoformat()
        case list():
            return f"[{', '.join(map(cell, value))}]"
        case dict():
            return f"{{{', '.join(f'{k}: {cell(v)}' for k, v in value.items())}}}"
    return repr(value)

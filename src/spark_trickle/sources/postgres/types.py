"""A column of PostgreSQL -> the type it has with us, or the reason why it has none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spark_trickle.errors import ColumnNotFoundError, TypeNotAllowedError
from spark_trickle.model.table import WEIGHT
from spark_trickle.model.types import Array, ColumnType, Scalar
from spark_trickle.sources.postgres.discover import PgType, SourceColumn, SourceTable

_MOST_DIGITS = 38
_LOOSE_SCALE = 18  # digits after the point of a numeric that does not say how many it has
_HEADER = 4  # what PostgreSQL adds to the modifier of a numeric

_EXACT = {
    "bool": "boolean",
    "int2": "short",
    "int4": "integer",
    "int8": "long",
    "oid": "long",
    "float4": "float",
    "float8": "double",
    "bytea": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}

# Texts by nature, and types that only PostgreSQL knows: their text form says all there is to say.
_TEXTS = frozenset({
    "text", "varchar", "bpchar", "char", "name", "uuid", "json", "jsonb", "jsonpath", "xml",
    "time", "timetz", "interval", "money", "bit", "varbit", "inet", "cidr", "macaddr", "macaddr8",
    "point", "line", "lseg", "box", "path", "polygon", "circle", "tsvector", "tsquery", "pg_lsn",
    "xid", "xid8", "cid", "tid", "pg_snapshot", "txid_snapshot", "int2vector", "oidvector", "refcursor",
    "regclass", "regcollation", "regconfig", "regdictionary", "regnamespace", "regoper", "regoperator",
    "regproc", "regprocedure", "regrole", "regtype",
})  # fmt: skip


@dataclass(frozen=True)
class MappedColumn:
    """A captured column and the type that its values get."""

    source: SourceColumn
    type: ColumnType

    @property
    def name(self) -> str:
        return self.source.name


def map_columns(
    table: SourceTable,
    ids: Iterator[int],
    skip: Collection[str] = (),
    as_text: Collection[str] = (),
) -> tuple[MappedColumn, ...]:
    """Every column with its type; `ids` numbers the elements of arrays, as the mirror will store them."""
    if unknown := sorted({*skip, *as_text} - set(table.column_names)):
        raise ColumnNotFoundError(unknown[0], table.column_names)
    kept = [c for c in table.columns if c.name not in skip]
    _refuse_names(kept)
    text: ColumnType = Scalar("string")
    return tuple(MappedColumn(c, text if c.name in as_text else map_column(c, ids)) for c in kept)


def map_column(column: SourceColumn, ids: Iterator[int]) -> ColumnType:
    if column.generated == "v":
        raise _make_refusal(column, "Triggers and the log do not contain virtual columns; make it STORED")
    mapped = _map_type(column.type, ids)
    if mapped is None:
        raise _make_refusal(column, "Capture this column as text")
    return mapped


def _map_type(kind: PgType, ids: Iterator[int]) -> ColumnType | None:
    if kind.base:
        return _map_type(kind.base, ids)
    if kind.element:
        return _map_array(kind.element, kind.delimiter, ids)
    if kind.kind in "erm" or kind.name == "citext":
        return Scalar("string")
    if kind.schema != "pg_catalog":
        return None
    if kind.name == "numeric":
        return map_decimal(kind.modifier)
    if kind.name in _TEXTS:
        return Scalar("string")
    return Scalar(_EXACT[kind.name]) if kind.name in _EXACT else None


def _map_array(element: PgType, delimiter: str, ids: Iterator[int]) -> ColumnType | None:
    if delimiter != ",":
        return None
    element_id = next(ids)
    mapped = _map_type(element, ids)
    return Array(mapped, element_id) if isinstance(mapped, Scalar) else None


def map_decimal(modifier: int) -> Scalar:
    """numeric(p, s) in at most 38 digits; values that need more are refused one by one."""
    precision, scale = read_digits(modifier)
    if precision is None:
        return Scalar(f"decimal({_MOST_DIGITS},{_LOOSE_SCALE})")
    if scale < 0:  # numeric(3, -2) holds 12300
        precision, scale = precision - scale, 0
    precision = max(precision, scale)  # numeric(2, 4) holds 0.0012
    if precision > _MOST_DIGITS:
        return Scalar(f"decimal({_MOST_DIGITS},{min(scale, _LOOSE_SCALE)})")
    return Scalar(f"decimal({precision},{scale})")


def read_digits(modifier: int) -> tuple[int | None, int]:
    """The precision and scale that a modifier stands for; the scale has 11 bits with a sign."""
    if modifier < _HEADER:
        return None, 0
    scale = (modifier - _HEADER) & 0x7FF
    return ((modifier - _HEADER) >> 16) & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def _make_refusal(column: SourceColumn, advice: str) -> TypeNotAllowedError:
    shown = re.sub(r"^pg_catalog\.", "", column.type.shown)
    return TypeNotAllowedError(column.name, shown, f"{advice}, or leave it out.")


def _refuse_names(columns: list[SourceColumn]) -> None:
    """Our names differ in more than case, and one of them is taken."""
    seen: dict[str, str] = {WEIGHT: WEIGHT}
    for column in columns:
        twin = seen.setdefault(column.name.lower(), column.name)
        if twin is not column.name:
            raise TypeNotAllowedError(
                column.name,
                column.type.shown,
                f'Its name differs from "{twin}" only in case; leave one of them out.'
                if twin != WEIGHT
                else f'"{WEIGHT}" is reserved for the weight of a row; leave this column out.',
            )

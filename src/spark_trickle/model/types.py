"""Column types: Spark's JSON form of a type <-> a frozen tree whose nested fields carry stable ids."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from spark_trickle.errors import TypeNotAllowedError
from spark_trickle.model.quoting import quote

FIELD_ID = "parquet.field.id"

_SQL_NAMES = {"integer": "INT", "long": "BIGINT", "short": "SMALLINT", "byte": "TINYINT"}
_PLAIN = re.compile(
    r"integer|long|short|byte|float|double|string|binary|boolean|date|timestamp|timestamp_ntz"
    r"|decimal\(\d+,\d+\)|time\(\d\)|(?:var)?char\(\d+\)"
    r"|interval (?:year|month|day|hour|minute|second)(?: to (?:month|hour|minute|second))?"
)
_TEXT = re.compile(r"string|(?:var)?char\(\d+\)")
_REFUSED = {
    "map": "Maps cannot be compared; store the entries as ARRAY<STRUCT<key: …, value: …>>.",
    "variant": "Variants cannot be compared; store the JSON text as STRING.",
    "void": "Give the column a type, for example CAST(NULL AS STRING).",
    "interval": "Use INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH.",
    "collated": "Collated text compares different values as equal; use plain STRING.",
}


@dataclass(frozen=True)
class Scalar:
    """A type without parts, by the name it has in Spark's JSON schemas."""

    name: str


@dataclass(frozen=True)
class Array:
    element: ColumnType
    element_id: int
    contains_null: bool = True


@dataclass(frozen=True)
class StructField:
    id: int
    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True)
class Struct:
    fields: tuple[StructField, ...]


ColumnType = Scalar | Array | Struct


def from_spark(column: str, spec: Any, ids: Iterator[int], nested: bool = False) -> ColumnType:
    """Spark's JSON type as a tree; every nested part takes the next id."""
    if isinstance(spec, str):
        if nested and _TEXT.fullmatch(spec) and spec != "string":
            raise TypeNotAllowedError(column, spec.upper(), "Inside arrays and structs, use STRING.")
        if not _PLAIN.fullmatch(spec):
            raise TypeNotAllowedError(column, spec.upper(), _find_advice(spec))
        return Scalar(spec)
    if spec["type"] == "array":
        element_id = next(ids)
        return Array(from_spark(column, spec["elementType"], ids, True), element_id, spec["containsNull"])
    if spec["type"] == "struct":
        _refuse_twins(column, [f["name"] for f in spec["fields"]])
        return Struct(tuple(_field_from_spark(column, f, ids) for f in spec["fields"]))
    raise TypeNotAllowedError(column, str(spec["type"]).upper(), _find_advice(spec["type"]))


def list_field_ids(spec: Any) -> Iterator[int]:
    """The ids that the parts of Spark's JSON type have, in the order in which `from_spark` takes them."""
    if isinstance(spec, str):
        return
    if spec["type"] == "array":
        yield 0  # files have one element in a list, so nobody asks for its id
        yield from list_field_ids(spec["elementType"])
    for part in spec.get("fields", ()):
        yield part["metadata"][FIELD_ID]
        yield from list_field_ids(part["type"])


def type_in_query(spec: Any) -> ColumnType:
    """The type of a query's value, whatever it is; it is only compared with the type of a column."""
    if isinstance(spec, str):
        return Scalar(spec)
    if spec["type"] == "array":
        return Array(type_in_query(spec["elementType"]), 0)
    if spec["type"] == "struct":
        return Struct(tuple(StructField(0, f["name"], type_in_query(f["type"])) for f in spec["fields"]))
    return Scalar(str(spec["type"]))


def refuse_collations(column: str, metadata: dict[str, Any]) -> None:
    """Spark notes collations of a column, and of its parts, beside its type."""
    if any("COLLATION" in key.upper() for key in metadata):
        raise TypeNotAllowedError(column, "STRING COLLATE", _REFUSED["collated"])


def _field_from_spark(column: str, spec: Any, ids: Iterator[int]) -> StructField:
    refuse_collations(column, spec.get("metadata", {}))
    field_id = next(ids)
    return StructField(field_id, spec["name"], from_spark(column, spec["type"], ids, True), spec["nullable"])


def _refuse_twins(column: str, names: list[str]) -> None:
    """Neither Parquet nor Arrow could tell two fields of one name apart."""
    lowered = [n.lower() for n in names]
    for name in names:
        if lowered.count(name.lower()) > 1:
            advice = "Give every field a name of its own, as in named_struct('a', x, 'b', y)."
            raise TypeNotAllowedError(column, f'STRUCT with two fields "{name}"', advice)


def _find_advice(name: str) -> str:
    word = "collated" if "collate" in name else name.split("(")[0].split(" ")[0]
    return _REFUSED.get(word, "Use a type that Parquet and SQL both know, such as STRING or BINARY.")


def to_spark(kind: ColumnType) -> Any:
    """The tree as Spark's JSON type, ids as field metadata, so that Parquet columns match by id."""
    match kind:
        case Scalar(name):
            return "string" if name.startswith(("varchar", "char")) else name
        case Array(element, _, contains_null):
            return {"type": "array", "elementType": to_spark(element), "containsNull": contains_null}
        case Struct(fields):
            return {
                "type": "struct",
                "fields": [
                    {
                        "name": f.name,
                        "type": to_spark(f.type),
                        "nullable": f.nullable,
                        "metadata": {FIELD_ID: f.id},
                    }
                    for f in fields
                ],
            }


def without_ids(spec: Any) -> Any:
    """Spark's JSON type without our ids: for files of others, whose columns match by their names."""
    if isinstance(spec, str):
        return spec
    if spec["type"] == "array":
        return {**spec, "elementType": without_ids(spec["elementType"])}
    fields = [{**f, "type": without_ids(f["type"]), "metadata": {}} for f in spec["fields"]]
    return {"type": "struct", "fields": fields}


def sql_name(kind: ColumnType) -> str:
    """The type as a user writes it in SQL."""
    match kind:
        case Scalar(name):
            return _SQL_NAMES.get(name, name.upper())
        case Array(element):
            return f"ARRAY<{sql_name(element)}>"
        case Struct(fields):
            parts = ", ".join(f"{quote(f.name)}: {sql_name(f.type)}" for f in fields)
            return f"STRUCT<{parts}>"


def to_json(kind: ColumnType) -> Any:
    match kind:
        case Scalar(name):
            return name
        case Array(element, element_id, contains_null):
            return {"array": to_json(element), "id": element_id, "nulls": contains_null}
        case Struct(fields):
            return {"struct": [[f.id, f.name, to_json(f.type), f.nullable] for f in fields]}


def from_json(value: Any) -> ColumnType:
    if isinstance(value, str):
        return Scalar(value)
    if "array" in value:
        return Array(from_json(value["array"]), value["id"], value["nulls"])
    return Struct(tuple(StructField(i, n, from_json(t), nulls) for i, n, t, nulls in value["struct"]))


def is_float(kind: ColumnType) -> bool:
    return kind in (Scalar("float"), Scalar("double"))


def holds_float(kind: ColumnType) -> bool:
    """Whether a type is a float, or has floats inside."""
    match kind:
        case Scalar():
            return is_float(kind)
        case Array(element):
            return holds_float(element)
        case Struct(fields):
            return any(holds_float(f.type) for f in fields)


def has_array(kind: ColumnType) -> bool:
    match kind:
        case Scalar():
            return False
        case Array():
            return True
        case Struct(fields):
            return any(has_array(f.type) for f in fields)


def length_limit(kind: ColumnType) -> int | None:
    """The n of VARCHAR(n) and CHAR(n)."""
    if isinstance(kind, Scalar) and (found := re.fullmatch(r"(?:var)?char\((\d+)\)", kind.name)):
        return int(found[1])
    return None


_INTEGERS = ("byte", "short", "integer", "long")
_NUMBERS = re.compile(r"byte|short|integer|long|float|double|decimal\(.*\)")


def can_widen(old: ColumnType, new: ColumnType) -> bool:
    """Whether every old value reads back unchanged as the new type."""
    if old == new:
        return True
    if not (isinstance(old, Scalar) and isinstance(new, Scalar)):
        return False
    if old.name in _INTEGERS and new.name in _INTEGERS:
        return _INTEGERS.index(old.name) <= _INTEGERS.index(new.name)
    if _TEXT.fullmatch(old.name) and _TEXT.fullmatch(new.name):
        limit = length_limit(new)
        return limit is None or (length_limit(old) or limit + 1) <= limit
    if old.name.startswith("decimal") and new.name.startswith("decimal"):
        (p, s), (q, r) = _find_precision(old), _find_precision(new)
        return r >= s and q - r >= p - s
    return (old.name, new.name) == ("float", "double")


def _find_precision(kind: Scalar) -> tuple[int, int]:
    p, s = kind.name[len("decimal(") : -1].split(",")
    return int(p), int(s)


def can_store(found: ColumnType, column: ColumnType) -> bool:
    """Spark's ANSI store assignment: numbers into numbers, anything plain into text, no text into numbers."""
    if found == Scalar("void"):
        return True
    match found, column:
        case Scalar(a), Scalar(b):
            return _can_store_scalar(a, b)
        case Array(a), Array(b):
            return can_store(a, b)
        case Struct(a), Struct(b):
            return len(a) == len(b) and all(can_store(x.type, y.type) for x, y in zip(a, b, strict=True))
    return False


def _can_store_scalar(found: str, column: str) -> bool:
    if found == column or (_NUMBERS.fullmatch(found) and _NUMBERS.fullmatch(column)):
        return True
    if _TEXT.fullmatch(column):
        return bool(_PLAIN.fullmatch(found)) and found != "binary"
    times = ("date", "timestamp", "timestamp_ntz")
    if found in times and column in times:
        return True
    if found.startswith("time(") and column.startswith("time("):
        return True
    return (
        found.startswith("interval")
        and column.startswith("interval")
        and _counts_months(found) == _counts_months(column)
    )


def _counts_months(interval: str) -> bool:
    return "year" in interval or "month" in interval


def renumber_fields(kind: ColumnType, ids: Iterator[int]) -> ColumnType:
    """The same type with fresh ids in every nested part."""
    match kind:
        case Scalar():
            return kind
        case Array(element):
            element_id = next(ids)
            return replace(kind, element=renumber_fields(element, ids), element_id=element_id)
        case Struct(fields):
            return Struct(tuple(replace(f, id=next(ids), type=renumber_fields(f.type, ids)) for f in fields))


def find_fixed_width(kinds: Iterable[ColumnType]) -> int | None:
    """The bytes that values of these types take together in memory; None if that depends on the values."""
    total = 0
    for kind in kinds:
        if not isinstance(kind, Scalar) or kind.name == "binary" or _TEXT.fullmatch(kind.name):
            return None
        total += 16 if kind.name.startswith("decimal") else 8
    return total

"""Types survive the way to Spark, to the catalog and back, and widen and store exactly as promised."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from spark_trickle.errors import TypeNotAllowedError
from spark_trickle.model.types import (
    FIELD_ID,
    Array,
    ColumnType,
    Scalar,
    Struct,
    StructField,
    can_store,
    can_widen,
    from_json,
    from_spark,
    has_array,
    is_float,
    length_limit,
    renumber_fields,
    sql_name,
    to_json,
    to_spark,
    type_in_query,
)

SCALARS = [
    ("byte", "TINYINT"),
    ("short", "SMALLINT"),
    ("integer", "INT"),
    ("long", "BIGINT"),
    ("float", "FLOAT"),
    ("double", "DOUBLE"),
    ("decimal(38,18)", "DECIMAL(38,18)"),
    ("string", "STRING"),
    ("varchar(10)", "VARCHAR(10)"),
    ("char(3)", "CHAR(3)"),
    ("binary", "BINARY"),
    ("boolean", "BOOLEAN"),
    ("date", "DATE"),
    ("timestamp", "TIMESTAMP"),
    ("timestamp_ntz", "TIMESTAMP_NTZ"),
    ("time(6)", "TIME(6)"),
    ("interval day to second", "INTERVAL DAY TO SECOND"),
    ("interval year to month", "INTERVAL YEAR TO MONTH"),
    ("interval hour", "INTERVAL HOUR"),
    ("interval month", "INTERVAL MONTH"),
]


def array_of(element: Any, nulls: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": nulls}


def struct_of(**fields: Any) -> dict[str, Any]:
    parts = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields.items()]
    return {"type": "struct", "fields": parts}


@pytest.mark.parametrize(("name", "sql"), SCALARS)
def test_plain_types(name: str, sql: str) -> None:
    kind = from_spark("a", name, count(1))
    assert kind == Scalar(name)
    assert sql_name(kind) == sql
    assert from_json(to_json(kind)) == kind
    assert to_spark(kind) == ("string" if "char" in name else name)


NESTED: list[tuple[Any, ColumnType, str]] = [
    (array_of("integer"), Array(Scalar("integer"), 7), "ARRAY<INT>"),
    (array_of("string", nulls=False), Array(Scalar("string"), 7, False), "ARRAY<STRING>"),
    (array_of(array_of("long")), Array(Array(Scalar("long"), 8), 7), "ARRAY<ARRAY<BIGINT>>"),
    (
        struct_of(x="integer", y=array_of("date"), z="double"),
        Struct(
            (
                StructField(7, "x", Scalar("integer")),
                StructField(8, "y", Array(Scalar("date"), 9)),
                StructField(10, "z", Scalar("double")),
            )
        ),
        "STRUCT<`x`: INT, `y`: ARRAY<DATE>, `z`: DOUBLE>",
    ),
    (
        array_of(struct_of(**{"a `b`": "decimal(4,2)"})),
        Array(Struct((StructField(8, "a `b`", Scalar("decimal(4,2)")),)), 7),
        "ARRAY<STRUCT<`a ``b```: DECIMAL(4,2)>>",
    ),
    (struct_of(), Struct(()), "STRUCT<>"),
]


@pytest.mark.parametrize(("spec", "kind", "sql"), NESTED)
def test_nested_types_take_ids_in_order(spec: Any, kind: ColumnType, sql: str) -> None:
    assert from_spark("a", spec, count(7)) == kind
    assert sql_name(kind) == sql


@pytest.mark.parametrize("kind", [kind for _, kind, _ in NESTED])
def test_nested_types_come_back(kind: ColumnType) -> None:
    """Through the catalog with their ids, through Spark with the ids as metadata of the fields."""
    assert from_json(json.loads(json.dumps(to_json(kind)))) == kind
    assert from_spark("a", to_spark(kind), count(7)) == kind
    assert renumber_fields(kind, count(7)) == kind
    assert type_in_query(to_spark(kind)) == renumber_fields(_nullable(kind), iter(lambda: 0, 1))


def _nullable(kind: ColumnType) -> ColumnType:
    match kind:
        case Scalar():
            return kind
        case Array(element, element_id):
            return Array(_nullable(element), element_id)
        case Struct(fields):
            return Struct(tuple(StructField(f.id, f.name, _nullable(f.type)) for f in fields))


def test_fields_carry_their_ids_to_parquet() -> None:
    spec = to_spark(Struct((StructField(12, "x", Scalar("integer"), False),)))
    assert spec["fields"] == [{"name": "x", "type": "integer", "nullable": False, "metadata": {FIELD_ID: 12}}]


MAP = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
COLLATED_FIELD = {
    "type": "struct",
    "fields": [
        {
            "name": "x",
            "type": "string",
            "nullable": True,
            "metadata": {"__COLLATIONS": {"x": "icu.UNICODE_CI"}},
        }
    ],
}
REFUSED = [
    (MAP, "MAP", "ARRAY<STRUCT"),
    (array_of(MAP), "MAP", "ARRAY<STRUCT"),
    (struct_of(x=struct_of(y=MAP)), "MAP", "ARRAY<STRUCT"),
    (array_of(struct_of(x="integer", X="integer")), 'STRUCT with two fields "x"', "a name of its own"),
    ("variant", "VARIANT", "STRING"),
    (array_of("variant"), "VARIANT", "STRING"),
    ("void", "VOID", "CAST(NULL AS STRING)"),
    ("interval", "INTERVAL", "DAY TO SECOND"),
    ("string collate UTF8_LCASE", "STRING COLLATE UTF8_LCASE", "plain STRING"),
    (COLLATED_FIELD, "STRING COLLATE", "plain STRING"),
    ("geometry(4326)", "GEOMETRY(4326)", "STRING or BINARY"),
    ({"type": "udt", "class": "x.Y"}, "UDT", "STRING or BINARY"),
]


@pytest.mark.parametrize(("spec", "shown", "advice"), REFUSED)
def test_types_without_equality_are_refused(spec: Any, shown: str, advice: str) -> None:
    with pytest.raises(TypeNotAllowedError) as caught:
        from_spark("a", spec, count(1))
    assert f'column "a" has type {shown},' in caught.value.message
    assert advice in caught.value.hint


WIDENS = [
    ("byte", "short"),
    ("byte", "long"),
    ("integer", "long"),
    ("float", "double"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("decimal(10,2)", "decimal(12,4)"),
    ("varchar(3)", "varchar(5)"),
    ("varchar(3)", "string"),
    ("char(3)", "string"),
]
DOES_NOT_WIDEN = [
    ("integer", "double"),
    ("integer", "decimal(38,0)"),
    ("integer", "string"),
    ("decimal(10,2)", "decimal(10,4)"),
    ("decimal(10,2)", "decimal(11,4)"),
    ("decimal(10,2)", "double"),
    ("string", "varchar(5)"),
    ("string", "binary"),
    ("date", "timestamp"),
    ("timestamp", "timestamp_ntz"),
    ("float", "decimal(38,18)"),
]


@pytest.mark.parametrize(("old", "new"), WIDENS)
def test_widening_goes_one_way(old: str, new: str) -> None:
    assert can_widen(Scalar(old), Scalar(new))
    assert not can_widen(Scalar(new), Scalar(old))


@pytest.mark.parametrize(("old", "new"), DOES_NOT_WIDEN)
def test_a_type_whose_values_could_change_does_not_widen(old: str, new: str) -> None:
    assert not can_widen(Scalar(old), Scalar(new))


def test_nested_types_do_not_widen() -> None:
    assert not can_widen(Array(Scalar("integer"), 1), Array(Scalar("long"), 1))
    assert not can_widen(Scalar("integer"), Struct((StructField(1, "x", Scalar("integer")),)))


@pytest.mark.parametrize(
    "name",
    [
        "integer",
        "string",
        "decimal(10,2)",
        "varchar(3)",
        *(n for n in ("double", "date", "boolean", "binary", "timestamp")),
    ],
)
def test_every_value_reads_back_as_its_own_type(name: str) -> None:
    assert can_widen(Scalar(name), Scalar(name))


STORES = [
    ("integer", "long", True),
    ("long", "byte", True),
    ("double", "integer", True),
    ("decimal(10,2)", "double", True),
    ("integer", "string", True),
    ("boolean", "string", True),
    ("date", "varchar(10)", True),
    ("interval day to second", "string", True),
    ("date", "timestamp", True),
    ("timestamp", "date", True),
    ("timestamp_ntz", "timestamp", True),
    ("time(3)", "time(6)", True),
    ("interval day", "interval day to second", True),
    ("interval year", "interval year to month", True),
    ("void", "integer", True),
    ("void", "binary", True),
    ("binary", "binary", True),
    ("string", "integer", False),
    ("string", "date", False),
    ("string", "boolean", False),
    ("string", "binary", False),
    ("binary", "string", False),
    ("boolean", "integer", False),
    ("integer", "boolean", False),
    ("integer", "date", False),
    ("date", "integer", False),
    ("timestamp", "long", False),
    ("interval year", "interval day", False),
    ("variant", "string", False),
    ("map", "string", False),
    ("time(6)", "timestamp", False),
]


@pytest.mark.parametrize(("found", "column", "allowed"), STORES)
def test_what_a_column_takes(found: str, column: str, allowed: bool) -> None:
    """Alone, and as the element of a list or the field of a struct."""
    a, b = Scalar(found), Scalar(column)
    assert can_store(a, b) is allowed
    assert can_store(Array(a, 1), Array(b, 2)) is allowed
    assert can_store(Struct((StructField(1, "x", a),)), Struct((StructField(2, "y", b),))) is allowed


def test_shapes_must_agree() -> None:
    one = Struct((StructField(1, "x", Scalar("integer")),))
    two = Struct((*one.fields, StructField(2, "y", Scalar("integer"))))
    text, numbers = Scalar("string"), Array(Scalar("integer"), 1)
    for found, column in [
        (one, two),
        (two, one),
        (one, text),
        (numbers, text),
        (numbers, one),
        (text, numbers),
    ]:
        assert not can_store(found, column)


def test_small_questions_about_types() -> None:
    deep = Struct((StructField(1, "x", Struct((StructField(2, "y", Array(Scalar("double"), 3)),))),))
    assert has_array(deep)
    assert not has_array(Struct((StructField(1, "x", Scalar("double")),)))
    assert [is_float(Scalar(n)) for n in ("float", "double", "decimal(4,2)", "long")] == [
        True,
        True,
        False,
        False,
    ]
    assert [length_limit(Scalar(n)) for n in ("varchar(7)", "char(2)", "string")] == [7, 2, None]
    assert length_limit(deep) is None

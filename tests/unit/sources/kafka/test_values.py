"""JSON values become values of their columns, exactly; what does not fit is refused with the reason."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import UnsupportedError
from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.types import from_spark
from spark_trickle.sources.kafka.options import EpochUnit
from spark_trickle.sources.kafka.values import MisfitError, make_reader, parse_json, write_json

LIST = {"type": "array", "elementType": "integer", "containsNull": True}
INNER = {
    "type": "struct",
    "fields": [
        {"name": "x", "type": "long", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
    ],
}
FITS: list[tuple[Any, str, str]] = [
    ("long", "9223372036854775807", "9223372036854775807"),
    ("long", "-9223372036854775808", "-9223372036854775808"),
    ("byte", "-128", "-128"),
    ("integer", "-0", "0"),
    ("decimal(38,18)", "12345678901234567890.123456789012345678", "12345678901234567890.123456789012345678"),
    ("decimal(5,2)", "1.50", "1.50"),
    ("decimal(5,2)", "1.5e2", "150.00"),
    ("decimal(5,1)", "1.5000", "1.5"),
    ("decimal(5,2)", '"999.99"', "999.99"),
    ("decimal(2,2)", "0.99", "0.99"),
    ("double", "0.1", "0.1"),
    ("double", "1", "1.0"),
    ("double", "-0.0", "-0.0"),
    ("double", '"NaN"', "nan"),
    ("float", '"-Infinity"', "-inf"),
    ("float", "0.5", "0.5"),
    ("string", '"x"', "x"),
    ("string", "1.50", "1.50"),
    ("string", "12345678901234567890123", "12345678901234567890123"),
    ("string", "true", "true"),
    ("string", '{"b": 1.0, "a": [null, "ü"]}', '{"a":[null,"ü"],"b":1.0}'),
    ("boolean", "false", "False"),
    ("binary", '"aGk="', "b'hi'"),
    ("date", '"2024-02-29"', "2024-02-29"),
    ("date", "-1", "1969-12-31"),
    ("timestamp", '"2024-02-29T12:00:00Z"', "2024-02-29 12:00:00+00:00"),
    ("timestamp", '"2024-02-29 12:00:00.123456"', "2024-02-29 12:00:00.123456+00:00"),
    ("timestamp", '"2024-02-29T12:00:00.100000000+05:30"', "2024-02-29 06:30:00.100000+00:00"),
    ("timestamp", "1709208000123", "2024-02-29 12:00:00.123000+00:00"),
    ("timestamp", "0.5", "1970-01-01 00:00:00.000500+00:00"),
    ("timestamp_ntz", '"2024-02-29T12:00"', "2024-02-29 12:00:00"),
    (LIST, "[1, null]", "[1, None]"),
    (INNER, '{"x": 1, "more": 2}', "{'x': 1, 'at': None}"),
]
MISFITS: list[tuple[Any, str]] = [
    ("long", "9223372036854775808"),
    ("long", "1.0"),
    ("long", "1e2"),
    ("long", '"1"'),
    ("long", "true"),
    ("long", "[]"),
    ("long", "9" * 5000),
    ("byte", "128"),
    ("short", "-32769"),
    ("decimal(5,2)", "1.505"),
    ("decimal(5,2)", "1000"),
    ("decimal(5,2)", "1e-400"),
    ("decimal(5,2)", "1e999999999999999999999"),
    ("decimal(5,2)", '"one"'),
    ("decimal(5,2)", '"JBw="'),
    ("decimal(5,2)", "true"),
    ("double", "1e999"),
    ("double", '"nan"'),
    ("double", '"1"'),
    ("float", "3.5e38"),
    ("string", '"\\ud800"'),
    ("string", '["\\ud800"]'),
    ("boolean", "1"),
    ("boolean", '"true"'),
    ("binary", '"?"'),
    ("binary", "1"),
    ("date", '"2023-02-29"'),
    ("date", '"2024-02-29T00:00:00"'),
    ("date", "9999999"),
    ("timestamp", '"2024-02-29"'),
    ("timestamp", '"2024-02-30T12:00:00Z"'),
    ("timestamp", '"2024-02-29T12:00:00.1234567Z"'),
    ("timestamp", '"2024-02-29T12:00:00+99:00"'),
    ("timestamp", "1e300"),
    ("timestamp", "0.00001"),
    ("timestamp", "999999999999999"),
    ("timestamp_ntz", '"2024-02-29T12:00:00Z"'),
    (LIST, "[1.5]"),
    (LIST, "{}"),
    (INNER, "[]"),
    (INNER, '{"x": "y"}'),
    (INNER, '{"at": "yesterday"}'),
]


def read(spec: Any, text: str, epoch: EpochUnit = EpochUnit.MILLISECONDS) -> Any:
    """A value as a table holds it."""
    kind = from_spark("c", spec, count())
    found = make_reader("c", kind, epoch)(parse_json(text.encode()))
    return pa.array([found], arrow_type(kind))[0].as_py()


@pytest.mark.parametrize(("spec", "text", "expected"), FITS)
def test_what_fits(spec: Any, text: str, expected: str) -> None:
    assert str(read(spec, text)) == expected
    assert read(spec, "null") is None


@pytest.mark.parametrize(("spec", "text"), MISFITS)
def test_what_does_not_fit(spec: Any, text: str) -> None:
    with pytest.raises(MisfitError, match=r'^"c[^ ]*" is .*, which is no ') as caught:
        read(spec, text)
    str(caught.value).encode()  # it is stored
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["", "{", "nul", "NaN", "[Infinity]", '{"a": 01}', "[" * 100_000])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(MisfitError, match="it is "):
        parse_json(text.encode())


@pytest.mark.parametrize(
    ("epoch", "text"),
    [
        (EpochUnit.SECONDS, "1709208000.123456"),
        (EpochUnit.MILLISECONDS, "1709208000123.456"),
        (EpochUnit.MICROSECONDS, "1709208000123456"),
        (EpochUnit.NANOSECONDS, "1709208000123456000"),
    ],
)
def test_units_of_time(epoch: EpochUnit, text: str) -> None:
    assert str(read("timestamp", text, epoch)) == "2024-02-29 12:00:00.123456+00:00"
    with pytest.raises(MisfitError):
        read("timestamp", f"{Decimal(text) + Decimal('0.0000001')}", epoch)


@pytest.mark.parametrize("spec", ["interval day to second", "time(6)"])
def test_types_that_json_has_not(spec: str) -> None:
    with pytest.raises(UnsupportedError):
        read(spec, "1")


def test_one_text_for_equal_values() -> None:
    one, other = (
        b'{"b": [1, 2.50, "\xc3\xbc"], "a": {"x": null}}',
        b'{ "a":{"x":null},"b":[1,2.50,"\\u00fc"]}',
    )
    assert write_json(parse_json(one)) == write_json(parse_json(other)) == '{"a":{"x":null},"b":[1,2.50,"ü"]}'
    assert json.loads(write_json(parse_json(one))) == json.loads(one)

"""Values become JSON texts from which our own source reads the same values."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import TargetValueError, UnsupportedError
from spark_trickle.model.arrow import arrow_type, choose_countable
from spark_trickle.model.table import TableColumn
from spark_trickle.model.types import Scalar, from_spark
from spark_trickle.sources.kafka.options import EpochUnit
from spark_trickle.sources.kafka.values import make_reader, parse_json
from spark_trickle.targets.kafka.images import ImageWriter
from spark_trickle.targets.kafka.values import require_types, write_column

LIST = {"type": "array", "elementType": "timestamp", "containsNull": True}
INNER = {
    "type": "struct",
    "fields": [
        {"name": 'x"', "type": "decimal(5,2)", "nullable": True, "metadata": {}},
        {"name": "many", "type": LIST, "nullable": True, "metadata": {}},
    ],
}
_LAST = 253_402_300_799_999_999  # microseconds, of the year 9999
_FIRST = -62_135_596_800_000_000

WRITTEN: list[tuple[Any, Any, str]] = [
    ("byte", -128, "-128"),
    ("short", 32767, "32767"),
    ("integer", 0, "0"),
    ("long", -(2**63), "-9223372036854775808"),
    ("decimal(38,10)", "12345678901234567890.0123456789", '"12345678901234567890.0123456789"'),
    ("decimal(20,12)", "0", '"0.000000000000"'),
    ("decimal(20,12)", "-0.000000000001", '"-0.000000000001"'),
    ("double", 0.1, "0.1"),
    ("double", 1e300, "1e+300"),
    ("double", 5e-324, "5e-324"),
    ("double", -0.0, "-0.0"),
    ("double", float("nan"), '"NaN"'),
    ("float", float("-inf"), '"-Infinity"'),
    ("float", 0.1, "0.10000000149011612"),
    ("float", 3.4028234663852886e38, "3.4028234663852886e+38"),
    ("string", 'a"\\\n\x00ü😀', '"a\\"\\\\\\n\\u0000ü😀"'),
    ("boolean", True, "true"),
    ("binary", b"\x00\xff", '"AP8="'),
    ("binary", b"", '""'),
    ("date", 0, '"1970-01-01"'),
    ("date", -719162, '"0001-01-01"'),
    ("timestamp", _LAST, '"9999-12-31T23:59:59.999999Z"'),
    ("timestamp", _FIRST, '"0001-01-01T00:00:00.000000Z"'),
    ("timestamp_ntz", -1, '"1969-12-31T23:59:59.999999"'),
    (LIST, [0, None], '["1970-01-01T00:00:00.000000Z",null]'),
    (LIST, [], "[]"),
    (INNER, {'x"': "1.50", "many": [1]}, '{"x\\"":"1.50","many":["1970-01-01T00:00:00.000001Z"]}'),
    (INNER, {'x"': None, "many": None}, '{"x\\"":null,"many":null}'),
]


def make_values(spec: Any, *values: Any) -> pa.ChunkedArray:
    kind = arrow_type(from_spark("c", spec, count()))
    return pa.chunked_array([pa.array([_exact(spec, v) for v in values], kind)])


def _exact(spec: Any, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, dict):
        return {n: Decimal(v) if n == 'x"' and v is not None else v for n, v in value.items()}
    return Decimal(value) if str(spec).startswith("decimal") else value


@pytest.mark.parametrize(("spec", "value", "text"), WRITTEN)
def test_what_is_written_reads_back(spec: Any, value: Any, text: str) -> None:
    kind = from_spark("c", spec, count())
    values = make_values(spec, value, None)
    assert write_column("c", kind, values) == [text, "null"]
    read = make_reader("c", kind, EpochUnit.MILLISECONDS)
    back = pa.array([read(parse_json(t.encode())) for t in (text, "null")], values.type)
    plain = choose_countable(values.type)
    assert repr(back.cast(plain).to_pylist()) == repr(values.cast(plain).to_pylist())
    json.loads(text)


@pytest.mark.parametrize(
    ("spec", "value"), [("timestamp", _LAST + 1), ("timestamp_ntz", _FIRST - 1), ("date", 10**7)]
)
def test_days_that_no_calendar_has(spec: str, value: int) -> None:
    with pytest.raises(TargetValueError, match=r'"c" holds .* beyond the years 1 to 9999'):
        write_column("c", Scalar(spec), make_values(spec, value))


def test_types_without_a_text() -> None:
    for name in ("interval day to second", "time(6)"):
        with pytest.raises(UnsupportedError):
            require_types([TableColumn(1, "c", Scalar(name))])


def test_keys_are_the_columns_that_tell_rows_apart() -> None:
    columns = [
        TableColumn(2, "id", Scalar("integer")),
        TableColumn(3, "name", Scalar("varchar(5)")),
        TableColumn(4, "n", Scalar("long")),
    ]
    rows = pa.table({"n": pa.array([1, 2]), "id": pa.array([7, None], pa.int32()), "name": ["a", "b"]})
    first, second = ImageWriter(columns, ("name", "id")).write_rows(rows)
    assert first == ('{"name":"a","id":7}', '{"id":7,"name":"a","n":1}')
    assert second.key == '{"name":"b","id":null}'
    assert [i.key == i.row for i in ImageWriter(columns, ()).write_rows(rows)] == [True, True]

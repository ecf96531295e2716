"""Bounds of columns are read from the footer of a file, and left out rather than wrong."""

from __future__ import annotations

import io
import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_trickle.lake.storage.stats import column_stats, format_bound
from spark_trickle.model.arrow import arrow_type
from spark_trickle.model.files import ColumnStats
from spark_trickle.model.table import WEIGHT_ID, Table, TableColumn
from spark_trickle.model.types import Array, ColumnType, Scalar, Struct, StructField
from tests.unit.sql.marked import bug

YEARS = "the year is written without leading zeros, so texts do not sort as times do"

BOUNDS: list[tuple[Any, str, str | None]] = [
    (5, "integer", "5"),
    (-(2**63), "long", "-9223372036854775808"),
    (True, "boolean", "1"),
    (False, "boolean", "0"),
    (1.5, "double", "1.5"),
    (-0.0, "double", "-0.0"),
    (1e300, "double", "1e+300"),
    (math.nan, "double", None),
    (math.inf, "double", None),
    (Decimal("-1.50"), "decimal(10,2)", "-1.50"),
    ("", "string", ""),
    ("Ünï 😀", "string", "Ünï 😀"),
    ("a" * 256, "string", "a" * 256),
    ("a" * 257, "string", None),
    ("a\x00b", "string", None),
    (b"a\xff", "binary", "61FF"),
    (b"\x00" * 257, "binary", None),
    (b"abc", "string", None),
    (date(2026, 3, 1), "date", "2026-03-01"),
    (date(1, 1, 1), "date", "0001-01-01"),
    (datetime(2026, 3, 1, 12, 30), "timestamp_ntz", "2026-03-01 12:30:00.000000"),
    (datetime(2026, 3, 1, 12, 30, 0, 5, UTC), "timestamp", "2026-03-01 12:30:00.000005+00"),
    (
        datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=5))),
        "timestamp",
        "2026-03-01 07:00:00.000000+00",
    ),
    (time(12, 30), "time(6)", None),
    (3600, "time(6)", None),
    (86_400_000_000, "interval day to second", "86400000000"),
    (None, "string", None),
    bug(datetime(999, 1, 1), "timestamp_ntz", "0999-01-01 00:00:00.000000", reason=YEARS),
    bug(datetime(999, 1, 1, tzinfo=UTC), "timestamp", "0999-01-01 00:00:00.000000+00", reason=YEARS),
    bug(
        Decimal("0E-18"),
        "decimal(38,18)",
        "0.000000000000000000",
        reason="a decimal is written with an exponent",
    ),
]


@pytest.mark.parametrize(("value", "kind", "text"), BOUNDS)
def test_bounds_as_text(value: Any, kind: str, text: str | None) -> None:
    assert format_bound(value, Scalar(kind)) == text


def table_of(**columns: ColumnType) -> Table:
    ids = {name: 10 * n for n, name in enumerate(columns, start=1)}
    made = tuple(TableColumn(ids[name], name, kind) for name, kind in columns.items())
    return Table(5, "main", "t", made, (), True, "t/", 99, 6)


def stats_of(table: Table, rows: dict[str, list[Any] | pa.Array], **options: Any) -> dict[int, ColumnStats]:
    count = len(next(iter(rows.values())))
    data = {c.name: pa.array(rows[c.name], arrow_type(c.type)) for c in table.columns}
    data["_w"] = pa.array([1] * count, pa.int32())
    sink = io.BytesIO()
    pq.write_table(pa.table(data), sink, **options)
    return {s.column_id: s for s in column_stats(pq.read_metadata(sink), table)}


COLUMNS: list[tuple[str, list[Any], int, str | None, str | None]] = [
    # type, values, nulls, low, high
    ("integer", [3, 1, 2], 0, "1", "3"),
    ("long", [None, -5, 7], 1, "-5", "7"),
    ("byte", [None, None, None], 3, None, None),
    ("double", [1.5, -2.0, 0.25], 0, "-2.0", "1.5"),
    ("double", [math.inf, 1.0, 2.0], 0, None, None),
    ("string", ["b", None, "a"], 1, "a", "b"),
    ("string", ["b", "a" * 300, "c"], 0, None, None),
    ("string", ["Z", "a", "é"], 0, "Z", "é"),
    ("boolean", [True, False, None], 1, "0", "1"),
    ("date", [date(2026, 1, 1), date(1969, 12, 31), None], 1, "1969-12-31", "2026-01-01"),
    ("decimal(4,2)", [Decimal("1.50"), Decimal("-9.99"), None], 1, "-9.99", "1.50"),
    ("binary", [b"\x01", b"\xff", b"\x00"], 0, "00", "FF"),
]


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize(("kind", "values", "nulls", "low", "high"), COLUMNS)
def test_columns(
    kind: str, values: list[Any], nulls: int, low: str | None, high: str | None, groups: int
) -> None:
    """The same whether a file has one row group or several."""
    table = table_of(a=Scalar(kind))
    found = stats_of(table, {"a": values}, row_group_size=len(values) // groups)
    assert (found[10].values, found[10].nulls, found[10].low, found[10].high) == (3, nulls, low, high)
    assert found[10].bytes > 0
    assert (found[WEIGHT_ID].low, found[WEIGHT_ID].high) == ("1", "1")


def test_floats_may_hold_nan() -> None:
    """A footer does not tell, and NaN sorts above every bound."""
    table = table_of(a=Scalar("double"), b=Scalar("float"), c=Scalar("integer"))
    found = stats_of(table, {"a": [1.0, math.nan], "b": [1.0, 2.0], "c": [1, 2]})
    assert [found[i].has_nan for i in (10, 20, 30)] == [True, True, None]


def test_nested_columns_have_bounds_of_their_fields() -> None:
    inner = Struct(
        (StructField(12, "x", Scalar("integer")), StructField(13, "y", Array(Scalar("integer"), 14)))
    )
    table = table_of(s=inner, l=Array(Scalar("integer"), 15))
    found = stats_of(table, {"s": [{"x": 5, "y": [1]}, {"x": None, "y": None}, None], "l": [[1], [], None]})
    assert set(found) == {WEIGHT_ID, 12}
    assert (found[12].nulls, found[12].low, found[12].high) == (2, "5", "5")


def test_an_empty_file_has_no_bounds() -> None:
    found = stats_of(table_of(a=Scalar("integer")), {"a": []})
    assert (found[10].values, found[10].nulls, found[10].low, found[10].high) == (0, 0, None, None)


def test_a_column_that_the_file_lacks_is_left_out() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"_w": pa.array([1], pa.int32())}), sink)
    found = column_stats(pq.read_metadata(sink), table_of(a=Scalar("integer")))
    assert [s.column_id for s in found] == [WEIGHT_ID]


def test_a_dot_in_a_name_is_no_struct() -> None:
    table = table_of(**{"a.b": Scalar("integer"), "a": Struct((StructField(21, "b", Scalar("integer")),))})
    found = stats_of(table, {"a.b": [1, 2], "a": [{"b": 100}, {"b": 200}]})
    assert [(found[i].low, found[i].high) for i in (10, 21)] == [("1", "2"), ("100", "200")]


def test_a_footer_without_statistics_does_not_deny_nulls() -> None:
    found = stats_of(table_of(a=Scalar("integer")), {"a": [1, None]}, write_statistics=False)
    assert 10 not in found or found[10].nulls != 0


FAR = [("date", pa.int32(), 2_932_897), ("timestamp", pa.int64(), 253_402_300_800_000_000)]


@pytest.mark.parametrize(("kind", "storage", "value"), [*FAR, ("date", pa.int32(), -800_000)])
def test_times_beyond_python_have_no_bounds(kind: str, storage: pa.DataType, value: int) -> None:
    values = pa.array([value], storage).cast(arrow_type(Scalar(kind)))
    found = stats_of(table_of(a=Scalar(kind)), {"a": values})
    assert (found[10].low, found[10].high) == (None, None)

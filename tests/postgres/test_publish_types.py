"""Every type of ours arrives in PostgreSQL as the same value, or is refused by name."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_trickle.errors import InvalidDefinitionError, TargetValueError
from spark_trickle.model.arrow import arrow_type, can_hold
from spark_trickle.model.types import Array, Scalar, Struct, StructField
from spark_trickle.targets.postgres.front import apply_change, create_target, read_state, repair_rows
from spark_trickle.targets.postgres.target import pg_type
from tests.postgres.published import target
from tests.postgres.world import World

DAY = 86_400_000_000
NESTED = Struct((
    StructField(1, 'a "b"', Scalar("integer")),
    StructField(2, "f", Scalar("double")),
    StructField(3, "d", Scalar("decimal(38,10)")),
    StructField(4, "at", Scalar("timestamp")),
    StructField(5, "list", Array(Struct((StructField(7, "x", Scalar("binary")),)), 6)),
    StructField(8, "text", Scalar("string")),
))  # fmt: skip

# A type, values as Arrow takes them, and the text that PostgreSQL shows for each.
CASES: list[tuple[Any, list[Any], list[str]]] = [
    ("boolean", [True, False], ["true", "false"]),
    ("byte", [-128, 127], ["-128", "127"]),
    ("short", [-32768, 32767], ["-32768", "32767"]),
    ("integer", [-(2**31), 2**31 - 1], [str(-(2**31)), str(2**31 - 1)]),
    ("long", [-(2**63), 2**63 - 1], [str(-(2**63)), str(2**63 - 1)]),
    (
        "float",
        [0.1, -0.0, float("nan"), float("inf"), float("-inf"), 1.4e-45, 3.4028235e38, 1e20],
        ["0.1", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e+38", "1e+20"],
    ),
    (
        "double",
        [0.1, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308, 1 / 3],
        ["0.1", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e+308", "0.3333333333333333"],
    ),
    (
        "decimal(38,18)",
        [Decimal("99999999999999999999.999999999999999999"), Decimal("-1E-18"), Decimal("0")],
        ["99999999999999999999.999999999999999999", "-0.000000000000000001", "0.000000000000000000"],
    ),
    ("decimal(38,0)", [Decimal("9" * 38), Decimal("-" + "9" * 38)], ["9" * 38, "-" + "9" * 38]),
    ("decimal(5,5)", [Decimal("0.00001")], ["0.00001"]),
    (
        "string",
        ["", " ", "NULL", "\\N", "\\.", 'a "quoted", one', "two\nlines\r\nthree", "😀 ñ", "\\x41", "'; DROP"],
        ["", " ", "NULL", "\\N", "\\.", 'a "quoted", one', "two\nlines\r\nthree", "😀 ñ", "\\x41", "'; DROP"],
    ),
    ("varchar(3)", ["😀😀😀", "a  "], ["😀😀😀", "a  "]),
    ("char(3)", ["a  "], ["a  "]),
    ("binary", [b"", b"\0\xff\\", b"abc"], ["\\x", "\\x00ff5c", "\\x616263"]),
    ("date", [0, 11016, -719162, 2932896], ["1970-01-01", "2000-02-29", "0001-01-01", "9999-12-31"]),
    (
        "date",
        [2932897, -719163, -2440588, 2145042905],
        ["10000-01-01", "0001-12-31 BC", "4714-11-24 BC", "5874897-12-31"],
    ),
    (
        "timestamp",
        [0, 1, -1, -719162 * DAY, 2932897 * DAY - 1],
        [
            "1970-01-01 00:00:00+00",
            "1970-01-01 00:00:00.000001+00",
            "1969-12-31 23:59:59.999999+00",
            "0001-01-01 00:00:00+00",
            "9999-12-31 23:59:59.999999+00",
        ],
    ),
    (
        "timestamp_ntz",
        [2932897 * DAY, -719162 * DAY - 1, -2440588 * DAY, 2**63 - 1, 1_000_000],
        [
            "10000-01-01 00:00:00",
            "0001-12-31 23:59:59.999999 BC",
            "4714-11-24 00:00:00 BC",
            "294247-01-10 04:00:54.775807",
            "1970-01-01 00:00:01",
        ],
    ),
    ("time(6)", [0, 86_399_999_999], ["00:00:00", "23:59:59.999999"]),
    ("interval day to second", [0, -1, 90_061_000_001], ["00:00:00", "-00:00:00.000001", "25:01:01.000001"]),
    ("interval day to second", [2**62], ["1281023894:00:27.387904"]),
    ("interval year to month", [0, 14, -1], ["00:00:00", "1 year 2 mons", "-1 mons"]),
    (
        Array(Scalar("string"), 9),
        [[], ["", "NULL", None, 'a "b" \\ {c},', "x"], ["one"]],
        ["{}", '{"","NULL",NULL,"a \\"b\\" \\\\ {c},",x}', "{one}"],
    ),
    (Array(Scalar("double"), 9), [[-0.0, float("nan"), None], [0.0]], ["{-0,NaN,NULL}", "{0}"]),
    (Array(Scalar("binary"), 9), [[b"\\", None]], ['{"\\\\x5c",NULL}']),
    (Array(Scalar("decimal(5,2)"), 9), [[Decimal("1.50")]], ["{1.50}"]),
    (Array(Scalar("date"), 9), [[0, -719163]], ['{1970-01-01,"0001-12-31 BC"}']),
    (Array(Scalar("boolean"), 9), [[True, None, False]], ["{t,NULL,f}"]),
    (Array(Array(Scalar("long"), 9), 8), [[[1, 2], [], None], []], ["[[1, 2], [], null]", "[]"]),
    (
        NESTED,
        [
            {'a "b"': 1, "f": float("nan"), "d": Decimal("1.5"), "at": 0, "list": [{"x": b"\\"}, None], "text": "\\u0041"},
            {'a "b"': None, "f": 0.1, "d": None, "at": 2932897 * DAY, "list": None, "text": '"\n'},
            {'a "b"': 2, "f": float("-inf"), "d": Decimal("0"), "at": None, "list": [], "text": ""},
        ],
        [
            '{"d": 1.5000000000, "f": "NaN", "at": "1970-01-01 00:00:00.000000", "list": [{"x": "\\\\x5c"}, null], '
            '"text": "\\\\u0041", "a \\"b\\"": 1}',
            '{"d": null, "f": 0.1, "at": "10000-01-01 00:00:00.000000", "list": null, "text": "\\"\\n", "a \\"b\\"": null}',
            '{"d": 0.0000000000, "f": "-Infinity", "at": null, "list": [], "text": "", "a \\"b\\"": 2}',
        ],
    ),
]  # fmt: skip


def values_of(kind: Any, values: list[Any]) -> pa.Array:
    if can_hold(kind):
        return pa.array(values, arrow_type(kind))
    if kind.name.startswith("time("):
        return pa.array(values, pa.time64("us"))
    return pa.array(values, pa.int32() if "month" in kind.name else pa.duration("us"))


@pytest.mark.parametrize(("kind", "values", "texts"), CASES, ids=lambda v: str(v)[:30])
@pytest.mark.parametrize("key", [True, False], ids=["keyed", "bag"])
def test_every_type_arrives_goes_and_is_compared(
    world: World, kind: Any, values: list[Any], texts: list[str], key: bool
) -> None:
    kind = Scalar(kind) if isinstance(kind, str) else kind
    connection = world.connect()
    to = target(("n!", "integer"), ("v", kind), key=("n",) if key else ())
    column = values_of(kind, [*values, None])
    rows = pa.table([pa.array(range(len(column)), pa.int32()), column], names=["n", "v"])
    create_target(connection, to)

    def shown() -> list[str]:
        found = connection.execute('SELECT v::text FROM public.s ORDER BY n, v::text COLLATE "C"')
        return [v for (v,) in found.fetchall()]

    apply_change(connection, to, None, 1, [], [rows])
    assert shown() == [*texts, None]
    assert read_state(connection, to).changes == ()
    assert repair_rows(connection, to, 2, [rows]).inserted == 0
    again = pa.table([pa.array([len(column)] * len(column), pa.int32()), column], names=["n", "v"])
    apply_change(connection, to, 2, 3, [rows], [rows.slice(1)])
    assert shown() == [*texts[1:], None]
    if not key:
        apply_change(connection, to, 3, 4, [rows.slice(1)], [again, again])
        apply_change(connection, to, 4, 5, [again], [])
        assert sorted(shown(), key=str) == sorted([*texts, None], key=str)


def test_zeros_are_told_apart(world: World) -> None:
    connection, to = world.connect(), target(("a", "double"))
    create_target(connection, to)
    rows = pa.table({"a": [0.0, -0.0, 0.0]})
    apply_change(connection, to, None, 1, [], [rows])
    apply_change(connection, to, 1, 2, [pa.table({"a": [-0.0]})], [])
    assert world.rows("SELECT a::text FROM s") == [("0",), ("0",)]
    done = repair_rows(connection, to, 3, [rows.slice(1)])
    assert (done.deleted, done.inserted) == (1, 1)
    assert sorted(world.rows("SELECT a::text FROM s")) == [("-0",), ("0",)]


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", "a\0b", r"'a\x00b'"),
        ("timestamp", -(2**63), "290309-12-21 BC"),
        ("date", 2**31 - 1, "5881580-07-11"),
        (Array(Scalar("string"), 9), ["\0"], r"'\x00'"),
        (Struct((StructField(1, "a", Scalar("string")),)), {"a": "\0"}, r"'\x00'"),
    ],
)
def test_what_does_not_fit_is_named(world: World, kind: Any, value: Any, shown: str) -> None:
    kind = Scalar(kind) if isinstance(kind, str) else kind
    connection, to = world.connect(), target(("a", kind))
    create_target(connection, to)
    rows = pa.table({"a": pa.array([None, value], arrow_type(kind))})
    with pytest.raises(TargetValueError) as caught:
        apply_change(connection, to, None, 1, [], [rows])
    assert (caught.value.column, caught.value.type, caught.value.value) == ("a", pg_type(kind), shown)
    assert world.rows("SELECT count(*) FROM s") == [(0,)]
    assert read_state(connection, to).snapshot is None
    apply_change(connection, to, None, 1, [], [rows.slice(0, 1)])  # the connection is as good as before


def test_a_single_column_of_nulls(world: World) -> None:
    connection, to = world.connect(), target(("a", "string"))
    create_target(connection, to)
    rows = pa.table({"a": pa.array([None, "", None], pa.string())})
    apply_change(connection, to, None, 1, [], [rows])
    assert sorted(world.rows("SELECT a FROM s"), key=str) == [("",), (None,), (None,)]


def test_other_arrow_types_of_the_same_values(world: World) -> None:
    connection, to = world.connect(), target(("a", "string"), ("b", "long"), ("at", "timestamp"))
    create_target(connection, to)
    rows = pa.table(
        {
            "at": pa.array([1_000_000], pa.timestamp("ms", "Asia/Kolkata")),
            "b": pa.array([7], pa.int16()),
            "_w": [1],
            "a": pa.array(["x"], pa.large_string()).dictionary_encode(),
        }
    )
    apply_change(connection, to, None, 1, [], [rows])
    assert connection.execute("SELECT a, b, at::text FROM public.s").fetchall() == [
        ("x", 7, "1970-01-01 00:16:40+00")
    ]


@pytest.mark.parametrize("name", ["", "x" * 64, "é" * 32, "a\0b", "ctid"])
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidDefinitionError, match="PostgreSQL"):
        target((name, "integer"))


def test_very_long_varchars_are_texts() -> None:
    assert pg_type(Scalar("varchar(10485761)")) == "text"

"""Every type: what it becomes with us, and that its edge values arrive as they are, by all ways."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Context, Decimal, localcontext
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_trickle.errors import ColumnNotFoundError, SourceValueError, TypeNotAllowedError
from spark_trickle.model.types import Array, Scalar, sql_name
from spark_trickle.sources.postgres.arrays import parse_array
from spark_trickle.sources.postgres.types import map_column, map_decimal, read_digits
from spark_trickle.sources.postgres.values import from_text
from tests.postgres.ways import both_ways
from tests.postgres.world import World, create, mapped, table_of

# Type, what it becomes, and values: as SQL, and as they arrive.
VALUES: list[tuple[str, str, list[tuple[str, Any]]]] = [
    ("int2", "SMALLINT", [("-32768", -32768), ("32767", 32767), ("0", 0)]),
    ("int4", "INT", [("-2147483648", -(1 << 31)), ("2147483647", (1 << 31) - 1)]),
    ("int8", "BIGINT", [("-9223372036854775808", -(1 << 63)), ("9223372036854775807", (1 << 63) - 1)]),
    ("oid", "BIGINT", [("4294967295", 4294967295)]),
    ("float4", "FLOAT", [("1e-45", 1.401298464324817e-45), ("3.4028235e38", 3.4028234663852886e38), ("'-Infinity'", -math.inf)]),
    ("float8", "DOUBLE", [("5e-324", 5e-324), ("1.7976931348623157e308", 1.7976931348623157e308), ("0.1", 0.1), ("'Infinity'", math.inf), ("'NaN'", math.nan), ("'-0'", -0.0)]),
    ("numeric(5, 2)", "DECIMAL(5,2)", [("999.99", Decimal("999.99")), ("-0.01", Decimal("-0.01"))]),
    ("numeric(38, 10)", "DECIMAL(38,10)", [("9999999999999999999999999999.9999999999", Decimal("9999999999999999999999999999.9999999999"))]),
    ("numeric(3, -2)", "DECIMAL(5,0)", [("12345", Decimal("12300")), ("-99900", Decimal("-99900"))]),
    ("numeric(2, 4)", "DECIMAL(4,4)", [("0.0099", Decimal("0.0099"))]),
    ("numeric(50, 2)", "DECIMAL(38,2)", [("999999999999999999999999999999999999.99", Decimal("999999999999999999999999999999999999.99"))]),
    ("numeric", "DECIMAL(38,18)", [("0.000000000000000001", Decimal("0.000000000000000001")), ("99999999999999999999.5", Decimal("99999999999999999999.500000000000000000")), ("1.50000000000000000000000", Decimal("1.500000000000000000")), ("1e3", Decimal("1000.000000000000000000")), ("1.5" + "0" * 200, Decimal("1.500000000000000000"))]),
    ("bool", "BOOLEAN", [("true", True), ("false", False)]),
    ("text", "STRING", [("''", ""), ("'NULL'", "NULL"), ("E'tab\\t nl\\n cr\\r \\\\ \" , {} ''é😀'", "tab\t nl\n cr\r \\ \" , {} 'é😀"), ("repeat('x', 100000)", "x" * 100_000), ("E'\\\\.'", "\\.")]),
    ("varchar(3)", "STRING", [("'abc'", "abc")]),
    ("char(3)", "STRING", [("'a'", "a  ")]),
    ("\"char\"", "STRING", [("'x'", "x")]),
    ("name", "STRING", [("'n'", "n")]),
    ("citext", "STRING", [("'AbC'", "AbC")]),
    ("uuid", "STRING", [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    ("json", "STRING", [("'{\"b\": 1,  \"a\": null}'", '{"b": 1,  "a": null}')]),
    ("jsonb", "STRING", [("'{\"b\": 1,  \"a\": null}'", '{"a": null, "b": 1}')]),
    ("xml", "STRING", [] ),
    ("int4[]", "ARRAY<INT>", [("'{}'", []), ("'{1,NULL,-3}'", [1, None, -3]), ("'[5:6]={7,8}'", [7, 8])]),
    ("text[]", "ARRAY<STRING>", [("ARRAY['', 'NULL', NULL, 'a,b', '\"q\"', E'back\\\\slash', '{}', ' ', 'é😀', E'nl\\n']", ["", "NULL", None, "a,b", '"q"', "back\\slash", "{}", " ", "é😀", "nl\n"])]),
    ("numeric(6, 2)[]", "ARRAY<DECIMAL(6,2)>", [("'{1.5,2}'", [Decimal("1.50"), Decimal("2.00")])]),
    ("bytea[]", "ARRAY<BINARY>", [("ARRAY['\\x00ff'::bytea, NULL]", [b"\x00\xff", None])]),
    ("timestamptz[]", "ARRAY<TIMESTAMP>", [("'{2024-01-01 00:00:00+02}'", [datetime(2023, 12, 31, 22, tzinfo=UTC)])]),
    ("bool[]", "ARRAY<BOOLEAN>", [("'{t,f,NULL}'", [True, False, None])]),
    ("mood", "STRING", [("'it''s ok'", "it's ok")]),
    ("mood[]", "ARRAY<STRING>", [("ARRAY['it''s ok', 'sad']::mood[]", ["it's ok", "sad"])]),
    ("price", "DECIMAL(10,2)", [("12.5", Decimal("12.50"))]),
    ("prices", "ARRAY<DECIMAL(10,2)>", [("'{12.5}'", [Decimal("12.50")])]),
    ("price[]", "ARRAY<DECIMAL(10,2)>", [("'{12.5}'", [Decimal("12.50")])]),
    ("date", "DATE", [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)), ("'2024-02-29'", date(2024, 2, 29))]),
    ("time", "STRING", [("'24:00'", "24:00:00"), ("'01:02:03.000001'", "01:02:03.000001")]),
    ("timetz", "STRING", [("'01:02:03+05:30'", "01:02:03+05:30")]),
    ("timestamp", "TIMESTAMP_NTZ", [("'0001-01-01'", datetime(1, 1, 1)), ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)), ("'2024-03-31 02:30'", datetime(2024, 3, 31, 2, 30))]),
    ("timestamp(0)", "TIMESTAMP_NTZ", [("'2024-01-01 00:00:00.6'", datetime(2024, 1, 1, 0, 0, 1))]),
    ("timestamptz", "TIMESTAMP", [("'2024-10-27 02:30:00.5+02:00'", datetime(2024, 10, 27, 0, 30, 0, 500000, tzinfo=UTC)), ("'1890-01-01 00:00:00+00'", datetime(1890, 1, 1, tzinfo=UTC))]),
    ("interval", "STRING", [("'1 year 2 mons -3 days 04:05:06.7'", "1 year 2 mons -3 days +04:05:06.7"), ("'30 days'", "30 days"), ("'1 mon'", "1 mon")]),
    ("bytea", "BINARY", [("''", b""), ("'\\x00ff5c'", b"\x00\xff\\"), ("repeat('ab', 50000)::bytea", b"ab" * 50_000)]),
    ("int4range", "STRING", [("'[1,5)'", "[1,5)"), ("'empty'", "empty")]),
    ("tstzrange", "STRING", [("'[2024-01-01 00:00+00,)'", '["2024-01-01 00:00:00+00",)')]),
    ("int4multirange", "STRING", [("'{[1,2),[5,7)}'", "{[1,2),[5,7)}")]),
    ("inet", "STRING", [("'10.0.0.1/8'", "10.0.0.1/8"), ("'10.0.0.1'", "10.0.0.1"), ("'::1'", "::1")]),
    ("cidr", "STRING", [("'::/0'", "::/0")]),
    ("macaddr", "STRING", [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")]),
    ("point", "STRING", [("'(1,2.5)'", "(1,2.5)")]),
    ("polygon", "STRING", [("'((0,0),(1,1),(1,0))'", "((0,0),(1,1),(1,0))")]),
    ("box", "STRING", [("'(1,1),(0,0)'", "(1,1),(0,0)")]),
    ("money", "STRING", [("'1234.5'", "$1,234.50")]),
    ("bit(3)", "STRING", [("B'101'", "101")]),
    ("varbit", "STRING", [("B''", "")]),
    ("tsvector", "STRING", [("'a b:1'", "'a' 'b':1")]),
    ("pg_lsn", "STRING", [("'16/B374D848'", "16/B374D848")]),
    ("int2vector", "STRING", [("'1 2 3'", "1 2 3")]),
    ("regclass", "STRING", [("'public.t'", "public.t")]),
]  # fmt: skip


def prepare(world: World) -> None:
    world.run(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')",
        "CREATE DOMAIN price AS numeric(10, 2)",
        "CREATE DOMAIN prices AS price[]",
        # The extension is not there; this is how it makes its type.
        "CREATE TYPE citext",
        "CREATE FUNCTION citextin(cstring) RETURNS citext LANGUAGE internal IMMUTABLE STRICT AS 'textin'",
        "CREATE FUNCTION citextout(citext) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'textout'",
        "CREATE TYPE citext (INPUT = citextin, OUTPUT = citextout, INTERNALLENGTH = VARIABLE, STORAGE = extended)",
    )


def test_all_types_by_all_ways(world: World) -> None:
    """One table with a column for each type: copied, also side by side, captured, and read from the log."""
    prepare(world)
    world.run(create("t", "id int PRIMARY KEY"))
    columns = [f"c{n}" for n in range(len(VALUES))]
    for name, (kind, _, _) in zip(columns, VALUES, strict=True):
        world.run(f"ALTER TABLE t ADD {name} {kind}")
    most = max(len(values) for _, _, values in VALUES)
    inserts = ["INSERT INTO t VALUES (0)"]
    expected: dict[int, list[Any]] = {0: [None] * len(VALUES)}
    for n in range(most):
        row = [values[n] if n < len(values) else ("NULL", None) for _, _, values in VALUES]
        inserts.append(f"INSERT INTO t VALUES ({n + 1}, {', '.join(text for text, _ in row)})")
        expected[n + 1] = [value for _, value in row]
    arrived = both_ways(world, "public.t", inserts)
    kinds = [sql_name(c.type) for c in mapped(table_of(world.connect(), "public.t"))][1:]
    assert kinds == [expected_kind for _, expected_kind, _ in VALUES]
    for way, rows in arrived.items():
        found = {r["id"]: r for r in rows.to_pylist()}
        assert found.keys() == expected.keys()
        for n, (kind, _, _) in enumerate(VALUES):
            values = [(shown(found[id][columns[n]]), shown(expected[id][n])) for id in expected]
            assert [a for a, _ in values] == [b for _, b in values], (way, kind)


def shown(value: Any) -> str:
    """By text, so that NaN and -0.0 count, but not how a time zone is called."""
    if isinstance(value, list):
        return str([shown(v) for v in value])
    return str(value) if isinstance(value, datetime) else repr(value)


REFUSED_VALUES = [
    ("numeric", "'NaN'", "NaN"),
    ("numeric", "'Infinity'", "Infinity"),
    ("numeric", "0.0000000000000000001", "0.0000000000000000001"),
    ("numeric", "100000000000000000000", "100000000000000000000"),
    ("numeric", "1e100", "1" + "0" * 100),
    ("numeric", "1" + "0" * 90 + ".000001", "1" + "0" * 90 + ".000001"),
    ("numeric(50, 2)", "1e40", "1" + "0" * 40 + ".00"),
    ("date", "'infinity'", "infinity"),
    ("date", "'-infinity'", "-infinity"),
    ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    ("date", "'10000-01-01'", "10000-01-01"),
    ("timestamp", "'infinity'", "infinity"),
    ("timestamp", "'294276-12-31'", "294276-12-31 00:00:00"),
    ("timestamptz", "'-infinity'", "-infinity"),
    ("timestamptz", "'4713-01-01 00:00+00 BC'", "4713-01-01 00:00:00+00 BC"),
    ("int4[]", "'{{1,2},{3,4}}'", "{{1,2},{3,4}}"),
    ("int4[]", "'[1:1][2:3]={{1,2}}'", "[1:1][2:3]={{1,2}}"),
    ("date[]", "'{2024-01-01,infinity}'", "infinity"),
]


@pytest.mark.parametrize(("kind", "value", "shown"), REFUSED_VALUES)
def test_values_that_do_not_fit_are_named(world: World, kind: str, value: str, shown: str) -> None:
    world.run(
        create("t", f'id int, "the column" {kind}'), "INSERT INTO t SELECT g FROM generate_series(1, 100) g"
    )
    world.run(f'UPDATE t SET "the column" = {value} WHERE id = 73')
    connection = world.connect()
    table = table_of(connection, "public.t")
    with pytest.raises(SourceValueError) as caught:
        both_ways(world, "public.t", [])
    assert (caught.value.column, caught.value.value) == ("the column", shown)
    assert "as text" in caught.value.hint
    (text,) = {
        r["the column"] for r in both_ways(world, "public.t", [], as_text=["the column"])["copy"].to_pylist()
    } - {None}
    assert shown in text
    assert len(mapped(table, skip=["the column"])) == 1


UNMAPPED = [
    ("pair", "composite"),
    ("box[]", "its elements are separated by semicolons"),
    ("vector(3)", "of an extension"),
    ("pair[]", "array of composite"),
    ("pairs", "domain of composite"),
    ("odd", "domain of an extension's type"),
]


@pytest.mark.parametrize("kind", [k for k, _ in UNMAPPED])
def test_types_without_a_counterpart_are_named(world: World, kind: str) -> None:
    world.run(
        "CREATE EXTENSION vector",
        "CREATE TYPE pair AS (a int, b int)",
        "CREATE DOMAIN pairs AS pair[]",
        "CREATE DOMAIN odd AS vector(3)",
        create("t", f"id int, odd {kind}"),
    )
    table = table_of(world.connect(), "public.t")
    with pytest.raises(TypeNotAllowedError) as caught:
        mapped(table)
    assert caught.value.column == "odd"
    assert kind.split("(")[0] in caught.value.type
    assert [c.name for c in mapped(table, skip=["odd"])] == ["id"]
    assert mapped(table, as_text=["odd"])[1].type == Scalar("string")
    with pytest.raises(ColumnNotFoundError):
        mapped(table, skip=["od"])


COMPOSITES = ["ROW(1, NULL)", "ROW(NULL, NULL)", "NULL"]


def test_composites_as_text_by_all_ways(world: World) -> None:
    """A composite of nothing but nulls is a value, though IS NULL says otherwise."""
    world.run("CREATE TYPE pair AS (a int, b int)", create("t", "id int PRIMARY KEY, c pair"))
    inserts = [f"INSERT INTO t VALUES ({n}, {value})" for n, value in enumerate(COMPOSITES)]
    for way, rows in both_ways(world, "public.t", inserts, as_text=["c"]).items():
        assert [r["c"] for r in rows.sort_by("id").to_pylist()] == ["(1,)", "(,)", None], way


def test_virtual_columns_are_refused(world: World) -> None:
    if world.connect().info.server_version < 180_000:
        pytest.skip("PostgreSQL 18 brought them")
    world.run(create("t", "a int, v int GENERATED ALWAYS AS (a + 1) VIRTUAL"))
    with pytest.raises(TypeNotAllowedError, match='column "v"'):
        mapped(table_of(world.connect(), "public.t"))


@pytest.mark.parametrize(("columns", "name"), [('"A" int, a int', "a"), ("_w int", "_w"), ('"_W" int', "_W")])
def test_names_that_we_cannot_have(world: World, columns: str, name: str) -> None:
    world.run(create("t", columns))
    with pytest.raises(TypeNotAllowedError) as caught:
        mapped(table_of(world.connect(), "public.t"))
    assert caught.value.column == name
    assert [c.name for c in mapped(table_of(world.connect(), "public.t"), skip=[name])] != [name]


def test_elements_of_arrays_are_numbered(world: World) -> None:
    world.run(create("t", "a int[], b int, c text[]"))
    table = table_of(world.connect(), "public.t")
    ids = count(7)
    assert [map_column(c, ids) for c in table.columns] == [
        Array(Scalar("integer"), 7),
        Scalar("integer"),
        Array(Scalar("string"), 8),
    ]


def test_modifiers_of_numeric(world: World) -> None:
    for precision, scale in [(1, 0), (10, 2), (38, 38), (1000, -1000), (1000, 1000), (3, -1), (2, 5)]:
        world.run("DROP TABLE IF EXISTS t", create("t", f"a numeric({precision}, {scale})"))
        kind = table_of(world.connect(), "public.t").columns[0].type
        assert read_digits(kind.modifier) == (precision, scale)
        digits, places = map_decimal(kind.modifier).name[len("decimal(") : -1].split(",")
        assert 0 <= int(places) <= int(digits) <= 38


# --- arrays as text ------------------------------------------------------------------------------


@given(st.lists(st.none() | st.text()))
def test_array_texts_come_back(items: list[str | None]) -> None:
    def write(item: str | None) -> str:
        if item is None:
            return "NULL"
        escaped = item.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    assert parse_array("{" + ",".join(map(write, items)) + "}") == items


def test_the_server_writes_arrays_as_we_read_them(world: World) -> None:
    application = world.application()

    @given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
    def agrees(items: list[str | None]) -> None:
        ((text,),) = application.execute("SELECT (%s::text[])::text", [items]).fetchall()
        assert parse_array(text) == items

    agrees()


@given(st.text())
def test_other_texts_are_no_arrays_but_do_no_harm(text: str) -> None:
    parse_array(text)
    parse_array("{" + text)


# --- texts to Arrow ------------------------------------------------------------------------------


@given(st.lists(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)))
def test_integers(values: list[int | None]) -> None:
    texts = pa.array([None if v is None else str(v) for v in values], pa.string())
    assert from_text("c", Scalar("long"), texts).to_pylist() == values


def test_floats_as_the_server_writes_them(world: World) -> None:
    connection = world.connect()

    @given(st.lists(st.floats(allow_nan=False), max_size=20))
    def agrees(values: list[float]) -> None:
        cursor = connection.cursor()
        cursor.execute("SELECT v::text FROM unnest(%s::float8[]) AS v", [values], binary=False)
        texts = pa.array([t for (t,) in cursor.fetchall()], pa.string())
        assert list(map(repr, from_text("c", Scalar("double"), texts).to_pylist())) == list(map(repr, values))

    agrees()


NUMBERS = st.decimals(
    allow_nan=False, allow_infinity=False, places=None, min_value=-(10**100), max_value=10**100
)


@given(
    NUMBERS | st.decimals(min_value=-100, max_value=100, places=20),
    st.sampled_from([(38, 18), (38, 2), (38, 0), (38, 38), (5, 2)]),
)
def test_decimals_are_exact_or_refused(value: Decimal, size: tuple[int, int]) -> None:
    precision, scale = size
    with localcontext(Context(prec=300)):
        fits = (
            value.scaleb(scale) == value.scaleb(scale).to_integral_value()
            and abs(value).scaleb(scale) < 10**precision
        )
    texts = pa.array([f"{value:f}"], pa.string())
    try:
        found = from_text("c", Scalar(f"decimal({precision},{scale})"), texts)[0].as_py()
    except SourceValueError:
        found = None
    assert found == (value if fits else None)


def test_times_as_the_server_writes_them(world: World) -> None:
    connection = world.connect()

    @given(st.lists(st.datetimes(), max_size=20))
    def agrees(values: list[datetime]) -> None:
        cursor = connection.cursor()
        query = (
            "SELECT v::text, v::date::text, (v AT TIME ZONE 'UTC')::text FROM unnest(%s::timestamp[]) AS v"
        )
        texts = list(zip(*cursor.execute(query, [values]).fetchall(), strict=True)) or [(), (), ()]
        found = [
            from_text("c", Scalar(kind), pa.array(column, pa.string())).to_pylist()
            for kind, column in zip(("timestamp_ntz", "date", "timestamp"), texts, strict=True)
        ]
        assert found == [values, [v.date() for v in values], [v.replace(tzinfo=UTC) for v in values]]

    agrees()


def test_the_culprit_is_found_anywhere() -> None:
    for place in range(20):
        texts = pa.array([None if n % 3 == 0 else "1" for n in range(20)]).to_pylist()
        texts[place] = "x"
        with pytest.raises(SourceValueError) as caught:
            from_text("c", Scalar("integer"), pa.array(texts, pa.string()))
        assert caught.value.value == "x"

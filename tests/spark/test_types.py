"""Every column type keeps every value: through both writers, DML, the feed and compaction."""

from __future__ import annotations

from typing import Any

import pytest

from spark_trickle.errors import DuplicateKeyError, TrickleError, TypeNotAllowedError, ValueTooLongError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.spark.paths import Lake, difference, net_feed

# A type and values of it, as SQL; NULL is added to each.
TYPES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128Y", "127Y", "0Y"],
    "SMALLINT": ["-32768S", "32767S"],
    "INT": ["-2147483648", "2147483647"],
    "BIGINT": ["-9223372036854775808", "9223372036854775807"],
    "FLOAT": ["float('NaN')", "-0F", "0F", "float('Infinity')", "float('-Infinity')", "float('1.4E-45')", "float('3.4028235E38')", "0.1F"],
    "DOUBLE": ["double('NaN')", "-0D", "0D", "double('Infinity')", "double('-Infinity')", "4.9E-324D", "1.7976931348623157E308D"],
    "DECIMAL(38, 18)": ["99999999999999999999.999999999999999999BD", "-99999999999999999999.999999999999999999BD", "0.000000000000000001BD", "0BD"],
    "DECIMAL(38, 0)": ["99999999999999999999999999999999999999BD", "-1BD"],
    "DECIMAL(9, 2)": ["-9999999.99", "0.01"],
    "DECIMAL(18, 4)": ["99999999999999.9999"],
    "STRING": ["''", "'a\\u0000b'", "'äöü 表 \\U0001F600'", "'  x  '", "'NULL'", "repeat('long', 500)", "'line\\nbreak'"],
    "VARCHAR(3)": ["'abc'", "''", "'äöü'"],
    "CHAR(3)": ["'abc'", "'ab '"],
    "BINARY": ["X''", "X'00FF'", "X'C3'"],
    "DATE": ["date'0001-01-01'", "date'1582-10-04'", "date'1582-10-15'", "date'1970-01-01'", "date'9999-12-31'"],
    "TIMESTAMP": ["timestamp'0001-01-01 00:00:00Z'", "timestamp'1582-10-10 12:00:00Z'", "timestamp'1900-01-01 00:00:00.000001Z'", "timestamp'9999-12-31 23:59:59.999999Z'"],
    "TIMESTAMP_NTZ": ["timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'2024-03-31 02:30:00'", "timestamp_ntz'9999-12-31 23:59:59.999999'"],
    "ARRAY<INT>": ["array()", "array(1, NULL, 3)", "array(NULL)"],
    "ARRAY<ARRAY<STRING>>": ["array(array('a', NULL), NULL, array())"],
    "ARRAY<DOUBLE>": ["array(double('NaN'), -0D, 0D)", "array(0D)", "array(-0D)"],
    "STRUCT<a: INT, b: STRING>": ["named_struct('a', 1, 'b', 'x')", "named_struct('a', CAST(NULL AS INT), 'b', CAST(NULL AS STRING))"],
    "STRUCT<f: FLOAT, s: STRUCT<l: ARRAY<DECIMAL(5, 1)>>>": ["named_struct('f', -0F, 's', named_struct('l', array(1.5, NULL)))", "named_struct('f', 0F, 's', NULL)"],
    "ARRAY<STRUCT<`a.b`: DATE, t: TIMESTAMP>>": ["array(named_struct('a.b', date'2026-01-01', 't', NULL), NULL)"],
}  # fmt: skip
# These never come to the driver.
SPANS: dict[str, list[str]] = {
    "INTERVAL YEAR TO MONTH": ["interval '178956970-7' year to month", "interval '-1-2' year to month"],
    "INTERVAL MONTH": ["interval '-7' month"],
    "INTERVAL DAY TO SECOND": ["interval '106751991 04:00:54.775807' day to second", "interval '-0 00:00:00.000001' day to second"],
    "INTERVAL HOUR": ["interval '5' hour"],
}  # fmt: skip
_GROUPS = {"types": TYPES, "spans": SPANS}


def values_sql(types: dict[str, list[str]], first: int = 0) -> str:
    """Rows that hold all values of all types: the n-th row has the n-th value of each type, or NULL."""
    lines = []
    for n in range(max(len(v) for v in types.values()) + 1):
        cells = [v[n] if n < len(v) else "NULL" for v in types.values()]
        lines.append(f"({first + n}, {', '.join(cells)})")
    return ", ".join(lines)


def create_sql(name: str, types: dict[str, list[str]], key: str = "") -> str:
    columns = ", ".join(f"c{n} {kind}" for n, kind in enumerate(types))
    return f"CREATE TABLE {name} (id INT{key}, {columns})"


def exact(tr: Trickle, types: dict[str, list[str]], source: str) -> list[tuple[Any, ...]]:
    """Rows in a form that tells apart what is equal but not the same (0.0 and −0.0), and needs no Python dates."""
    cells = [
        f"hex(c{n})" if kind == "BINARY" else f"to_json(struct(c{n})) || coalesce(hex(string(c{n})), '')"
        for n, kind in enumerate(types)
    ]
    return rows(tr.sql(f"SELECT id, {', '.join(cells)} FROM {source}"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("group", list(_GROUPS))
def test_all_values_come_back(lake: Lake, group: str) -> None:
    """Written, copied row by row, updated, deleted around, compacted, and in the past."""
    tr, types, copy = lake.tr, _GROUPS[group], f"{group}_copy"
    tr.sql(create_sql(group, types))
    tr.sql(create_sql(copy, types))
    tr.sql(f"INSERT INTO {group} VALUES {values_sql(types)}")
    first = tr.snapshot
    plain = ", ".join(f"CAST(c{n} AS {'STRING' if 'CHAR' in k else k}) AS c{n}" for n, k in enumerate(types))
    names = ", ".join(f"c{n}" for n in range(len(types)))
    expected = exact(tr, types, f"(SELECT id, {plain} FROM VALUES {values_sql(types)} AS x(id, {names}))")
    assert exact(tr, types, group) == expected
    tr.sql(f"INSERT INTO {copy} SELECT * FROM {group}")
    tr.sql(f"INSERT INTO {group} VALUES {values_sql(types, 100)}")
    tr.sql(f"DELETE FROM {group} WHERE id >= 100")
    tr.sql(f"UPDATE {group} SET id = -id - 1 WHERE id % 2 = 0")
    tr.sql(f"UPDATE {group} SET id = -id - 1 WHERE id < 0")
    assert exact(tr, types, group) == expected
    assert exact(tr, types, copy) == expected
    assert exact(tr, types, f"{group} VERSION AS OF {first}") == expected
    assert exact(tr, types, f"trickle.changes('{group}', {first - 1}, {first})") == expected
    tr.sql(f"OPTIMIZE {group}")
    assert exact(tr, types, group) == expected
    merge = f"MERGE INTO {group} t USING {copy} s ON t.id = s.id + 1000"
    tr.sql(f"{merge} WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert exact(tr, types, group) == expected
    tr.sql(f"DELETE FROM {group}")
    weights = "sum(CASE WHEN _change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END)"
    grouped = f"SELECT id FROM trickle.changes('{group}', {first - 1}) GROUP BY ALL HAVING {weights} <> 0"
    assert rows(tr.sql(grouped)) == []


@pytest.mark.parametrize("group", list(_GROUPS))
def test_the_types_are_what_was_declared(lake: Lake, group: str) -> None:
    """Also after changes, whose rows take another way to the reader."""
    tr, name = lake.tr, f"{group}_declared"
    lake.setup.sql(create_sql(name, _GROUPS[group], " PRIMARY KEY"))
    fresh = tr.table(name).schema.simpleString()
    lake.setup.sql(f"INSERT INTO {name} VALUES {values_sql(_GROUPS[group])}")
    assert tr.table(name).schema.simpleString() == fresh
    tr.sql(f"UPDATE {name} SET c0 = NULL")
    assert tr.table(name).schema.simpleString() == fresh
    assert tr.changes(name, after=0).schema.simpleString().startswith(fresh.removesuffix(">"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("old", "new"),
    [("0D", "-0D"), ("-0D", "0D"), ("double('NaN')", "0D"), ("NULL", "-0D")],
)
def test_a_zero_changes_its_sign(lake: Lake, old: str, new: str) -> None:
    """−0.0 equals 0.0, but replacing one by the other is a change, nested or not, and shows in the feed."""
    tr, name = lake.tr, f"z{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (f DOUBLE, l ARRAY<DOUBLE>, s STRUCT<x: DOUBLE>)")
    before = tr.snapshot
    tr.sql(
        f"INSERT INTO {name} VALUES ({old}, array({old}), struct({old})), ({old}, array({old}), struct({old}))"
    )
    first = rows(tr.table(name))
    done = tr.sql(f"UPDATE {name} SET f = {new}, l = array({new}), s = struct({new})").collect()[0]
    assert done.rows_updated == 2
    value = {"0D": 0.0, "-0D": -0.0}[new]
    found = rows(tr.sql(f"SELECT f, l[0], s.x FROM {name}"))
    assert repr(found) == repr([(value, value, value)] * 2)
    assert net_feed(tr, name, before) == difference(rows(tr.table(name)), [])
    assert net_feed(tr, name, before, before + 1) == difference(first, [])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "moment", ["+10000-01-01 00:00:00", "-0005-01-01 00:00:00", "+294247-01-10 04:00:54"]
)
def test_moments_that_python_cannot_hold(lake: Lake, moment: str) -> None:
    """Spark's calendar is larger than Python's: such values are stored as they are."""
    tr, name = lake.tr, f"m{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (t TIMESTAMP, n TIMESTAMP_NTZ, d DATE)")
    literal = f"timestamp'{moment}Z', timestamp_ntz'{moment}', CAST(timestamp_ntz'{moment}' AS DATE)"
    tr.sql(f"INSERT INTO {name} VALUES ({literal}), ({literal}), (NULL, NULL, NULL)")
    tr.sql(f"DELETE FROM {name} WHERE t IS NULL")
    same = f"t = timestamp'{moment}Z' AND n = timestamp_ntz'{moment}' AND d = CAST(n AS DATE)"
    assert rows(tr.sql(f"SELECT count(*) FROM {name} WHERE {same}")) == [(2,)]
    tr.sql(f"UPDATE {name} SET d = NULL, t = timestamp'2026-01-01 00:00:00Z'")
    assert rows(tr.sql(f"SELECT count(*) FROM {name} WHERE d IS NULL")) == [(2,)]


def test_keys_that_python_cannot_hold(lake: Lake) -> None:
    tr, name = lake.tr, f"m{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (t TIMESTAMP, d DATE, v INT, PRIMARY KEY (t, d))")
    key = "timestamp'+10000-01-01 00:00:00Z', date'+12345-01-01'"
    tr.sql(f"INSERT INTO {name} VALUES ({key}, 1)")
    tr.sql(f"UPDATE {name} SET t = t + INTERVAL 1 DAY")
    tr.sql(f"INSERT INTO {name} VALUES ({key}, 2)")
    with pytest.raises(DuplicateKeyError, match="10000-01-01"):
        tr.sql(f"INSERT INTO {name} VALUES ({key}, 3)")
    assert rows(tr.sql(f"SELECT v FROM {name}")) == [(1,), (2,)]


def test_local_time_that_a_zone_skips(lake: Lake) -> None:
    """02:30 on the night when clocks go forward exists without a zone, whatever the session's zone is."""
    tr = lake.tr
    tr.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        lake.setup.sql("CREATE TABLE clock (n TIMESTAMP_NTZ PRIMARY KEY, t TIMESTAMP)")
        for hour in ("01", "02", "03"):
            tr.sql(
                f"INSERT INTO clock VALUES (timestamp_ntz'2024-03-31 {hour}:30:00', timestamp'2024-10-27 {hour}:30:00')"
            )
        tr.sql("UPDATE clock SET t = t + interval 1 hour")
        expected = [
            ("2024-03-31 01:30:00", "2024-10-27 02:30:00"),
            ("2024-03-31 02:30:00", "2024-10-27 03:30:00"),
        ]
        assert (
            rows(tr.sql("SELECT string(n), string(t) FROM clock WHERE n < '2024-03-31 03:00:00'"))[0]
            == expected[0]
        )
        assert rows(tr.sql("SELECT string(n) FROM clock")) == [(f"2024-03-31 0{n}:30:00",) for n in (1, 2, 3)]
    finally:
        tr.spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_time_of_day(lake: Lake) -> None:
    tr = lake.tr
    lake.setup.sql("CREATE TABLE times (id INT PRIMARY KEY, t TIME(6), s TIME(0))")
    tr.sql(
        "INSERT INTO times VALUES (1, time'00:00:00', time'12:34:56'), (2, time'23:59:59.999999', NULL), (3, NULL, NULL)"
    )
    tr.sql("UPDATE times SET t = time'01:02:03.000004' WHERE id = 1")
    tr.sql("DELETE FROM times WHERE id = 3")
    expected = [(1, "01:02:03.000004", "12:34:56"), (2, "23:59:59.999999", None)]
    assert rows(tr.sql("SELECT id, string(t), string(s) FROM times")) == expected
    tr.sql("OPTIMIZE times")
    assert rows(tr.sql("SELECT id, string(t), string(s) FROM times")) == expected


def test_text_of_limited_length(lake: Lake) -> None:
    """CHAR pads, VARCHAR does not, characters count and not bytes, and nothing is cut off silently."""
    tr = lake.tr
    lake.setup.sql("CREATE TABLE texts (id INT, c CHAR(3), v VARCHAR(3))")
    tr.sql("INSERT INTO texts VALUES (1, 'ä', 'ä'), (2, '', ''), (3, 'abc', 'äöü'), (4, NULL, NULL)")
    expected = [(1, "ä  ", "ä"), (2, "   ", ""), (3, "abc", "äöü"), (4, None, None)]
    assert rows(tr.table("texts")) == expected
    for wrong in (
        "INSERT INTO texts VALUES (5, 'abcd', ''), (6, '', '')",
        "INSERT INTO texts SELECT id, v || 'x', v FROM texts",
        "UPDATE texts SET v = 'toolong'",
        "MERGE INTO texts t USING (SELECT 1 AS id) s ON t.id >= s.id WHEN MATCHED THEN UPDATE SET c = 'long'",
    ):
        with pytest.raises((ValueTooLongError, TrickleError), match="too long"):
            tr.sql(wrong)
    assert rows(tr.table("texts")) == expected
    with pytest.raises(TrickleError):
        lake.setup.sql("CREATE TABLE nested_texts (l ARRAY<VARCHAR(2)>, s STRUCT<c: CHAR(2)>)")


@pytest.mark.parametrize(
    "kind",
    [
        "MAP<INT, INT>",
        "ARRAY<MAP<INT, INT>>",
        "STRUCT<a: STRUCT<b: MAP<STRING, INT>>>",
        "VARIANT",
        "STRUCT<v: VARIANT>",
        "INTERVAL",
        "VOID",
        "STRING COLLATE UNICODE_CI",
        "ARRAY<STRING COLLATE UTF8_LCASE>",
    ],
)
def test_what_cannot_be_compared_is_refused(module_tr: Trickle, kind: str) -> None:
    before = module_tr.snapshot
    with pytest.raises(TypeNotAllowedError) as found:
        module_tr.sql(f"CREATE TABLE x (a INT, bad {kind})")
    assert (found.value.column, bool(found.value.hint)) == ("bad", True)
    with pytest.raises(TypeNotAllowedError):
        module_tr.sql(f"ALTER TABLE t ADD COLUMN bad {kind}")
    with pytest.raises(TypeNotAllowedError):
        module_tr.sql(f"CREATE TABLE x AS SELECT CAST(NULL AS {kind}) AS bad")
    assert module_tr.snapshot == before


def test_a_query_makes_a_table_of_nested_values(lake: Lake) -> None:
    """Constants are never NULL, the columns made from them may be."""
    tr = lake.tr
    tr.sql(
        "CREATE TABLE made AS SELECT id, array(id) AS l, named_struct('a', id, 'b', array('x')) AS s FROM range(3)"
    )
    tr.sql(
        "INSERT INTO made VALUES (3, array(NULL), named_struct('a', NULL, 'b', array(NULL))), (4, NULL, NULL)"
    )
    found = rows(tr.sql("SELECT id, l, s.a, s.b, s IS NULL FROM made"))
    assert found == [
        (0, [0], 0, ["x"], False), (1, [1], 1, ["x"], False), (2, [2], 2, ["x"], False),
        (3, [None], None, [None], False), (4, None, None, None, True),
    ]  # fmt: skip


def test_a_field_that_is_not_null_holds_no_null(lake: Lake) -> None:
    """NOT NULL inside a struct is kept or refused at CREATE; a NULL never makes its whole struct vanish."""
    try:
        lake.setup.sql("CREATE TABLE strict (s STRUCT<a: INT NOT NULL, b: INT>)")
        lake.tr.sql("INSERT INTO strict VALUES (named_struct('a', CAST(NULL AS INT), 'b', 1)), (NULL)")
    except TrickleError:
        return
    assert rows(lake.tr.sql("SELECT s IS NULL, s.b FROM strict")) == [(False, 1), (True, None)]


def test_char_is_compared_as_spark_compares_it(lake: Lake) -> None:
    """Blanks at the end do not count, whatever its length; a stream table warns that there they do."""
    tr = lake.tr
    lake.setup.sql("CREATE TABLE filled (k INT, c CHAR(5), d CHAR(8), v VARCHAR(9))")
    tr.sql("INSERT INTO filled VALUES (1, 'x', 'x', 'x'), (2, 'yy', 'yy', 'yy'), (3, NULL, 'x', 'x')")
    found = rows(tr.sql("SELECT k, c = 'x', c IN ('x', 'yy'), c = d, c = v, length(c) FROM filled"))
    assert found == [
        (1, True, True, True, False, 5),
        (2, False, True, True, False, 5),
        (3, None, None, None, None, None),
    ]
    tr.sql("UPDATE filled SET k = k + 10 WHERE c = 'x'")
    tr.sql("DELETE FROM filled WHERE d IN ('yy')")
    assert rows(tr.sql("SELECT k, c, d FROM filled")) == [(11, "x    ", "x       "), (3, None, "x       ")]
    with pytest.warns(UserWarning, match="CHAR values with their trailing blanks"):
        tr.sql("CREATE STREAM TABLE short AS SELECT k FROM filled WHERE c = 'x    '")
    assert rows(tr.sql("SELECT * FROM short")) == [(11,)]

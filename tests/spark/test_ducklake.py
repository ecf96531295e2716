"""DuckDB's own DuckLake client sees what Spark sees: every type, every stage, every snapshot, both writers."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from spark_trickle.errors import UnsupportedError
from spark_trickle.session import Trickle
from tests.conftest import DuckQuery, Location

Rows = list[tuple[Any, ...]]

# Type, values as SQL (NULL is added), and whether DuckDB filters by them; it prunes files by our statistics.
_TYPES: dict[str, list[str]] = {
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["-128Y", "127Y"],
    "SMALLINT": ["-32768S", "5S"],
    "INT": ["-7", "2147483647"],
    "BIGINT": ["-9223372036854775808", "12"],
    "FLOAT": ["float('NaN')", "-0F", "float('Infinity')", "1.5F"],
    "DOUBLE": ["double('NaN')", "-0D", "double('-Infinity')", "-1.5e300"],
    "DECIMAL(38, 18)": ["99999999999999999999.999999999999999999BD", "0.000000000000000001BD", "-2BD"],
    "DECIMAL(9, 2)": ["-0.01", "1234567.89"],
    "STRING": ["''", "'äöü 表'", "'it''s'", "repeat('x', 300)"],
    "VARCHAR(3)": ["'abc'", "''"],
    "CHAR(3)": ["'a'", "'abc'"],
    "BINARY": ["X''", "X'00FF'", "X'C3'"],
    "DATE": ["date'0001-01-01'", "date'0999-12-31'", "date'9999-12-31'"],
    "TIMESTAMP": ["timestamp'0999-01-01 00:00:00Z'", "timestamp'1969-12-31 23:59:59.999999Z'", "timestamp'2026-07-01 12:00:00Z'"],
    "TIMESTAMP_NTZ": ["timestamp_ntz'0002-01-01 00:00:00'", "timestamp_ntz'2024-03-31 02:30:00.000001'"],
    "ARRAY<INT>": ["array()", "array(1, NULL)"],
    "ARRAY<ARRAY<STRING>>": ["array(array('a', NULL), NULL)"],
    "STRUCT<a: INT, `b.c`: STRING>": ["named_struct('a', 1, 'b.c', 'x')", "named_struct('a', NULL, 'b.c', NULL)"],
    "STRUCT<l: ARRAY<STRUCT<d: DATE>>>": ["named_struct('l', array(named_struct('d', date'2026-01-01'), NULL))"],
    "ARRAY<STRUCT<x: DECIMAL(5, 1), y: ARRAY<DOUBLE>>>": ["array(named_struct('x', 1.5, 'y', array(0.5D, NULL)))"],
}  # fmt: skip
_COLUMNS = {f"c{n}": kind for n, kind in enumerate(_TYPES)}
_SETTINGS = {"driver": {}, "executors": {"max_driver_rows": 1, "local_tail_rows": 0}}


def _values(first: int) -> str:
    deepest = max(len(v) for v in _TYPES.values())
    lines = []
    for n in range(deepest + 1):
        cells = [v[n] if n < len(v) else "NULL" for v in _TYPES.values()]
        lines.append(f"({first + n}, {', '.join(cells)})")
    return ", ".join(lines)


def _plain(value: Any) -> Any:
    """A value of either engine in one form; Spark's intervals are stored as their months or microseconds."""
    match value:
        case list():
            return [_plain(v) for v in value]
        case dict():
            return tuple(_plain(v) for v in value.values())
        case tuple():
            return tuple(_plain(v) for v in value)
        case bytearray():
            return bytes(value)
        case float():
            return repr(value)
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None)
        case timedelta():
            return value // timedelta(microseconds=1)
    return value


def _same(found: Any) -> Rows:
    return sorted((_plain(tuple(r)) for r in found), key=repr)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("path", list(_SETTINGS))
def test_every_type_at_every_stage(location: Location, duck: DuckQuery, path: str) -> None:
    with location.connect(settings=_SETTINGS[path]) as tr:
        tr.spark.conf.set("spark.sql.session.timeZone", "UTC")
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        tr.sql(f"CREATE TABLE t (id INT, {columns})")
        seen: dict[int, Rows] = {}

        def agree() -> None:
            ours = _same(tr.table("t").collect())
            theirs = _same(duck("SELECT * FROM lake.t"))
            assert theirs == ours
            seen[tr.snapshot] = theirs

        agree()
        steps = [
            f"INSERT INTO t VALUES {_values(0)}, {_values(10)}",
            "UPDATE t SET c3 = c3 - 1, c16 = array(7, NULL) WHERE id < 3",
            "DELETE FROM t WHERE id IN (1, 11, 12)",
            f"INSERT INTO t VALUES {_values(0)}",
            "OPTIMIZE t",
            "MERGE INTO t USING (SELECT 0 AS x UNION ALL SELECT 2) s ON t.id = s.x WHEN MATCHED THEN UPDATE SET c9 = 'm'",
        ]
        for step in steps:
            tr.sql(step)
            agree()
        assert len(seen[tr.snapshot]) == 12
        for snapshot, expected in seen.items():
            assert _same(duck("SELECT * FROM lake.t", snapshot=snapshot)) == expected
        _filters_agree(tr, duck)
        assert [r[0] for r in duck("SELECT column_name FROM (DESCRIBE lake.t)")] == ["id", *_COLUMNS]
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert _same(duck("SELECT * FROM lake.t")) == seen[tr.snapshot]


def _filters_agree(tr: Trickle, duck: DuckQuery) -> None:
    """DuckDB skips files by the statistics we wrote; a wrong one would lose rows."""
    scalars = [n for n, k in _COLUMNS.items() if not k.startswith(("ARRAY", "STRUCT", "INTERVAL"))]
    found = tr.sql(f"SELECT {', '.join(scalars)} FROM t").collect()
    tests = []
    for n, name in enumerate(scalars):
        for value in dict.fromkeys(_plain(r[n]) for r in found if r[n] is not None):
            tests.append((f"{name} = {_duck_literal(value, _COLUMNS[name])}", name, value))
    parts = [f"SELECT {n} AS n, count(*) FROM lake.t WHERE {test}" for n, (test, *_) in enumerate(tests)]
    theirs = dict(duck(" UNION ALL ".join(parts)))
    for n, (test, name, value) in enumerate(tests):
        column = scalars.index(name)
        same = [r for r in found if r[column] is not None and _equal(_plain(r[column]), value)]
        assert theirs[n] == len(same), test


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b or {a, b} == {"0.0", "-0.0"})


def _duck_literal(value: Any, kind: str) -> str:
    match value:
        case bool() | int() | Decimal():
            return f"CAST('{value:f}' AS DECIMAL(38, 18))" if isinstance(value, Decimal) else str(value)
        case bytes():
            return "'" + "".join(f"\\x{b:02X}" for b in value) + "'::BLOB"
        case datetime():
            zone = "+00'::TIMESTAMPTZ" if kind == "TIMESTAMP" else "'::TIMESTAMP"
            return f"'{value.isoformat(sep=' ')}{zone}"
        case date() | time():
            return f"'{value.isoformat()}'::{kind}"
        case str() if kind in ("FLOAT", "DOUBLE"):
            return f"'{value}'::{kind}"
    return "'" + str(value).replace("'", "''") + "'"


@pytest.mark.one_in(6)
@pytest.mark.parametrize("path", list(_SETTINGS))
def test_after_every_alter(location: Location, duck: DuckQuery, path: str) -> None:
    with location.connect(settings=_SETTINGS[path]) as tr:
        tr.sql("CREATE TABLE t (id INT, a INT, l ARRAY<STRUCT<x: INT>>, f FLOAT, d DECIMAL(5, 2))")
        insert = "INSERT INTO t VALUES (1, 10, array(struct(1)), 0.5, 1.25), (2, 20, NULL, NULL, NULL), (3, 30, array(), 2, 3)"
        seen: dict[int, Rows] = {}
        steps = [
            insert,
            "ALTER TABLE t RENAME COLUMN a TO b",
            "ALTER TABLE t DROP COLUMN b",
            "ALTER TABLE t ADD COLUMN b STRING DEFAULT 'it''s'",
            "ALTER TABLE t ADD COLUMNS (e DATE DEFAULT date'2026-01-31', g DOUBLE DEFAULT 0.1, h TIMESTAMP DEFAULT timestamp'2026-01-01 00:00:00Z')",
            "ALTER TABLE t RENAME COLUMN l TO a",
            "ALTER TABLE t ALTER COLUMN id TYPE BIGINT",
            "ALTER TABLE t ALTER COLUMN f TYPE DOUBLE",
            "ALTER TABLE t ALTER COLUMN d TYPE DECIMAL(20, 4)",
            "UPDATE t SET id = id + 5000000000, b = NULL WHERE id > 1",
            "DELETE FROM t WHERE id = 1",
            "INSERT INTO t (id, a) VALUES (7, array(struct(7), NULL)), (8, array())",
            "OPTIMIZE t",
            "ALTER TABLE t RENAME TO u",
            "DELETE FROM u WHERE id IN (7, 8)",
        ]  # fmt: skip
        for step in steps:
            tr.sql(step)
            name = "u" if "u" in step.split() else "t"
            theirs = _same(duck(f"SELECT * FROM lake.{name}"))
            assert theirs == _same(tr.table(name).collect()), step
            seen[tr.snapshot] = theirs
        first = min(seen)
        assert len(seen[first]) == 3
        for snapshot, expected in seen.items():
            name = (
                "t"
                if duck("SELECT count(*) FROM duckdb_views() WHERE view_name = 't'", snapshot)[0][0]
                else "u"
            )
            assert _same(duck(f"SELECT * FROM lake.{name}", snapshot)) == expected


@pytest.mark.one_in(2)
def test_intervals_are_plain_numbers_for_others(location: Location, duck: DuckQuery) -> None:
    """DuckLake has no type for Spark's intervals: months and microseconds."""
    with location.connect() as tr:
        tr.sql("CREATE TABLE t (id INT, m INTERVAL YEAR TO MONTH)")
        tr.sql("INSERT INTO t VALUES (1, interval '1-2' year to month), (2, NULL)")
        with pytest.raises(UnsupportedError):
            tr.sql("ALTER TABLE t ADD COLUMN s INTERVAL DAY TO SECOND DEFAULT interval '1' second")
        tr.sql("ALTER TABLE t ADD COLUMN s INTERVAL DAY TO SECOND")
        tr.sql("INSERT INTO t VALUES (3, interval '-1' month, interval '-1.5' second)")
        tr.sql("DELETE FROM t WHERE id = 2")
        assert sorted(duck("SELECT * FROM lake.t")) == [(1, 14, None), (3, -1, -1_500_000)]


def test_statistics_of_columns_whose_names_look_alike(location: Location, duck: DuckQuery) -> None:
    """Column `a.b` and field b of struct a have the same path in a Parquet footer."""
    with location.connect() as tr:
        tr.sql("CREATE TABLE t (`a.b` INT, a STRUCT<b: INT>)")
        tr.sql("INSERT INTO t VALUES (1, struct(100)), (2, struct(200))")
        tr.sql("INSERT INTO t VALUES (50, struct(-5))")
        for value in (1, 2, 50):
            assert duck(f'SELECT count(*) FROM lake.t WHERE "a.b" = {value}') == [(1,)]
        for value in (100, 200, -5):
            assert duck(f"SELECT count(*) FROM lake.t WHERE a.b = {value}") == [(1,)]


@pytest.mark.one_in(2)
def test_schemas_drops_and_transactions(location: Location, duck: DuckQuery) -> None:
    with location.connect() as tr:
        tr.sql("CREATE SCHEMA s")
        with tr.transaction():
            tr.sql("CREATE TABLE s.t (id INT PRIMARY KEY, v STRING)")
            tr.sql("INSERT INTO s.t VALUES (1, 'a'), (2, 'b')")
            tr.sql("UPDATE s.t SET v = 'c' WHERE id = 1")
            tr.sql("ALTER TABLE s.t ADD COLUMN n INT DEFAULT 3")
        made = tr.snapshot
        assert sorted(duck("SELECT * FROM lake.s.t")) == [(1, "c", 3), (2, "b", 3)]
        tr.sql("TRUNCATE TABLE s.t")
        assert duck("SELECT * FROM lake.s.t") == []
        tr.sql("CREATE OR REPLACE TABLE s.t AS SELECT 9 AS x")
        assert duck("SELECT * FROM lake.s.t") == [(9,)]
        tr.sql("DROP SCHEMA s CASCADE")
        assert duck(
            "SELECT count(*) FROM duckdb_schemas() WHERE database_name = 'lake' AND schema_name = 's'"
        ) == [(0,)]
        assert len(duck("SELECT * FROM lake.s.t", snapshot=made)) == 2

"""PRIMARY KEY and NOT NULL hold at the driver and on the executors, and the error names the values."""

from __future__ import annotations

import pytest

from spark_trickle.errors import DuplicateKeyError, NotNullViolationError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.spark.paths import Lake, assert_untouched, make_target, run


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("INSERT INTO {t} VALUES (6, 'f', 1), (6, 'g', 1), (7, 'h', 1)", {"(6)"}),
        ("INSERT INTO {t} SELECT * FROM s", {"(2)", "(3)"}),
        ("INSERT INTO {t} SELECT id + 10, v, 1 FROM d", {"(12)"}),
        ("INSERT OVERWRITE {t} SELECT id, v, 1 FROM d", {"(2)"}),
        ("UPDATE {t} SET id = 1", {"(1)"}),
        ("UPDATE {t} SET id = id + 1 WHERE id < 3", {"(3)"}),
        ("UPDATE {t} SET id = s.id + 2 FROM s WHERE s.id = {t}.id", {"(4)", "(5)"}),
        (
            "MERGE INTO {t} USING s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET id = s.id + 2",
            {"(4)", "(5)"},
        ),
    ],
)
def test_a_key_is_there_once(lake: Lake, sql: str, values: set[str]) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(DuplicateKeyError) as found:
        run(lake, sql, name)
    assert set(found.value.values) == values
    assert found.value.key == ("id",)
    assert_untouched(lake, "{t}", name, snapshot)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO {t} VALUES (NULL, 'f', 1), (7, 'g', 1)",
        "INSERT INTO {t} (v) SELECT v FROM s",
        "UPDATE {t} SET id = nullif(id, 3)",
        "MERGE INTO {t} USING s ON false WHEN NOT MATCHED THEN INSERT (id, v) VALUES (nullif(s.id + 10, 13), s.v)",
    ],
)
def test_a_key_is_never_null(lake: Lake, sql: str) -> None:
    name = make_target(lake, "{t}")
    snapshot = lake.setup.snapshot
    with pytest.raises(NotNullViolationError) as found:
        run(lake, sql, name)
    assert (found.value.column, "NULL" in found.value.message) == ("id", True)
    assert_untouched(lake, "{t}", name, snapshot)


@pytest.mark.one_in(2)
def test_not_null_holds_for_plain_and_nested_columns(lake: Lake) -> None:
    lake.setup.sql("CREATE TABLE required (a INT NOT NULL, s STRUCT<x: INT> NOT NULL, l ARRAY<INT> NOT NULL)")
    lake.setup.sql("INSERT INTO required VALUES (1, struct(NULL), array(NULL)), (2, struct(2), array())")
    before = lake.tr.snapshot
    for column, bad in {
        "a": "NULL, struct(1), array(1)",
        "s": "1, NULL, array(1)",
        "l": "1, struct(1), NULL",
    }.items():
        with pytest.raises(NotNullViolationError) as found:
            lake.tr.sql(f"INSERT INTO required VALUES (9, struct(9), array(9)), ({bad})")
        assert found.value.column == column
        with pytest.raises(NotNullViolationError):
            lake.tr.sql(f"UPDATE required SET {column} = NULL")
    # a deleted row may hold whatever it held
    lake.setup.sql("ALTER TABLE required ALTER COLUMN a DROP NOT NULL")
    lake.setup.sql("INSERT INTO required VALUES (NULL, struct(3), array()), (NULL, struct(4), array())")
    lake.tr.sql("UPDATE required SET a = 0 WHERE a IS NULL")
    lake.tr.sql("ALTER TABLE required ALTER COLUMN a SET NOT NULL")
    assert before < lake.tr.snapshot
    assert rows(lake.tr.sql("SELECT a FROM required")) == [(0,), (0,), (1,), (2,)]


@pytest.mark.one_in(2)
def test_a_key_that_is_not_enforced_may_repeat(lake: Lake) -> None:
    """Then it only tells the feed which rows are updates; the content is a bag."""
    tr = lake.tr
    tr.sql("CREATE TABLE loose (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED)")
    tr.sql("INSERT INTO loose VALUES (1, 'a'), (1, 'a'), (1, 'b'), (NULL, 'n'), (NULL, 'n')")
    tr.sql("UPDATE loose SET v = 'c' WHERE v = 'b'")
    tr.sql("DELETE FROM loose WHERE id IS NULL")
    tr.sql("UPDATE loose SET id = 2 WHERE v = 'a'")
    tr.sql("INSERT INTO loose VALUES (2, 'a'), (2, 'z')")
    assert rows(tr.table("loose")) == [(1, "c"), (2, "a"), (2, "a"), (2, "a"), (2, "z")]


# Three keys, one that lies between them, and one that is new; bounds in the catalog must not mislead the check.
_KEYS = [
    ("TINYINT", "-100Y", "3Y", "100Y", "5Y"),
    ("INT", "-5", "10", "9", "-50"),
    ("BIGINT", "-9223372036854775808", "9223372036854775807", "9", "10"),
    ("STRING", "''", "'Z'", "'ä𝄞'", "'a'"),
    ("STRING", "repeat('x', 300)", "'y'", "'a'", "repeat('x', 301)"),
    ("VARCHAR(5)", "'a'", "'a '", "'b'", "'ab'"),
    ("BINARY", "X''", "X'80'", "X'7F00'", "X'7F'"),
    ("DATE", "date'0500-01-01'", "date'1000-01-01'", "date'2026-01-01'", "date'9999-12-31'"),
    ("TIMESTAMP", "timestamp'0500-01-01 00:00:00'", "timestamp'1000-01-01 00:00:00'", "timestamp'2026-01-01 00:00:00'", "timestamp'9999-12-31 23:59:59'"),
    ("TIMESTAMP_NTZ", "timestamp_ntz'0500-01-01 00:00:00'", "timestamp_ntz'1000-01-01 00:00:00'", "timestamp_ntz'2026-01-01 00:00:00'", "timestamp_ntz'9999-12-31 00:00:00'"),
    ("DECIMAL(38, 18)", "-1.5", "0.000000000000000001", "99999999999999999999.5", "0.000000000000000002"),
    ("DOUBLE", "double('NaN')", "double('-Infinity')", "0D", "1e300"),
    ("FLOAT", "0.1F", "float('Infinity')", "-1F", "0.2F"),
    ("INTERVAL DAY TO SECOND", "interval '1' day", "interval '25' hour", "interval '-5' day", "interval '2' day"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "low", "between", "high", "new"), _KEYS, ids=[f"{k[0]}-{k[1]}" for k in _KEYS]
)
def test_keys_of_every_type(
    module_tr: Trickle, kind: str, low: str, between: str, high: str, new: str
) -> None:
    tr, name = module_tr, f"k{module_tr.snapshot}"
    tr.sql(f"CREATE TABLE {name} (k {kind} PRIMARY KEY, v INT)")
    tr.sql(f"INSERT INTO {name} VALUES ({low}, 1), ({between}, 1), ({high}, 1)")
    before = tr.snapshot
    for again in (low, between, high):
        with pytest.raises(DuplicateKeyError):
            tr.sql(f"INSERT INTO {name} VALUES ({again}, 2)")
    assert tr.snapshot == before
    source = f"(VALUES ({between}, 3), ({new}, 4)) AS s(k, v)"
    both = (
        "WHEN MATCHED THEN UPDATE SET k = s.k, v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
    )
    done = tr.sql(f"MERGE INTO {name} USING {source} ON {name}.k = s.k {both}").collect()[0]
    assert (done.rows_inserted, done.rows_updated) == (1, 1)
    tr.sql(f"DELETE FROM {name} WHERE k = {high}")
    assert sorted(r.v for r in tr.table(name).collect()) == [1, 3, 4]


@pytest.mark.parametrize("equal", [("-0D", "0D"), ("double('NaN')", "double('NaN')")])
def test_floats_that_are_equal_are_one_key(lake: Lake, equal: tuple[str, str]) -> None:
    """As in a comparison: zero has one key whatever its sign, and NaN is a key like any other."""
    first, second = equal
    name = f"f{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (k DOUBLE PRIMARY KEY)")
    with pytest.raises(DuplicateKeyError):
        lake.tr.sql(f"INSERT INTO {name} VALUES ({first}), ({second}), (1)")
    lake.tr.sql(f"INSERT INTO {name} VALUES ({first}), (1)")
    with pytest.raises(DuplicateKeyError):
        lake.tr.sql(f"INSERT INTO {name} VALUES ({second}), (2)")

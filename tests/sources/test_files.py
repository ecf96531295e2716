"""Files that arrive in a folder: each is loaded once, whatever happens; Python knows what it wrote into them."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import spark_trickle
from spark_trickle.errors import TrickleError
from spark_trickle.session import Trickle
from tests.conftest import rows
from tests.crash.child import Job, finish, start
from tests.crash.sharing import address_of
from tests.sources.inbox import (
    SCHEMA,
    Inbox,
    Record,
    attach,
    follow,
    held,
    ledger,
    rejects,
    to_json,
    to_parquet,
)

TOTALS = "SELECT name, count(*) AS n, sum(id) AS total FROM clicks GROUP BY name"
MANY = {"max_driver_rows": 1}
HEADER = {"csv": {"header": "true"}}


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    (tmp_path / "in").mkdir()
    return Inbox(tmp_path / "in")


@pytest.fixture
def tr(tmp_path: Path) -> Iterator[Trickle]:
    with spark_trickle.connect(tmp_path / "warehouse") as connection:
        yield connection


def check_exact(tr: Trickle, inbox: Inbox) -> None:
    """The table holds what all files hold, each row under the name of its file."""
    expected = Counter((str(inbox.path / name), *r) for name, records in inbox.files.items() for r in records)
    assert held(tr, "_file, id, name") == expected


@pytest.mark.parametrize("kind", ["json", "csv", "parquet", "orc"])
@pytest.mark.shows("files", "inserted rows")
def test_a_file_is_loaded_once(tr: Trickle, inbox: Inbox, kind: str) -> None:
    inbox.write(f"a.{kind}", (1, "x"), (2, None), (2, None))
    follow(tr, inbox, f"*.{kind}", format=kind, **HEADER.get(kind, {}))
    check_exact(tr, inbox)
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    inbox.write(f"b.{kind}", (3, "x"), (None, "ü"))
    inbox.write(f"c.{kind}")
    report = tr.sync("inbox")
    assert (report.tables, report.problems, report.waiting) == ({"main.clicks": (2, 0)}, {}, {})
    check_exact(tr, inbox)
    assert tr.refresh("totals").action.value == "DIFFERENTIAL"
    assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))
    assert ledger(tr) == {f"{n}.{kind}": ("LOADED", c, 0) for n, c in zip("abc", (3, 2, 0), strict=True)}
    before = tr.snapshot
    assert tr.sync("inbox").tables == {}
    assert tr.snapshot == before
    loaded = {r[0] for r in tr.sql("SELECT DISTINCT _loaded_at FROM clicks").collect()}
    assert loaded == {r[0] for r in tr.sql("SELECT loaded_at FROM clicks_files WHERE rows > 0").collect()}


def test_many_rows_are_written_by_the_executors(tmp_path: Path, inbox: Inbox) -> None:
    """The same result where nothing but counts and bad records comes to the driver."""
    with spark_trickle.connect(tmp_path / "warehouse", settings=MANY) as tr:
        inbox.write("a.json", *((n, "x") for n in range(50)))
        follow(tr, inbox)
        inbox.put("b.json", to_json([(1, "b")]) + b'{"id": "bad"}\n{broken\n')
        inbox.files["b.json"] = [(1, "b")]
        inbox.write("a.json", *((n, "y") for n in range(40)))
        inbox.put("c.json.gz", gzip.compress(to_json([(n, "c") for n in range(999)]))[:200])
        report = tr.sync("inbox")
        assert report.tables == {"main.clicks": (41, 50)}
        check_exact(tr, inbox)
        bad = [r[:2] for r in rejects(tr)]
        assert bad == [("b.json", '{"id": "bad"}'), ("b.json", "{broken"), ("c.json.gz", None)]
        assert ledger(tr) == {
            "a.json": ("LOADED", 40, 0),
            "b.json": ("LOADED", 1, 2),
            "c.json.gz": ("REJECTED", 0, 0),
        }


def test_a_batch_has_a_limit_and_an_order(tr: Trickle, inbox: Inbox) -> None:
    """The oldest first; of files of one time, by name."""
    attach(tr, inbox, max_files="2")
    for name, at in (("d", 5), ("a", 9), ("c", 7), ("b", 7), ("e", 6)):
        inbox.put(f"{name}.json", to_json([(at, name)]), at)
    tr.sql("CREATE TABLE clicks FROM SOURCE inbox.files")
    assert held(tr, "name") == Counter([("d",), ("e",)])
    status = tr.answer("source_status").dicts()[0]
    size = sum((inbox.path / f"{n}.json").stat().st_size for n in "abc")
    assert (status["pending_rows"], status["pending_bytes"]) == (None, size)
    assert tr.sync("inbox").waiting == {"main.clicks": 1}
    assert held(tr, "name") == Counter([(n,) for n in "debc"])
    assert tr.sync("inbox").waiting == {}
    assert held(tr, "name") == Counter([(n,) for n in "abcde"])
    status = tr.answer("source_status").dicts()[0]
    assert (status["pending_rows"], status["pending_bytes"]) == (0, 0)


def test_one_small_load_is_one_job(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("a.json", (1, "x"))
    follow(tr, inbox)
    inbox.write("b.json", (2, "x"))
    inbox.write("c.json", (3, "x"))
    tracker, context = tr.spark.sparkContext.statusTracker(), tr.spark.sparkContext
    context.setJobGroup("one load", "")
    try:
        tr.sync("inbox")
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert len(tracker.getJobIdsForGroup("one load")) == 1
    check_exact(tr, inbox)


UNREADABLE = {
    "garbage.parquet": b"this is no Parquet file",
    "empty.parquet": b"",
    "cut.parquet": to_parquet([(n, "x") for n in range(1000)])[:-300],
}


@pytest.mark.shows("files", "what cannot be read is set aside with the reason")
def test_a_file_that_cannot_be_read_does_not_stop_the_rest(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("a.parquet", (1, "x"))
    follow(tr, inbox, format="parquet")
    for name, content in UNREADABLE.items():
        inbox.put(name, content)
    # Its footer is whole, and its pages are not.
    whole = to_parquet([(n, f"name {n}") for n in range(5000)])
    inbox.put("pages.parquet", whole[:4] + bytes(len(whole) // 2) + whole[4 + len(whole) // 2 :])
    wrong = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ["text"], "name": ["x"]}), wrong)
    inbox.put("type.parquet", bytes(wrong.getvalue()))
    inbox.write("z.parquet", (2, "y"))
    report = tr.sync("inbox")
    assert report.tables == {"main.clicks": (1, 0)}
    assert not report.problems
    check_exact(tr, inbox)
    bad = {name: reason for name, record, reason in rejects(tr) if record is None}
    assert set(bad) == {*UNREADABLE, "pages.parquet", "type.parquet"}
    assert bad["empty.parquet"] == "the file is empty"
    assert bad["type.parquet"] == 'column "id" is STRING, not BIGINT'
    assert all(ledger(tr)[name] == ("REJECTED", 0, 0) for name in bad)
    assert tr.sync("inbox").tables == {}  # not tried again and again
    inbox.write("garbage.parquet", (3, "w"))
    tr.sync("inbox")
    check_exact(tr, inbox)
    assert "garbage.parquet" not in {r[0] for r in rejects(tr)}


def parquet(values: dict[str, Any], **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(values), sink, **options)
    return bytes(sink.getvalue())


@pytest.mark.slow
def test_columns_that_no_table_can_have(tr: Trickle, inbox: Inbox) -> None:
    """Each is the fault of its file, and of no other."""
    inbox.write("a.parquet", (1, "x"))
    follow(tr, inbox, format="parquet", evolve="add")
    tags = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    inbox.put("map.parquet", parquet({"id": [1], "tags": tags}))
    inbox.put("twins.parquet", parquet({"id": [1], "ID": [2]}))
    inbox.put("moment.parquet", parquet({"id": [1], "at": pa.array([1], pa.timestamp("ns"))}))
    inbox.put("wide.parquet", parquet({"id": [1], "n": pa.array([1], pa.decimal256(50, 2))}))
    inbox.put("letters.parquet", parquet({"Id": [2], "NAME": ["y"]}))
    report = tr.sync("inbox")
    assert (report.tables, report.rejected) == ({"main.clicks": (1, 0)}, {"main.clicks": 4})
    assert not report.problems
    assert held(tr) == Counter([(1, "x"), (2, "y")])
    assert [r[0] for r in rejects(tr)] == ["map.parquet", "moment.parquet", "twins.parquet", "wide.parquet"]


def test_a_broken_file_does_not_hide_the_columns_of_others(tr: Trickle, inbox: Inbox) -> None:
    broken = gzip.compress(to_json([(n, "g") for n in range(2_000)]))[:300]
    inbox.put("broken.json.gz", broken)
    inbox.put("a.json", b'{"id": 1}\n')
    follow(tr, inbox, schema="infer", evolve="add")
    inbox.put("broken too.json.gz", broken)
    inbox.put("b.json", b'{"id": 2, "name": "x"}\n')
    assert not tr.sync("inbox").problems
    assert held(tr) == Counter([(1, None), (2, "x")])
    assert [r[0] for r in rejects(tr)] == ["broken too.json.gz", "broken.json.gz"]


BAD_JSON = [
    '{"n": "x"}',
    '{"n": 1.5}',
    '{"n": 99999999999999999999}',
    '{"small": 70000}',
    '{"at": "2024-13-01"}',
    '{"day": "2024-02-30"}',
    '{"price": 123456789.1}',
    '{"inner": {"n": "x", "m": 1}}',
    '{"list": [1, "x"]}',
    '{"ok": "yes"}',
    "not JSON at all",
    '{"n": 1',
    "17",
    "null",
]
COLUMNS = (
    "n BIGINT, small SMALLINT, at TIMESTAMP, day DATE, price DECIMAL(10,2), "
    "inner STRUCT<n: INT, m: INT>, list ARRAY<INT>, ok BOOLEAN"
)


@pytest.mark.parametrize("settings", [{}, MANY], ids=["few", "many"])
def test_a_value_that_does_not_fit_is_never_null(
    tmp_path: Path, inbox: Inbox, settings: dict[str, Any]
) -> None:
    with spark_trickle.connect(tmp_path / "warehouse", settings=settings) as tr:
        good = ['{"n": 1, "inner": {"n": 2}, "list": [1, null], "ok": true}', "{}", '{"n": null}']
        inbox.put("a.json", "\n".join([*good, *BAD_JSON]).encode())
        follow(tr, inbox, schema=COLUMNS)
        assert sorted(r[1] for r in rejects(tr)) == sorted(BAD_JSON)
        found = held(tr, "n, inner.n, inner.m, list[0], size(list), ok")
        assert found == Counter([(1, 2, None, 1, 2, True), *[(None, None, None, None, None, None)] * 2])


def test_bad_lines_of_csv(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.csv", b"id,name\n1,x\ny,x\n1\n1,x,2\n,\n")
    follow(tr, inbox, format="csv", header="true")
    assert held(tr) == Counter([(1, "x"), (None, None)])
    assert [r[1] for r in rejects(tr)] == ["1", "1,x,2", "y,x"]


@pytest.mark.slow
def test_columns_of_csv_are_found_by_their_names(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.csv", b"name,more, ID\nx,0,1\n")
    inbox.put("d.csv", b"5,no header\n6,at all\n")
    inbox.put("b.csv", b"id\n2\n")
    inbox.put("c.csv", b"")
    follow(tr, inbox, format="csv", header="true")
    assert held(tr) == Counter([(1, "x"), (2, None)])
    assert [r[0] for r in rejects(tr)] == ["c.csv", "d.csv"]


@pytest.mark.slow
def test_csv_without_names(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.csv", b"1;'x;y'\n2;-\n")
    follow(tr, inbox, format="csv", separator=";", quote="'", null_value="-")
    assert held(tr) == Counter([(1, "x;y"), (2, None)])


@pytest.mark.slow
def test_csv_with_tabs(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.csv", "name\tid\nü\t1\n".encode("ISO-8859-1"))
    follow(tr, inbox, format="csv", separator="\\t", header="true", encoding="ISO-8859-1")
    assert held(tr) == Counter([(1, "ü")])


def test_reasons(tr: Trickle, inbox: Inbox) -> None:
    """What is wrong with a record, as far as it can be told."""
    inbox.put("a.json", b'{"id": 1.5, "name": "x"}\nbroken\n{"id": "x", "name": {"deep": 1}}\n')
    inbox.put("b.json", b'{"inner": {"x": "no number"}}\n')
    follow(tr, inbox, schema=f"{SCHEMA}, inner STRUCT<x: INT>")
    assert sorted(r[2] for r in rejects(tr)) == [
        '"id" is 1.5, which is no BIGINT',
        '"id" is x, which is no BIGINT',
        "the record does not fit the columns id BIGINT, name STRING, inner STRUCT<`x`: INT>",
        "the record is not a JSON object",
    ]


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("choice", "expected", "noted"),
    [
        ("replace", [(5, "new"), (2, "b")], []),
        ("reject", [(1, "old"), (2, "b")], ["a.json"]),
        ("ignore", [(1, "old"), (2, "b")], []),
    ],
)
@pytest.mark.shows("files", "updated and deleted rows")
def test_an_overwritten_file(
    tr: Trickle, inbox: Inbox, choice: str, expected: list[tuple[Any, ...]], noted: list[str]
) -> None:
    inbox.write("a.json", (1, "old"))
    follow(tr, inbox, overwritten=choice)
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    inbox.write("a.json", (5, "new"))
    inbox.write("b.json", (2, "b"))
    assert not tr.sync("inbox").problems
    assert held(tr) == Counter(expected)
    assert [r[0] for r in rejects(tr)] == noted
    tr.refresh("totals")
    assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))
    before = tr.snapshot
    tr.sync("inbox")
    assert tr.snapshot == before  # told once
    assert tr.answer("source_status").dicts()[0]["pending_bytes"] == 0


def test_rows_of_a_deleted_file_stay(tr: Trickle, inbox: Inbox) -> None:
    path = inbox.write("a.json", (1, "x"))
    follow(tr, inbox)
    path.unlink()
    assert tr.sync("inbox").tables == {}
    check_exact(tr, inbox)
    tr.sql("RESYNC TABLE clicks")
    check_exact(tr, inbox)
    shutil.rmtree(inbox.path)
    with pytest.raises(TrickleError, match="cannot be read"):
        tr.sync("inbox")


def test_files_that_are_not_whole_wait(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("a.json", (1, "x"))
    for name in (
        "_hidden.json",
        ".part.json",
        "_temporary/0/x.json",
        "sub/_delta/x.json",
        "b.json._COPYING_",
    ):
        inbox.put(name, b"half")
    follow(tr, inbox)
    check_exact(tr, inbox)
    assert not rejects(tr)


@pytest.mark.slow
def test_young_files_wait(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("a.json", (1, "x"))
    young = inbox.write("b.json", (2, "y"))
    os.utime(young, (4_000_000_000, 4_000_000_000))
    follow(tr, inbox, settle_seconds="5")
    assert held(tr) == Counter([(1, "x")])
    os.utime(young, (1_700_000_500, 1_700_000_500))
    tr.sync("inbox")
    check_exact(tr, inbox)


ODD = [
    "a b.json",
    "x[1].json",
    "y%20+z=1.json",
    "ü#?.json",
    "day=1/v.json",
    "{q}.json",
    "back\\slash.json",
    "comma,.json",
    "quote'\".json",
]


@pytest.mark.slow
def test_odd_names(tr: Trickle, inbox: Inbox) -> None:
    for n, name in enumerate(ODD):
        inbox.write(name, (n, name))
    follow(tr, inbox)
    check_exact(tr, inbox)
    for n, name in enumerate(ODD):
        inbox.write(name, (n, "again"))
    tr.sync("inbox")
    check_exact(tr, inbox)
    assert all(status == ("LOADED", 1, 0) for status in ledger(tr).values())


PATTERNS = {
    "x/c.json": ["x/c.json"],
    "*.json": ["a.json", "b.json"],
    "[!b]*.json": ["a.json"],
    "?.json": ["a.json", "b.json"],
    "**": ["a.json", "b.json", "x/c.json", "x/y/d.json", "e.txt"],
    "**/*.json": ["a.json", "b.json", "x/c.json", "x/y/d.json"],
    "*/*.json": ["x/c.json"],
    "x": ["x/c.json", "x/y/d.json"],
    "": ["a.json", "b.json", "x/c.json", "x/y/d.json", "e.txt"],
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_patterns(tr: Trickle, inbox: Inbox, pattern: str) -> None:
    for name in PATTERNS["**"]:
        inbox.put(name, to_json([(1, name)]))
    follow(tr, inbox, pattern)
    assert held(tr, "name") == Counter((name,) for name in PATTERNS[pattern])


def test_a_folder_that_looks_like_a_pattern(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("sales [1]/a.json", (1, "x"))
    follow(tr, inbox, "sales [1]")
    check_exact(tr, inbox)


def test_tables_by_folder(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("clicks/a.json", (1, "x"))
    inbox.write("views/2024/b.json", (2, "y"))
    attach(tr, inbox, "{table}/**/*.json")
    assert tr.add_tables("inbox", "*").rows_inserted == 2
    inbox.write("views/c.json", (3, "z"))
    inbox.write("clicks/c.json", (4, "z"))
    before = tr.snapshot
    report = tr.sync("inbox")
    assert report.tables == {"main.clicks": (1, 0), "main.views": (1, 0)}
    assert report.snapshot == before + 1
    assert held(tr, table="views") == Counter([(2, "y"), (3, "z")])
    shutil.rmtree(inbox.path / "views")
    assert not tr.sync("inbox").problems
    assert held(tr, table="views") == Counter([(2, "y"), (3, "z")])


@pytest.mark.slow
def test_columns_are_those_of_the_first_files(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.json", b'{"id": 1, "inner": {"x": [1, 2]}, "price": 1.5}\n{"id": "x"}\n')
    inbox.put("b.json", b'{"id": 1, "ok": true}\n')
    follow(tr, inbox, schema="infer")
    assert tr.table("clicks").columns == ["id", "inner", "ok", "price", "_file", "_loaded_at"]
    assert held(tr, "id, price") == Counter([("1", 1.5), ("x", None), ("1", None)])
    inbox.put("c.json", b'{"id": 2, "late": 1}\n{"price": "dear"}\n')
    tr.sync("inbox")
    assert tr.table("clicks").columns == ["id", "inner", "ok", "price", "_file", "_loaded_at"]
    assert [r[1] for r in rejects(tr)] == ['{"price": "dear"}']


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
@pytest.mark.shows("files", "new columns")
def test_new_columns_are_added(tr: Trickle, inbox: Inbox, kind: str) -> None:
    inbox.write(f"a.{kind}", (1, "x"))
    follow(tr, inbox, format=kind, schema="infer", evolve="add", **HEADER.get(kind, {}))
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    wider = {"json": b'{"id": 2, "more": 7}\n', "csv": b"id,more\n2,7\n"}.get(kind)
    if wider is None:
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [2], "more": [7]}), sink)
        wider = bytes(sink.getvalue())
    inbox.put(f"b.{kind}", wider)
    assert not tr.sync("inbox").problems
    assert held(tr, "id, name, more") == Counter([(1, "x", None), (2, None, 7)])
    tr.refresh("totals")
    assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))


@pytest.mark.shows("files", "nested types, decimals, timestamps with and without time zone")
def test_types(tr: Trickle, inbox: Inbox) -> None:
    instant = datetime(2024, 5, 1, 12, 30, 15, 123456, tzinfo=UTC)
    values = pa.table(
        {
            "day": pa.array([date(2024, 1, 1), None], pa.date32()),
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "at": pa.array([instant, None], pa.timestamp("us", tz="UTC")),
            "local": pa.array([instant.replace(tzinfo=None), None], pa.timestamp("us")),
            "tags": pa.array([["a", None], None], pa.list_(pa.string())),
            "point": pa.array([{"x": 1, "y": "p"}, None]),
            "raw": pa.array([b"\x00\x01", None]),
            "ratio": pa.array([float("nan"), -0.0]),
            "small": pa.array([1, None], pa.int8()),
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(values, sink)
    inbox.put("a.parquet", bytes(sink.getvalue()))
    follow(tr, inbox, format="parquet", schema="infer")
    tr.sql("CREATE STREAM TABLE kept AS SELECT * FROM clicks")
    inbox.put("b.parquet", bytes(sink.getvalue()))
    tr.sync("inbox")
    tr.refresh("kept")
    expected = repr(rows(tr.spark.createDataFrame(pa.concat_tables([values, values]))))
    assert repr(rows(tr.table("clicks").drop("_file", "_loaded_at"))) == expected
    assert repr(rows(tr.table("kept").drop("_file", "_loaded_at"))) == expected


@pytest.mark.slow
def test_narrow_numbers_fit_into_wide_columns(tr: Trickle, inbox: Inbox) -> None:
    for name, kind in (("a", pa.int32()), ("b", pa.int64()), ("c", pa.float64())):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": pa.array([1], kind), "name": ["x"]}), sink)
        inbox.put(f"{name}.parquet", bytes(sink.getvalue()))
    follow(tr, inbox, format="parquet")
    assert held(tr) == Counter({(1, "x"): 2})
    assert [r[0] for r in rejects(tr)] == ["c.parquet"]


REFUSED = [
    ("ATTACH SOURCE b TYPE files", "needs the path"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/x', format 'xml')", "not a value for the option"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/x', max_files 'no')", "Write a whole number"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/not/there')", "cannot be read"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path 'nowhere://a b')", "are not known"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/x', format 'orc', header 'true')", "does not apply"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/in/x{table}/')", "only a part of a name"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/in/[z-a]*')", "is not a pattern"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/x', encoding 'no')", "no encoding"),
    ("ATTACH SOURCE b TYPE files OPTIONS (path '/x', format 'csv', quote '')", "Write one letter"),
    ("CREATE TABLE x FROM SOURCE inbox.nothing", "nothing"),
    ("CREATE TABLE twice FROM SOURCE inbox.files", "already exists"),
    ("CREATE TABLE x FROM SOURCE spare.files (id)", "schema"),
    ("INSERT INTO clicks VALUES (1, 'a', 'f', now())", "mirror"),
    ("DELETE FROM clicks_files", "mirror"),
    ("DROP TABLE clicks_rejects", "mirror"),
    ("ALTER TABLE clicks_files RENAME TO z", "mirror"),
]


def test_what_is_refused(tr: Trickle, inbox: Inbox) -> None:
    follow(tr, inbox)
    tr.attach_source("spare", "files", path=str(inbox.path), schema=SCHEMA)
    for statement, words in REFUSED:
        with pytest.raises(TrickleError) as caught:
            tr.sql(statement)
        assert words in f"{caught.value.message} {caught.value.hint}", statement


SCHEMAS = [
    ("json", "id TINYINT", "SMALLINT"),
    ("json", "a ARRAY<STRUCT<b: TINYINT>>", "SMALLINT"),
    ("csv", "name VARCHAR(3)", "STRING"),
    ("json", "a STRUCT<b: CHAR(3)>", "STRING"),
    ("csv", "id INT NOT NULL", "Leave it out"),
    ("csv", "id INT, _file STRING", "more than once"),
    ("csv", "id NUMBER", "NUMBER"),
    ("csv", "m MAP<STRING, STRING>", "MAP"),
    ("json", "infer", "Wait for the first file"),
    ("avro", "id INT", "spark.jars.packages"),
]


@pytest.mark.slow
@pytest.mark.shows("files", "what cannot be read exactly is refused by name")
def test_schemas_that_are_refused(tr: Trickle, inbox: Inbox) -> None:
    for n, (kind, schema, words) in enumerate(SCHEMAS):
        tr.attach_source(f"s{n}", "files", path=str(inbox.path), format=kind, schema=schema)
        with pytest.raises(TrickleError) as caught:
            tr.sql(f"CREATE TABLE x FROM SOURCE s{n}.files")
        assert words in f"{caught.value.message} {caught.value.hint}", schema


def test_the_tables_of_a_mirror_come_and_go_with_it(tr: Trickle, inbox: Inbox) -> None:
    inbox.write("a.json", (1, "x"))
    follow(tr, inbox)
    tr.sql("ALTER TABLE clicks RENAME TO taps")
    assert tr.table("taps_files").count() == 1
    inbox.write("b.json", (2, "x"))
    tr.sync("inbox")
    assert tr.table("taps_files").count() == 2
    tr.sql("DROP TABLE taps")
    with pytest.raises(TrickleError):
        tr.table("taps_files")
    tr.sql("CREATE TABLE clicks FROM SOURCE inbox.files")
    check_exact(tr, inbox)
    tr.detach_source("inbox")
    tr.sql("DELETE FROM clicks_files")  # an ordinary table by now
    check_exact(tr, inbox)


def test_health_tells_of_rejects_until_they_are_dealt_with(tr: Trickle, inbox: Inbox) -> None:
    path = inbox.put("a.json", b"broken\n")
    follow(tr, inbox)

    def health() -> dict[str, tuple[Any, ...]]:
        return {r["check"]: (r["value"], r["ok"]) for r in tr.answer("check_cdc_health").dicts()}

    assert health() == {"connection": ("1 tables", True), "rejects": ("1 rejects", False)}
    path.unlink()
    tr.sync("inbox")
    assert health()["rejects"] == ("1 rejects", False)
    tr.sql("RESYNC TABLE clicks")
    assert health()["rejects"] == ("0 rejects", True)
    assert ledger(tr) == {"a.json": ("LOADED", 0, 1)}


@pytest.mark.parametrize("early", [True, False], ids=["before", "after"])
def test_a_file_that_changes_while_it_is_read_comes_with_the_next_sync(
    tr: Trickle, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, early: bool
) -> None:
    """Between the listing and the end of reading, as slow writers do it."""
    from spark_trickle.sources.followed import loading

    follow(tr, inbox)
    inbox.write("a.json", (1, "x"))
    inbox.write("b.json", (2, "x"))
    gone = inbox.write("c.json", (3, "x"))
    read, times = loading.read_arrived, []

    def change() -> None:
        inbox.write("a.json", (1, "x"), (4, "later"))
        gone.unlink()
        del inbox.files["c.json"]

    def read_and_change(*given: Any) -> Any:
        times.append(1)
        if early and len(times) == 1:
            change()
        frame = read(*given)
        if not early and len(times) == 1:
            change()
        return frame

    monkeypatch.setattr(loading, "read_arrived", read_and_change)
    assert tr.sync("inbox").waiting == {"main.clicks": 2}
    assert held(tr) == Counter([(2, "x")])
    assert not rejects(tr)
    tr.sync("inbox")
    check_exact(tr, inbox)


KILLS = ["before_commit", "half_data", "after_data", "after_landing", "after_commit"]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("point", KILLS)
@pytest.mark.shows("files", "a process killed at every step of a sync")
def test_a_process_killed_in_the_middle_of_a_sync(
    tr: Trickle, inbox: Inbox, tmp_path: Path, point: str
) -> None:
    inbox.write("a.json", (1, "x"), (2, "y"))
    follow(tr, inbox)
    tr.sql(f"CREATE STREAM TABLE totals AS {TOTALS}")
    for number in range(2):
        inbox.write(f"{number}.json", (3, "z"), (3, "z"))
        inbox.write("a.json", (1, "x"), (number, "over"))
        inbox.put(f"{number}.bad.json", b"broken\n")
        environment = {**address_of(tr.spark), "SPARK_TRICKLE_CRASH_POINT": point}
        with start(environment) as child:
            output = finish(child, Job(str(tmp_path / "warehouse"), None, ("SYNC SOURCE inbox",)))
        assert child.returncode == -signal.SIGKILL, output
        tr.sync("inbox")
        check_exact(tr, inbox)
        assert len(rejects(tr)) == number + 1
        tr.refresh("totals")
        assert rows(tr.table("totals")) == rows(tr.sql(TOTALS))


@pytest.mark.slow
def test_many_files_are_replaced_at_once(tr: Trickle, inbox: Inbox) -> None:
    for n in range(120):
        inbox.write(f"{n}.json", (n, "x"))
    follow(tr, inbox)
    check_exact(tr, inbox)
    for n in range(110):
        inbox.write(f"{n}.json", (n, "y"))
    tr.sync("inbox")
    check_exact(tr, inbox)
    assert len(ledger(tr)) == 120


@pytest.mark.shows("files", "two processes at once")
def test_two_that_sync_at_once_load_each_file_once(tr: Trickle, inbox: Inbox, tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    follow(tr, inbox)
    with spark_trickle.connect(tmp_path / "warehouse") as other, ThreadPoolExecutor(2) as pool:
        for number in range(3):
            inbox.write(f"{number}.json", (number, "x"))
            inbox.write("same.json", (number, "y"))
            for done in [pool.submit(c.sync, "inbox") for c in (tr, other)]:
                done.result()
            check_exact(tr, inbox)
            assert len(ledger(tr)) == number + 2


@pytest.mark.slow
def test_json_as_one_value(tr: Trickle, inbox: Inbox) -> None:
    inbox.put("a.json", json.dumps([{"id": 1, "name": "x"}, {"id": 2}], indent=2).encode())
    inbox.put("b.json", b'{"id": 3,\n "name": ')
    follow(tr, inbox, multiline="true")
    assert held(tr) == Counter([(1, "x"), (2, None)])
    assert [r[0] for r in rejects(tr)] == ["b.json"]


class Walk:
    """A random walk over what applications and users do; `loaded` is what the table has to hold."""

    def __init__(self, inbox: Inbox, place: Path, seed: int) -> None:
        self.inbox, self.place, self.random = inbox, place, random.Random(seed)
        self.loaded: dict[str, list[Record]] = {}  # of files that were there at the last sync
        self.waiting: dict[str, list[Record]] = {}  # what they hold now
        self.bad: dict[
            str, list[str | None]
        ] = {}  # records that fit no column, by file; None is a whole file
        self.bad_waiting: dict[str, list[str | None]] = {}
        self.tr = spark_trickle.connect(place)
        follow(self.tr, inbox, max_files="3")
        for name, query in STREAMS.items():
            self.tr.sql(f"CREATE STREAM TABLE {name} AS {query}")

    def row(self) -> Record:
        return (self.random.choice([None, *range(6)]), self.random.choice(["a", "b", None]))

    def new_name(self) -> str:
        folder = self.random.choice(["", "k=1/", "a b/"])
        return f"{folder}{self.inbox.clock}-{self.random.choice(['x', 'ü [1]', '%20'])}.json"

    def put(self, name: str, records: list[Record], bad: list[str | None]) -> None:
        lines = "".join(f"{line}\n" for line in bad if line is not None).encode()
        self.inbox.put(name, to_json(records) + lines)
        self.waiting[name], self.bad_waiting[name] = records, bad

    def arrive(self) -> None:
        self.put(self.new_name(), [self.row() for _ in range(self.random.randrange(4))], [])

    def arrive_many(self) -> None:
        for _ in range(5):
            self.arrive()

    def arrive_broken(self) -> None:
        self.put(self.new_name(), [self.row()], ['{"id": "x"}', "broken"])

    def arrive_unreadable(self) -> None:
        name = f"{self.new_name()}.gz"
        self.inbox.put(name, gzip.compress(to_json([(n, "g") for n in range(2_000)]))[:300])
        self.waiting[name], self.bad_waiting[name] = [], [None]

    def arrive_half_written(self) -> None:
        self.inbox.put(f"_{self.inbox.clock}.json", b'{"id": ')

    def choose_file(self) -> str | None:
        there = sorted(n for n in self.waiting if n.endswith(".json"))
        return self.random.choice(there) if there else None

    def overwrite(self) -> None:
        if name := self.choose_file():
            bad: list[str | None] = self.random.choice([[], ["broken again"]])
            self.put(name, [self.row() for _ in range(self.random.randrange(5))], bad)

    def delete(self) -> None:
        """What was loaded stays; what was not is nowhere."""
        if name := self.choose_file():
            (self.inbox.path / name).unlink()
            del self.waiting[name], self.bad_waiting[name]

    def rename(self) -> None:
        """The same rows under another name are those of another file."""
        if name := self.choose_file():
            new = self.new_name()
            target = self.inbox.path / new
            target.parent.mkdir(parents=True, exist_ok=True)
            (self.inbox.path / name).rename(target)
            self.waiting[new], self.bad_waiting[new] = self.waiting.pop(name), self.bad_waiting.pop(name)
            self.inbox.clock += 1

    def load_all(self) -> None:
        self.loaded |= self.waiting
        self.bad |= self.bad_waiting

    def sync(self) -> None:
        while True:
            report = self.tr.sync("inbox")
            assert not report.problems
            if not report.waiting:
                break
        self.load_all()
        self.check()

    def resync(self) -> None:
        """What was rejected of files that are gone is forgotten."""
        self.tr.sql("RESYNC TABLE clicks")
        self.load_all()
        self.bad = {n: b for n, b in self.bad.items() if n in self.waiting}
        self.check()

    def check(self) -> None:
        expected = Counter((str(self.inbox.path / n), *r) for n, found in self.loaded.items() for r in found)
        assert held(self.tr, "_file, id, name") == expected
        refused = Counter((str(self.inbox.path / n), text) for n, found in self.bad.items() for text in found)
        assert held(self.tr, "file, record", "clicks_rejects") == refused

    def refresh(self) -> None:
        self.tr.refresh_all()

    def vacuum(self) -> None:
        self.tr.sql("VACUUM RETAIN 0 HOURS")

    def optimize(self) -> None:
        self.tr.sql("OPTIMIZE clicks")

    def reconnect(self) -> None:
        self.tr.close()
        many = self.random.choice([{}, MANY])
        self.tr = spark_trickle.connect(self.place, settings=many)

    def move_warehouse(self) -> None:
        """A copy at another place goes on where the original was."""
        self.tr.close()
        copy = self.place.with_name(f"{self.place.name}x")
        shutil.copytree(self.place, copy)
        shutil.rmtree(self.place)
        self.place, self.tr = copy, spark_trickle.connect(copy)

    STEPS = (
        *(arrive, arrive, arrive, arrive_many, arrive_broken, arrive_unreadable, arrive_half_written),
        *(overwrite, overwrite, delete, rename, sync, sync, sync, resync),
        *(refresh, refresh, vacuum, optimize, reconnect, move_warehouse),
    )

    def run(self, steps: int) -> None:
        try:
            for _ in range(steps):
                self.random.choice(self.STEPS)(self)
            self.sync()
            self.tr.refresh_all()
            for name, query in STREAMS.items():
                assert rows(self.tr.table(name)) == rows(self.tr.sql(query)), name
        finally:
            self.tr.close()


STREAMS = {
    "totals": TOTALS,
    "by_file": "SELECT _file, count(*) AS n, max(id) AS last FROM clicks GROUP BY _file",
    "bad": "SELECT file, count(*) AS n FROM clicks_rejects GROUP BY file",
    "paired": "SELECT a.id, b.name FROM clicks a JOIN clicks b ON a.id = b.id WHERE a.name = 'a'",
}


@pytest.mark.parametrize("seed", [1])
def test_a_short_walk(inbox: Inbox, tmp_path: Path, seed: int) -> None:
    Walk(inbox, tmp_path / "warehouse", seed).run(15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.shows("files", "a random walk over operations")
def test_a_walk(inbox: Inbox, tmp_path: Path, seed: int) -> None:
    Walk(inbox, tmp_path / "warehouse", seed).run(50)

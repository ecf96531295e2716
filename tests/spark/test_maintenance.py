"""OPTIMIZE, automatic compaction and VACUUM change files, never content, time travel or the feed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import spark_trickle
from spark_trickle.errors import SnapshotNotFoundError
from spark_trickle.session import Trickle
from tests.conftest import Location, rows
from tests.spark.paths import Lake, net_feed


def exact(frame: Any) -> list[str]:
    """Rows as text: NaN equals itself there, and −0.0 differs from 0.0."""
    return [repr(r) for r in rows(frame)]


def file_rows(tr: Trickle, name: str) -> list[tuple[Any, ...]]:
    return rows(tr.sql(f"SELECT role, row_count, deleted_rows FROM trickle.files('{name}')"))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("key", [", PRIMARY KEY (id)", ""], ids=["keyed", "keyless"])
def test_optimize_keeps_everything_as_it_was(lake: Lake, key: str) -> None:
    tr, name = lake.tr, f"o{lake.setup.snapshot}"
    lake.setup.sql(f"CREATE TABLE {name} (id INT, f DOUBLE, l ARRAY<STRUCT<a: INT>>{key})")
    start = tr.snapshot
    steps = [
        "INSERT INTO {} VALUES (1, -0D, array()), (2, double('NaN'), array(struct(1), NULL)), (3, 0D, NULL)",
        "INSERT INTO {} VALUES (4, 1, array(struct(NULL))), (5, NULL, NULL)",
        "UPDATE {} SET f = -0D WHERE id >= 3",
        "DELETE FROM {} WHERE id IN (1, 5)",
        "INSERT INTO {} VALUES (1, 0D, array()), (6, -0D, array(NULL))",
        "UPDATE {} SET l = array(struct(9)) WHERE id < 3",
    ]
    for step in steps:
        tr.sql(step.format(name))
    last = tr.snapshot
    content = {s: exact(tr.table(name, snapshot=s)) for s in range(start, last + 1)}
    feed = exact(tr.changes(name, after=start, upto=last))
    done = tr.sql(f"OPTIMIZE {name}").collect()[0]
    assert done.snapshot == last + 1
    assert file_rows(tr, name) == [("base", 5, 0)]
    assert exact(tr.table(name)) == content[last]
    assert {s: exact(tr.table(name, snapshot=s)) for s in content} == content
    assert exact(tr.changes(name, after=start)) == feed
    assert tr.sql(f"OPTIMIZE TABLE {name}").collect()[0].snapshot == last + 1
    tr.sql(f"UPDATE {name} SET f = 7 WHERE id = 2")
    tr.sql(f"DELETE FROM {name} WHERE id = 6")
    assert rows(tr.sql(f"SELECT id, f FROM {name}"))[1] == (2, 7.0)
    assert not net_feed(tr, name, last, last + 1)
    tr.sql(f"OPTIMIZE {name}")
    assert rows(tr.sql(f"SELECT id FROM {name}")) == [(1,), (2,), (3,), (4,)]
    tr.sql(f"DELETE FROM {name}")
    tr.sql(f"OPTIMIZE {name}")
    assert rows(tr.table(name)) == []


def test_compaction_comes_by_itself(tmp_path: Path) -> None:
    """When changes outweigh the base, and when small files pile up; it never changes what is read."""
    settings = {"max_driver_rows": 100, "compact_change_ratio": 0.5, "compact_change_files": 3}
    with spark_trickle.connect(tmp_path, settings=settings) as tr:
        tr.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v BIGINT)")
        tr.sql("INSERT INTO t SELECT id, 0 FROM range(30)")
        tr.sql("UPDATE t SET v = 1 WHERE id < 5")
        assert [role for role, *_ in file_rows(tr, "t")] == ["change", "change"]
        before = tr.snapshot
        tr.sql("UPDATE t SET v = 2 WHERE id < 5")
        assert tr.snapshot == before + 2
        assert file_rows(tr, "t") == [("base", 30, 0)]
        expected = {i: 2 if i < 5 else 0 for i in range(30)}
        for n in range(4):
            tr.sql(f"UPDATE t SET v = {n + 10} WHERE id = {n}")
            expected[n] = n + 10
        assert len(file_rows(tr, "t")) <= 3
        assert {r.id: r.v for r in tr.table("t").collect()} == expected
        for n in range(5):
            tr.sql(f"INSERT INTO t VALUES ({100 + n}, 0)")
        assert len(file_rows(tr, "t")) <= 5
        messages = [r[0] for r in tr.sql("SELECT message FROM trickle.snapshots()").collect() if r[0]]
        assert any(m.startswith("compaction") for m in messages)
        feed = tr.changes("t", after=before)
        assert feed.where("_change_type = 'update_postimage'").count() == 9
        assert tr.table("t", snapshot=before).where("v = 1").count() == 5
        tr.sql("SET trickle.auto_compact = false")
        tr.sql("UPDATE t SET v = 3")
        assert any(deletes for _, _, deletes in file_rows(tr, "t"))


def test_the_changes_of_a_large_table_are_merged_without_its_base(tmp_path: Path) -> None:
    settings = {
        "max_driver_rows": 10,
        "compact_change_ratio": 100.0,
        "compact_change_files": 2,
        "local_tail_rows": 0,
    }
    with spark_trickle.connect(tmp_path, settings=settings) as tr:
        tr.sql("CREATE TABLE t (id BIGINT, v STRING)")
        tr.sql("INSERT INTO t SELECT id % 10, 'x' FROM range(40)")
        for n in range(4):
            tr.sql(f"UPDATE t SET v = v || {n} WHERE id = {n} OR id = 9")
        roles = file_rows(tr, "t")
        assert any(role == "net" for role, *_ in roles)
        counts = rows(tr.sql("SELECT id, v, count(*) FROM t WHERE id < 4 OR id = 9 GROUP BY ALL"))
        assert counts == [*((n, f"x{n}", 4) for n in range(4)), (9, "x0123", 4)]


def test_rows_of_a_large_table_stay_in_their_order(tmp_path: Path) -> None:
    """A file of a sorted table keeps to few keys, so that those who look for some read few files."""
    settings = {"max_driver_rows": 10, "target_file_rows": 1_000, "auto_compact": False}
    with spark_trickle.connect(tmp_path, settings=settings) as tr:
        tr.sql("CREATE TABLE t (id BIGINT, v INT, PRIMARY KEY (id))")
        tr.append("t", tr.spark.range(0, 5_000, 1, 2).selectExpr("id", "0 AS v"))
        tr.sql("DELETE FROM t WHERE id % 50 = 7")
        tr.sql("UPDATE t SET v = 1 WHERE id % 100 = 9")
        tr.sql("OPTIMIZE t")
        by_file = "SELECT count(*), min(id), max(id) FROM {t} GROUP BY file_name"
        names = {Path(file).name for (file,) in tr.sql("SELECT file FROM trickle.files('t')").collect()}
        paths = [str(p) for p in tmp_path.rglob("*.parquet") if p.name in names]
        named = tr.spark.read.parquet(*paths).select("id", "_metadata.file_name")
        files = rows(tr.spark.sql(by_file, t=named))
        assert max(count for count, _, _ in files) <= 1_000
        assert sum(count for count, _, _ in files) == 4_900
        near = [(low, high) for count, low, high in files if high - low < 2_000]
        assert len(near) >= 5  # all but what was updated
        assert rows(tr.sql("SELECT count(*), sum(id), sum(v) FROM t")) == [
            (4_900, sum(i for i in range(5_000) if i % 50 != 7), 50)
        ]


@pytest.mark.one_in(2)
def test_vacuum_removes_what_no_snapshot_needs(tr: Trickle, location: Location) -> None:
    root = Path(location.data_path or f"{location.path}/data")

    def parquet() -> int:
        return len([p for p in root.rglob("*.parquet") if p.is_file()])

    tr.sql("CREATE TABLE t (id INT PRIMARY KEY, v STRING)")
    tr.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    tr.sql("UPDATE t SET v = 'c'")
    tr.sql("CREATE TABLE gone AS SELECT id FROM range(3)")
    tr.sql("DROP TABLE gone")
    old = tr.snapshot
    tr.sql("VACUUM")
    tr.sql("VACUUM t RETAIN 1 HOURS")
    assert rows(tr.table("t", snapshot=2)) == [(1, "a"), (2, "b")]
    tr.sql("OPTIMIZE t")
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert (parquet(), rows(tr.table("t"))) == (1, [(1, "c"), (2, "c")])
    for query in (f"SELECT * FROM t VERSION AS OF {old}", f"SELECT * FROM trickle.changes('t', {old})"):
        with pytest.raises(SnapshotNotFoundError):
            tr.sql(query)
    kept = tr.snapshot
    tr.sql("DELETE FROM t WHERE id = 1")
    tr.sql("INSERT INTO t VALUES (3, 'd')")
    assert rows(tr.sql(f"SELECT * FROM t VERSION AS OF {kept}")) == [(1, "c"), (2, "c")]
    assert [r[:3] for r in rows(tr.changes("t", after=kept))] == [(1, "c", "delete"), (3, "d", "insert")]


def test_stream_tables_whose_sources_rest_hold_nothing_back(tr: Trickle, location: Location) -> None:
    """Whatever others do; those with something to read keep it, and a circle goes on as it was."""
    root = Path(location.data_path or f"{location.path}/data")
    tr.sql("SET trickle.allow_circular = true")
    tr.sql("CREATE TABLE still AS SELECT 1 AS a, 2 AS b")
    tr.sql("CREATE TABLE busy AS SELECT id, 0 AS n FROM range(3)")
    tr.sql("CREATE STREAM TABLE copied AS SELECT a, count(*) AS n FROM still GROUP BY a")
    tr.sql("CREATE STREAM TABLE known AS SELECT DISTINCT a, b FROM still")
    tr.sql("CREATE STREAM TABLE further AS SELECT k.a, s.b FROM known k JOIN still s ON k.b = s.a")
    tr.sql("ALTER STREAM TABLE known AS SELECT a, b FROM still UNION SELECT a, b FROM further")
    tr.sql("CREATE STREAM TABLE waits AS SELECT sum(n) AS n FROM busy")
    tr.refresh_all()
    for _ in range(3):
        tr.sql("UPDATE busy SET n = n + 1")
        tr.sql("OPTIMIZE busy")
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert tr.refresh("waits").action == "DIFFERENTIAL"
    tr.sql("OPTIMIZE still")
    listed = tr.sql("VACUUM RETAIN 0 HOURS DRY RUN").count()
    before = len(list(root.rglob("*.parquet")))
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert listed == before - len(list(root.rglob("*.parquet"))) > 3
    assert rows(tr.sql("SELECT count(*) FROM trickle.snapshots()"))[0][0] <= 3
    tr.sql("INSERT INTO still VALUES (2, 3)")
    assert tr.refresh("copied").action == "DIFFERENTIAL"
    assert tr.refresh("known").action == "DIFFERENTIAL"
    for name in ("copied", "known", "further", "waits"):
        assert rows(tr.sql(f"SELECT * FROM trickle.audit('{name}')")) == [], name


def test_vacuum_spares_what_another_session_may_read(tr: Trickle, location: Location) -> None:
    tr.sql("CREATE TABLE t AS SELECT id FROM range(5)")
    with location.connect() as reader:
        frame = reader.table("t")
        tr.sql("DELETE FROM t WHERE id < 3")
        tr.sql("OPTIMIZE t")
        tr.sql("VACUUM RETAIN 0 HOURS")
        assert frame.count() == 5
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert rows(tr.table("t")) == [(3,), (4,)]
    assert rows(tr.sql("SELECT count(*) FROM trickle.snapshots()")) == [(1,)]

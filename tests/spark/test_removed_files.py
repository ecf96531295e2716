"""Rows that go as a whole are not copied: the files that hold them tell the change feed, with a minus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_trickle import connect
from spark_trickle.model.stream import Action
from spark_trickle.session import Trickle
from tests.conftest import rows

LIMITS = {"driver": {}, "spark": {"max_driver_rows": 1, "local_tail_rows": 0}}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("removed")


@pytest.fixture(params=LIMITS)
def tr(folder: Path, request: pytest.FixtureRequest) -> Iterator[Trickle]:
    with connect(folder, settings={"auto_compact": False, **LIMITS[request.param]}) as made:
        made.sql("CREATE TABLE t (id INT, g INT, PRIMARY KEY (id))")
        made.sql("INSERT INTO t SELECT id, id % 3 FROM range(9)")
        yield made


def _files(folder: Path) -> set[str]:
    return {p.name for p in folder.rglob("*.parquet")}


def _feed(tr: Trickle, since: int) -> Counter[tuple[object, ...]]:
    return Counter(
        rows(
            tr.sql(
                "SELECT id, g, _change_type, _commit_version "
                f"FROM trickle.changes('t', {since}, {tr.snapshot})"
            )
        )
    )


def test_truncate_writes_no_rows_and_the_feed_tells_them(tr: Trickle, folder: Path) -> None:
    start, before = tr.snapshot - 1, _files(folder)
    came = tr.snapshot
    tr.sql("TRUNCATE TABLE t")
    assert _files(folder) == before
    expected = Counter({(i, i % 3, "insert", came): 1 for i in range(9)})
    gone = Counter({(i, i % 3, "delete", tr.snapshot): 1 for i in range(9)})
    assert _feed(tr, start) == expected + gone
    assert _feed(tr, came) == gone
    assert rows(tr.sql(f"SELECT count(*) FROM t VERSION AS OF {came}")) == [(9,)]


def test_rows_that_stay_of_a_changed_table_are_written_down(tr: Trickle, folder: Path) -> None:
    tr.sql("DELETE FROM t WHERE id < 6")
    since, before = tr.snapshot, _files(folder)
    tr.sql("TRUNCATE TABLE t")
    assert _files(folder) > before
    assert sorted(r[0] for r in _feed(tr, since)) == [6, 7, 8]


@pytest.mark.one_in(2)
def test_a_reader_sees_the_same_file_come_and_go(tr: Trickle) -> None:
    query = "SELECT g, count(*) AS n FROM t GROUP BY g"
    tr.sql(f"CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS {query}")
    tr.sql("CREATE STREAM TABLE copy REFRESH MODE DIFFERENTIAL AS SELECT id, g FROM t")
    tr.sql("INSERT INTO t SELECT id, id % 3 FROM range(100, 103)")
    steps = (
        ("TRUNCATE TABLE t", [(0, 4), (1, 4), (2, 4)]),
        ("INSERT INTO t VALUES (100, 0)", []),
        ("TRUNCATE TABLE t", [(0, 1)]),
        ("INSERT INTO t VALUES (100, 0)", []),
    )
    for then, expected in steps:
        for name in ("s", "copy"):
            assert tr.refresh(name).action is Action.DIFFERENTIAL
            assert rows(tr.sql(f"SELECT * FROM trickle.audit('{name}')")) == []
        assert sorted(rows(tr.sql("SELECT * FROM s"))) == expected
        tr.sql(then)


def test_what_came_and_went_in_one_transaction_was_never_there(tr: Trickle) -> None:
    since = tr.snapshot
    for statement in (
        "BEGIN",
        "INSERT INTO t VALUES (50, 1)",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (3, 0), (60, 2)",
        "COMMIT",
    ):
        tr.sql(statement)
    assert sorted(rows(tr.table("t"))) == [(3, 0), (60, 2)]
    net: Counter[tuple[object, ...]] = Counter()
    for id, g, kind, _ in _feed(tr, since).elements():
        net[(id, g)] += -1 if kind in ("delete", "update_preimage") else 1
    assert {r: n for r, n in net.items() if n} == {
        **{(i, i % 3): -1 for i in range(9) if i != 3},
        (60, 2): 1,
    }


def test_vacuum_deletes_such_a_file_once_nobody_needs_it(tr: Trickle, folder: Path) -> None:
    tr.sql("CREATE STREAM TABLE s REFRESH MODE DIFFERENTIAL AS SELECT id FROM t")
    held = _files(folder)
    tr.sql("TRUNCATE TABLE t")
    tr.sql("VACUUM RETAIN 0 HOURS")
    assert _files(folder) == held  # s has yet to see that the rows went
    tr.refresh("s")
    assert rows(tr.sql("SELECT * FROM s")) == []
    files = rows(tr.sql("VACUUM RETAIN 0 HOURS"))
    assert not any("/t-" in str(p) for p in folder.rglob("*.parquet")), files
    tr.sql("INSERT INTO t VALUES (1, 1)")
    tr.refresh("s")
    assert rows(tr.sql("SELECT * FROM s")) == [(1,)]
